"""From the arguments of a command line to inputs: globs, endings, and how each is opened."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections.abc import Iterable
from typing import Literal, TypeAlias, cast

from msgspec import Struct

from turnspec.cli.failures import InputError, UsageError, reason
from turnspec.cli.text import file_name

Form = Literal["json", "jsonl"]
Stream: TypeAlias = "io.BufferedReader[io.RawIOBase]"

STDIN = "-"
BUFFER = 1 << 18
GZIP_MAGIC = b"\x1f\x8b"
READS = ".json, .jsonl, .ndjson (each also as .gz), globs of them, or - for stdin"
_FORMS: dict[str, Form] = {".json": "json", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_NOT_READ = (".zst", ".parquet", ".bz2", ".xz", ".lz4", ".zip", ".7z", ".tar", ".tgz", ".tar.gz", ".arrow")


class Source(Struct, frozen=True):
    """One input. `form` is None where only a look into it can tell JSON from JSONL."""

    path: str
    form: Form | None
    gzipped: bool

    @property
    def name(self) -> str:
        """The name that reports show."""
        return "<stdin>" if self.path == STDIN else file_name(self.path)


class Missing(Struct, frozen=True):
    """An argument that names nothing: reported when its turn comes."""

    name: str
    why: str


def find_sources(arguments: list[str], form: Form | None) -> list[Source | Missing]:
    """The inputs that `arguments` name, in their order; the files of one glob are sorted.

    `form` overrides what the endings say. UsageError: stdin is named twice.
    """
    if arguments.count(STDIN) > 1:
        raise UsageError("- (stdin) can be read only once")
    found: list[Source | Missing] = []
    for argument in arguments:
        if argument == STDIN:
            found.append(Source(STDIN, form, False))
        elif _is_glob(argument):
            found.extend(_expand(argument, form))
        else:
            found.append(_source(argument, form))
    return found


def _is_glob(argument: str) -> bool:
    return any(char in argument for char in "*?[") and not os.path.lexists(argument)


def _expand(pattern: str, form: Form | None) -> list[Source | Missing]:
    import glob

    paths = _once(path for path in sorted(glob.glob(pattern, recursive=True)) if os.path.isfile(path))
    if not paths:
        return [Missing(file_name(pattern), "matches no file")]
    return [_source(path, form) for path in paths]


def _once(paths: Iterable[str]) -> list[str]:
    """Each file once, however many links lead to it: a link to a folder above would give it again and again."""
    seen: dict[str, str] = {}
    for path in paths:
        seen.setdefault(os.path.realpath(path), path)
    return list(seen.values())


def _source(path: str, form: Form | None) -> Source | Missing:
    lower = path.lower()
    for ending in _NOT_READ:
        if lower.endswith(ending):
            return Missing(file_name(path), f"{ending} is not read; turnspec reads {READS}")
    gzipped = lower.endswith(".gz")
    ending = os.path.splitext(lower.removesuffix(".gz"))[1]
    return Source(path, form or _FORMS.get(ending), gzipped)


class Opened(Struct):
    """An input at its first byte. `size` is its length where any part of it can be read again, else None."""

    stream: Stream
    raw: Stream
    size: int | None

    def close(self) -> None:
        self.stream.close()
        if self.raw is not self.stream:
            self.raw.close()


def open_source(source: Source) -> Opened:
    """Open an input for reading bytes, unpacked. InputError: it cannot be, or is not what its ending says."""
    try:
        if source.path == STDIN:
            return _open_stdin()
        stream = _buffered(io.FileIO(source.path))
    except IsADirectoryError as error:
        if source.path == STDIN:
            raise InputError(reason(error)) from None
        pattern = file_name(os.path.join(source.path, "**", "*.jsonl"))
        raise InputError(f"is a folder; name its files, for example '{pattern}'") from None
    except OSError as error:
        raise InputError(reason(error)) from None
    except ValueError:
        raise InputError("the name holds a null byte") from None
    try:
        return _look_inside(source, stream)
    except OSError as error:
        stream.close()
        raise InputError(reason(error)) from None
    except BaseException:
        stream.close()
        raise


def _open_stdin() -> Opened:
    stream = getattr(sys.stdin, "buffer", None)
    if stream is None or stream.closed:
        raise InputError("is closed")
    try:
        shared = _buffered(io.FileIO(stream.fileno(), closefd=False))
    except io.UnsupportedOperation:  # a program that runs main() gave it an object without a file behind it
        shared = _buffered(stream)
    if shared.peek(2)[:2] == GZIP_MAGIC:
        return Opened(_unpack(shared), shared, None)
    return Opened(shared, shared, None)


def _look_inside(source: Source, stream: Stream) -> Opened:
    packed = stream.peek(2)[:2] == GZIP_MAGIC
    if source.gzipped:
        if not packed:
            raise InputError("is not gzip, although its name ends in .gz")
        return Opened(_unpack(stream), stream, None)
    if packed:
        raise InputError("is gzip; give its name the ending .gz")
    status = os.fstat(stream.fileno())
    return Opened(stream, stream, status.st_size if stat.S_ISREG(status.st_mode) else None)


def _unpack(stream: Stream) -> Stream:
    import gzip

    return _buffered(gzip.GzipFile(fileobj=stream, mode="rb"))


def _buffered(raw: object) -> Stream:
    return cast("Stream", io.BufferedReader(cast("io.RawIOBase", raw), BUFFER))


def read_failure(error: Exception) -> InputError | None:
    """What went wrong while reading, when `error` is one of the errors that reading gives, else None."""
    if isinstance(error, EOFError):
        return InputError("ends too early: the gzip data is cut off")
    if isinstance(error, OSError):
        if type(error).__name__ == "BadGzipFile":
            return InputError(f"is damaged gzip: {error}")
        return InputError(reason(error))
    if type(error).__module__ == "zlib":
        return InputError(f"is damaged gzip: {error}")
    return None
