"""Event streams, read as strictly as the strictest client does: the events, and every fault of the framing."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

LONGEST = 131_072
LOOK = 65_536
_LINE_END = re.compile(rb"\r\n|\n|\r")
_LAST = ("end", "error")


@dataclass(slots=True)
class Stream:
    """The events of a stream as (name, data), and its faults as (code, words)."""

    events: list[tuple[str, str]] = field(default_factory=list)
    faults: list[tuple[str, str]] = field(default_factory=list)

    @property
    def last(self) -> tuple[str, str] | None:
        """The end or error event."""
        return next((event for event in self.events if event[0] in _LAST), None)

    @property
    def task_id(self) -> str:
        return next((data for name, data in self.events if name == "task_id"), "")

    @property
    def result(self) -> str:
        """The pieces of the result, joined."""
        return "".join(data for name, data in self.events if name in ("chunk", "end"))


def ended(tail: bytes) -> bool:
    """Whether the end of a stream is in the last `LOOK` bytes of it."""
    return tail.endswith((b"\n\n", b"\r\r", b"\r\n\r\n")) and (b"event: end" in tail or b"event:end" in tail)


def read_stream(body: bytes, whole: bool) -> Stream:
    """Read the bytes of a stream; `whole` says that the connection was closed in order."""
    stream = Stream()
    lines = _LINE_END.split(body)
    rest = lines.pop()  # what stands behind the last line end
    name, pieces, started = "message", list[str](), False
    for line in lines:
        if len(line) > LONGEST:
            stream.faults.append(("stream_long_line", f"a line has {len(line)} bytes"))
        if not line:
            if started:
                _add(stream, name, pieces)
            name, pieces, started = "message", [], False
            continue
        if line.startswith(b":"):
            continue
        field_name, colon, value = line.partition(b":")
        if not colon:
            stream.faults.append(("stream_bad_line", f"the line {line[:60].decode('utf-8', 'replace')!r}"))
        try:
            text = value.removeprefix(b" ").decode()
        except UnicodeDecodeError:
            stream.faults.append(("stream_not_utf8", f"a line of {field_name.decode('latin-1')!r} is no UTF-8"))
            text = value.removeprefix(b" ").decode("utf-8", "replace")
        if field_name == b"event":
            name, started = text, True
        elif field_name == b"data":
            started = True
            pieces.append(text)
            if text[:1].isspace() and name in ("chunk", "end"):
                blank = f"the data of a {name} event begins with {text[0]!r}"
                stream.faults.append(("stream_blank_lost", blank))
    if stream.last is None:
        behind = "an event without the empty line that ends it" if started or rest else "nothing more"
        cut = "" if whole else ", and the connection does not end in order"
        stream.faults.append(("stream_not_ended", f"no end or error event is there; at its end stands {behind}{cut}"))
    return stream


def _add(stream: Stream, name: str, pieces: list[str]) -> None:
    if stream.last is not None:
        stream.faults.append(("stream_goes_on", f"the event {name[:60]!r} behind the last one"))
        return
    stream.events.append((name, "\n".join(pieces)))
