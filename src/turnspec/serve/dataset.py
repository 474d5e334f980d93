"""Tasks that stay in their files: only where each one begins and how long it is are kept in memory."""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Iterator

from turnspec.cli.text import plural


class ChangedError(Exception):
    """A file is no longer what it was when it was indexed."""


class TaskFile:
    """The tasks of one file, read one by one when they are asked for.

    `descriptor` stays open: a file that is renamed or removed is still served. It belongs to this object.
    """

    def __init__(self, name: str, descriptor: int) -> None:
        self.name = name
        self.starts = array("Q")
        self.lengths = array("Q")
        self._descriptor = descriptor
        self._stamp = stamp(descriptor)

    def __len__(self) -> int:
        return len(self.starts)

    def add(self, start: int, length: int) -> None:
        self.starts.append(start)
        self.lengths.append(length)

    def read(self, index: int) -> bytes:
        """The text of a task. ChangedError: the file was written to since it was indexed."""
        start, rest = self.starts[index], self.lengths[index]
        parts = []
        while rest:
            part = _read_at(self._descriptor, rest, start)
            if not part:
                break
            parts.append(part)
            start += len(part)
            rest -= len(part)
        if rest or stamp(self._descriptor) != self._stamp:
            raise ChangedError(f"{self.name} was changed after the server had started; start it again")
        return parts[0] if len(parts) == 1 else b"".join(parts)

    @property
    def unchanged(self) -> bool:
        return stamp(self._descriptor) == self._stamp

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def stamp(descriptor: int) -> tuple[int, int]:
    """What changes when a file is written to."""
    status = os.fstat(descriptor)
    return status.st_size, status.st_mtime_ns


class Split:
    """The tasks of one split, of one file after another."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.files: list[TaskFile] = []
        self._ends: list[int] = []

    def add(self, file: TaskFile) -> None:
        self.files.append(file)
        self._ends.append(len(self) + len(file))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def read(self, index: int) -> bytes:
        """The text of a task, negative indices from the end. IndexError: there is none; ChangedError as a file."""
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError("no such task")
        at = bisect_right(self._ends, index)
        return self.files[at].read(index - (self._ends[at - 1] if at else 0))


class Dataset:
    """Splits by name, in the order of the files."""

    def __init__(self) -> None:
        self.splits: dict[str, Split] = {}
        self.left_out = 0

    def add(self, split: str, file: TaskFile) -> None:
        self.splits.setdefault(split, Split(split)).add(file)

    def __len__(self) -> int:
        return sum(map(len, self.splits.values()))

    def __str__(self) -> str:
        return f"{plural(len(self), 'task')} of {plural(len(self.splits), 'split')}"

    def files(self) -> Iterator[TaskFile]:
        for split in self.splits.values():
            yield from split.files

    def close(self) -> None:
        for file in self.files():
            file.close()


if hasattr(os, "pread"):
    _read_at = os.pread
else:  # Windows
    import threading

    _seek = threading.Lock()

    def _read_at(descriptor: int, length: int, offset: int, /) -> bytes:
        with _seek:
            os.lseek(descriptor, offset, os.SEEK_SET)
            return os.read(descriptor, length)
