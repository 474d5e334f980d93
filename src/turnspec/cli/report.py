"""Findings and losses as text for people, or as JSON Lines for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from turnspec.cli.text import printable

if TYPE_CHECKING:
    from turnspec._errors import Problem

_COLOURS = {"error": "\x1b[31m", "warning": "\x1b[33m", "info": "\x1b[36m"}
_BOLD, _END = "\x1b[1m", "\x1b[0m"


def by_place(problem: Problem) -> tuple[int, int]:
    """Sorts as a reader goes through the file."""
    return problem.line or 0, problem.column or 0


class Style(msgspec.Struct, frozen=True):
    """How problems are written: as JSON or as text, the text with or without colour."""

    json: bool
    colour: bool

    def show(self, file: str, lines_before: int, problem: Problem) -> str:
        """One problem as one line, its end included; `lines_before` lies before its document in the file."""
        line = (problem.line or 1) + lines_before
        if self.json:
            return _as_json(file, line, problem)
        return _as_text(file, line, problem, self.colour)


def _as_text(file: str, line: int, problem: Problem, colour: bool) -> str:
    place, code = f"{file}:{line}:{problem.column or 1}:", problem.code
    if colour:
        place = f"{_BOLD}{place}{_END}"
        code = f"{_COLOURS.get(problem.severity, '')}{code}{_END}"
    severity = "" if problem.severity == "error" else f"{problem.severity}: "
    text = f"{problem.pointer or '(root)'}: {severity}{problem.message}"
    if problem.allowed:
        text += f"; allowed: {', '.join(problem.allowed)}"
    if problem.hint:
        text += f"; hint: {problem.hint}"
    return f"{place} {code} at {printable(text)}\n"


def _as_json(file: str, line: int, problem: Problem) -> str:
    known: dict[str, Any] = problem.to_json()
    return json_line({"file": file, **known, "line": line, "column": problem.column or 1})


def json_line(value: Any) -> str:
    """A value, structs included, as one line of JSON."""
    try:
        return msgspec.json.encode(value).decode() + "\n"
    except (ValueError, OverflowError):  # half a surrogate pair, an endless integer
        from turnspec._text import dumps_exact

        text: str = dumps_exact(msgspec.to_builtins(value), separators=(",", ":"))
        return text + "\n"
