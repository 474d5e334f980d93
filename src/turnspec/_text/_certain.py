"""Cheap proofs that JSON text which msgspec has read has no fault: no key twice, and no depth beyond the limit.

msgspec refuses all that is no JSON in what it decodes (not in what it skips), but lets the last of two equal keys
win, and knows no limit of depth. The proofs here rest on one fact: text has one colon for each member of an object,
and those inside its strings. So when a decoded value is encoded again, and the new text has as many colons as the
old one, no member was dropped, whatever white space, order of keys or escapes the old text has. What could hide a
colon is only its escape, \\u003a; text with such escapes is never certain. "Not certain" is no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, get_args, get_type_hints

import msgspec

from ._grammar import MAX_DEPTH

_ABSENT: Any = object()
_ENCODE = msgspec.json.Encoder().encode
_DECODE = msgspec.json.Decoder().decode
_LEVELS = 8  # the time to make the decoder doubles with each


@cache
def _decode_shallow() -> Callable[[bytes], Any]:
    """Decodes JSON of a few levels as quickly as any, and refuses what is deeper: that spares a look at the depth."""
    scalar: Any = str | int | float | bool | None
    value = scalar
    for _ in range(_LEVELS):
        value = scalar | list[value] | dict[str, value]  # type: ignore[valid-type]
    return msgspec.json.Decoder(value).decode


def certain(data: bytes, encoded: bytes, decoded: Any = _ABSENT, *, shallow: bool = False) -> bool:
    """Whether text that msgspec has decoded has certainly no fault; False means that it must be looked at.

    `encoded` is what `msgspec.json.encode` gives for the decoded value. For the proof to hold all of the text must
    have been decoded, and nothing else: no unknown fields that were skipped, no `Raw`, no default but `UNSET`, no tag
    that the text may lack, no type but those of JSON. `decoded`, the value itself, makes the look at its depth
    cheaper; `shallow` says that the types allow no depth beyond the limit.
    """
    if data != encoded and (data.count(b":") != encoded.count(b":") or _hides_colons(data)):
        return False
    if shallow:
        return True
    if decoded is _ABSENT:
        try:
            _decode_shallow()(encoded)
            return True
        except msgspec.ValidationError:
            decoded = _DECODE(encoded)
    return max_depth_at_most(decoded, MAX_DEPTH)


def _hides_colons(data: bytes) -> bool:
    # The shorter search is the one that most texts need; some writers escape "<" as \\u003c.
    return rb"\u003" in data and (rb"\u003a" in data or rb"\u003A" in data)


def certain_object(data: bytes) -> bool:
    """Whether text is certainly JSON without any fault, of any shape; False means that it must be looked at."""
    try:
        try:
            return certain(data, _ENCODE(_decode_shallow()(data)), shallow=True)
        except msgspec.ValidationError:
            value = _DECODE(data)
            return certain(data, _ENCODE(value), value)
    except (msgspec.MsgspecError, OverflowError, RecursionError, UnicodeError):
        return False


def certain_keys(data: bytes, members: Mapping[str, msgspec.Raw]) -> bool:
    """Whether the text of an object, decoded as `dict[str, Raw]`, has certainly no key twice, not counting inside.

    What the members hold is not judged: that is for `certain` and `certain_object`.
    """
    pieces = {_ENCODE(name): bytes(raw) for name, raw in members.items()}
    for comma, colon in ((b", ", b": "), (b",", b":")):
        if data == b"{" + comma.join(name + colon + piece for name, piece in pieces.items()) + b"}":
            return True
    if any(b":" in name for name in pieces):
        return False
    return data.count(b":") == len(pieces) + sum(piece.count(b":") for piece in pieces.values())


def max_depth_at_most(value: Any, limit: int) -> bool:
    """Whether dicts, lists and structs are nested at most so many levels; a scalar has none. Never recurses."""
    level = [value]
    for _ in range(limit):
        inner: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is list or kind is tuple:
                inner += item
            elif kind is dict:
                inner += [one for one in item.values() if type(one) not in _SCALARS]
            elif kind not in _SCALARS:
                for field in _FIELDS.get(kind) or _fields(kind):
                    one = getattr(item, field)
                    if one is not msgspec.UNSET:
                        inner.append(one)
        if not inner:
            return True
        level = inner
    return all(type(item) in _SCALARS for item in level)


_SCALARS = frozenset({str, int, float, bool, type(None), msgspec.UnsetType})
_FIELDS: dict[type, tuple[str, ...]] = {}


def _fields(kind: type) -> tuple[str, ...]:
    """The fields of a struct that may hold more than a scalar."""
    found: tuple[str, ...] = ()
    if issubclass(kind, msgspec.Struct):
        hints = get_type_hints(kind)
        found = tuple(
            name
            for name in kind.__struct_fields__
            if any(one not in _SCALARS for one in get_args(hints[name]) or (hints[name],))
        )
    _FIELDS[kind] = found
    return found
