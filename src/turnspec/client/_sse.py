"""Event streams: bytes to events.

Lines end at CR, LF or CRLF and nowhere else, one blank after the colon is removed, and text is decoded line by line:
other separators (U+2028, U+0085) and blanks at the border of two pieces are content.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Event:
    """One event: its name ("message" where none was given) and its data, data lines joined by LF."""

    name: str
    data: str


class EventReader:
    """Reads an event stream that comes in pieces of any size.

    An event counts when the blank line after it has come; what stands behind the last one is no event. Raises
    `UnicodeDecodeError` for a line of bad UTF-8, `OverflowError` for a line longer than `longest_line` bytes.
    """

    def __init__(self, longest_line: int = 1 << 28) -> None:
        self._longest_line = longest_line
        self._rest: list[bytes] = []  # pieces of the line that has not ended yet
        self._length = 0
        self._after_cr = False  # the last piece ended in a CR: an LF that comes next belongs to it
        self._first = True
        self._name: str | None = None
        self._data: list[str] = []

    def feed(self, piece: bytes) -> list[Event]:
        """The events that this piece completes."""
        if self._after_cr and piece:
            self._after_cr = False
            if piece.startswith(b"\n"):
                piece = piece[1:]
        if not piece:
            return []
        self._after_cr = piece.endswith(b"\r")
        lines = _LINE_END.split(piece)
        events = []
        for line in lines[:-1]:
            self._keep(line)
            event = self._line(b"".join(self._rest))
            self._rest, self._length = [], 0
            if event is not None:
                events.append(event)
        self._keep(lines[-1])
        return events

    def _keep(self, piece: bytes) -> None:
        self._length += len(piece)
        if self._length > self._longest_line:
            raise OverflowError(f"a line of more than {self._longest_line} bytes")
        if piece:
            self._rest.append(piece)

    def _line(self, line: bytes) -> Event | None:
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._dispatch()
        if line.startswith(b":"):
            return None
        field, _, rest = line.partition(b":")
        value = rest.removeprefix(b" ").decode("utf-8")
        if field == b"event":
            self._name = value
        elif field == b"data":
            self._data.append(value)
        return None  # id, retry and unknown fields say nothing to us

    def _dispatch(self) -> Event | None:
        name, data = self._name, self._data
        self._name, self._data = None, []
        # The standard drops an event without a data line; here `end` may stand alone after its chunks.
        return Event(name or "message", "\n".join(data)) if name or data else None


class ResultReader:
    """The result that a stream of `task_id`, `chunk` and `end` or `error` events tells.

    `task_id` stays over `restart`, so that a call can be asked for again by it.
    """

    def __init__(self) -> None:
        self.task_id: str | None = None
        self.restart()

    def restart(self) -> None:
        """Forget what an unfinished stream told, save the task_id."""
        self.named = False  # whether this stream has told its task_id
        self.result: str | None = None
        self.error: str | None = None
        self._chunks: list[str] = []
        self._reader = EventReader()

    @property
    def done(self) -> bool:
        return self.result is not None or self.error is not None

    def feed(self, piece: bytes) -> bool:
        """Read on; True when the result is complete, and nothing more is of interest."""
        for event in self._reader.feed(piece):
            if event.name == "task_id" and event.data.strip():
                self.task_id = event.data.strip()
                self.named = True
            elif event.name == "chunk":
                self._chunks.append(event.data)
            elif event.name == "end":
                self.result = "".join(self._chunks) + event.data
                return True
            elif event.name == "error":
                self.error = event.data
                return True
        return False
