"""Hints for inputs that are read as the wrong form: JSONL as JSON, JSON over several lines as JSONL."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

from turnspec.cli.lines import BLANK, next_line, stays_open

if TYPE_CHECKING:
    from turnspec._errors import Problem

_JSONL = "this looks like JSONL: give the file the ending .jsonl, or say --jsonl"
_JSON = "this looks like JSON over several lines: give the file the ending .json, or say --json"


def is_no_json(problems: list[Problem]) -> bool:
    """Whether the problems of a document are that its text is no JSON."""
    return len(problems) == 1 and problems[0].code == "invalid_json"


def hint_at_jsonl(data: bytes, problems: list[Problem]) -> list[Problem]:
    """The problems of a JSON document, with a hint where its first line is a whole one and a second begins."""
    if not is_no_json(problems):
        return problems
    stream = io.BytesIO(data)
    first, second = next_line(stream, []), next_line(stream, [])
    if not (_opens(second) and _is_whole(first)):
        return problems
    return [replace(problems[0], hint=_JSONL)]


def hint_at_json(line: bytes, following: list[bytes], problems: list[Problem]) -> list[Problem] | None:
    """The problem of the first line of JSONL with a hint, where it only begins a value; None where it does not.

    When the line behind it is a whole document, the first one is just cut off.
    """
    if not (is_no_json(problems) and _opens(line) and stays_open(line)):
        return None
    after = next((other for other in following if other.strip(BLANK)), b"")
    bare = line.strip(BLANK) in (b"[", b"{")
    if not after or (_is_whole(after) and not bare):
        return None
    return [replace(problems[0], hint=_JSON)]


def _opens(line: bytes) -> bool:
    return line.lstrip(BLANK)[:1] in (b"{", b"[")


def _is_whole(line: bytes) -> bool:
    """Whether a line is an array or object and nothing else."""
    from turnspec import _text

    if not _opens(line):
        return False
    fault = _text.fault(line)
    return fault is None or fault.code == "duplicate_key"
