"""Python values that are no JSON: what text cannot hold, a document made in Python can."""

from __future__ import annotations

from typing import Any

from ._errors import Problem
from ._explain import Path, json_type, make
from ._text._grammar import MAX_DEPTH


def json_fault(document: Any, path: Path = ()) -> Problem | None:
    """The first thing in a value, in no special order, that no JSON text can hold; None if there is none.

    `too_deep` at "" beyond 128 levels, `wrong_type` at NaN, Infinity, keys that are no strings, and other types.
    """
    level: list[tuple[Path, Any]] = [(path, document)]
    depth = len(path)
    while level:
        inner: list[tuple[Path, Any]] = []
        for here, value in level:
            if isinstance(value, dict):
                for key in value:
                    if not isinstance(key, str):
                        return make("wrong_type", here, f"a key of an object must be a string, not {json_type(key)}")
                inner += [((*here, key), item) for key, item in value.items() if not _plain(item)]
            elif isinstance(value, list | tuple):
                inner += [((*here, place), item) for place, item in enumerate(value) if not _plain(item)]
            elif not _plain(value):
                what = "NaN or Infinity" if isinstance(value, float) else json_type(value)
                return make("wrong_type", here, f"{what} is not JSON")
        depth += 1
        if depth >= MAX_DEPTH and any(isinstance(value, dict | list | tuple) for _, value in inner):
            return make("too_deep", (), f"the document is nested more than {MAX_DEPTH} levels deep")
        level = inner
    return None


def _plain(value: object) -> bool:
    """Whether a value is a JSON scalar."""
    if isinstance(value, float):
        return value - value == 0
    return value is None or isinstance(value, str | int)
