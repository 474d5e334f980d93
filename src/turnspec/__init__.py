"""turnspec: multi-turn conversation tasks, validated, typed, and converted to what providers accept.

Names load when they are first used: `import turnspec` itself imports neither pydantic nor msgspec.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnspec_generated.names import BLOCK_SETS, CURRENT, FORMATS, MESSAGE_BLOCK_TYPES, PURPOSES

if TYPE_CHECKING:
    from turnspec_generated.models import (
        ImageBlock,
        Message,
        ReasoningBlock,
        TextBlock,
        ToolCallBlock,
        ToolResultBlock,
    )

    from ._errors import ConversionError, ConversionWarning, Loss, Problem, ValidationError
    from .conversion import (
        Conversion,
        Downgrade,
        Read,
        Skipped,
        block_set_for,
        convert_messages,
        convert_with_report,
        downgrade_messages,
        flatten_messages,
        request_arguments,
        skip_unknown_blocks,
    )
    from .rules import check_rules
    from .validation import dumps, iter_errors, loads, validate

__version__ = "0.1.0"

JSONObject = dict[str, Any]

__all__ = [
    "BLOCK_SETS",
    "CURRENT",
    "FORMATS",
    "MESSAGE_BLOCK_TYPES",
    "PURPOSES",
    "Conversion",
    "ConversionError",
    "ConversionWarning",
    "Downgrade",
    "ImageBlock",
    "JSONObject",
    "Loss",
    "Message",
    "Problem",
    "Read",
    "ReasoningBlock",
    "Skipped",
    "TextBlock",
    "ToolCallBlock",
    "ToolResultBlock",
    "ValidationError",
    "block_set_for",
    "check_rules",
    "convert_messages",
    "convert_with_report",
    "downgrade_messages",
    "dumps",
    "flatten_messages",
    "iter_errors",
    "loads",
    "request_arguments",
    "skip_unknown_blocks",
    "validate",
]

_HOMES = {
    "_errors": ("ConversionError", "ConversionWarning", "Loss", "Problem", "ValidationError"),
    "conversion": (
        "Conversion",
        "Downgrade",
        "Read",
        "Skipped",
        "block_set_for",
        "convert_messages",
        "convert_with_report",
        "downgrade_messages",
        "flatten_messages",
        "request_arguments",
        "skip_unknown_blocks",
    ),
    "rules": ("check_rules",),
    "validation": ("dumps", "iter_errors", "loads", "validate"),
}
_HOME_OF = {name: f"turnspec.{home}" for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    from turnspec_generated.names import MODELS

    home = _HOME_OF.get(name)
    if home is None:
        if name != "Message" and name not in MODELS:  # the block classes follow the schema
            raise AttributeError(f"module 'turnspec' has no attribute {name!r}")
        home = "turnspec_generated.models"
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from turnspec_generated.names import MODELS

    return sorted({*globals(), *__all__, *MODELS})
