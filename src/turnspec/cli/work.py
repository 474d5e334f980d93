"""The work on one piece of input. The same code runs in this process and in the workers of `--jobs`."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct

from turnspec.cli.documents import Key, conversations_in
from turnspec.cli.failures import InputError
from turnspec.cli.lines import BLANK, BOM, batches, batches_in_range, batches_with_care
from turnspec.cli.sources import Form, Opened, Source, open_source, read_failure

if TYPE_CHECKING:
    from turnspec._errors import Problem

PORTION = 1 << 16
BRACE = ord("{")


class Outcome(Struct, frozen=True):
    """What a job makes of one document: conversations in it, lines to write, problems with line and column.

    `unlisted` counts, by code, the losses that nobody wants listed.
    """

    conversations: int
    output: bytes
    problems: list[Problem]
    unlisted: dict[str, int] = {}


class Job(Protocol):
    """What a command does with a document. It is pickled for workers; `prepare` is called where it works."""

    key: Key

    def prepare(self) -> Callable[[bytes], bool] | None:
        """Import what is needed; returns the quick test: True when there is nothing to say of a document.

        None when the command has to see every document.
        """

    def document(self, data: bytes) -> Outcome:
        """Work on a document (no BOM). Positions count from its first character."""


class Piece(Struct, frozen=True):
    """A part of a source: lines by byte range (`end` None: to its end), given text, or a JSON document.

    `start` is 0 for the first part only. `opened` is the source where it is already open, `head` what was read
    from it to tell its form.
    """

    source: Source
    form: Form
    start: int = 0
    end: int | None = None
    text: bytes | None = None
    opened: Opened | None = None
    head: list[bytes] | None = None


class Report(Struct, frozen=True):
    """The problems of a document. `line` lines of its piece lie before it, `conversations` up to its end.

    `several_lines`: the lines of this input seem to be one JSON text, so that most are no JSON by themselves.
    """

    line: int
    conversations: int
    problems: list[Problem]
    several_lines: bool = False


class Progress(Struct, frozen=True):
    """So many bytes were read since the last one."""

    read: int


class Failure(Struct, frozen=True):
    """The input cannot be read further."""

    why: str


class Done(Struct, frozen=True):
    """The end of a piece: its lines, its conversations, and the losses of it that were not listed."""

    lines: int
    conversations: int
    unlisted: dict[str, int]


Event: TypeAlias = Report | Progress | Failure | Done | bytes


class Worker:
    """A job that is ready to work."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.quick = job.prepare() or _never

    def run(self, piece: Piece) -> Iterator[Event]:
        """The events of one piece. A `Failure` ends what can be had of its source."""
        opened = piece.opened
        try:
            if piece.text is not None:
                text = io.BytesIO(piece.text)
                yield from self._json(text.read()) if piece.form == "json" else self._lines(batches(text), piece.start)
            elif opened is not None:
                yield from self._read(piece, opened)
            else:
                opened = open_source(piece.source)
                yield from self._read(piece, opened)
        except Exception as error:
            yield Failure(_why(error))
        finally:
            if opened is not None:
                opened.close()

    def _read(self, piece: Piece, opened: Opened) -> Iterator[Event]:
        if piece.form == "json":
            yield from self._json(b"".join(piece.head or ()) + opened.stream.read())
            return
        if piece.end is None:
            groups = _chain(piece.head, opened)
        else:
            groups = batches_in_range(opened.stream, piece.start, piece.end)
        yield from self._lines(groups if piece.start else without_bom(groups), piece.start)

    def _json(self, data: bytes) -> Iterator[Event]:
        data = data.removeprefix(BOM)
        if self.quick(data):
            outcome = Outcome(conversations_in(data, self.job.key), b"", [])
        else:
            outcome = self.job.document(data)
        if outcome.output:
            yield outcome.output
        if outcome.problems:
            from turnspec.cli.hints import hint_at_jsonl

            yield Report(0, outcome.conversations, hint_at_jsonl(data, outcome.problems))
        yield Progress(len(data))
        yield Done(0, outcome.conversations, outcome.unlisted)

    def _lines(self, groups: Iterator[list[bytes]], start: int) -> Iterator[Event]:
        quick, document = self.quick, self.job.document
        line = conversations = 0
        portion = bytearray()
        unlisted: dict[str, int] = {}
        failure = None
        try:
            for group in groups:
                above = line
                for data in group:
                    line += 1
                    if data.isspace() and not data.strip(BLANK):
                        continue
                    if quick(data):
                        conversations += 1 if data[0] == BRACE else conversations_in(data, self.job.key)
                        continue
                    data = data.rstrip(b"\r\n")  # or a string that is cut off would seem to hold a line end
                    outcome = document(data)
                    is_first = not (start or conversations)
                    conversations += outcome.conversations
                    portion += outcome.output
                    for code, count in outcome.unlisted.items():
                        unlisted[code] = unlisted.get(code, 0) + count
                    if portion and (outcome.problems or len(portion) > PORTION):
                        yield bytes(portion)
                        portion.clear()
                    if outcome.problems:
                        hinted = _hinted(data, group[line - above :], outcome.problems) if is_first else None
                        problems = hinted or outcome.problems
                        yield Report(line - 1, conversations, problems, hinted is not None)
                yield Progress(sum(map(len, group)))
                group.clear()
                data = b""  # a line may be huge: hold none while the next is read
        except Exception as error:
            failure = Failure(_why(error))
        if portion:
            yield bytes(portion)
        yield Done(line, conversations, unlisted)
        if failure:
            yield failure


def without_bom(groups: Iterable[list[bytes]]) -> Iterator[list[bytes]]:
    """The groups of lines of a whole file, without its byte order mark."""
    first = True
    for group in groups:
        if first:
            group[0] = group[0].removeprefix(BOM)
            first = False
        yield group


def _chain(head: list[bytes] | None, opened: Opened) -> Iterator[list[bytes]]:
    if head:
        yield head
    yield from batches(opened.stream) if opened.size is not None else batches_with_care(opened.stream)


def _why(error: Exception) -> str:
    """Why an input cannot be read further; raises `error` again when reading is not to blame."""
    if isinstance(error, MemoryError):
        return "out of memory"
    failure = error if isinstance(error, InputError) else read_failure(error)
    if failure is None:
        raise error
    return str(failure)


def _never(data: bytes) -> bool:
    return False


def _hinted(line: bytes, following: list[bytes], problems: list[Problem]) -> list[Problem] | None:
    from turnspec.cli.hints import hint_at_json

    return hint_at_json(line, following, problems)
