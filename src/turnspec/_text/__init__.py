"""JSON text: what is wrong with it, its exact values, where they stand, and how they are written.

`fault` judges text, `parse` reads it, `locate` finds lines and columns, `dumps_exact` writes. `certain` and its
kin tell quickly that text which msgspec has read has no fault either. All take text as bytes.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._certain import certain, certain_keys, certain_object, max_depth_at_most
    from ._fault import fault
    from ._locate import locate
    from ._parse import parse
    from ._write import dumps_exact

__all__ = [
    "certain",
    "certain_keys",
    "certain_object",
    "dumps_exact",
    "fault",
    "locate",
    "max_depth_at_most",
    "parse",
]

_HOMES = {
    "certain": "_certain",
    "certain_keys": "_certain",
    "certain_object": "_certain",
    "dumps_exact": "_write",
    "fault": "_fault",
    "locate": "_locate",
    "max_depth_at_most": "_certain",
    "parse": "_parse",
}


def __getattr__(name: str) -> Any:
    """Load a part when it is first asked for: most runs never need the slow ones."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value
