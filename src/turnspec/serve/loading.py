"""From the files of a command line to a dataset: each task is checked once, by all processors, and its place noted.

What can be read only from its beginning (`.gz`, a pipe), and the tasks of a `.json` list, are copied to a temporary
file first, which has no name any more once it is checked: a task is then one read away wherever it lies, memory stays
the same, and what it costs is the space. Points in a `.gz` to go on from would cost 32 KB of memory each, and every
read of a task the unpacking of all that lies between.
"""

from __future__ import annotations

import os
import tempfile
from array import array
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from turnspec.cli.documents import Key
from turnspec.cli.engine import run
from turnspec.cli.failures import CommandError, InputError, reason
from turnspec.cli.lines import BLANK, BOM, tell_form
from turnspec.cli.pieces import Begin
from turnspec.cli.progress import ProgressLine
from turnspec.cli.report import Style, by_place
from turnspec.cli.sources import Missing, Opened, Source, open_source, read_failure
from turnspec.cli.text import file_name, plural, say
from turnspec.cli.work import Done, Failure, Outcome, Progress, Report
from turnspec.serve.dataset import Dataset, TaskFile

if TYPE_CHECKING:
    from turnspec._errors import Problem

MOST_SHOWN = 100
MOST_JSON = 1 << 28
BLOCK = 1 << 20
_BLANKS = frozenset(BLANK)


class Refused(Exception):
    """The files hold what is no valid task; each is told already."""


class Tasks:
    """The job: every line is one valid task."""

    def __init__(self, key: Key) -> None:
        self.key = key

    def prepare(self) -> Callable[[bytes], bool]:
        from turnspec.validation import check_text, quick

        self._check = check_text
        key = self.key
        return lambda data: quick(data, "task", None, key)

    def document(self, data: bytes) -> Outcome:
        # without its line end: what is missing at the end of a line is told of that line
        return Outcome(1, b"", self._check(data.rstrip(b"\r\n"), "task", None, self.key))


class Prepared(Struct):
    """A file whose tasks can be read by place. `path` is what workers open; `temporary` says it is a copy."""

    split: str
    file: TaskFile
    path: str
    temporary: bool


def load(sources: list[Source | Missing], split: str | None, key: Key, *, skip_invalid: bool, style: Style) -> Dataset:
    """Check and index `sources`. Findings go to stderr.

    `split` names the one split of all files; None: each file is a split named by its stem, a single one "train".
    CommandError: a file cannot be read, or two files would be one split. Refused: tasks are not valid.
    """
    names = _split_names(sources, split)
    dataset = Dataset()
    loader = _Loader(key, skip_invalid, style)
    try:
        for source, name in zip(sources, names, strict=True):
            if isinstance(source, Missing):
                raise CommandError(f"{source.name}: {source.why}")
            dataset.add(name, loader.load(source))
            if loader.bad and not skip_invalid and loader.shown >= MOST_SHOWN:
                break
    except BaseException:
        dataset.close()
        raise
    finally:
        loader.progress.clear()
    if loader.bad and not skip_invalid:
        dataset.close()
        more = "at least " if loader.shown >= MOST_SHOWN else ""
        raise Refused(f"nothing is served: {more}{plural(loader.bad, 'invalid task')} (--skip-invalid leaves them out)")
    dataset.left_out = loader.bad
    return dataset


def _split_names(sources: list[Source | Missing], split: str | None) -> list[str]:
    if split is not None:
        return [split] * len(sources)
    if len(sources) == 1:
        return ["train"]
    names: list[str] = []
    for source in sources:
        name = source.name if isinstance(source, Missing) else stem(source.path)
        if name in names:
            raise CommandError(f"{source.name}: another file is the split {name!r} already; rename one, or say --split")
        names.append(name)
    return names


def stem(path: str) -> str:
    """The name of a file without its folder and endings: `data/chat.v2.jsonl.gz` is `chat.v2`."""
    name = os.path.basename(path)
    if name.lower().endswith(".gz"):
        name = name[:-3]
    return file_name(os.path.splitext(name)[0] or name)


class _Loader:
    """Loads one file after another, and counts what is not valid."""

    def __init__(self, key: Key, skip_invalid: bool, style: Style) -> None:
        self.key = key
        self.skip_invalid = skip_invalid
        self.style = style
        self.bad = self.shown = 0
        self.progress = ProgressLine(True)

    def load(self, source: Source) -> TaskFile:
        try:
            opened = open_source(source)
            try:
                form = source.form
                head: list[bytes] = []
                if form is None:
                    form, head = tell_form(opened.stream)
                if form == "json":
                    return self._list(source, opened, head)
                path, descriptor = source.path, -1
                if opened.size is None:
                    path, descriptor = _copy(_blocks(opened, head))
                else:
                    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
            finally:
                opened.close()
        except InputError as error:
            raise CommandError(f"{source.name}: {error}") from None
        except Exception as error:
            failure = None if isinstance(error, CommandError) else read_failure(error)
            if failure is None:
                raise
            raise CommandError(f"{source.name}: {failure}") from None
        file = TaskFile(source.name, descriptor)
        try:
            self._lines(source, path, file)
        except BaseException:
            file.close()
            raise
        finally:
            if path != source.path:
                with suppress(OSError):  # Windows keeps the name of an open file
                    os.unlink(path)
        return file

    # --- JSONL ---

    def _lines(self, source: Source, path: str, file: TaskFile) -> None:
        bad = self._check(source, path)
        if bad and not self.skip_invalid:
            return
        with open(path, "rb", buffering=BLOCK) as stream:
            _index(stream, bad, file)
        if not file.unchanged:
            raise CommandError(f"{source.name}: was changed while it was read")

    def _check(self, source: Source, path: str) -> array[int]:
        """The numbers of the lines that are no valid task, from 0, in order."""
        bad = array("Q")
        lines = tasks = 0
        size: int | None = None
        checked: list[Source | Missing] = [Source(path, "jsonl", False)]
        with closing(run(checked, Tasks(self.key), 0)) as events:
            for event in events:
                if isinstance(event, Progress):
                    self.progress.advance(source.name, event.read, size, tasks)
                elif isinstance(event, Report):
                    bad.append(lines + event.line)
                    self._tell(source.name, lines + event.line, event.problems)
                    if self.shown >= MOST_SHOWN and not self.skip_invalid:
                        break
                elif isinstance(event, Done):
                    lines += event.lines
                    tasks += event.conversations
                elif isinstance(event, Failure):
                    raise CommandError(f"{source.name}: {event.why}")
                elif isinstance(event, Begin):
                    size = event.size
        return bad

    def _tell(self, name: str, lines_before: int, problems: list[Problem]) -> None:
        """Show what is wrong with one task, as `validate` does."""
        self.bad += 1
        self.progress.clear()
        for problem in sorted(problems, key=by_place):
            if self.shown < MOST_SHOWN:
                say(self.style.show(name, lines_before, problem).removesuffix("\n"))
            elif self.shown == MOST_SHOWN:
                say(f"turnspec: more errors are not shown; turnspec validate {name} shows all")
            self.shown += 1

    # --- JSON ---

    def _list(self, source: Source, opened: Opened, head: list[bytes]) -> TaskFile:
        """The tasks of a list, or the one task, of a JSON document."""
        import msgspec

        from turnspec.validation import check_text, quick

        data = b"".join(head)
        data = (data + opened.stream.read(MOST_JSON + 1 - len(data))).removeprefix(BOM)
        if len(data) > MOST_JSON:
            raise CommandError(f"{source.name}: over {MOST_JSON >> 20} MB of JSON; write it as JSONL, one task a line")
        entry = "tasks" if data.lstrip()[:1] == b"[" else "task"
        problems = [] if quick(data, entry, None, self.key) else check_text(data, entry, None, self.key)
        bad = self._bad_tasks(source, problems, entry)
        if bad is None:
            return TaskFile(source.name, _nameless(iter(())))
        if entry == "tasks":
            items = msgspec.json.decode(data, type=list[msgspec.Raw])
            tasks = [bytes(item) for index, item in enumerate(items) if index not in bad]
        else:
            tasks = [] if bad else [data]
        file = TaskFile(source.name, _nameless(iter(tasks)))
        start = 0
        for task in tasks:
            file.add(start, len(task))
            start += len(task)
        return file

    def _bad_tasks(self, source: Source, problems: list[Problem], entry: str) -> set[int] | None:
        """The tasks of a list with errors; None where the text as a whole cannot be used."""
        by_task: dict[int, list[Problem]] = {}
        for problem in problems:
            first = problem.pointer.split("/", 2)[1:2] if entry == "tasks" and problem.pointer else ["-1"]
            whole = problem.code in ("invalid_json", "too_deep", "duplicate_key")
            by_task.setdefault(-1 if whole or not first[0].isdigit() else int(first[0]), []).append(problem)
        for found in by_task.values():
            self._tell(source.name, 0, found)
        if -1 in by_task:
            if self.skip_invalid:
                raise Refused(f"{source.name} cannot be used in part: it is one JSON document")
            return None
        return set(by_task)


def _index(stream: Any, bad: array[int], file: TaskFile) -> None:
    """Note where each line lies, without blank ones and those in `bad`; both are left out in the same way."""
    left_out = iter(bad)
    next_bad = next(left_out, -1)
    start = 0
    starts, lengths = file.starts.append, file.lengths.append
    for number, line in enumerate(stream):
        length = len(line)
        if number == next_bad:
            next_bad = next(left_out, -1)
        elif line[0] in _BLANKS and not line.strip(BLANK):
            pass
        elif number == 0 and line.startswith(BOM):
            if line[3:].strip(BLANK):
                file.add(3, length - 3)
        else:
            starts(start)
            lengths(length)
        start += length


def _blocks(opened: Opened, head: list[bytes]) -> Iterator[bytes]:
    yield from head
    while block := opened.stream.read(BLOCK):
        yield block


def _copy(blocks: Iterator[bytes]) -> tuple[str, int]:
    """Write `blocks` to a temporary file; its path, and a descriptor of it."""
    descriptor, path = tempfile.mkstemp(prefix="turnspec-", suffix=".jsonl")
    try:
        with os.fdopen(os.dup(descriptor), "wb", buffering=BLOCK) as stream:
            while True:
                block = next(blocks, b"")  # what fails here is told of the input
                if not block:
                    break
                try:
                    stream.write(block)
                except OSError as error:
                    raise _no_copy(error) from None
            try:
                stream.flush()
            except OSError as error:
                raise _no_copy(error) from None
    except BaseException:
        os.close(descriptor)
        os.unlink(path)
        raise
    return path, descriptor


def _nameless(blocks: Iterator[bytes]) -> int:
    """The descriptor of a temporary file that holds `blocks` and has no name any more."""
    path, descriptor = _copy(blocks)
    with suppress(OSError):  # Windows keeps the name of an open file
        os.unlink(path)
    return descriptor


def _no_copy(error: OSError) -> CommandError:
    return CommandError(f"cannot write a temporary copy to {file_name(tempfile.gettempdir())}: {reason(error)}")
