"""Mutants: valid documents with a few things done to them, and JSON texts with a few bytes gone wrong."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from tests.strategies import Grammar, Seeded

ENTRIES = ("conversation", "conversation", "conversation", "message", "task")
WORDS = (
    "text", "image", "reasoning", "tool_call", "tool_result", "system", "user", "assistant", "tool", "audio", "Text",
    "", "type", "role", "é", "text ", "\u0000",
)  # fmt: skip
KEYS = (
    "type", "role", "blocks", "text", "data", "mimeType", "mime_type", "id", "name", "input", "tool_call_id",
    "is_error", "isError", "signature", "detail", "conversation", "", "Type", "a/b", "~", "constructor", "__proto__",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 1.5, 0.0, 10**30, "", "x", "true", "null", [], {}, [[]], [{}], [None], {"a": 1},
    {"type": "text"}, {"type": "text", "text": "x"}, {"type": "text", "text": None}, {"type": None}, {"type": 1},
    {"role": "user", "blocks": []}, {"type": "tool_call", "id": "a", "name": "b", "input": {}},
    {"type": "reasoning", "text": "x"}, {"type": "tool_result", "tool_call_id": "a", "blocks": []},
)  # fmt: skip

Path = tuple[str | int, ...]


def document(seed: int | str, block_set: str = "v2") -> tuple[str, Any]:
    """A valid document of a seed, as (entry, value)."""
    choose = random.Random(f"{seed}:entry")
    conversation = Grammar(Seeded(f"{seed}:document"), spice=10, block_set=block_set).conversation()[:5]
    entry = choose.choice(ENTRIES)
    if entry == "message":
        return entry, conversation[0] if conversation else {"role": "user", "blocks": []}
    if entry == "task":
        return entry, {"id": seed, "conversation": conversation, "meta": {"type": "x", "role": 1}}
    return entry, conversation


def mutant(seed: int | str, block_set: str = "v2") -> tuple[str, Any]:
    """A document of a seed after one to three mutations: often not valid any more, sometimes still."""
    entry, value = document(seed, block_set)
    choose = random.Random(f"{seed}:mutations")
    for _ in range(choose.choice((1, 1, 1, 2, 3))):
        value = mutate(choose, value)
    return entry, value


def mutate(choose: random.Random, value: Any) -> Any:
    """One mutation at one place; the value itself is left alone."""
    holder = {"": copy.deepcopy(value)}  # so that the root has a place of its own
    places = list(_places(holder))
    for _ in range(20):
        path = choose.choice(places)
        if choose.choice(_MUTATIONS)(choose, holder, path, places):
            break
    return holder.get("", value)


def _places(value: Any, path: Path = ()) -> Iterator[Path]:
    """The path of everything inside, leaving out most of what lies in free objects."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*path, key)
        if key not in ("detail", "input", "meta"):
            yield from _places(item, (*path, key))


def _at(holder: Any, path: Path) -> Any:
    for key in path:
        holder = holder[key]
    return holder


# Each takes (choose, holder, path, places), changes the holder, and says whether it did anything.


def _replace(choose: random.Random, holder: Any, path: Path, places: list[Path]) -> bool:
    _at(holder, path[:-1])[path[-1]] = copy.deepcopy(choose.choice(VALUES))
    return True


def _word(choose: random.Random, holder: Any, path: Path, places: list[Path]) -> bool:
    if path[-1] not in ("type", "role", "mimeType", "text", "id"):
        return False
    _at(holder, path[:-1])[path[-1]] = choose.choice(WORDS)
    return True


def _role(choose: random.Random, holder: Any, path: Path, places: list[Path]) -> bool:
    """A turn of another role, which most often may not hold the same blocks."""
    turn = _at(holder, path)
    if not isinstance(turn, dict) or "role" not in turn:
        return False
    turn["role"] = choose.choice(("system", "user", "assistant"))
    return True


def _remove(choose: random.Random, holder: Any, path: Path, places: list[Path]) -> bool:
    if path == ("",):
        return False
    del _at(holder, path[:-1])[path[-1]]
    return True


def _rename(choose: random.Random, holder: Any, path: Path, places: list[Path]) -> bool:
    owner = _at(holder, path[:-1])
    if path == ("",) or not isinstance(owner, dict):
        return False
    renamed = [(choose.choice(KEYS) if key == path[-1] else key, item) for key, item in owner.items()]
    owner.clear()
    owner.update(renamed)
    return True


def _add(choose: random.Random, holder: Any, path: Path, places: list[Path]) -> bool:
    owner = _at(holder, path)
    if not isinstance(owner, dict):
        return False
    owner[choose.choice(KEYS)] = copy.deepcopy(choose.choice(VALUES))
    return True


def _insert(choose: random.Random, holder: Any, path: Path, places: list[Path]) -> bool:
    owner = _at(holder, path)
    if not isinstance(owner, list):
        return False
    owner.insert(choose.randint(0, len(owner)), copy.deepcopy(choose.choice(VALUES)))
    return True


def _copy_elsewhere(choose: random.Random, holder: Any, path: Path, places: list[Path]) -> bool:
    """A part of the document in place of another: blocks in other turns, messages in blocks, and so on."""
    other = choose.choice(places)
    _at(holder, path[:-1])[path[-1]] = copy.deepcopy(_at(holder, other))
    return True


def _swap(choose: random.Random, holder: Any, path: Path, places: list[Path]) -> bool:
    other = choose.choice(places)
    shared = min(len(path), len(other))
    if path[:shared] == other[:shared]:
        return False
    one, two = _at(holder, path), _at(holder, other)
    _at(holder, path[:-1])[path[-1]], _at(holder, other[:-1])[other[-1]] = two, one
    return True


def _wrap(choose: random.Random, holder: Any, path: Path, places: list[Path]) -> bool:
    value = _at(holder, path)
    wrapped = ([value], {choose.choice(KEYS): value}, json.dumps(value))
    _at(holder, path[:-1])[path[-1]] = choose.choice(wrapped)
    return True


def _unwrap(choose: random.Random, holder: Any, path: Path, places: list[Path]) -> bool:
    value = _at(holder, path)
    if not isinstance(value, list | dict) or not value:
        return False
    inside = list(value.values() if isinstance(value, dict) else value)
    _at(holder, path[:-1])[path[-1]] = choose.choice(inside)
    return True


def _double(choose: random.Random, holder: Any, path: Path, places: list[Path]) -> bool:
    owner = _at(holder, path[:-1])
    if not isinstance(owner, list):
        return False
    owner.insert(int(path[-1]), copy.deepcopy(owner[int(path[-1])]))
    return True


_MUTATIONS: tuple[Callable[[random.Random, Any, Path, list[Path]], bool], ...] = (
    _replace, _replace, _word, _word, _role, _role, _remove, _remove, _rename, _add, _insert, _copy_elsewhere, _swap,
    _wrap, _unwrap, _double,
)  # fmt: skip


# --- Text --------------------------------------------------------------------------------------------------

BITS = (
    b"", b" ", b",", b":", b'"', b"\\", b"{", b"}", b"[", b"]", b"NaN", b"-", b"1e400", b"Infinity", b"-0", b"01",
    b"\x00", b"\xff", b"\xed\xa0\x80", b"\\ud800", b"\\udc00", b"\\u0000", b"\n", b"\t", b"'", b"//", b"1.", b"+1",
    b"\xef\xbb\xbf", b'"a":1,"a":2,', b"[" * 130, b"tru", b"1e309", b"1e-400", b"\xc0\x80", b"\xf4\x90\x80\x80",
    b"\xc2\x85",
)  # fmt: skip


def garbled(seed: int | str) -> bytes:
    """JSON text of a document of a seed, most often damaged."""
    _, value = document(seed)
    choose = random.Random(f"{seed}:text")
    text = json.dumps(value, ensure_ascii=choose.random() < 0.5, indent=choose.choice((None, None, 1))).encode()
    for _ in range(choose.choice((0, 1, 1, 1, 2))):
        start = choose.randint(0, len(text))
        text = text[:start] + choose.choice(BITS) + text[start + choose.choice((0, 0, 1, 3)) :]
    if choose.random() < 0.2:
        text = _repeated_key(choose, text)
    return text[: choose.randint(0, len(text))] if choose.random() < 0.05 else text


def _repeated_key(choose: random.Random, text: bytes) -> bytes:
    """One more member with a key that is there somewhere, sometimes in the same object."""
    keys = [place for place in range(len(text)) if text[place : place + 3] in (b'": ', b'":[', b'":{')]
    if not keys:
        return text
    end = choose.choice(keys)
    start = text.rfind(b'"', 0, end)
    return text[:start] + text[start:end] + b'": null, ' + text[start:]
