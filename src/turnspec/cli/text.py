"""Text for terminals and logs: what came from outside never moves the cursor or breaks a line."""

from __future__ import annotations

import os
import sys
from typing import TextIO


def printable(text: str) -> str:
    r"""`text` with control characters, half surrogates and the like as escapes (`\n`, `\x1b`, `\ud800`)."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escape(char) for char in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def file_name(path: str) -> str:
    r"""A path to show: bytes that are not UTF-8 become `\xff`."""
    return printable(os.fsencode(path).decode("utf-8", "backslashreplace"))


def plural(count: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def colour_wanted(choice: str, stream: object) -> bool:
    """Whether to colour what goes to `stream`: `auto` asks the terminal, and `NO_COLOR` before it."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return is_terminal(stream)


def is_terminal(stream: object) -> bool:
    try:
        return bool(stream is not None and stream.isatty())  # type: ignore[attr-defined]
    except ValueError:  # closed
        return False


def say(line: str) -> None:
    """Write a line to stderr. A stderr that is closed or full is no reason to stop."""
    try:
        if sys.stderr is not None:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()
    except (OSError, ValueError):
        pass


def discard_stdout() -> None:
    """Point stdout at the null device after it failed: the interpreter flushes it once more at its end."""
    try:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    except (OSError, ValueError, AttributeError):
        pass


def terminal_width(stream: TextIO | None, otherwise: int = 80, most: int = 100) -> int:
    """How wide to lay out text for `stream`; `COLUMNS` overrides what the terminal says."""
    columns = os.environ.get("COLUMNS", "")
    width = int(columns) if columns.isascii() and columns.isdigit() else 0
    if not width and stream is not None:
        try:
            width = os.get_terminal_size(stream.fileno()).columns
        except (OSError, ValueError):
            width = 0
    return max(40, min(width or otherwise, most))
