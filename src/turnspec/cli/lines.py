"""Reading JSONL in constant memory, by whole lines or by byte ranges, and telling it from JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from turnspec.cli.sources import Form

BOM = b"\xef\xbb\xbf"
BLANK = b" \t\r\n"
BATCH = 1 << 18
_LOOK = 100_000  # lines, all but two of them blank


def batches(stream: BinaryIO, size: int = BATCH) -> Iterator[list[bytes]]:
    """The lines of `stream` from where it stands, in lists of about `size` bytes, their ends kept."""
    while lines := stream.readlines(size):
        yield lines
        del lines  # a line may be huge: do not hold it while the next one is read


def batches_with_care(stream: Iterable[bytes], size: int = BATCH) -> Iterator[list[bytes]]:
    """As `batches`, for streams that may fail on the way: every line before the failure is given."""
    lines: list[bytes] = []
    room = size
    try:
        for line in stream:
            lines.append(line)
            room -= len(line)
            if room <= 0:
                yield lines
                lines, room = [], size
                line = b""
    except Exception:
        if lines:
            yield lines
        raise
    if lines:
        yield lines


def batches_in_range(stream: BinaryIO, start: int, end: int, size: int = BATCH) -> Iterator[list[bytes]]:
    """The lines whose first byte is in `start <= position < end`, as `batches` gives them.

    Ranges that follow each other give every line once. No range reads further than the end of its last line.
    """
    position = start
    if start:
        stream.seek(start - 1)
        skipped = stream.readline(end - start + 1)
        position = start - 1 + len(skipped)
        if not skipped.endswith(b"\n"):
            return
    else:
        stream.seek(0)
    while position < end:
        room = end - position
        # readlines(n) stops behind the line that makes it *more* than n bytes, and takes 0 for "all"
        lines = [stream.readline()] if room == 1 else stream.readlines(min(size, room - 1))
        if not lines or not lines[0]:
            return
        position += sum(map(len, lines))
        yield lines
        del lines


def tell_form(stream: BinaryIO) -> tuple[Form, list[bytes]]:
    """Tell JSONL from JSON by the first lines; returns the form and the lines that were read for it.

    JSON is what goes on behind its first line that is not blank: a line that leaves an array or object open.
    A value alone in its text is JSON too. All else is JSONL (no line at all: JSONL with nothing in it).
    """
    head: list[bytes] = []
    first = next_line(stream, head)
    if not first:
        return "jsonl", head
    if stays_open(first):
        return "json", head
    return ("jsonl" if next_line(stream, head) else "json"), head


def next_line(stream: BinaryIO, head: list[bytes]) -> bytes:
    """The next line that is not blank, or nothing; all that is read goes to `head`."""
    while len(head) < _LOOK and (line := stream.readline()):
        head.append(line)
        text = line.removeprefix(BOM) if len(head) == 1 else line
        if text.strip(BLANK):
            return text
    return b""


def stays_open(line: bytes) -> bool:
    """Whether a line ends inside an array or object, and not inside a string (no JSON text breaks there)."""
    import re

    bare = re.sub(rb'"(?:[^"\\]++|\\.)*+"', b"", line)
    if b'"' in bare:
        return False
    return bare.count(b"[") + bare.count(b"{") > bare.count(b"]") + bare.count(b"}")
