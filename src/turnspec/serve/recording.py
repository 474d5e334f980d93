"""The record of answers: whole lines of JSON that are on the disk before anyone hears that they are."""

from __future__ import annotations

import json
import os
import stat
import threading
from concurrent.futures import Future
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

from turnspec.cli.failures import CommandError, reason
from turnspec.cli.text import file_name, plural, say

FIRST = b'{"task":'  # how every line of a record begins
BLOCK = 1 << 16
_Item = tuple[bytes, "Future[None]"]


class Recorder:
    """Appends records to a file, from any thread. One process at a time may hold it.

    A thread of its own writes what has gathered while it was busy, and asks the disk once for all of that.
    A write that fails is taken back whole, so that the file never holds half a line while the process lives;
    what a killed process leaves of a line is removed at the next start: nobody was told that it is recorded.
    """

    def __init__(self, path: str) -> None:
        """Open the record, or make it. CommandError: it cannot be, another process holds it, or it is no record."""
        self.name = file_name(path)
        try:
            new = not os.path.lexists(path)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o644)
        except OSError as error:
            raise CommandError(f"cannot write {self.name}: {reason(error)}") from None
        except ValueError:
            raise CommandError(f"cannot write {self.name}: the name holds a null byte") from None
        self._queue: SimpleQueue[_Item | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        try:
            if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                raise CommandError(f"cannot write {self.name}: is no regular file")
            self._lock()
            self._end = self._repaired()
            if new:
                _sync_folder(path)
        except OSError as error:
            os.close(self._descriptor)
            raise CommandError(f"cannot write {self.name}: {reason(error)}") from None
        except BaseException:
            os.close(self._descriptor)
            raise

    def add(self, record: dict[str, Any]) -> Future[None]:
        """Append a record; the future is done when it is on the disk. `record` begins with the key `task`."""
        with self._starting:
            if self._thread is None:  # not before there is something to write: forking wants no threads
                self._thread = threading.Thread(target=self._write_all, name="recorder", daemon=True)
                self._thread.start()
        done: Future[None] = Future()
        self._queue.put((_line(record), done))
        return done

    def close(self) -> None:
        """Write what is still to be written, and let go of the file."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
        os.close(self._descriptor)

    def same_as(self, path: str) -> bool:
        """Whether `path` is the very file that is written to."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.stat(path))
        except OSError:
            return False

    def _write_all(self) -> None:
        going_on = True
        while going_on:
            item = self._queue.get()
            batch: list[_Item] = []
            while True:
                if item is None:
                    going_on = False
                    break
                batch.append(item)
                if self._queue.empty():
                    break
                item = self._queue.get()
            self._write(batch)

    def _write(self, batch: list[_Item]) -> None:
        if not batch:
            return
        error: OSError | None = None
        try:
            data = memoryview(b"".join(line for line, _ in batch))
            size = len(data)
            while data:
                data = data[os.write(self._descriptor, data) :]
            os.fsync(self._descriptor)
            self._end += size
        except OSError as problem:
            error = problem
            with suppress(OSError):
                self._cut(self._end)
        for _, done in batch:
            if not done.set_running_or_notify_cancel():
                continue
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(RuntimeError(f"the answer is not recorded: {self.name}: {reason(error)}"))

    def _cut(self, end: int) -> None:
        os.ftruncate(self._descriptor, end)
        os.lseek(self._descriptor, end, os.SEEK_SET)

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # Windows
            return
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandError(f"cannot write {self.name}: another process records there") from None

    def _repaired(self) -> int:
        """Make the file end in a whole line; its length. CommandError: its last line is of another kind of file."""
        size = os.fstat(self._descriptor).st_size
        start = self._start_of_last_line(size)
        os.lseek(self._descriptor, size, os.SEEK_SET)
        if start == size:
            return size
        tail = _read(self._descriptor, start, size - start)
        os.lseek(self._descriptor, size, os.SEEK_SET)
        torn = tail.rstrip(b"\0")  # a file system may fill up what it could not write
        if torn == tail and _is_json(torn):  # all of it but its end of line
            os.write(self._descriptor, b"\n")
            os.fsync(self._descriptor)
            return size + 1
        if not (torn.startswith(FIRST) or FIRST.startswith(torn)):
            raise CommandError(f"cannot append to {self.name}: its last line is no record of answers")
        self._cut(start)
        os.fsync(self._descriptor)
        say(f"turnspec: {self.name}: removed {plural(size - start, 'byte')} of a line that was never finished")
        return start

    def _start_of_last_line(self, size: int) -> int:
        """Where the text behind the last end of line begins."""
        end = size
        while end:
            start = max(0, end - BLOCK)
            at = _read(self._descriptor, start, end - start).rfind(b"\n")
            if at >= 0:
                return start + at + 1
            end = start
        return 0


def _read(descriptor: int, start: int, length: int) -> bytes:
    os.lseek(descriptor, start, os.SEEK_SET)
    parts = []
    while length and (part := os.read(descriptor, length)):
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def _line(record: dict[str, Any]) -> bytes:
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair
        return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _is_json(data: bytes) -> bool:
    try:
        return isinstance(json.loads(data), dict)
    except (ValueError, RecursionError):
        return False


def _sync_folder(path: str) -> None:
    """Make the name of a new file last."""
    try:
        descriptor = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
    except OSError:  # Windows
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
