"""One run of a command over its inputs: work in, findings and results out, a summary, an exit code."""

from __future__ import annotations

import sys
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from turnspec.cli import FAILED, FINDINGS, OK
from turnspec.cli.engine import run
from turnspec.cli.output import Output, open_output
from turnspec.cli.pieces import Begin
from turnspec.cli.progress import ProgressLine
from turnspec.cli.report import Style, by_place
from turnspec.cli.sources import find_sources
from turnspec.cli.text import colour_wanted, file_name, plural, say
from turnspec.cli.work import Done, Failure, Job, Progress, Report

if TYPE_CHECKING:
    from turnspec._errors import Problem


class Tally(Struct):
    """What the summary tells. `written` counts lines of results; `unlisted` losses by code."""

    files: int = 0
    unread: int = 0
    conversations: int = 0
    written: int = 0
    errors: int = 0
    warnings: int = 0
    infos: int = 0
    bad_files: int = 0
    stopped: bool = False
    unlisted: dict[str, int] = {}

    @property
    def code(self) -> int:
        return FAILED if self.unread else FINDINGS if self.errors else OK

    def text(self, writes: bool) -> str:
        """The summary: `3 files, 1200 conversations: 2 errors in 1 file`."""
        parts = [f"{self.written} written"] if writes else []
        if self.errors:
            parts.append(f"{plural(self.errors, 'error')} in {plural(self.bad_files, 'file')}")
        elif not self.unread:
            parts.append("no errors" if self.conversations else "nothing to read")
        if self.warnings:
            parts.append(plural(self.warnings, "warning"))
        if self.infos:
            parts.append(plural(self.infos, "note"))
        if self.unread:
            parts.append(f"{plural(self.unread, 'file')} not read to the end")
        read = f"{plural(self.files, 'file')}, {plural(self.conversations, 'conversation')}"
        text = f"{read}: {', '.join(parts)}"
        if self.stopped:
            text += "; stopped at --max-errors"
        if self.unlisted:
            counts = ", ".join(f"{count} {code}" for code, count in sorted(self.unlisted.items()))
            text += f"; also {counts} (-v lists them)"
        return text


class Session:
    """Follows the events of a run. `writes`: the job gives results, so problems go to stderr beside them."""

    def __init__(self, args: Any, output: Output, writes: bool) -> None:
        self.output = output
        self.writes = writes
        where = sys.stderr if writes else None if args.o else sys.stdout
        self.style = Style(args.output == "json", colour_wanted(args.color, where))
        self.most = getattr(args, "max_errors", 0)
        self.strict = getattr(args, "strict", False)
        self.tally = Tally()
        self.progress = ProgressLine(not args.quiet)
        self._file = ""
        self._size: int | None = None
        self._lines = self._errors_before = 0
        self._failed = False

    def take(self, event: object) -> bool:
        """Take one event; False when the run is to stop."""
        if self._failed and not isinstance(event, Begin):
            return True  # a later piece of the same file: on which lines it begins is not known
        if isinstance(event, Progress):
            self.progress.advance(self._file, event.read, self._size, self.tally.conversations)
        elif isinstance(event, bytes):
            self.tally.written += event.count(b"\n")
            self._write(event)
        elif isinstance(event, Report):
            return self._report(event)
        elif isinstance(event, Done):
            self._done(event)
        elif isinstance(event, Failure):
            self._fail(event.why)
        elif isinstance(event, Begin):
            self._begin(event)
        return True

    def _begin(self, event: Begin) -> None:
        self.end_of_file()
        self._file, self._size = event.name, event.size
        self._lines = 0
        self._failed = False
        self.tally.files += 1
        self.progress.begin()

    def end_of_file(self) -> None:
        """Close the books on the file that was read last."""
        self.tally.bad_files += self.tally.errors > self._errors_before
        self._errors_before = self.tally.errors

    def _done(self, event: Done) -> None:
        self._lines += event.lines
        self.tally.conversations += event.conversations
        for code, count in event.unlisted.items():
            self.tally.unlisted[code] = self.tally.unlisted.get(code, 0) + count

    def _fail(self, why: str) -> None:
        self._failed = True
        self.tally.unread += 1
        self.output.flush()
        self.progress.clear()
        say(f"turnspec: {self._file}: {why}")

    def _report(self, report: Report) -> bool:
        shown = []
        more = True
        for problem in sorted(report.problems, key=by_place):
            self._count(problem)
            shown.append(self.style.show(self._file, self._lines + report.line, problem))
            if self.most and self.tally.errors >= self.most:
                self.tally.stopped = True
                self.tally.conversations += report.conversations
                more = False
                break
        text = "".join(shown)
        if self.writes:
            self.progress.clear()
            say(text.removesuffix("\n"))
        else:
            encoding = "utf-8" if self.style.json else self.output.encoding
            self._write(text.encode(encoding, "backslashreplace"))
        return more

    def _count(self, problem: Problem) -> None:
        if problem.severity == "error" or (self.strict and problem.severity == "warning"):
            self.tally.errors += 1
        elif problem.severity == "warning":
            self.tally.warnings += 1
        else:
            self.tally.infos += 1

    def _write(self, data: bytes) -> None:
        self.progress.clear()
        self.output.write(data)


def carry_out(args: Any, job: Job, *, writes: bool) -> int:
    """Run `job` over the inputs of `args` and return the exit code.

    `writes`: the job gives result lines, so that findings go to stderr; else findings are the result.
    """
    _calm_collector()
    sources = find_sources(args.files, args.form)
    output = open_output(None if args.o == "-" else args.o)
    session = Session(args, output, writes)
    try:
        with closing(run(sources, job, args.jobs)) as happenings:
            for event in happenings:
                if not session.take(event):
                    break
        session.end_of_file()
        session.progress.clear()
        code = session.tally.code
        dropped = False
        if code == FAILED:
            dropped = output.discard()
        else:
            output.commit()
    except BaseException:
        session.progress.clear()
        with suppress(Exception):
            output.discard()
        raise
    if dropped:
        say(f"turnspec: {file_name(args.o)} is not written, because not every input could be read")
    if args.output == "text" and not args.quiet:
        say(session.tally.text(writes))
    return code


def _calm_collector() -> None:
    """Documents come and go without cycles: look for garbage seldom."""
    import gc

    gc.set_threshold(50_000, 20, 100)
