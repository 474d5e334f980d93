"""One run of a command over its inputs: work in, findings and results out, a summary, an exit code."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from turnspec.cli import FAILED, FINDINGS, OK
from turnspec.cli.engine import run
from turnspec.cli.failures import UsageError
from turnspec.cli.output import Output, open_output
from turnspec.cli.pieces import Begin
from turnspec.cli.progress import ProgressLine
from turnspec.cli.report import Style, by_place
from turnspec.cli.sources import STDIN, Missing, Source, find_sources
from turnspec.cli.text import colour_wanted, file_name, plural, say
from turnspec.cli.work import Done, Failure, Job, Progress, Report

if TYPE_CHECKING:
    from turnspec._errors import Problem


class Tally(Struct):
    """What the summary tells. `written` counts lines of results, `empty` files without a conversation; `unlisted`
    losses by code.
    """

    files: int = 0
    unread: int = 0
    conversations: int = 0
    written: int = 0
    errors: int = 0
    warnings: int = 0
    infos: int = 0
    bad_files: int = 0
    empty: int = 0
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
            parts.append("no errors" if self.conversations else "no conversations found")
        if self.warnings:
            parts.append(plural(self.warnings, "warning"))
        if self.infos:
            parts.append(plural(self.infos, "note"))
        if self.unread:
            parts.append(f"{plural(self.unread, 'file')} not read to the end")
        read = f"{plural(self.files, 'file')}, {plural(self.conversations, 'conversation')}"
        text = f"{read}: {', '.join(parts)}"
        if self.empty and self.conversations:
            text += f"; no conversations found in {plural(self.empty, 'file')}"
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
        self._lines = self._errors_before = self._conversations_before = 0
        self._no_json: int | None = None  # lines that are not listed, in a file that is JSON over several lines
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
        tally = self.tally
        tally.bad_files += tally.errors > self._errors_before
        tally.empty += bool(tally.files) and not self._failed and tally.conversations == self._conversations_before
        self._errors_before, self._conversations_before = tally.errors, tally.conversations
        if self._no_json:
            self._tell(f"{plural(self._no_json, 'more line')} {'is' if self._no_json == 1 else 'are'} not JSON")
        self._no_json = None

    def _done(self, event: Done) -> None:
        self._lines += event.lines
        self.tally.conversations += event.conversations
        for code, count in event.unlisted.items():
            self.tally.unlisted[code] = self.tally.unlisted.get(code, 0) + count

    def _fail(self, why: str) -> None:
        self._failed = True
        self.tally.unread += 1
        self._tell(why)

    def _tell(self, what: str) -> None:
        """Say something of the file on stderr, behind what was written of it before."""
        self.output.flush()
        self.progress.clear()
        say(f"turnspec: {self._file}: {what}")

    def _report(self, report: Report) -> bool:
        if report.several_lines:
            self._no_json = 0
        elif self._no_json is not None and [problem.code for problem in report.problems] == ["invalid_json"]:
            self._no_json += 1
            self.tally.conversations -= 1  # which its piece will count
            return True
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
    _keep_inputs(args.o, sources)
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
        dropped = ""
        if code == FAILED:
            dropped = "not every input could be read" if output.discard() else ""
        elif writes and session.tally.stopped:
            dropped = "the run stopped at --max-errors" if output.discard() else ""
        else:
            output.commit()
    except BaseException:
        session.progress.clear()
        with suppress(Exception):
            output.discard()
        raise
    if dropped:
        say(f"turnspec: {file_name(args.o)} is not written, because {dropped}")
    if args.output == "text" and not args.quiet:
        say(session.tally.text(writes))
    return code


def _keep_inputs(target: str | None, sources: list[Source | Missing]) -> None:
    """UsageError where `target` is a file that is also read, whatever links lead there."""
    if target is None or target == STDIN:
        return
    try:
        status = os.stat(target)
    except (OSError, ValueError):
        return
    if not stat.S_ISREG(status.st_mode):  # nothing in a device or pipe is overwritten
        return
    for source in sources:
        if isinstance(source, Source) and _is_file(source, status):
            raise UsageError(f"-o would overwrite the input {source.name}; name another file")


def _is_file(source: Source, status: os.stat_result) -> bool:
    try:
        other = os.fstat(sys.stdin.fileno()) if source.path == STDIN else os.stat(source.path)
    except (OSError, ValueError, AttributeError):  # not there, or a stdin without a file behind it
        return False
    return os.path.samestat(other, status)


def _calm_collector() -> None:
    """Documents come and go without cycles: look for garbage seldom."""
    import gc

    gc.set_threshold(50_000, 20, 100)
