"""The reader of event streams, against streams as they come and as they should not."""

from __future__ import annotations

import json
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnspec.client._sse import Event, EventReader, ResultReader

STREAMS: dict[str, tuple[bytes, list[Event]]] = {
    "crlf": (b"event: end\r\ndata: x\r\n\r\n", [Event("end", "x")]),
    "lf": (b"event: end\ndata: x\n\n", [Event("end", "x")]),
    "cr": (b"event: end\rdata: x\r\r", [Event("end", "x")]),
    "mixed": (b"event: end\rdata: x\n\r\n", [Event("end", "x")]),
    "two in cr": (b"data: a\r\rdata: b\r\r", [Event("message", "a"), Event("message", "b")]),
    "cr then crlf": (b"data: a\r\r\ndata: b\n\n", [Event("message", "a"), Event("message", "b")]),
    "no blank after the colon": (b"event:end\ndata:x\n\n", [Event("end", "x")]),
    "one blank is removed, no more": (b"data:   x \n\n", [Event("message", "  x ")]),
    "a tab stays": (b"data:\tx\n\n", [Event("message", "\tx")]),
    "other white space stays": ("data: \u00a0\u2028\u3000x\n\n".encode(), [Event("message", "\u00a0\u2028\u3000x")]),
    "no-break space at once": ("data:\u00a0x\n\n".encode(), [Event("message", "\u00a0x")]),
    "odd separators are content": (
        "data: a\u2028b\u2029c\u0085d\u000be\u000cf\u001cg\n\n".encode(),
        [Event("message", "a\u2028b\u2029c\u0085d\u000be\u000cf\u001cg")],
    ),
    "colons in the data": (b"data: a: b:c\n\n", [Event("message", "a: b:c")]),
    "several data lines": (b"data: a\ndata:\ndata: b\n\n", [Event("message", "a\n\nb")]),
    "a line without a colon": (b"event: end\ndata\n\n", [Event("end", "")]),
    "empty data": (b"event: end\r\ndata: \r\n\r\n", [Event("end", "")]),
    "no data line": (b"event: end\n\n", [Event("end", "")]),
    "comments": (b": ping - now\r\n\r\n:\n:x\ndata: a\n: between\ndata: b\n\n", [Event("message", "a\nb")]),
    "id, retry and unknown fields": (b"id: 1\nretry: 5\nfoo: bar\nDATA: no\ndata: a\n\n", [Event("message", "a")]),
    "blank lines": (b"\n\r\n\r\r\ndata: a\n\n\n\n", [Event("message", "a")]),
    "bom": (b"\xef\xbb\xbfdata: a\n\n", [Event("message", "a")]),
    "bom only at the start": (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [Event("message", "a")]),
    "the name is forgotten": (b"event: end\ndata: a\n\ndata: b\n\n", [Event("end", "a"), Event("message", "b")]),
    "no blank line at the end": (b"data: a\n\nevent: end\ndata: b\n", [Event("message", "a")]),
    "cut in a line": (b"data: a\n\nevent: end\ndata: b", [Event("message", "a")]),
    "empty": (b"", []),
}


@pytest.mark.parametrize("name", STREAMS)
def test_events(name: str) -> None:
    stream, expected = STREAMS[name]
    assert EventReader().feed(stream) == expected
    reader = EventReader()
    assert [event for byte in stream for event in reader.feed(bytes([byte]))] == expected
    for seed in range(20):
        assert [event for piece in cut(stream, seed) for event in piece] == expected


def cut(stream: bytes, seed: int) -> list[list[Event]]:
    """The events of each piece of a stream that is cut at random, empty pieces among them."""
    chance = random.Random(seed)
    reader = EventReader()
    places = sorted(chance.choices(range(len(stream) + 1), k=6))
    borders = [0, *places, len(stream)]
    return [reader.feed(stream[start:end]) for start, end in pairwise(borders)]


@given(st.text(st.characters(exclude_categories=["Cs"])), st.sampled_from(["\n", "\r", "\r\n"]), st.integers(1, 7))
def test_any_text_comes_through(text: str, end: str, size: int) -> None:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    stream = ("event: chunk" + end + "".join(f"data: {line}{end}" for line in lines) + end).encode()
    reader = EventReader()
    events = [item for at in range(0, len(stream), size) for item in reader.feed(stream[at : at + size])]
    assert events == [Event("chunk", "\n".join(lines))]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200), st.integers(1, 9))
def test_a_result_in_chunks(text: str, size: int) -> None:
    told = json.dumps({"text": text}, ensure_ascii=False)
    pieces = [told[at : at + size] for at in range(0, len(told), size)]
    stream = "event: task_id\ndata: t\n\n" + "".join(f"event: chunk\ndata: {piece}\n\n" for piece in pieces[:-1])
    reader = ResultReader()
    assert not reader.feed(stream.encode())
    assert reader.feed(f"event: end\ndata: {pieces[-1]}\n\n".encode())
    assert (reader.result, reader.task_id, reader.error, reader.done) == (told, "t", None, True)


def test_a_result_starts_again_without_losing_its_name() -> None:
    reader = ResultReader()
    assert not reader.feed(b"event: task_id\ndata: t \n\nevent: chunk\ndata: half\n\nevent: end\ndata: lo")
    reader.restart()
    assert (reader.named, reader.task_id, reader.done) == (False, "t", False)
    assert reader.feed(b"event: end\ndata: whole\n\n")
    assert reader.result == "whole"


def test_an_error_event() -> None:
    reader = ResultReader()
    assert reader.feed(b"event: task_id\ndata: t\n\nevent: error\ndata: one\ndata: two\n\n")
    assert (reader.error, reader.result, reader.done) == ("one\ntwo", None, True)


def test_unknown_events_are_no_result() -> None:
    reader = ResultReader()
    assert not reader.feed(b"data: x\n\nevent: END\ndata: x\n\nevent: end2\ndata: y\n\nevent: progress\ndata: 1\n\n")
    assert not reader.done


@pytest.mark.parametrize("line", [b"data: \xff", b"data: \xed\xa0\x80", b"event: \xc3"])
def test_bad_utf8(line: bytes) -> None:
    with pytest.raises(UnicodeDecodeError):
        EventReader().feed(line + b"\n\n")


def test_a_line_without_end() -> None:
    reader = EventReader(longest_line=100)
    assert reader.feed(b"data: " + b"x" * 94) == []
    with pytest.raises(OverflowError, match="more than 100 bytes"):
        reader.feed(b"x")


def test_a_large_result_takes_time_in_proportion() -> None:
    reader = ResultReader()
    piece = b"event: chunk\r\ndata: " + b"x" * 4096 + b"\r\n\r\n"
    stream = piece * 5000 + b"event: end\r\ndata: \r\n\r\n"
    done = [reader.feed(stream[at : at + 1000]) for at in range(0, len(stream), 1000)]
    assert done[-1]
    assert reader.result == "x" * 4096 * 5000
