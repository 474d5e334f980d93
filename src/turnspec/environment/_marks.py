"""The decorators that make a method a tool."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar, overload

Function = TypeVar("Function", bound=Callable[..., Any])
_MARK = "_turnspec_tool"


@dataclass(frozen=True)
class Mark:
    """What the decorators said. `declared` is false where `terminal` stands without `tool`."""

    declared: bool = False
    shared: bool = True
    concurrent: bool = False
    exclusive: bool = False
    terminal: bool = False


@overload
def tool(fn: Function) -> Function: ...
@overload
def tool(
    *, shared: bool = True, concurrent: bool = False, exclusive: bool = False
) -> Callable[[Function], Function]: ...
def tool(fn: Any = None, *, shared: bool = True, concurrent: bool = False, exclusive: bool = False) -> Any:
    """Make a method a tool. It takes one pydantic model, or plain parameters with type hints, or nothing.

    Calls of one tool in a session run one after another. `concurrent=True` lets them overlap; `exclusive=True` (for
    a tool that ends the episode) waits for every other call and holds back new ones. `shared=False` keeps the tool
    out of the environment's list: `list_task_tools` may name it where a task has it.
    """

    def mark(function: Function) -> Function:
        found = replace(
            mark_of(function) or Mark(), declared=True, shared=shared, concurrent=concurrent, exclusive=exclusive
        )
        setattr(function, _MARK, found)
        return function

    return mark if fn is None else mark(fn)


def terminal(fn: Function) -> Function:
    """Make a tool the terminal one: not listed, it takes the text of the assistant's first plain message."""
    setattr(fn, _MARK, replace(mark_of(fn) or Mark(), terminal=True))
    return fn


def mark_of(function: object) -> Mark | None:
    """What the decorators said of a function or bound method; None where there was none."""
    found = getattr(function, _MARK, None)
    return found if isinstance(found, Mark) else None
