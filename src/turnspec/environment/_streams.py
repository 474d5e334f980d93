"""Event streams: framing that the readers of all clients give back unchanged."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from turnspec_generated import wire

END = wire.LINE_END
# Line ends to some readers, not to others. Compact JSON has them only inside strings, where an escape is the same.
_SEPARATORS = re.compile("[\x85\u2028\u2029]")


def event(name: str, data: str) -> bytes:
    """One event of one data line."""
    return f"event: {name}{END}data: {data}{END}{END}".encode("utf-8", "backslashreplace")


def comment() -> bytes:
    """What is written while nothing happens."""
    return (wire.COMMENT.format(time=datetime.now(UTC)) + END + END).encode()


def result(text: str) -> bytes:
    """The events of a result: pieces as `chunk`, the last as `end`. `text` is compact JSON."""
    pieces = list(cut(text))
    return b"".join(event("chunk", piece) for piece in pieces[:-1]) + event("end", pieces[-1])


def cut(text: str, size: int = wire.CHUNK_CHARACTERS) -> Iterator[str]:
    """Pieces of compact JSON that joined are the same JSON. None begins with white space, which readers strip."""
    text = _SEPARATORS.sub(_escaped, text)
    start, first = 0, ""
    while len(text) - start > size:
        stop = start + size
        while text[stop].isspace() and stop > start + 1:
            stop -= 1
        blank = text[stop].isspace()  # nothing but blanks: the first of the rest becomes an escape
        stop = start + size if blank else stop
        yield first + text[start:stop]
        start, first = (stop + 1, f"\\u{ord(text[stop]):04x}") if blank else (stop, "")
    yield first + text[start:]


def error(text: str) -> bytes:
    """The event of a tool that raised: one data line for each line of the text."""
    lines = "".join(f"data: {line}{END}" for line in re.split("\r\n|\r|\n", text))
    return f"event: error{END}{lines}{END}".encode("utf-8", "backslashreplace")


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
