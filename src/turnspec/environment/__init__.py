"""Environments over HTTP: write a class, hand it to a `Server`, and any OpenReward client can use it.

    from turnspec.environment import Environment, Message, Server, TextBlock, ToolOutput, tool

The names and signatures are those of `openreward.environments`, so that moving over is an import change. `Server`
needs the extra `turnspec[server]`; everything else loads without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnspec_generated.names import MODELS

if TYPE_CHECKING:
    from turnspec_generated.models import (
        ImageBlock,
        Message,
        ReasoningBlock,
        TextBlock,
        ToolCallBlock,
        ToolResultBlock,
    )

    from ._base import Environment, Toolset
    from ._marks import terminal, tool
    from ._server import Server
    from ._types import (
        Blocks,
        JSONObject,
        JSONValue,
        ListToolsOutput,
        Split,
        TerminalToolSpec,
        ToolOutput,
        ToolSpec,
    )

__all__ = [
    "Blocks",
    "Environment",
    "ImageBlock",
    "JSONObject",
    "JSONValue",
    "ListToolsOutput",
    "Message",
    "ReasoningBlock",
    "Server",
    "Split",
    "TerminalToolSpec",
    "TextBlock",
    "ToolCallBlock",
    "ToolOutput",
    "ToolResultBlock",
    "ToolSpec",
    "Toolset",
    "terminal",
    "tool",
]

_HOMES = {
    "_base": ("Environment", "Toolset"),
    "_marks": ("terminal", "tool"),
    "_server": ("Server",),
    "_types": (
        "Blocks",
        "JSONObject",
        "JSONValue",
        "ListToolsOutput",
        "Split",
        "TerminalToolSpec",
        "ToolOutput",
        "ToolSpec",
    ),
}
_HOME_OF = {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    home = _HOME_OF.get(name)
    if home is None:
        if name != "Message" and name not in MODELS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = "turnspec_generated.models"
    try:
        value = getattr(import_module(home), name)
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] == "starlette":
            raise ImportError(f"{name} needs starlette: pip install 'turnspec[server]'") from None
        raise
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *MODELS})
