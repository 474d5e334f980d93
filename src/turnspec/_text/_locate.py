"""Lines and columns of the values that JSON pointers name."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache

from . import _grammar as g
from ._keys import unescape
from ._position import positions


def locate(data: bytes, pointers: Collection[str], keys: Collection[str] = frozenset()) -> dict[str, tuple[int, int]]:
    """The (line, column) of the value at each pointer, from 1, columns in characters; one pass over the text.

    An array or object stands at its opening bracket. A pointer that is in `keys` gets the place of the object's
    key instead of its value. A pointer to nothing gets the place of the nearest value around it. Where a key comes
    again the last one counts. `data` is JSON text (`fault` found no `invalid_json`); in other text the search ends
    at the first error.
    """
    root = _Wanted()
    chains = {pointer: _chain(root, pointer) for pointer in pointers}
    _find(data, root)
    places: dict[str, int] = {}
    for pointer, chain in chains.items():
        found = [node for node in chain if node.value >= 0]
        whole = len(found) == len(chain)
        last = found[-1] if found else root
        places[pointer] = last.key if whole and pointer in keys and last.key >= 0 else max(last.value, 0)
    lines = positions(data, places.values())
    return {pointer: lines[place] for pointer, place in places.items()}


class _Wanted:
    """A value that is asked for, or on the way to one: its place and that of its key, -1 while unknown."""

    __slots__ = ("inner", "key", "last", "value")

    def __init__(self) -> None:
        self.inner: dict[bytes, _Wanted] = {}
        self.last = -1  # the highest array index that is wanted inside
        self.key = self.value = -1

    def forget(self) -> None:
        """Unlearn all places, here and inside: the key comes again, with another value."""
        nodes = [self]
        while nodes:
            node = nodes.pop()
            if node.value >= 0:
                node.key = node.value = -1
                nodes += node.inner.values()


def _chain(root: _Wanted, pointer: str) -> list[_Wanted]:
    """The values from the root to the one at a pointer."""
    chain = [root]
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~").encode("utf-8", "surrogatepass")
        node = chain[-1]
        if name.isdigit() and len(name) < 19:
            node.last = max(node.last, int(name))
        chain.append(node.inner.setdefault(name, _Wanted()))
    return chain


class _Open:
    """An array or object on the way to what is wanted; `index` counts its values."""

    __slots__ = ("index", "is_object", "wanted")

    def __init__(self, wanted: _Wanted, is_object: bool) -> None:
        self.wanted = wanted
        self.is_object = is_object
        self.index = -1

    def done(self) -> bool:
        return not self.is_object and self.index >= self.wanted.last


def _find(data: bytes, root: _Wanted) -> None:
    """Set the places of all that is wanted. Objects are read to their end, for a key may come again."""
    between = _compiled(rb"[ \t\n\r,]*+").match
    key_of = _compiled(rb'"(' + g.CONTENT + rb')"' + g.SPACE + rb":" + g.SPACE).match
    stack: list[_Open] = []
    wanted: _Wanted | None = root
    name, key = b"", -1
    pos = between(data, 0).end()  # type: ignore[union-attr]
    while True:
        # A value stands at pos.
        byte = data[pos : pos + 1]
        if wanted is not None:
            wanted.forget()
            wanted.key, wanted.value = key, pos
        if wanted is not None and wanted.inner and byte in (b"{", b"["):
            stack.append(_Open(wanted, byte == b"{"))
            pos += 1
        else:
            end = _skip(data, pos, 0)
            if end == pos:
                return
            pos = end
        # Go on to the next value that may be of interest, through the ends of arrays and objects.
        while True:
            if all(level.done() for level in reversed(stack)):
                return
            top = stack[-1]
            pos = between(data, pos).end()  # type: ignore[union-attr]
            if top.done() or data[pos : pos + 1] in (b"]", b"}"):
                pos = _skip(data, pos, 1)
                stack.pop()
                continue
            break
        top.index += 1
        if top.is_object:
            member = key_of(data, pos)
            if member is None:
                return
            name, key, pos = unescape(member[1]), pos, member.end()
        else:
            name, key = b"%d" % top.index, -1
        wanted = top.wanted.inner.get(name)


def _skip(data: bytes, pos: int, depth: int) -> int:
    """The end of the value at a place; with `depth` 1 the end of the array or object that holds the place."""
    if not depth and data[pos : pos + 1] not in (b"{", b"["):
        scalar = _compiled(g.LOOSE_STRING + rb"|[^ \t\n\r,\]}]*+").match(data, pos)
        return scalar.end() if scalar else pos
    leaves = _compiled(g.LOOSE_LEAVES)
    flat = _compiled(g.LOOSE_FLAT)
    while pos < len(data):
        # Right at its own bracket a value may not be taken as a leaf and more behind it.
        skipped = (leaves if depth else flat).match(data, pos)
        pos = skipped.end() if skipped else pos
        if pos == len(data):
            return pos
        depth += 1 if data[pos] in b"[{" else -1
        pos += 1
        if depth <= 0:
            return pos
    return pos


@cache
def _compiled(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern, re.DOTALL)
