"""Where results go: stdout, or a file that is written whole or not at all."""

from __future__ import annotations

import io
import os
import stat
import sys
from contextlib import suppress
from typing import Protocol

from turnspec.cli.failures import CommandError, reason
from turnspec.cli.text import discard_stdout, file_name

BUFFER = 1 << 16


class Output(Protocol):
    """A place for bytes. `commit` makes them final; `discard` takes back what can be taken back."""

    encoding: str

    def write(self, data: bytes) -> None: ...
    def flush(self) -> None: ...
    def commit(self) -> None: ...
    def discard(self) -> bool:
        """Whether a file that was asked for is now not written."""


def open_output(target: str | None) -> Output:
    """stdout for None; else the file `target`. CommandError: it cannot be written."""
    if target is None:
        return _Stdout()
    try:
        return _file(target)
    except OSError as error:
        raise _cannot_write(target, error) from None
    except ValueError:
        raise CommandError(f"cannot write {file_name(target)}: the name holds a null byte") from None


def emit(text: str) -> None:
    """Write text to stdout, or fail with what keeps it from being written."""
    output = _Stdout()
    output.write(text.encode(output.encoding, "backslashreplace"))
    output.commit()


def _file(target: str) -> Output:
    path = os.path.realpath(target)  # a link stays a link
    if os.path.isdir(path):
        raise CommandError(f"cannot write {file_name(target)}: is a folder, not a file")
    _check_folder(target, os.path.dirname(path))
    if not os.path.lexists(path):
        return _NewFile(target, path, None)
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):  # a device or a pipe is not replaced, it is written to
        return _Device(target, path)
    if not os.access(path, os.W_OK):
        raise CommandError(f"cannot write {file_name(target)}: permission denied")
    return _NewFile(target, path, stat.S_IMODE(mode))


def _check_folder(target: str, folder: str) -> None:
    try:
        os.stat(folder)
    except FileNotFoundError:
        shown = folder if os.path.islink(target) else os.path.dirname(target)
        raise CommandError(f"cannot write {file_name(target)}: the folder {file_name(shown)} does not exist") from None


def _cannot_write(target: str, error: OSError) -> CommandError:
    return CommandError(f"cannot write {file_name(target)}: {reason(error)}")


class _Stdout:
    def __init__(self) -> None:
        self.encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)
        if self._size > BUFFER:
            self.flush()

    def flush(self) -> None:
        if not self._parts:
            return
        data = b"".join(self._parts)
        self._parts, self._size = [], 0
        if sys.stdout is None:
            raise CommandError("cannot write to stdout: it is closed")
        try:
            binary = getattr(sys.stdout, "buffer", None)
            if binary is None:
                sys.stdout.write(data.decode(self.encoding, "replace"))
            else:
                binary.write(data)
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            discard_stdout()
            raise CommandError(f"cannot write to stdout: {reason(error)}") from None

    def commit(self) -> None:
        self.flush()

    def discard(self) -> bool:
        self.flush()
        return False


class _Device:
    """A target that is no regular file: bytes go there as they come."""

    encoding = "utf-8"

    def __init__(self, target: str, path: str) -> None:
        self.target = target
        self._file = open(path, "wb", buffering=0)  # noqa: SIM115 (commit and discard close it)
        self._parts = bytearray()

    def write(self, data: bytes) -> None:
        self._parts += data
        if len(self._parts) > BUFFER:
            self.flush()

    def flush(self) -> None:
        data, self._parts = memoryview(self._parts), bytearray()
        try:
            while data:
                data = data[self._file.write(data) :]
        except BrokenPipeError:
            raise
        except OSError as error:
            raise _cannot_write(self.target, error) from None

    def commit(self) -> None:
        self.flush()
        self._close()

    def discard(self) -> bool:
        self._close()
        return False

    def _close(self) -> None:
        try:
            self._file.close()
        except OSError as error:
            raise _cannot_write(self.target, error) from None


class _NewFile(_Device):
    """A regular file: a temporary file beside it takes its place when all is written.

    An existing file keeps its permission bits, a new one gets those that the umask leaves. A name that
    ends in .gz gets gzip.
    """

    def __init__(self, target: str, path: str, mode: int | None) -> None:
        self.path = path
        folder = os.path.dirname(path)
        self._temporary = _unused_name(folder)
        super().__init__(target, self._temporary)
        try:
            if mode is not None:
                os.chmod(self._temporary, mode)
            self._gzip = _Gzip(self._file) if path.lower().endswith(".gz") else None
        except BaseException:
            self.discard()
            raise

    def flush(self) -> None:
        if self._gzip is None:
            super().flush()
            return
        data, self._parts = self._parts, bytearray()
        try:
            self._gzip.write(data)
        except OSError as error:
            raise _cannot_write(self.target, error) from None

    def commit(self) -> None:
        try:
            self.flush()
            if self._gzip is not None:
                self._gzip.close()
            os.fsync(self._file.fileno())
            self._close()
            os.replace(self._temporary, self.path)
        except OSError as error:
            self.discard()
            raise _cannot_write(self.target, error) from None
        except BaseException:
            self.discard()
            raise

    def discard(self) -> bool:
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            os.unlink(self._temporary)
        return True


class _Gzip:
    """Packs what is written to it; the same bytes give the same file."""

    def __init__(self, raw: io.RawIOBase) -> None:
        import gzip

        self._file = io.BufferedWriter(raw)  # a raw file may take less than it is given
        self._pack = gzip.GzipFile(filename="", mode="wb", fileobj=self._file, mtime=0)

    def write(self, data: bytes | bytearray) -> None:
        self._pack.write(data)

    def close(self) -> None:
        self._pack.close()
        self._file.flush()


def _unused_name(folder: str) -> str:
    """Make an empty file of a new name; its permission bits obey the umask."""
    while True:
        path = os.path.join(folder, f".turnspec-{os.getpid()}-{os.urandom(4).hex()}.tmp")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        except FileExistsError:
            continue
        return path
