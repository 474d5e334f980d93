"""Validation and reading: a fast pass decides, the explainer tells everything about what failed.

Documents are JSON text (bytes or str), Python values, `Message` models or structs. An entry is "message",
"conversation", "task", "tasks" (a list of tasks) or "auto", which looks at the document.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from typing import Any

import msgspec

from turnspec_generated import exact, structs
from turnspec_generated.names import CONVERSATION_KEY, CURRENT, RELEASED

from ._errors import Problem, ValidationError
from ._text._grammar import MAX_DEPTH

ENTRIES = ("auto", "message", "conversation", "task", "tasks")
KEY = (CONVERSATION_KEY,)

_ANYTHING: msgspec.json.Decoder[Any] = msgspec.json.Decoder()
Key = tuple[str, ...]
Text = bytes | bytearray | memoryview | str


def validate(document: Any, *, entry: str = "auto", block_set: str | None = None) -> None:
    """Raise `ValidationError` with all errors of the document, in canonical order, unless it is valid."""
    errors = list(iter_errors(document, entry=entry, block_set=block_set))
    if errors:
        raise ValidationError(errors)


def iter_errors(document: Any, *, entry: str = "auto", block_set: str | None = None) -> Iterator[Problem]:
    """All errors of a document in canonical order; those of JSON text have line and column.

    `block_set` is the name of a released set, None the newest. Raises `ValueError` for other names.
    """
    block_set = _checked(entry, block_set)
    if isinstance(document, bytes | bytearray | memoryview | str):
        data = _as_bytes(document)
        yield from [] if quick(data, entry, block_set) else check_text(data, entry, block_set)
    elif isinstance(document, PathLike):
        raise TypeError(
            f"a document is JSON text or a Python value, not {type(document).__name__}; {_instead(document)}"
        )
    else:
        yield from _check_value(document, entry, block_set)


def loads(data: Text, *, entry: str = "auto", block_set: str | None = None) -> list[structs.Message]:
    """Read JSON text into immutable typed messages; a task gives its conversation, a message a list of one.

    The fast read: as every JSON parser it lets the last of two equal keys win. Raises `ValidationError` with all
    errors, and `ValueError` where the text holds a list of tasks.
    """
    if not isinstance(data, Text):
        raise TypeError(f"loads reads JSON text or bytes, not {type(data).__name__}; {_instead(data)}")
    if entry == "auto" and block_set is None:
        try:
            return _read(data)
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            pass
    block_set = _checked(entry, block_set)
    data = _as_bytes(data)
    found = load_document(data, entry, block_set)
    if len(found) > 1 or (found and "/" in found[0][0].removeprefix("/" + CONVERSATION_KEY)):
        raise ValueError("the text holds a list of tasks; read each task on its own")
    return found[0][1] if found else []


def dumps(messages: Any) -> str:
    """JSON text of messages in the wire shape, compact: a list, or one message. Models, structs and dicts alike.

    Raises `ValueError` for NaN, Infinity and halves of surrogate pairs, `TypeError` for what is no message.
    """
    from ._read import as_list, to_wire
    from ._text import dumps_exact
    from ._values import json_fault

    single = isinstance(messages, dict) or (hasattr(messages, "role") and hasattr(messages, "blocks"))
    wire = to_wire(messages) if single else [to_wire(item) for item in as_list(messages)]
    fault = json_fault(wire)
    if fault:
        raise ValueError(f"no JSON text can hold this: {fault}")
    text = dumps_exact(wire, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("a string holds half of a surrogate pair, which has no UTF-8 encoding") from None
    return text


# --- what the command line and the protocol build on ---


def quick(data: bytes, entry: str = "auto", block_set: str | None = None, key: Key = KEY) -> bool:
    """Whether JSON text is certainly valid; False means that `check_text` has to look."""
    name = block_set or CURRENT
    try:
        if entry == "auto":
            entry = _entry_of_text(data, key)
        if entry == "conversation":
            return _certain(data, exact.CONVERSATION[name], 0)
        if entry == "message":
            return _certain(data, exact.MESSAGE[name], 0)
        if entry == "task":
            return _quick_task(data, name, key, 0)
        tasks = msgspec.json.decode(data, type=list[msgspec.Raw])
        return all(_quick_task(bytes(task), name, key, 1) for task in tasks)
    except (msgspec.MsgspecError, OverflowError, RecursionError, UnicodeError):
        return False


def _certain(data: bytes, decoder: msgspec.json.Decoder[Any], depth: int) -> bool:
    """Whether text that lies so many levels deep is valid, has no key twice and is not too deep."""
    from ._text import certain, max_depth_at_most

    decoded = decoder.decode(data)
    return certain(data, exact.encode(decoded), shallow=True) and max_depth_at_most(decoded, MAX_DEPTH - depth)


def _quick_task(data: bytes, block_set: str, key: Key, depth: int) -> bool:
    from ._text import certain_keys

    members = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    if key[0] not in members or not certain_keys(data, members):
        return False
    for name, raw in members.items():
        text = bytes(raw)
        if name != key[0]:
            fine = _certain(text, _ANYTHING, depth + 1)
        elif len(key) > 1:
            fine = _quick_task(text, block_set, key[1:], depth + 1)
        else:
            fine = _certain(text, exact.CONVERSATION[block_set], depth + 1)
        if not fine:
            return False
    return True


def check_text(data: bytes, entry: str = "auto", block_set: str | None = None, key: Key = KEY) -> list[Problem]:
    """All problems of JSON text, in canonical order, with line and column; [] if it is valid."""
    from . import _text

    fault = _text.fault(data)
    if fault is not None:
        return [fault]
    return _located(data, _explained(_text.parse(data, exact=False), entry, block_set or CURRENT, key))


def load_document(
    data: bytes, entry: str = "auto", block_set: str | None = None, key: Key = KEY
) -> list[tuple[str, list[structs.Message]]]:
    """The conversations of a document, each with the pointer at which it stands.

    A message gives one conversation of one message at "". Raises `ValidationError` with all errors.
    """
    from . import _text
    from ._explain import entry_of, pointer
    from ._read import to_structs

    fault = _text.fault(data)
    if fault is not None and fault.code != "duplicate_key":
        raise ValidationError([fault])
    document = _text.parse(data)
    errors = _located(data, _explained(document, entry, block_set or CURRENT, key))
    if errors:
        raise ValidationError(errors)
    kind = entry_of(document, key) if entry == "auto" else entry
    if kind == "message":
        return [("", to_structs([document]))]
    if kind == "conversation":
        return [("", to_structs(document))]
    tasks = [((), document)] if kind == "task" else [((index,), task) for index, task in enumerate(document)]
    found = []
    for place, task in tasks:
        for name in key:
            task = task[name]
        found.append((pointer((*place, *key)), to_structs(task)))
    return found


def rebase(pointer: str, prefix: str, single: bool) -> str:
    """A pointer into a conversation as one into its document; `single`: the document is the message itself."""
    if single:
        pointer = "/" + pointer.removeprefix("/").partition("/")[2] if pointer.count("/") > 1 else ""
    return prefix + pointer


def _check_value(document: Any, entry: str, block_set: str) -> Iterator[Problem]:
    from ._read import block_to_wire, to_wire

    if not isinstance(document, dict | list | str | int | float | None):
        document = list(document) if isinstance(document, tuple) else document
        if hasattr(document, "role"):
            document = to_wire(document)
    if isinstance(document, list):
        document = [to_wire(item) if _is_message(item) else item for item in document]
    elif isinstance(document, dict):
        conversation = document.get(CONVERSATION_KEY)
        if isinstance(conversation, list):
            document = {
                **document,
                CONVERSATION_KEY: [to_wire(item) if _is_message(item) else item for item in conversation],
            }
        document = block_to_wire(document)
    errors = _explained(document, entry, block_set, KEY)
    if not errors:
        from ._values import json_fault

        fault = json_fault(document)
        errors = [fault] if fault else []
    yield from errors


def _is_message(item: object) -> bool:
    return isinstance(item, dict) or (hasattr(item, "role") and hasattr(item, "blocks"))


def _explained(document: Any, entry: str, block_set: str, key: Key) -> list[Problem]:
    from ._explain import entry_of, explain

    return list(explain(document, entry_of(document, key) if entry == "auto" else entry, block_set, key))


def _located(data: bytes, problems: list[Problem]) -> list[Problem]:
    """The same problems with line and column in the text."""
    from dataclasses import replace

    from ._text import locate

    if not problems:
        return problems
    keys = frozenset(item.pointer for item in problems if item.code == "unknown_field")
    places = locate(data, {item.pointer for item in problems}, keys)
    return [replace(item, line=places[item.pointer][0], column=places[item.pointer][1]) for item in problems]


def _read(data: Text) -> list[structs.Message]:
    """The fast read. `msgspec.MsgspecError` where the text is not valid, or not what its first bytes promise."""
    start = data.lstrip()[:1] if isinstance(data, bytes | bytearray | str) else bytes(data[:64]).lstrip()[:1]
    if start in (b"[", "["):
        return structs.decode_conversation(data)
    if isinstance(data, bytes) and not data.isascii():
        data.decode()  # what a task holds beside its conversation is skipped, not read
    try:
        task: list[structs.Message] = getattr(structs.decode_task(data), CONVERSATION_KEY)
        return task
    except msgspec.ValidationError:
        return [structs.decode_message(data)]


def _entry_of_text(data: bytes, key: Key) -> str:
    """The entry of JSON text, as far as its outermost shape tells; a wrong guess only costs speed."""
    if data.lstrip()[:1] == b"[":
        name = msgspec.json.encode(key[0])
        if name not in data:  # where the key is escaped, the text is no valid conversation, and `check_text` looks
            return "conversation"
        items = msgspec.json.decode(data, type=list[msgspec.Raw])
        first = msgspec.json.decode(items[0], type=dict[str, msgspec.Raw]) if items else {}
        return "tasks" if key[0] in first else "conversation"
    members = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    return "message" if key[0] not in members and ("role" in members or "blocks" in members) else "task"


def _instead(value: object) -> str:
    """What to do with a value that is no text."""
    if isinstance(value, PathLike):
        return "read the file first, for example with Path.read_bytes()"
    return "messages that are read already go to convert_messages and its kin"


def _as_bytes(data: Text) -> bytes:
    if isinstance(data, str):
        return data.encode("utf-8", "surrogatepass")
    return data if isinstance(data, bytes) else bytes(data)


def _checked(entry: str, block_set: str | None) -> str:
    """The name of the block set; `ValueError` that names what is allowed."""
    for name, value, allowed in (
        ("entry", entry, ENTRIES),
        ("block_set", CURRENT if block_set is None else block_set, RELEASED),
    ):
        if value not in allowed:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")
    return block_set or CURRENT
