"""The rules about whole conversations: what JSON Schema cannot say, and what a provider refuses or doubts.

The rules are generated from `schema/rules.json`; what a provider refuses is what its conversion raises.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from turnspec_generated.codes import CODES
from turnspec_generated.names import FORMATS, PURPOSES
from turnspec_generated.rules import FOR_FORMAT, Finding, general

from ._errors import ConversionError, Problem
from ._explain import pointer
from ._read import to_structs
from .conversion import _canonical, _unreadable, check_choice, convert_messages, convert_report

_RANK = {"error": 0, "warning": 1, "info": 2}
_Path = tuple[int | str, ...]


def check_rules(messages: Iterable[Any], format: str | None = None, *, purpose: str = "request") -> list[Problem]:
    """Everything that the rules find in a conversation, in canonical order.

    Without `format` the rules speak of the conversation itself. With one they add what that provider refuses
    (the reasons why its conversion raises, as errors), the conversion's losses of severity "warning", and the
    provider's own doubts. With `purpose="training"` the conversation may end in an assistant turn, and calls at
    the very end may be open. A code is told once at a place, with its highest severity.

    `messages` are models, structs or wire dicts. Raises `ValidationError` for messages that are not valid.
    """
    if format is not None:
        check_choice("format", format, FORMATS)
    check_choice("purpose", purpose, PURPOSES)
    items = to_structs(messages)
    try:
        found = general(items)
        if format is not None:
            found += FOR_FORMAT[format](items)
    except (AttributeError, TypeError, ValueError, RecursionError) as reason:
        raise _unreadable(items, reason) from None
    told = [_problem(finding) for finding in found if purpose in finding[0].purposes]
    if format is not None:
        told += _conversion(items, format, purpose)
    worst: dict[tuple[str, str], Problem] = {}
    for problem in told:
        key = (problem.code, problem.pointer)
        if key not in worst or _RANK[problem.severity] < _RANK[worst[key].severity]:
            worst[key] = problem
    return sorted(worst.values(), key=lambda item: _canonical((item.code, _path(item.pointer, items), "", ())))


def _problem(finding: Finding) -> Problem:
    rule, path, value, allowed = finding
    wants = rule.wants[0].lower() + rule.wants[1:]
    message = f"{wants}: {value}" if value else wants
    return Problem(rule.code, pointer(path), message, allowed, CODES[rule.code].fix, rule.severity)


def _conversion(items: list[Any], format: str, purpose: str) -> list[Problem]:
    """What the conversion refuses, and what it would lose that a reader may care about."""
    try:
        convert_messages(items, format, purpose=purpose, on_loss="raise")
    except ConversionError:
        _, losses, problems = convert_report(items, format, purpose)
        return [*problems, *(loss for loss in losses if loss.severity == "warning")]
    return []


def _path(text: str, items: list[Any]) -> _Path:
    """The path that a pointer into the conversation stands for: indexes as integers, keys as strings."""
    path: list[int | str] = []
    value: Any = items
    for token in text.split("/")[1:]:
        part: int | str = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            part = int(part)
            value = value[part]
        elif isinstance(value, dict):
            value = value.get(part)
        else:
            value = getattr(value, str(part), None)
        path.append(part)
    return tuple(path)
