"""Reading by lines and by byte ranges, and telling JSONL from JSON."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator

import pytest

from turnspec.cli.lines import batches, batches_in_range, batches_with_care, tell_form


def flat(groups: object) -> list[bytes]:
    return [line for group in groups for line in group]  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(40))
def test_ranges_give_every_line_once(seed: int) -> None:
    random_ = random.Random(seed)
    longest = random_.choice([1, 3, 10, 60])
    data = b"\n".join(b"x" * random_.randrange(longest) for _ in range(random_.randrange(30)))
    data += random_.choice([b"", b"\n"])
    lines = data.splitlines(True)
    for width in (1, 2, 3, 7, 50, 1000):
        for size in (1, 5, 1000):
            found: list[bytes] = []
            for start in range(0, len(data), width):
                groups = batches_in_range(io.BytesIO(data), start, min(start + width, len(data)), size)
                found += flat(groups)
            assert found == lines, (width, size)


def test_a_range_inside_one_line_reads_no_further_than_its_end() -> None:
    class Counting(io.BytesIO):
        read_to = 0

        def readline(self, size: int | None = -1, /) -> bytes:
            line = super().readline(size)
            self.read_to = max(self.read_to, self.tell())
            return line

    stream = Counting(b"x" * 10_000 + b"\n{}\n")
    assert list(batches_in_range(stream, 100, 200)) == []
    assert stream.read_to <= 200


def test_the_lines_before_a_failure_are_given() -> None:
    def failing() -> Iterator[bytes]:
        yield from [b"a\n", b"b\n", b"c\n"]
        raise EOFError

    found: list[list[bytes]] = []
    with pytest.raises(EOFError):
        found.extend(batches_with_care(failing(), 4))
    assert found == [[b"a\n", b"b\n"], [b"c\n"]]


def test_batches_keep_line_ends_and_a_last_line_without_one() -> None:
    for read in (batches, batches_with_care):
        assert flat(read(io.BytesIO(b"a\r\n\nb\rc\nd"), 2)) == [b"a\r\n", b"\n", b"b\rc\n", b"d"]


@pytest.mark.parametrize(
    ("text", "form"),
    [
        (b"", "jsonl"),
        (b"\n \r\n", "jsonl"),
        (b'{"a": 1}', "json"),
        (b'{"a": 1}\n', "json"),
        (b'\n\n{"a": 1}\n\n', "json"),
        (b'{"a": 1}\n{"a": 2}\n', "jsonl"),
        (b'{"a": 1}\n\n\n{"a": 2}', "jsonl"),
        (b'[\n  {"a": 1}\n]\n', "json"),
        (b'[{"a": 1},\n{"a": 2}]\n', "json"),
        (b'{\n"a": [1,\n2]}', "json"),
        (b'{"a": "}"}\n{"b": "{"}\n', "jsonl"),
        (b'{"a": "\\"{"}\n{"b": 1}\n', "jsonl"),
        (b"junk\n{}\n", "jsonl"),
        (b'{"a": NaN}\n{}\n', "jsonl"),
        (b'{"a": "cut o\n{}\n', "jsonl"),
        (b'\xef\xbb\xbf{"a": 1}\n{}\n', "jsonl"),
        (b"\xef\xbb\xbf[\n]\n", "json"),
    ],
)
def test_form_is_told_by_the_first_lines(text: bytes, form: str) -> None:
    stream = io.BytesIO(text)
    found, head = tell_form(stream)
    assert found == form
    assert b"".join(head) + stream.read() == text
    assert len(head) <= text.count(b"\n") + 1
