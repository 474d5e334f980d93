"""Cutting the inputs of a command into pieces of work, in their order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from msgspec import Struct

from turnspec.cli.failures import InputError
from turnspec.cli.lines import batches_with_care, tell_form
from turnspec.cli.sources import Form, Missing, Opened, Source, open_source, read_failure
from turnspec.cli.work import Failure, Piece, without_bom

RANGE = 1 << 23
BATCH = 1 << 20


class Begin(Struct, frozen=True):
    """A new input begins; `size` is its length in bytes where it is known."""

    name: str
    size: int | None


Item: TypeAlias = Begin | Failure | Piece


def pieces(sources: list[Source | Missing], jobs: int) -> Iterator[Item]:
    """Each input as `Begin`, then its pieces; a `Failure` where it cannot be read.

    With one job an input is one piece, which holds the open input. With more, a plain file is cut into
    byte ranges that workers read themselves, and what comes packed or through a pipe is read here.
    """
    for source in sources:
        if isinstance(source, Missing):
            yield Begin(source.name, None)
            yield Failure(source.why)
            continue
        try:
            opened = open_source(source)
        except InputError as error:
            yield Begin(source.name, None)
            yield Failure(str(error))
            continue
        try:
            yield Begin(source.name, opened.size)
            yield from _of(source, opened, jobs)
        except Exception as error:
            failure = read_failure(error)
            if failure is None:
                raise
            yield Failure(str(failure))
        finally:
            opened.close()


def _of(source: Source, opened: Opened, jobs: int) -> Iterator[Item]:
    form: Form | None = source.form
    head: list[bytes] = []
    if form is None:
        form, head = tell_form(opened.stream)
    if jobs == 1:
        yield Piece(source, form, opened=opened, head=head)
    elif opened.size is None:
        yield from _read_here(source, form, opened, head)
    elif form == "json":
        yield Piece(source, form)
    else:
        yield from _ranges(source, opened.size)


def _ranges(source: Source, size: int) -> Iterator[Piece]:
    start = 0
    while start + RANGE < size:
        yield Piece(source, "jsonl", start, start + RANGE)
        start += RANGE
    yield Piece(source, "jsonl", start, max(size, start + 1))


def _read_here(source: Source, form: Form, opened: Opened, head: list[bytes]) -> Iterator[Piece]:
    if form == "json":
        yield Piece(source, form, text=b"".join(head) + opened.stream.read())
        return
    start = 0
    for group in without_bom(_groups(opened, head)):
        text = b"".join(group)
        group.clear()
        yield Piece(source, "jsonl", start, text=text)
        start += len(text)


def _groups(opened: Opened, head: list[bytes]) -> Iterator[list[bytes]]:
    if head:
        yield head
    yield from batches_with_care(opened.stream, BATCH)
