"""Line and column of places in JSON text."""

from __future__ import annotations

from collections.abc import Iterable

_CONTINUATION = bytes(range(0x80, 0xC0))
_CHUNK = 1 << 20


def positions(data: bytes, offsets: Iterable[int]) -> dict[int, tuple[int, int]]:
    """The (line, column) of each byte offset, both from 1, columns in characters. One pass for all of them."""
    found: dict[int, tuple[int, int]] = {}
    line, column, last = 1, 1, 0
    for offset in sorted(set(offsets)):
        lines = data.count(b"\n", last, offset)
        if lines:
            line += lines
            column = 1
            last = data.rindex(b"\n", last, offset) + 1
        column += _characters(data, last, offset)
        last = offset
        found[offset] = (line, column)
    return found


def _characters(data: bytes, start: int, end: int) -> int:
    """How many characters begin in a stretch of UTF-8; by pieces, since a line may be as long as memory allows."""
    return sum(
        len(data[piece : min(piece + _CHUNK, end)].translate(None, _CONTINUATION))
        for piece in range(start, end, _CHUNK)
    )
