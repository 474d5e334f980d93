"""The JSON text layer: against a plain parser of its own, Python's json, and msgspec, on good and hostile text."""

from __future__ import annotations

import json
import math
import os
import re
import sys
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnspec._text import (
    certain,
    certain_keys,
    certain_object,
    dumps_exact,
    fault,
    locate,
    max_depth_at_most,
    parse,
)
from turnspec._text._fault import examine
from turnspec._text._parse import digits_of_int, int_from_digits
from turnspec_generated import exact

EXAMPLES = int(os.environ.get("TURNSPEC_TEXT_EXAMPLES", "100"))
many = settings(max_examples=EXAMPLES, deadline=None)


# --- a reference: what json.loads says, with the design's further rules, and a plain parser for places ---


class Refused(ValueError):
    pass


def deepest(data: bytes) -> int:
    depth = top = 0
    inside = escaped = False
    for byte in data:
        if inside:
            inside = escaped or byte != 0x22
            escaped = byte == 0x5C and not escaped
        elif byte == 0x22:
            inside, escaped = True, False
        elif byte in b"[{":
            depth += 1
            top = max(top, depth)
        elif byte in b"]}":
            depth = max(depth - 1, 0)
    return top


def expected_code(data: bytes) -> str | None:
    """The code of a text by Python's json."""
    if deepest(data) > 128:
        return "too_deep"
    repeated = False

    def pairs(members: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        repeated = repeated or len(dict(members)) < len(members)
        return {"keys": [key for key, _ in members], "values": [value for _, value in members]}

    def refuse(word: str) -> Any:
        raise Refused(word)

    def number(text: str) -> float:
        return refuse(text) if math.isinf(float(text)) else float(text)

    try:
        value = json.loads(
            data.decode(), object_pairs_hook=pairs, parse_constant=refuse, parse_float=number, parse_int=len
        )
        json.dumps(value, ensure_ascii=False).encode()  # halves of surrogate pairs have no UTF-8
    except ValueError:
        return "invalid_json"
    return "duplicate_key" if repeated else None


class Places:
    """Values, places and repeated keys of JSON text, one token after the other."""

    token = re.compile(r'[ \t\n\r]*("(?:[^"\\]|\\.)*"|[\[\]{},:]|[^ \t\n\r\[\]{},:"]+)')

    def __init__(self, data: bytes) -> None:
        self.text = data.decode()
        self.pos = 0
        self.values: dict[str, int] = {}
        self.keys: dict[str, int] = {}
        self.repeated: tuple[str, int] | None = None
        self.value("", *self.next())

    def next(self) -> tuple[str, int]:
        match = self.token.match(self.text, self.pos)
        assert match
        self.pos = match.end()
        return match[1], match.start(1)

    def value(self, pointer: str, token: str, place: int) -> None:
        self.values[pointer] = place
        if token not in ("[", "{"):
            return
        count, seen = 0, set()
        closing = {"[": "]", "{": "}"}[token]
        inner, at = self.next()
        while inner != closing:
            name = str(count)
            if token == "{":
                name = json.loads(inner)
                child = pointer + "/" + name.replace("~", "~0").replace("/", "~1")
                if name in seen:
                    self.repeated = self.repeated or (child, at)
                    for table in (self.values, self.keys):
                        for key in [key for key in table if key == child or key.startswith(child + "/")]:
                            del table[key]
                seen.add(name)
                self.keys[child] = at
                assert self.next()[0] == ":"
                inner, at = self.next()
            else:
                child = f"{pointer}/{count}"
            self.value(child, inner, at)
            count += 1
            inner, at = self.next()
            if inner == ",":
                inner, at = self.next()

    def line_column(self, place: int) -> tuple[int, int]:
        before = self.text[:place]
        return before.count("\n") + 1, place - (before.rfind("\n") + 1) + 1


# --- text that is made at random ---

SPACES = st.sampled_from(["", "", "", " ", "  ", "\n", "\t", "\r\n ", " \n"])
ATOMS = [
    "a", "b", "ab", "role", "text", ":", '\\"', "\\\\", "\\/", "\\n", "\\u0061", "\\u003a", "\\u003A", "\\u003c",
    "\\u0022", "\\u00e9", "é", "é", "\\ud83d\\ude00", "😀", " ", ",", "{", "}", "[", "]", '\\":', "\\\\:", "~", "/",
    "x" * 40,
]  # fmt: skip
STRINGS = st.lists(st.sampled_from(ATOMS), max_size=4).map(lambda atoms: '"' + "".join(atoms) + '"')
NUMBERS = st.sampled_from(
    [
        "0", "-0", "1", "-12", "1.5", "-0.0", "1e5", "1E+2", "1e-400", "2.5e299", "1e300", "1.7976931348623157e308",
        "0e999", "18446744073709551616", "9" * 60, "1" * 120 + ".5", "9" * 400,
    ]
)  # fmt: skip
SCALARS = st.one_of(STRINGS, NUMBERS, st.sampled_from(["true", "false", "null"]))


@st.composite
def texts(draw: st.DrawFn, keys: st.SearchStrategy[str] = STRINGS, depth: int = 4) -> str:
    kind = draw(st.integers(0, 3 if depth else 0))
    if kind < 2:
        return draw(SPACES) + draw(SCALARS if kind == 0 or depth < 4 else texts(keys, depth - 1)) + draw(SPACES)
    size = draw(st.integers(0, 4))
    items = [draw(texts(keys, depth - 1)) for _ in range(size)]
    if kind == 2:
        return "[" + ",".join(items) + draw(SPACES) * (not items) + "]"
    names = [draw(SPACES) + draw(keys) + draw(SPACES) + ":" for _ in items]
    return "{" + ",".join(name + item for name, item in zip(names, items, strict=True)) + draw(SPACES) + "}"


FEW_KEYS = st.sampled_from(['"a"', '"\\u0061"', '"b"', '"a:"', '":"', '"\\u003a"', '"a\\\\"', '""', '"é"', '"\\u00e9"'])
ANY_TEXT = st.one_of(texts(), texts(FEW_KEYS))
BROKEN = [
    b"", b"\x00", b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xe4\xb8", b"\xef\xbb\xbf", b'"', b"\\", b"\\ud800",
    b"\\udc00", b"\\u12", b",", b",,", b":", b"]", b"}", b"[", b"{", b"0", b".", b"e", b"-", b"+", b"'", b"1e400",
    b"NaN", b"Infinity", b"-Infinity", b"//", b"\n", b"\x0b", b"\xc2\xa0", b"tru", b"[" * 129, b"]" * 5,
    b'{"a":' * 70,
]  # fmt: skip


@st.composite
def mutants(draw: st.DrawFn) -> bytes:
    data = draw(ANY_TEXT).encode()
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(data)))
        cut = draw(st.integers(0, 3))
        data = data[:place] + draw(st.sampled_from(BROKEN)) + data[place + cut :]
    return data


# --- fault ---


def check_fault(data: bytes) -> None:
    found = fault(data)
    assert found == examine(data)
    assert (found.code if found else None) == expected_code(data)
    if found is None:
        return
    assert found.message
    assert found.line is not None
    assert found.line >= 1
    assert found.column is not None
    assert found.column >= 1
    if found.code == "duplicate_key":
        places = Places(data)
        assert places.repeated is not None
        pointer, place = places.repeated
        assert (found.pointer, found.line, found.column) == (pointer, *places.line_column(place))
    else:
        assert found.pointer == ""


@many
@given(ANY_TEXT)
def test_fault_agrees_with_json_on_json(text: str) -> None:
    check_fault(text.encode())


@many
@given(mutants())
def test_fault_agrees_with_json_on_mutants(data: bytes) -> None:
    check_fault(data)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "\n", "NaN", "Infinity", "-Infinity", "nan", "[NaN]", '{"a":-Infinity}', "tru", "True", "None",
        "nul", "truex", "+1", ".5", "1.", "-", "--1", "01", "-01", "1e", "1e+", "1.e5", "0x10", "1_0", "1 2", "[1 2]",
        "[1,]", "[,1]", "[,]", "[1,,2]", '{"a":1,}', '{,"a":1}', "{,}", '{"a"}', '{"a":}', '{"a" 1}', "{1:2}",
        '{"a":1 "b":2}', '{"a":1,,"b":2}', "{'a':1}", "['a']", "/*x*/1", "[1] // x", "# x\n1", '"', '"abc', '"abc\\',
        '"\\"', '"a\nb"', '"a\tb"', '"\x00"', '"\x1f"', '"\\x41"', "\"\\'\"", '"\\u12"', '"\\u12g4"', '"\\U0041"',
        '"\\u+041"', '"\\ud800"', '"\\udc00"', '"\\ud800\\ud800"', '"\\ud800x"', '"\\ud800\\n"', '"\\udc00\\ud800"',
        '{"\\ud800":1}', '"\\uDBFF\\u0041"', "1e400", "-1e400", "[1e309]", '{"a":1.7976931348623159e308}',
        "1" * 400 + ".0", "1e99999999999", "9" * 310 + "e0", "[", "]", "{", "}", "[}", "{]", "[1}", '{"a":1]', "[[]",
        "[]]", "{}}", "[]x", "\f1", "\v1", "\xa01", "\ufeff[]", "[]\ufeff", "[1]\x00", '["a",]', '[{"a":1},]',
        '[{"a":1,"b":2} {"a":1}]', '"\x7f" x', "\\", "a", "[a]",
    ],
)  # fmt: skip
def test_text_that_is_not_json(text: str) -> None:
    data = text.encode()
    found = fault(data)
    assert found is not None
    assert (found.code, found.pointer) == ("invalid_json", "")
    assert found.message
    assert found == examine(data)
    assert expected_code(data) == "invalid_json"


@pytest.mark.parametrize(
    "data",
    [
        b'"\xff"', b'"\xc0\x80"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\xe4\xb8"', b'"\x80"', b'{"\xff":1}',
        b'["\xf0\x9f"]', b"\xef\xbb\xbf[]", b"\xff\xfe[\x00]\x00", b"\xfe\xff\x00[\x00]", b"[\x001]",
        b'"\xf5\x80\x80\x80"', b'"\xe0\x80\x80"', b'["\xff' + b"[" * 200 + b'"]',
    ],
)  # fmt: skip
def test_bytes_that_are_not_utf8(data: bytes) -> None:
    found = fault(data)
    assert found is not None
    assert (found.code, found.pointer, found.line) == ("invalid_json", "", 1)


@pytest.mark.parametrize(
    "text",
    [
        "0", "-0", "-0.0", "1E5", "1e-99999999999", "0e99999999999", "0.0e400", "1.7976931348623157e308", "1e308",
        "-1e308", "9" * 400, "-" + "9" * 5000, "1" * 150 + ".5", "1" * 150 + "e5", "1e+00000005", '"\\ud83d\\ude00"',
        '"\\uD83D\\uDE00"', '"\x7f"', '"\u2028"', '"\\/"', " [ ] ", "\t\r\n{}\n", '{"a":[],"b":{}}', "null", '""',
        "[[[]],[[1]],{}]", '{"":{"":{"":1}}}', '[{"a":1,"b":2},{"a":1,"b":2}]', '["]","[","{","\\"["]',
        "[" * 128 + "]" * 128, '{"a":' * 127 + "{}" + "}" * 127, '"' + "[" * 500 + '"', '["\\"' + "[" * 200 + '"]',
    ],
)  # fmt: skip
def test_text_without_fault(text: str) -> None:
    assert fault(text.encode()) is None
    assert examine(text.encode()) is None


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("[" * 129, (1, 129)),
        ("[" * 100_000, (1, 129)),
        ("[" * 100_000 + "]" * 100_000, (1, 129)),
        ('{"a":' * 129, (1, 641)),
        ("x\n" + "[" * 129, (2, 129)),
        ("[1 2 " + '["[[[",' * 127 + "\n{", (2, 1)),
        ("]]]" + "[" * 129, (1, 132)),
        ('["\ud83d",\n'.encode("utf-8", "surrogatepass").decode("latin-1") + "[" * 128, (2, 128)),
        ("NaN" + '"\\"' + "[" * 200 + '"' + "[{" * 64 + "[", (1, 336)),
    ],
)
def test_too_deep(text: str, place: tuple[int, int]) -> None:
    started = time.process_time()
    found = fault(text.encode("latin-1"))
    assert found is not None
    assert (found.code, found.pointer, found.line, found.column) == ("too_deep", "", *place)
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    "text", ["[" * 128 + "x", '"' + "[" * 200, "[" * 128 + "]]" + "[[" + "1 1", "[x" + "[]" * 500, "'[" * 128]
)
def test_brackets_that_are_not_too_deep(text: str) -> None:
    found = fault(text.encode())
    assert found is not None
    assert found.code == "invalid_json"


@pytest.mark.parametrize(
    ("text", "pointer", "place"),
    [
        ('{"a":1,"a":1}', "/a", (1, 8)),
        ('{"a":1,"b":2,"b":3,"a":4}', "/b", (1, 14)),
        ('{"a":{"x":1,"x":2},"a":1}', "/a/x", (1, 13)),
        ('{"a":1,"a":{"x":1,"x":2}}', "/a", (1, 8)),
        ('{"a":1,"\\u0061":1}', "/a", (1, 8)),
        ('{"é":1,\n "é":1, "\\u00e9":2}', "/é", (2, 2)),
        ('[0,[{"a":[1,"]",{"q":[]}]},{"k/~":1,"l":[2],"k/~":[]}]]', "/1/1/k~1~0", (1, 45)),
        ('{"":0,"":0}', "/", (1, 7)),
        ("[" * 127 + '{"a":1,"b":[],"a":2}'.replace("[]", "3") + "]" * 127, "/0" * 127 + "/a", (1, 141)),
        ('{"a":1e300,"b":2,"a":1e300}', "/a", (1, 18)),
        ('["é😀",{"a":1,"a":2}]', "/1/a", (1, 14)),
    ],
)
def test_duplicate_key(text: str, pointer: str, place: tuple[int, int]) -> None:
    found = fault(text.encode())
    assert found is not None
    assert (found.code, found.pointer, found.line, found.column) == ("duplicate_key", pointer, *place)


def test_the_first_of_the_three_counts() -> None:
    cases = {
        '{"a":1,"a":2': "invalid_json",
        '{"a":1,"a":"\\ud800"}': "invalid_json",
        '{"a":1,"a":2} ' + "[" * 129: "too_deep",
    }
    for text, code in cases.items():
        found = fault(text.encode())
        assert found is not None
        assert found.code == code
    bad_bytes = fault(b'["\xff", 1 2]')
    assert bad_bytes is not None
    assert (bad_bytes.column, bad_bytes.code) == (3, "invalid_json")


@pytest.mark.parametrize("size", [3, 3000, 40_000])
@pytest.mark.parametrize("escape", ["", "\\n"])
def test_objects_of_many_keys(size: int, escape: str) -> None:
    members = [f'"{escape}{index}":{"[{}]" if index % 97 == 0 else index}' for index in range(size)]
    assert examine(("{" + ",".join(members) + "}").encode()) is None
    members.insert(-1, members[size // 2])
    found = examine(("[{" + ",\n".join(members) + "}]").encode())
    assert found is not None
    name = escape.replace("\\n", "\n")
    assert (found.code, found.pointer, found.line) == ("duplicate_key", f"/0/{name}{size // 2}", size)


def test_large_arrays_of_objects() -> None:
    record = '{"a":1,"b":[{"c":"x:{","d":[1,2]}]}'
    good = "[" + ",".join([record] * 40_000) + "]"
    assert len(good) > 1 << 20
    assert examine(good.encode()) is None
    for broken, code in (
        ('{"a":1,"b":2,"a":3}', "duplicate_key"),
        ('{"a":\\u003a}', "invalid_json"),
        ('{"a":"\\u003a","a":1}', "duplicate_key"),
    ):
        found = examine((good[:-1] + "," + broken + good.replace("[", ",", 1)).encode())
        assert found is not None
        assert found.code == code
        assert found.pointer == ("/40000/a" if code == "duplicate_key" else "")


@pytest.mark.parametrize(
    "data",
    [
        b'"' + b'\\"' * 400_000,
        b'["' + b"\\" * 800_001,
        b"[" + b"1," * 400_000 + b"x",
        b"x" + b'"' * 800_001,
        b"[" + b"[]," * 300_000 + b"]",
        b"[" + (b"[" * 126 + b"]" * 126 + b",") * 500,
        b'{"a":' * 100 + b"1" * 800_000,
        b"[" + b" " * 800_000,
        b"[" + b"1e300," * 30_000,
        b"0." + b"0" * 800_000 + b"1e" + b"9" * 500_000,
        b"[" + b'{"":0,"b":0},' * 40_000,
        b"-" * 800_000,
        b'{"a' * 200_000,
        b"[" + b"]," * 300_000,
    ],
)
def test_hostile_text_is_judged_in_linear_time(data: bytes) -> None:
    started = time.process_time()
    found = fault(data)
    assert found is not None
    assert time.process_time() - started < 5


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"), ("[1,]", "comma before it"), ("{'a':1}", "double quotes"), ("[NaN]", "NaN"),
        ("[True]", "lower case"), ("[01]", "leading zeros"), ("[1.]", "digits must follow"),
        ("[.5]", "begins with a digit"), ("[1e400]", "1e400"), ('["a\nb"]', "\\n"), ('["\\ud800"]', "surrogate"),
        ('["\\q"]', "'q'"), ('["\\u12"]', "hexadecimal"), ("[1", "cut off"), ('["abc', "not closed"), ("[] x", "'x'"),
        ("/* */1", "no comments"), ("\ufeff[]", "byte order mark"), ('{"a" 1}', "':'"), ("[1 2]", "',' or ']'"),
        ('{"a":1 "b":2}', "',' or '}'"), ("{1:2}", "key"), ("[undefined]", "null"),
    ],
)  # fmt: skip
def test_messages_help(text: str, words: str) -> None:
    found = fault(text.encode())
    assert found is not None
    assert words in found.message + " / " + found.hint


# --- parse ---


@many
@given(ANY_TEXT)
def test_parse_is_json_loads(text: str) -> None:
    assert repr(parse(text.encode())) == repr(json.loads(text))


def test_parse_takes_integers_of_any_length() -> None:
    for digits in ("7" * 4301, "1" + "0" * 20_000, "9" * 599, "9" * 600, "9" * 601, "-" + "123456789" * 1000):
        value = parse(f'{{"a":[{digits}, 1.5]}}'.encode())["a"]
        assert value[1] == 1.5
        assert digits_of_int(value[0]) == digits
        assert value[0] % 997 == sum(int(d) * pow(10, i, 997) for i, d in enumerate(reversed(digits.lstrip("-")))) * (
            -1 if digits.startswith("-") else 1
        ) % 997  # fmt: skip
    assert parse(b'{"a":1,"a":2}') == {"a": 2}
    started = time.process_time()
    cut = parse(b'[12,"x",-' + b"8" * 20_000_000 + b"]", exact=False)
    assert cut[:2] == [12, "x"]
    assert type(cut[2]) is int
    assert cut[2] < -(10**500)
    assert time.process_time() - started < 2
    for bad in (b"[NaN]", b"[" + b"1" * 5000 + b",Infinity]", b"[", b'"\xff"', b"\xef\xbb\xbf1"):
        with pytest.raises(ValueError, match=r"JSON|Expecting|decode|BOM"):
            parse(bad)


@many
@given(st.integers(), st.integers(0, 16_000), st.integers(-3, 3))
def test_integers_and_digits(small: int, shift: int, more: int) -> None:
    value = (small << shift) + more
    assert int_from_digits(digits_of_int(value)) == value
    limit = sys.get_int_max_str_digits()
    try:
        sys.set_int_max_str_digits(0)
        assert digits_of_int(value) == str(value)
        sys.set_int_max_str_digits(640)
        assert int_from_digits(digits_of_int(value)) == value
    finally:
        sys.set_int_max_str_digits(limit)


# --- locate ---


@many
@given(ANY_TEXT)
def test_locate_agrees_with_a_plain_parser(text: str) -> None:
    data = text.encode()
    places = Places(data)
    pointers = (
        set(places.values)
        | {pointer + "/nothing/0" for pointer in places.values}
        | {pointer + "/99" for pointer in places.values}
    )
    everything = locate(data, pointers)
    keys = locate(data, pointers, frozenset(pointers))
    assert everything.keys() == pointers
    for pointer in pointers:
        nearest = pointer
        while nearest not in places.values:
            nearest = nearest.rpartition("/")[0]
        assert everything[pointer] == places.line_column(places.values[nearest])
        place = places.keys.get(pointer, places.values[nearest]) if nearest == pointer else places.values[nearest]
        assert keys[pointer] == places.line_column(place)
        assert locate(data, [pointer])[pointer] == everything[pointer]


def test_locate_counts_characters_and_lines() -> None:
    text = '[{"é😀": "x",\r\n\t"b": [1, {"k": null}]},\n {"a": 1, "a": {"k": 2}}]'
    found = locate(
        text.encode(),
        ["", "/0/é😀", "/0/b", "/0/b/1/k", "/1/a/k", "/1/z", "/7/a", "x", "/0/b/01"],
        {"/0/b", "/1/a/k", "/1/z"},
    )
    assert found == {
        "": (1, 1), "/0/é😀": (1, 9), "/0/b": (2, 2), "/0/b/1/k": (2, 17), "/1/a/k": (3, 17), "/1/z": (3, 2),
        "/7/a": (1, 1), "x": (1, 1), "/0/b/01": (2, 7),
    }  # fmt: skip


@many
@given(mutants(), st.lists(st.sampled_from(["", "/a", "/0", "/a/0", "/0/a", "/0/b/1", "/~0/~1"]), max_size=3))
def test_locate_never_fails(data: bytes, pointers: list[str]) -> None:
    for line, column in locate(data, pointers, frozenset(pointers)).values():
        assert line >= 1
        assert column >= 1


def test_locate_is_linear() -> None:
    data = b"[" + b",".join(b'{"a":[{"x":1}, "]"],"b":2}' for _ in range(20_000)) + b"]"
    started = time.process_time()
    found = locate(data, [f"/{index}/b" for index in range(20_000)])
    assert found["/19999/b"] == (1, 27 * 19_999 + 26)
    assert time.process_time() - started < 5


# --- dumps_exact ---

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@many
@given(VALUES, st.booleans(), st.sampled_from([(", ", ": "), (",", ":")]))
def test_dumps_exact_is_json_dumps(value: Any, ascii_only: bool, separators: tuple[str, str]) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, separators=separators)
    assert dumps_exact(value, ensure_ascii=ascii_only, separators=separators) == text
    # The same by the slow way: a long integer beside the value.
    with_long = dumps_exact([value, 10**5000], ensure_ascii=ascii_only, separators=separators)
    assert with_long == "[" + text + separators[0] + "1" + "0" * 5000 + "]"
    assert parse(with_long.encode("utf-8", "surrogatepass"))[1] == 10**5000


def test_dumps_exact_with_keys_as_json_dumps_takes_them() -> None:
    value = {2: 2, None: 3, True: 4, 1.5: 5, "x": (6, 7)}
    assert dumps_exact(value) == json.dumps(value)
    assert dumps_exact({**value, "z": 10**5000, 10**4400: 0}) == (
        json.dumps(value)[:-1] + ', "z": 1' + "0" * 5000 + ', "1' + "0" * 4400 + '": 0}'
    )
    assert dumps_exact([-(10**4400)]) == "[-1" + "0" * 4400 + "]"
    assert dumps_exact("\ud800") == '"\\ud800"'


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def circular() -> dict[str, Any]:
    value: dict[str, Any] = {}
    value["self"] = [value]
    return value


@pytest.mark.parametrize("value", [math.nan, [math.inf], {"a": -math.inf}, [10**5000, math.nan], {math.nan: 1}])
def test_dumps_exact_refuses_numbers_without_json(value: Any) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        dumps_exact(value)


@pytest.mark.parametrize("value", [nested(100_000), circular(), [10**5000, nested(100_000)], [10**5000, circular()]])
def test_dumps_exact_refuses_depth(value: Any) -> None:
    with pytest.raises(ValueError, match="too deep"):
        dumps_exact(value)


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({1, 2}, "set"),
        ([b"x"], "bytes"),
        ({"a": object()}, "object"),
        ([10**5000, {1}], "set"),
        ({(1,): 2}, "tuple"),
        ([10**5000, {(1,): 2}], "tuple"),
    ],
)
def test_dumps_exact_names_the_type_that_is_not_json(value: Any, name: str) -> None:
    with pytest.raises(TypeError, match=rf"\b{name}\b"):
        dumps_exact(value)


# --- certain ---


@many
@given(ANY_TEXT)
def test_certain_object_is_certain(text: str) -> None:
    data = text.encode()
    if certain_object(data):
        assert expected_code(data) is None
        assert examine(data) is None


@many
@given(mutants())
def test_certain_object_is_certain_of_mutants(data: bytes) -> None:
    if certain_object(data):
        assert expected_code(data) is None


def dictionary(text: str) -> dict[str, msgspec.Raw] | None:
    try:
        return msgspec.json.decode(text.encode(), type=dict[str, msgspec.Raw])
    except msgspec.MsgspecError:
        return None


@many
@given(st.one_of(texts(), texts(FEW_KEYS)).filter(lambda text: text.lstrip().startswith("{")))
def test_certain_keys_is_certain(text: str) -> None:
    members = dictionary(text)
    if members is not None and certain_keys(text.encode(), members):
        outermost: list[str] = []
        json.loads(text, object_pairs_hook=lambda pairs: outermost.__setitem__(slice(None), [key for key, _ in pairs]))
        assert len(set(outermost)) == len(outermost)
        if all(certain_object(bytes(raw)) for raw in members.values()):
            assert expected_code(text.encode()) is None


@st.composite
def conversations(draw: st.DrawFn) -> str:
    """Text of a conversation, valid but for keys that come twice, in any order, with white space and escapes."""

    def members(*pairs: tuple[str, str], optional: tuple[tuple[str, str], ...] = ()) -> str:
        chosen = [*pairs, *(pair for pair in optional if draw(st.booleans()))]
        if draw(st.integers(0, 5)) == 0:
            chosen.append(draw(st.sampled_from(chosen)))
        chosen = draw(st.permutations(chosen)) if draw(st.booleans()) else chosen
        colon = draw(st.sampled_from([":", ": ", " :", "\t:\n"]))
        return (
            "{"
            + draw(st.sampled_from([",", ", ", " ,"])).join(f'"{name}"{colon}{value}' for name, value in chosen)
            + "}"
        )

    def detail() -> tuple[str, str]:
        return "detail", draw(st.one_of(st.just("null"), free()))

    def free() -> st.SearchStrategy[str]:
        return texts(FEW_KEYS, 3).map(lambda text: '{"k":' + text + "}")

    def text() -> str:
        return members(("type", '"text"'), ("text", draw(STRINGS)), optional=(detail(),))

    def block() -> str:
        kind = draw(st.sampled_from(["text", "tool_call", "reasoning"]))
        if kind == "text":
            return text()
        if kind == "reasoning":
            return members(("type", '"reasoning"'), ("text", draw(STRINGS)), optional=(("signature", "null"), detail()))
        return members(
            ("type", '"tool_call"'),
            ("id", draw(STRINGS)),
            ("name", '"f"'),
            ("input", draw(free())),
            optional=(detail(),),
        )

    def result() -> str:
        return members(
            ("type", '"tool_result"'),
            ("tool_call_id", draw(STRINGS)),
            ("blocks", "[" + text() + "]"),
            optional=(("is_error", "true"),),
        )

    turns = []
    for _ in range(draw(st.integers(0, 3))):
        role = draw(st.sampled_from(["user", "assistant", "system"]))
        one = {"user": result, "assistant": block, "system": text}[role]
        blocks = ",".join(one() for _ in range(draw(st.integers(0, 3))))
        turns.append(members(("role", f'"{role}"'), ("blocks", f"[{blocks}]"), optional=(detail(),)))
    return "[" + draw(SPACES) + ",".join(turns) + "]"


@many
@given(conversations())
def test_certain_is_certain_of_conversations(text: str) -> None:
    data = text.encode()
    try:
        value = exact.CONVERSATION["v2"].decode(data)
    except msgspec.MsgspecError:
        return
    answers = {certain(data, exact.encode(value)), certain(data, exact.encode(value), value)}
    assert len(answers) == 1
    if answers == {True}:
        assert expected_code(data) is None


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":1}', '{"a" :1,"a" :1}', '{"a":"\\u003a","a":1}', '{"a":"\\u003A:","a":1}',
        '{"a":":","a":"\\u003a:"}', '{"a":1,"\\u0061":2}', '[{"a":{"a":1,"b":[]},"a":{}}]',
        '{"a":"x:","a":"\\u003a\\u003a"}', "[" * 129 + "]" * 129, '{"a":' * 129 + "1" + "}" * 129, "NaN", "1e400",
        '"\\ud800"', '{"a":"\xff","a":1}',
    ],
)  # fmt: skip
def test_what_is_not_certain(text: str) -> None:
    assert not certain_object(text.encode("latin-1"))


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"b":[{"a":":"}]}', '{ "a" : 1 ,\n"b" : ":" }', '{"text":"\\u003c b \\u003e","x":"\\": \\":"}',
        '{"a:":":a","\\"":"\\":"}', '[1e2, -0, 1.50, "\\u00e9\\/"]', "[" * 128 + "]" * 128, '{"b":1,"a":{}}',
        "[" + ",".join(["{}"] * 500) + "]", '"' + "[" * 500 + '"',
    ],
)  # fmt: skip
def test_what_is_certain(text: str) -> None:
    assert certain_object(text.encode())


def test_certain_looks_at_depth() -> None:
    for value in (json.loads("[" * 129 + "]" * 129), {"a": [{}] * 9000, "b": json.loads("[" * 128 + "]" * 128)}):
        data = json.dumps(value).encode()
        encoded = msgspec.json.encode(value)
        assert not certain(data, encoded)
        assert not certain(data, encoded, value)
        assert certain(data, encoded, shallow=True)


def test_certain_keys() -> None:
    for text, answer in {
        '{"a":1,"b":{"a":1,"a":2}}': True, '{"a": 1, "b": ":"}': True, '{ "a" : 1,"b" :[]}': True, "{}": True,
        '{"a":1,"a":1}': False, '{"a":{"b":1},"a":2}': False, '{"\\u003a":1,"a":2,"a":3}': False,
        '{"a:\\u003a":1,"a:\\u003a":1}': False, '{"é":1,"\\u00e9":2}': False, '{"\\u0061":1,"b":2}': True,
    }.items():  # fmt: skip
        members = dictionary(text)
        assert members is not None
        assert certain_keys(text.encode(), members) is answer


def test_depth_of_values() -> None:
    block = exact.CONVERSATION["v2"].decode(
        b'[{"role":"assistant","blocks":[{"type":"tool_call","id":"a","name":"f","input":{"a":[[1]]}}]}]'
    )
    assert max_depth_at_most(block, 7)
    assert not max_depth_at_most(block, 6)
    for value, depth in ((1, 0), ([], 1), ({"a": []}, 2), ([1, [2, [3]], []], 3), (nested(100_000), 100_001)):
        assert max_depth_at_most(value, depth)
        assert depth == 0 or not max_depth_at_most(value, depth - 1)


# What msgspec refuses in what it decodes, and lets pass in what it skips. `certain` may rest on the first alone.
NOT_JSON = [
    b'"\xff"', b'"\xc0\x80"', b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"', b'"\xe4\xb8"', b'"\\ud800"', b'"\\udc00"',
    b'"\\ud800\\ud800"', b'"\\ud800x"', b"1e400", b"-1e400", b"1" * 400 + b".5", b"1.7976931348623159e308",
    b"1e99999999999", b"1.", b"01", b"-01", b"-", b"+1", b".5", b"1e", b"1.e5", b"NaN", b"Infinity", b"-Infinity",
    b'"a\x01"', b'"a\tb"', b'"\x00"', b'"\\x41"', b'"\\u12"', b"[1,]", b'{"a":1,}', b"/**/1", b"'a'", b'"abc', b"tru",
    b"True", b"\x0c1", b"\xc2\xa01", b"[1 2]", b"{1:2}", b'{"a" 1}', b"0x10", b'{"\xff":1}', b'{"\\ud800":1}',
    b'{"a\x01":1}', b"\xef\xbb\xbf1", b"", b"nulx", b"1 1",
]  # fmt: skip
SKIPPED_UNSEEN = [
    b'"\xff"',
    b'"\xc0\x80"',
    b'"\xed\xa0\x80"',
    b'"\xf4\x90\x80\x80"',
    b'"\xe4\xb8"',
    b"1e400",
    b"-1e400",
    b'{"\xff":1}',
]


class Nothing(msgspec.Struct):
    """All fields of a text are unknown to it, and skipped."""


@pytest.mark.parametrize("value", NOT_JSON)
def test_msgspec_refuses_what_is_not_json_where_it_decodes(value: bytes) -> None:
    members = b'{"a":' + value + b"}"
    for data, kind in ((value, Any), (members, dict[str, Any]), (b'{"a":[0,' + value + b"]}", Any)):
        with pytest.raises(msgspec.MsgspecError):
            msgspec.json.decode(data, type=kind)
        assert not certain_object(data)
        assert fault(data) is not None


@pytest.mark.parametrize("value", SKIPPED_UNSEEN)
def test_msgspec_skips_what_is_not_json(value: bytes) -> None:
    data = b'{"a":' + value + b"}"
    raw = msgspec.json.decode(data, type=dict[str, msgspec.Raw])["a"]
    assert bytes(raw) == value
    skipped = msgspec.json.decode(data, type=Nothing)
    assert not certain_object(bytes(raw))
    assert not certain(data, msgspec.json.encode(skipped), skipped)


def pieces(value: Any) -> Iterator[Any]:
    yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from pieces(inner)


@many
@given(ANY_TEXT)
def test_an_integer_that_msgspec_cannot_take_is_no_verdict(text: str) -> None:
    data = f"[{text},{'7' * 5000}]".encode()
    with pytest.raises(msgspec.MsgspecError):
        msgspec.json.decode(data)
    assert not certain_object(data)
    check_fault(data)
    assert any(value == int_from_digits("7" * 5000) for value in pieces(parse(data)))
