"""The `turnspec` command. `main` is its entry: it answers with an exit code and never with a traceback.

Exit codes: 0 fine, 1 findings, 2 usage or input/output, 130 interrupted, 141 broken pipe, 143 terminated.
Everything else of this package is imported when it is needed, so that `turnspec --help` stays quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TextIO

__all__ = ["main"]

OK, FINDINGS, FAILED, INTERRUPTED, BROKEN_PIPE, TERMINATED = 0, 1, 2, 130, 141, 143


class Terminated(BaseException):
    """SIGTERM or SIGHUP came: unwind as for Ctrl-C, so that temporary files go."""


def main(argv: list[str] | None = None) -> int:
    """Run the command line `argv` (default: `sys.argv[1:]`) and return its exit code."""
    restore = _terminate_softly()
    try:
        try:
            code = _run(sys.argv[1:] if argv is None else argv)
        finally:
            _flush(sys.stdout)
    except KeyboardInterrupt:
        return _stop("interrupted", INTERRUPTED)
    except Terminated:
        return _stop("terminated", TERMINATED)
    except BrokenPipeError:
        from turnspec.cli.text import discard_stdout

        discard_stdout()
        return BROKEN_PIPE
    except MemoryError:
        return _stop("out of memory", FAILED)
    except Exception as error:
        return _last_resort(error)
    finally:
        restore()
    return code


def _run(argv: list[str]) -> int:
    from turnspec.cli.parser import build_parser

    try:
        args = build_parser().parse_args(argv)
        code: int = args.run(args)
        return code
    except SystemExit as exit_:  # argparse: --help, --version, usage
        return exit_.code if isinstance(exit_.code, int) else FAILED


def _last_resort(error: Exception) -> int:
    """One line for whatever ended the command; `TURNSPEC_DEBUG=1` shows where it came from."""
    if os.environ.get("TURNSPEC_DEBUG"):
        import traceback

        traceback.print_exception(error)
    from turnspec.cli.failures import CommandError, reason

    if isinstance(error, CommandError):
        return _stop(str(error), FAILED)
    if isinstance(error, OSError):
        where = getattr(error, "filename", None)
        return _stop(f"{where}: {reason(error)}" if where else reason(error), FAILED)
    kind = type(error).__name__
    return _stop(f"internal error: {kind}: {error} (TURNSPEC_DEBUG=1 shows the traceback)", FAILED)


def _stop(message: str, code: int) -> int:
    """Say one line on stderr, whatever state the streams are in."""
    from turnspec.cli.text import printable, say

    say(f"turnspec: {printable(message)}")
    return code


def _flush(stream: TextIO | None) -> None:
    """Flush stdout here, where an error can still be told."""
    if stream is None or stream.closed:
        return
    try:
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        from turnspec.cli.failures import CommandError, reason
        from turnspec.cli.text import discard_stdout

        discard_stdout()
        raise CommandError(f"cannot write to stdout: {reason(error)}") from None


def _terminate_softly() -> Callable[[], None]:
    """Make SIGTERM and SIGHUP raise `Terminated`; returns what puts the old handlers back."""
    import signal

    def handler(number: int, frame: object) -> None:
        raise Terminated

    old = {}
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        try:
            if number is not None and signal.getsignal(number) is signal.SIG_DFL:
                old[number] = signal.signal(number, handler)
        except ValueError:  # not in the main thread
            break

    def restore() -> None:
        for number, before in old.items():
            signal.signal(number, before)

    return restore
