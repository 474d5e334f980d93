"""The keys of one object, to see which comes again, in little memory also for millions of them."""

from __future__ import annotations

import json
import re
from array import array

_IN_SET = 1 << 11
_read = json.JSONDecoder().raw_decode


def unescape(key: bytes) -> bytes:
    """The UTF-8 of a key from what stands between its quotes. Bytes that are not UTF-8 stay as they are."""
    if b"\\" not in key:
        return key
    text: str = _read('"' + key.decode("utf-8", "surrogateescape") + '"')[0]
    return text.encode("utf-8", "surrogateescape")


class Keys:
    """The keys of one object so far: a set of the first ones, a table of the places of all others.

    `member` matches a member of an object, `key` its key alone, with what stands between the quotes as group 1.
    """

    __slots__ = ("_count", "_data", "_key", "_member", "_places", "_set")

    def __init__(self, data: bytes, member: re.Pattern[bytes], key: re.Pattern[bytes]) -> None:
        self._data = data
        self._member = member
        self._key = key
        self._set: set[bytes] = set()
        # Open addressing by hash. 0 is a free slot: no key stands at the very start of a text.
        self._places = array("I" if len(data) < 1 << 32 else "Q")
        self._count = 0

    def add(self, names: list[bytes], start: int, end: int) -> int | None:
        """Add the keys (unescaped) of the members between two places; the place of the first that was there."""
        seen = self._set
        if len(seen) < _IN_SET:
            fresh = set(names)
            if len(fresh) == len(names) and seen.isdisjoint(fresh):
                seen |= fresh
                return None
        for match, name in zip(self._member.finditer(self._data, start, end), names, strict=True):
            if name in seen or not self._put(name, match.start()):
                return match.start()
        return None

    def _put(self, name: bytes, place: int) -> bool:
        """Enter a key at its place; False if the same key is there already."""
        if 2 * self._count >= len(self._places):
            self._grow()
        places = self._places
        mask = len(places) - 1
        slot = hash(name) & mask
        while places[slot]:
            if self._name_at(places[slot]) == name:
                return False
            slot = (slot + 1) & mask
        places[slot] = place
        self._count += 1
        return True

    def _grow(self) -> None:
        old = self._places
        mask = max(4 * len(old), 64) - 1
        places = array(old.typecode, bytes(old.itemsize * (mask + 1)))
        for place in old:
            if place:
                slot = hash(self._name_at(place)) & mask
                while places[slot]:
                    slot = (slot + 1) & mask
                places[slot] = place
        self._places = places

    def _name_at(self, place: int) -> bytes:
        key = self._key.match(self._data, place)
        return unescape(key[1]) if key else b""
