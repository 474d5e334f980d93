"""The one thing that makes a text no usable document: too deep, no JSON, or a key that comes twice."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from math import isinf

from .._errors import Problem
from . import _grammar as g
from ._certain import certain_object
from ._keys import Keys, unescape
from ._position import positions
from ._syntax import BadSyntax, bad_utf8, broken_value, expected

# What may come next. In an array or object, FIRST follows its opening bracket.
_FIRST, _VALUE, _KEY, _COLON, _AFTER = range(5)
_MEMBERS = 1000  # of one object taken at once: their keys are held in a list
_SMALL = 1 << 20  # bytes of text that may be read whole: as Python values it takes many times the memory


def fault(data: bytes) -> Problem | None:
    """The problem of a text that is no usable document, or None: `too_deep`, `invalid_json` or `duplicate_key`.

    `data` is UTF-8 without a byte order mark. The first of the three that holds, with line and column: of the
    bracket that is too deep, of what is not JSON, of the key that comes again. Time and memory are linear in the
    size of the text, whatever it holds.
    """
    if len(data) <= _SMALL and certain_object(data):
        return None
    return examine(data)


def examine(data: bytes) -> Problem | None:
    """What `fault` finds, without the quick look that most texts pass."""
    scan = _Scan(data)
    try:
        scan.run()
    except _TooDeep as deep:
        return _too_deep(data, deep.offset)
    except BadSyntax as bad:
        offset = too_deep_at(data, bad.token, len(scan.open))
        if offset is not None:
            return _too_deep(data, offset)
        return _no_json(data, bad_utf8(data, bad.offset) or bad)
    bad_bytes = bad_utf8(data, len(data))
    if bad_bytes is not None:
        return _no_json(data, bad_bytes)
    if scan.repeated is None:
        return None
    offset, pointer, key = scan.repeated
    return _problem(
        data,
        offset,
        "duplicate_key",
        pointer,
        f"the key {_shown(key)} comes again in the same object",
        "remove or rename one of the two: readers keep one value and drop the other",
    )


def _too_deep(data: bytes, offset: int) -> Problem:
    return _problem(
        data,
        offset,
        "too_deep",
        "",
        f"arrays and objects are nested more than {g.MAX_DEPTH} levels deep, from here on",
        "flatten the value, or keep it as a string of JSON",
    )


def _no_json(data: bytes, bad: BadSyntax) -> Problem:
    return _problem(data, bad.offset, "invalid_json", "", bad.message, bad.hint)


def _problem(data: bytes, offset: int, code: str, pointer: str, message: str, hint: str) -> Problem:
    line, column = positions(data, [offset])[offset]
    return Problem(code, pointer, message, hint=hint, line=line, column=column)


def _shown(key: bytes) -> str:
    import json

    text = json.dumps(key.decode("utf-8", "replace"), ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + '…"'


class _TooDeep(Exception):
    def __init__(self, offset: int) -> None:
        self.offset = offset


_Bite = Callable[[bytes, int], "re.Match[bytes] | None"]


class _Open:
    """An array or object that is open: where it began, its keys so far, the key of the value at hand."""

    __slots__ = ("bite", "is_object", "key", "keys", "records", "start")

    def __init__(self, start: int, is_object: bool, bite: _Bite) -> None:
        self.start = start
        self.is_object = is_object
        self.bite = bite
        self.keys: Keys | None = None
        self.key = b""
        self.records = not is_object  # whether it is worth while to look for many objects at once


class _Scan:
    """One pass over the text. It takes large bites where the text is as it should be, else token by token."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.open: list[_Open] = []
        self.repeated: tuple[int, str, bytes] | None = None

    def run(self) -> None:
        """Raises `_TooDeep` or `BadSyntax`, leaves the first repeated key in `repeated`."""
        data, stack = self.data, self.open
        size = len(data)
        space = _compiled(g.SPACE)
        state, pos = _VALUE, 0
        while state != _AFTER or stack:
            if state in (_FIRST, _AFTER):
                top = stack[-1]
                if state == _FIRST:
                    bite = top.bite(data, pos - 1)
                else:
                    bite = top.bite(data, pos) if data[pos : pos + 1] not in (b"{", b"[") else None
                end = pos if bite is None else bite.end()
                if end > pos:
                    if top.is_object and self.repeated is None:
                        self._take_keys(top, pos, end)
                    pos = end
                    last = data[end - 1]
                    if last == 0x7D or last == 0x5D:
                        stack.pop()
                        state = _AFTER
                        while stack and pos < size and data[pos] == (0x7D if stack[-1].is_object else 0x5D):
                            stack.pop()
                            pos += 1
                    elif last == 0x7B or last == 0x5B:
                        if last == 0x7B and top.records and (end := self._records(top, end - 1)):
                            state, pos = _AFTER, end
                            continue
                        self._enter(pos - 1)
                        state = _FIRST
                        while last == 0x5B and pos < size and data[pos] in b"[{":
                            last = data[pos]
                            self._enter(pos)
                            pos += 1
                    else:
                        state = _KEY if top.is_object else _VALUE
                    continue
            pos = _end(space, data, pos)
            state, pos = self._token(state, pos)
        pos = _end(space, data, pos)
        if pos < size:
            raise expected("the end of the text", data, pos)

    def _token(self, state: int, pos: int) -> tuple[int, int]:
        """Take one token: the state and the place after it."""
        data = self.data
        byte = data[pos : pos + 1]
        top = self.open[-1] if self.open else None
        if state == _FIRST:
            assert top is not None
            state = _KEY if top.is_object else _VALUE
        if state == _VALUE:
            if byte in (b"{", b"["):
                self._enter(pos)
                return _FIRST, pos + 1
            scalar = _compiled(rb'"' + g.CONTENT + rb'"|' + g.NUMBER + rb"|" + g.WORD).match(data, pos)
            if scalar is None:
                raise broken_value(data, pos)
            if byte not in b'"tfn' and _beyond_double(scalar[0]):
                message = f"the number {_cut(scalar[0])} is beyond the range of a double"
                raise BadSyntax(pos, pos, message, "write it as a string, or as an integer with all its digits")
            return _AFTER, scalar.end()
        if state == _KEY:
            key = _compiled(g.STRING).match(data, pos)
            if key is None:
                raise broken_value(data, pos) if byte == b'"' else expected("a key in double quotes", data, pos)
            assert top is not None
            if self.repeated is None:
                self._take_keys(top, pos, key.end())
            return _COLON, key.end()
        if state == _COLON:
            if byte != b":":
                raise expected("':' after the key", data, pos)
            return _VALUE, pos + 1
        if byte == b",":
            return _KEY if top is not None and top.is_object else _VALUE, pos + 1
        raise expected("',' or '}'" if top is not None and top.is_object else "',' or ']'", data, pos)

    def _records(self, array: _Open, start: int) -> int:
        """The end of some objects in an array, if a quick look finds no fault in them, else 0."""
        match = None
        if len(self.data) > _SMALL and len(self.open) + g.RECORD_LEVELS <= g.MAX_DEPTH:
            match = _compiled(g.RECORDS).match(self.data, start, start + _SMALL)
        if match and (self.repeated is not None or certain_object(b"[" + match[0] + b"]")):
            return match.end()
        array.records = match is None
        return 0

    def _enter(self, pos: int) -> None:
        if len(self.open) == g.MAX_DEPTH:
            raise _TooDeep(pos)
        is_object = self.data[pos] == 0x7B
        deep = len(self.open) + 1 + g.ITEM_LEVELS > g.MAX_DEPTH
        self.open.append(_Open(pos, is_object, _bite(is_object, deep)))

    def _take_keys(self, top: _Open, start: int, end: int) -> None:
        """Enter the keys of the members in a stretch of an object; the first that was there is `repeated`."""
        names = _compiled(g.MEMBER).findall(self.data, start, end)
        if not names or (len(names) == 1 and top.keys is None and self.data[end - 1] == 0x7D):
            return
        if b"\\" in b"".join(names):
            names = [unescape(name) if b"\\" in name else name for name in names]
        top.key = names[-1]
        if top.keys is None:
            top.keys = Keys(self.data, _compiled(g.MEMBER), _compiled(g.KEY))
        offset = top.keys.add(names, start, end)
        if offset is not None:
            match = _compiled(g.KEY).match(self.data, offset)
            key = unescape(match[1]) if match else b""
            self.repeated = (offset, self._pointer(key), key)

    def _pointer(self, key: bytes) -> str:
        """The pointer of a key of the innermost object."""
        tokens = []
        for outer, inner in zip(self.open, self.open[1:], strict=False):
            tokens.append(outer.key if outer.is_object else b"%d" % self._index(outer.start + 1, inner.start))
        tokens.append(key)
        text = b"".join(b"/" + token.replace(b"~", b"~0").replace(b"/", b"~1") for token in tokens)
        return text.decode("utf-8", "replace")

    def _index(self, start: int, stop: int) -> int:
        """How many values of an array lie in a stretch of valid text behind its opening bracket."""
        count = depth = 0
        tokens = re.compile(g.LOOSE_STRING + rb"|[\[\]{},]", re.DOTALL)
        for token in tokens.finditer(self.data, start, stop):
            byte = token[0]
            if byte == b"," and not depth:
                count += 1
            elif byte in b"[{":
                depth += 1
            elif byte in b"]}":
                depth -= 1
        return count


def too_deep_at(data: bytes, pos: int, depth: int) -> int | None:
    """Where brackets outside strings go too deep, in text that need not be JSON; counted on from a place.

    A closing bracket ends a level, whatever its kind; one that has nothing to close is passed over.
    """
    leaves = _compiled(g.LOOSE_LEAVES)
    flat = _compiled(g.LOOSE_FLAT)
    while True:
        skipped = (leaves if depth < g.MAX_DEPTH else flat).match(data, pos)
        assert skipped is not None
        pos = skipped.end()
        if pos == len(data):
            return None
        if data[pos] in b"[{":
            depth += 1
            if depth > g.MAX_DEPTH:
                return pos
        else:
            depth = max(depth - 1, 0)
        pos += 1


def _beyond_double(number: bytes) -> bool:
    return isinf(float(number)) and not number.removeprefix(b"-").isdigit()


def _cut(text: bytes) -> str:
    return text.decode() if len(text) <= 40 else text[:37].decode() + "…"


def _end(pattern: re.Pattern[bytes], data: bytes, pos: int) -> int:
    match = pattern.match(data, pos)
    return match.end() if match else pos


@cache
def _compiled(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern, re.DOTALL)


@cache
def _bite(is_object: bool, deep: bool) -> _Bite:
    """Takes all it can of an array or object: from its opening bracket on, or after one of its values.

    It ends behind the closing bracket, or behind the opening one of a value that is no small item, else behind a
    comma or white space where a token is needed. `deep` allows no brackets in items.
    """
    item = g.SCALAR if deep else g.ITEM
    if is_object:
        opening, close, name, count = rb"\{", rb"\}", g.NAME, b"{0,%d}+" % _MEMBERS
    else:
        opening, close, name, count = rb"\[", rb"\]", b"", b"*+"
    start = opening + g.SPACE + rb"|" + g.SPACE + rb"(?:," + g.SPACE + rb"(?!" + close + rb")|(?=" + close + rb"))"
    tail = rb"(?:" + close + rb"|" + name + rb"[\[{])?+"
    return re.compile(rb"(?:" + start + rb")" + g.items(name + item, close, count) + tail, re.DOTALL).match
