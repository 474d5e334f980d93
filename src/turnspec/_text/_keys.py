"""The keys of one object, to see which comes again, in little memory also for millions of them."""

from __future__ import annotations

import json
import re
from array import array

_IN_SET = 1 << 13
_read = json.JSONDecoder().raw_decode


def unescape(key: bytes) -> bytes:
    """The UTF-8 of a key from what stands between its quotes. Bytes that are not UTF-8 stay as they are."""
    if b"\\" not in key:
        return key
    text: str = _read('"' + key.decode("utf-8", "surrogateescape") + '"')[0]
    return text.encode("utf-8", "surrogateescape")


class Keys:
    """The keys of one object so far: a set of the first ones, a table of the places of all others.

    `pattern` matches a member at its key, with what stands between the quotes of the key as group 1.
    """

    __slots__ = ("_count", "_data", "_pattern", "_places", "_set")

    def __init__(self, data: bytes, pattern: re.Pattern[bytes]) -> None:
        self._data = data
        self._pattern = pattern
        self._set: set[bytes] = set()
        # Open addressing by hash. 0 is a free slot: no key stands at the very start of a text.
        self._places = array("Q")
        self._count = 0

    def add(self, names: list[bytes], start: int, end: int) -> int | None:
        """Add the keys (unescaped) of the members between two places; the place of the first that was there."""
        seen = self._set
        if len(seen) < _IN_SET:
            fresh = set(names)
            if len(fresh) == len(names) and seen.isdisjoint(fresh):
                seen |= fresh
                return None
        for match, name in zip(self._pattern.finditer(self._data, start, end), names, strict=True):
            if name in seen or not self._put(name, match.start()):
                return match.start()
        return None

    def _put(self, name: bytes, place: int) -> bool:
        """Enter a key at its place; False if the same key is there already."""
        if 2 * self._count >= len(self._places):
            self._grow()
        places, data, match = self._places, self._data, self._pattern.match
        mask = len(places) - 1
        slot = hash(name) & mask
        while places[slot]:
            there = match(data, places[slot])
            assert there is not None
            if unescape(there[1]) == name:
                return False
            slot = (slot + 1) & mask
        places[slot] = place
        self._count += 1
        return True

    def _grow(self) -> None:
        old = self._places
        mask = max(4 * len(old), 64) - 1
        places = array("Q", bytes(8 * (mask + 1)))
        for place in old:
            if place:
                there = self._pattern.match(self._data, place)
                assert there is not None
                slot = hash(unescape(there[1])) & mask
                while places[slot]:
                    slot = (slot + 1) & mask
                places[slot] = place
        self._places = places
