"""Whatever a caller holds - structs, models, wire dicts - as structs, validated; and back to its own kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import msgspec

from turnspec_generated import structs
from turnspec_generated.names import CURRENT
from turnspec_generated.tables import MESSAGE, SETS

from ._errors import ValidationError
from ._explain import explain
from ._values import json_fault

_STRUCTS = set(structs.MESSAGES)
_FIELDS = SETS[CURRENT].blocks


def to_structs(messages: Iterable[Any]) -> list[Any]:
    """The conversation as structs; structs pass as they are.

    Raises `ValidationError` for wire dicts that are not valid, `TypeError` for anything else.
    """
    items = as_list(messages)
    if set(map(type, items)) <= _STRUCTS:
        return items
    wire = [item if type(item) in _STRUCTS or isinstance(item, dict) else to_wire(item) for item in items]
    try:
        read = structs.from_wire(wire)
        _check_free(read)
        return read
    except (msgspec.ValidationError, RecursionError, UnicodeError) as problem:
        wire = [to_wire(item) for item in items]
        errors = list(explain(wire, "conversation", CURRENT))
        fault = None if errors else json_fault(wire)
        if fault:
            errors = [fault]
        if errors:
            raise ValidationError(errors) from None
        with suppress(msgspec.MsgspecError):  # subclasses of str and their like
            return structs.decode_conversation(json.dumps(wire))
        raise ValueError(f"the messages cannot be read: {problem}") from None


def _check_free(messages: list[Any]) -> None:
    """Refuse what is no JSON in the free-form objects that a conversion sends; structs of text cannot hold it."""
    for index, message in enumerate(messages):
        for place, block in enumerate(message.blocks):
            name = structs.SENT_OBJECTS.get(type(block))
            fault = name and json_fault(getattr(block, name), (index, "blocks", place, name))
            if fault:
                raise ValidationError([fault])


def sendable(messages: list[Any]) -> bool:
    """Whether every string of the structs has an encoding; what `loads` read from JSON text always has."""
    try:
        structs.encode(messages)
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError):
        return False
    return True


def as_list(messages: Iterable[Any]) -> list[Any]:
    """The messages as a list; a clear `TypeError` for what is no list of messages."""
    if isinstance(messages, list):
        return messages
    if isinstance(messages, str | bytes | bytearray | memoryview):
        raise TypeError("messages must be a list of messages, not JSON text; read it with turnspec.loads first")
    if isinstance(messages, dict):
        hint = "; pass its `conversation`" if "conversation" in messages else "; wrap it in a list"
        raise TypeError(f"messages must be a list of messages, not one object{hint}")
    if hasattr(messages, "role") and hasattr(messages, "blocks"):
        raise TypeError("messages must be a list of messages, not one message; wrap it in a list")
    try:
        return list(messages)
    except TypeError:
        raise TypeError(f"messages must be a list of messages, not {type(messages).__name__}") from None


def to_wire(message: Any) -> dict[str, Any]:
    """The wire shape of one message: a struct, a model, a dict, or any object with `role` and `blocks`."""
    if isinstance(message, dict):
        blocks = message.get("blocks")
        if isinstance(blocks, list | tuple):
            return {**message, "blocks": [block_to_wire(block) for block in blocks]}
        return message
    if hasattr(message, "to_wire"):
        try:
            return dict(message.to_wire())
        except AttributeError as problem:
            raise TypeError(f"a message holds something that is no block: {problem}") from None
    if not (hasattr(message, "role") and hasattr(message, "blocks")):
        raise TypeError(
            f"a message is a turnspec.Message, a struct of turnspec.loads or a dict, not {type(message).__name__}"
        )
    return _attributes(message, "role", message.role, MESSAGE)


def block_to_wire(block: Any) -> Any:
    """The wire shape of one block; what is no block at all passes as it is, for the explainer to name."""
    if isinstance(block, dict):
        blocks = block.get("blocks")
        if isinstance(blocks, list | tuple):
            return {**block, "blocks": [block_to_wire(inner) for inner in blocks]}
        return block
    if hasattr(block, "to_wire"):
        return block.to_wire()
    kind = getattr(block, "type", None)
    return _attributes(block, "type", kind, _FIELDS[kind]) if isinstance(kind, str) and kind in _FIELDS else block


def _attributes(value: Any, tag: str, name: Any, fields: dict[str, Any]) -> dict[str, Any]:
    wire: dict[str, Any] = {tag: name}
    for field in fields:
        item = getattr(value, field, None)
        if item is None and not fields[field].required:
            continue
        if isinstance(item, list | tuple) and (fields[field].container or tag == "role"):
            item = [block_to_wire(block) for block in item]
        wire[field] = item
    return wire


def own_kind(items: list[Any], read: list[Any]) -> list[Any]:
    """The caller's own messages where all are objects of blocks, so that blocks may pass as they are; else `read`."""
    if items and not any(isinstance(item, dict) for item in items) and len(set(map(type, items)) - _STRUCTS) <= 1:
        blocks = [block for item in items for block in item.blocks]
        if all(hasattr(block, "type") for block in blocks):
            return items
        if not any(isinstance(block, dict) for block in blocks):
            raise ValidationError(list(explain([to_wire(item) for item in items], "conversation", CURRENT)))
    return read


def maker(
    messages: list[Any],
) -> tuple[Callable[[str, dict[str, Any]], Any], Callable[[Any, list[Any]], Any]]:
    """How to build a text block, and a message with other blocks, of the kind that the caller uses."""
    first = messages[0] if messages else None
    if first is None or type(first) in _STRUCTS:
        return lambda text, detail: structs.TextBlock(text, detail), _replace_struct
    if isinstance(first, dict):
        return lambda text, detail: {"type": "text", "text": text, "detail": detail}, _replace_dict
    from turnspec_generated import models

    return lambda text, detail: models.TextBlock(text=text, detail=detail), _replace_model


def _replace_struct(message: Any, blocks: list[Any]) -> Any:
    return type(message)(blocks, message.detail)


def _replace_dict(message: Any, blocks: list[Any]) -> Any:
    return {**message, "blocks": blocks}


def _replace_model(message: Any, blocks: list[Any]) -> Any:
    from turnspec_generated import models

    return models.Message(role=message.role, blocks=blocks, detail=message.detail)
