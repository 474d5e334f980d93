"""Conversations to provider formats and plain text, to older block sets, and past unknown blocks.

All functions take `Message` models, the structs that `loads` gives and plain wire dicts alike, and change
none of them. The steps of a conversion are generated from `schema/formats/`.
"""

from __future__ import annotations

import base64
import importlib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, Literal, NamedTuple, TypeVar, overload

from turnspec_generated.codes import CODES, ORDER
from turnspec_generated.formats import EXACT_BYTES, MODULES, PAYLOAD, REQUEST, SAME_AS, UNSIGNED_CALLS
from turnspec_generated.names import (
    BLOCK_SETS,
    CURRENT,
    FORMATS,
    MESSAGE_BLOCK_TYPES,
    PURPOSES,
    RELEASED,
    UNADVERTISED,
)
from turnspec_generated.tables import FIELD_ORDER, FREE_FIELDS

from ._errors import ConversionError, ConversionWarning, Loss, Problem, ValidationError
from ._explain import explain, pointer
from ._read import as_list, maker, own_kind, sendable, to_structs, to_wire

Kind = TypeVar("Kind", bound=Problem)
ON_LOSS = ("warn", "raise", "ignore")


class Conversion(NamedTuple):
    """A payload, and every loss on the way to it, in canonical order."""

    payload: Any
    losses: list[Loss]


class Downgrade(NamedTuple):
    """The messages in the older block set, and what they lost."""

    messages: list[Any]
    losses: list[Loss]


class Skipped(NamedTuple):
    """A block that was skipped: where it stood, and its type."""

    pointer: str
    type: str


class Read(NamedTuple):
    """The messages without the blocks of unknown types, and what was skipped."""

    messages: list[Any]
    skipped: list[Skipped]


@overload
def convert_messages(
    messages: Iterable[Any], format: None = None, *, purpose: str = "request", on_loss: str = "warn"
) -> list[Any]: ...


@overload
def convert_messages(
    messages: Iterable[Any], format: Literal["openai", "openrouter"], *, purpose: str = "request", on_loss: str = "warn"
) -> list[dict[str, Any]]: ...


@overload
def convert_messages(
    messages: Iterable[Any], format: Literal["anthropic", "google"], *, purpose: str = "request", on_loss: str = "warn"
) -> dict[str, Any]: ...


@overload
def convert_messages(
    messages: Iterable[Any], format: str | None, *, purpose: str = "request", on_loss: str = "warn"
) -> Any: ...


def convert_messages(
    messages: Iterable[Any], format: str | None = None, *, purpose: str = "request", on_loss: str = "warn"
) -> Any:
    """Convert a conversation to the payload of a provider format.

    `format`: None (the messages as they are), "openai" or "openrouter" (a list of chat messages), "anthropic"
    (`{"system", "messages"}`) or "google" (`{"system_instruction", "contents"}`). With `purpose="training"` calls
    at the very end may be open and the last turn may be the assistant's. `on_loss` says what happens to a loss
    of severity "warning": "warn" (a `ConversionWarning`), "raise" or "ignore".

    Raises `ConversionError` where content would disappear or the provider would refuse the request,
    `ValidationError` for messages that are not valid; both are `ValueError`s.
    """
    if purpose not in PURPOSES or on_loss not in ON_LOSS:
        check_choice("purpose", purpose, PURPOSES)
        check_choice("on_loss", on_loss, ON_LOSS)
    messages = as_list(messages)
    items = to_structs(messages)
    if format is None:
        return list(messages)
    module = _module(format)
    lost: list[Any] = []
    payload = None
    if items is messages or sendable(items):
        try:
            payload = module.fast(items, purpose == "training", lost)
        except (AttributeError, TypeError, ValueError, RecursionError):
            lost = []  # `full` says what is wrong
    if payload is None:
        payload, losses, problems = convert_report(items, format, purpose)
        if problems:
            raise ConversionError(problems, format)
    elif not lost or on_loss == "ignore":
        return payload
    else:
        losses = _losses(lost)
    told = [loss for loss in losses if loss.severity == "warning"] if on_loss != "ignore" else []
    if told and on_loss == "raise":
        raise ConversionError(list[Problem](told), format)
    for loss in told:
        warnings.warn(ConversionWarning(loss), stacklevel=2)
    return payload


def convert_with_report(messages: Iterable[Any], format: str | None, *, purpose: str = "request") -> Conversion:
    """Convert as `convert_messages` does, and give every loss, info included, instead of warning."""
    check_choice("purpose", purpose, PURPOSES)
    if format is None:
        messages = as_list(messages)
        to_structs(messages)
        return Conversion(list(messages), [])
    payload, losses, problems = convert_report(to_structs(messages), format, purpose)
    if problems:
        raise ConversionError(problems, format)
    return Conversion(payload, losses)


def convert_report(items: list[Any], format: str, purpose: str = "request") -> tuple[Any, list[Loss], list[Problem]]:
    """(payload, losses, problems) of a conversation of structs; with a problem the payload is None."""
    from turnspec_generated.steps import Report

    module = _module(format)
    report = Report()
    try:
        payload = module.full(items, purpose == "training", report)
    except (AttributeError, TypeError, ValueError, RecursionError) as problem:
        raise _unreadable(items, problem) from None
    problems = [_record(Problem, found) for found in sorted(report.problems, key=_canonical)]
    return None if problems else payload, _losses(report.losses), problems


def request_arguments(payload: Any, format: str, *, unsigned_calls: str = "as_is") -> dict[str, Any]:
    """Keyword arguments that the official client takes as they are.

    openai: `client.chat.completions.create(model=…, **arguments)`; anthropic: `client.messages.create(…)`;
    google: `client.models.generate_content(…)`. What is null in the payload is absent. For google
    `unsigned_calls="sentinel"` marks the first call of each model turn of the current turn with the value that
    Google documents for histories that no Gemini model made; it costs reasoning quality, so it is not the default.
    """
    check_choice("format", format, FORMATS)
    check_choice("unsigned_calls", unsigned_calls, ("as_is", "sentinel"))
    name = SAME_AS.get(format, format)
    keys = PAYLOAD[name]
    parts: dict[str, Any] = {"payload": payload}
    if keys is not None:
        if not isinstance(payload, dict) or set(payload) != set(keys.values()):
            raise ValueError(f"a payload of {format} is an object with {' and '.join(keys.values())}")
        parts = {part: payload[key] for part, key in keys.items()}
    if not isinstance(parts["messages" if keys else "payload"], list):
        raise ValueError(f"a payload of {format} has a list of messages")
    if name in EXACT_BYTES:
        parts["messages"] = [_exact(content, **EXACT_BYTES[name]) for content in parts["messages"]]
    if unsigned_calls == "sentinel" and name in UNSIGNED_CALLS:
        parts["messages"] = _sign(parts["messages"], **UNSIGNED_CALLS[name])
    return _arguments(REQUEST[name], parts)


def _arguments(wanted: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for key, part in wanted.items():
        value = _arguments(part, parts) if isinstance(part, dict) else parts[part]
        if not (key.endswith("?") and (value is None or value == {})):
            found[key.removesuffix("?")] = value
    return found


def _exact(content: Any, part: str, field: str) -> Any:
    """The same content, its base64 without stray bits in the last character; the bytes stay what they are."""
    if not any(part in item and _stray(item[part][field]) for item in content["parts"]):
        return content
    mended = [
        {**item, part: {**item[part], field: item[part][field][:-4] + _last(item[part][field])}}
        if part in item
        else item
        for item in content["parts"]
    ]
    return {**content, "parts": mended}


def _stray(data: str) -> bool:
    return data.endswith("=") and _last(data) != data[-4:]


def _last(data: str) -> str:
    return base64.b64encode(base64.b64decode(data[-4:])).decode()


def _sign(contents: list[Any], part: str, field: str, sentinel: str, response: str) -> list[Any]:
    asks = [
        index
        for index, content in enumerate(contents)
        if content["role"] == "user" and any(response not in item for item in content["parts"])
    ]
    signed = list(contents)
    for index in range(asks[-1] + 1 if asks else 0, len(contents)):
        parts = list(contents[index]["parts"])
        first = next((place for place, item in enumerate(parts) if part in item), None)
        if first is not None and field not in parts[first]:
            parts[first] = {**parts[first], field: sentinel}
            signed[index] = {**contents[index], "parts": parts}
    return signed


def flatten_messages(messages: Iterable[Any]) -> list[Any]:
    """The conversation as plain text and image blocks, for consumers of `/prompt`.

    One user turn of plain blocks comes out as it is; everything else gets a `[role]` header before each turn and
    its rich blocks rendered as text. The blocks are of the caller's kind: models, structs or dicts.
    """
    from turnspec_generated.flatten import flatten

    items = as_list(messages)
    read = to_structs(items)
    source = own_kind(items, read)
    try:
        blocks = flatten(source, maker(source)[0])
    except (AttributeError, TypeError, ValueError, RecursionError) as problem:
        raise _unreadable(read, problem) from None
    wanted = bool(items) and isinstance(items[0], dict)
    return [block.to_wire() for block in blocks] if wanted else blocks


def downgrade_messages(messages: Iterable[Any], to: str = UNADVERTISED) -> Downgrade:
    """The same turns in an older block set: each block that it lacks becomes the text that flatten gives it."""
    from turnspec_generated.flatten import AS_IS, render

    check_choice("to", to, RELEASED)
    items = as_list(messages)
    read = to_structs(items)
    source = own_kind(items, read)
    make, replace = maker(source)
    known = frozenset(BLOCK_SETS[to])
    out: list[Any] = []
    losses: list[Any] = []
    problems: list[Any] = []
    for index, message in enumerate(source):
        blocks: list[Any] = []
        for place, block in enumerate(message.blocks):
            path = (index, "blocks", place)
            problems += [
                ("unknown_block_type", (*where, "type"), f"{kind} in block set {to}", tuple(BLOCK_SETS[to]))
                for where, kind in _unsayable(block, path, known)
            ]
            if block.type in known:
                blocks.append(block)
            elif block.type not in AS_IS:
                try:
                    rendered = render(block, make)
                except (AttributeError, TypeError, ValueError, RecursionError) as problem:
                    raise _unreadable(read, problem) from None
                losses.append(("rendered_as_text", path, block.type, ()))
                if block.detail is not None:
                    losses.append(("detail_dropped", (*path, "detail"), "", ()))
                blocks += rendered
        out.append(message if len(blocks) == len(message.blocks) and not losses else replace(message, blocks))
    if problems:
        raise ConversionError([_record(Problem, found) for found in problems], to)
    if items and isinstance(items[0], dict):
        out = [message.to_wire() for message in out]
    return Downgrade(out, _losses(losses))


def _unsayable(block: Any, path: tuple[str | int, ...], known: frozenset[str]) -> Iterator[tuple[Any, str]]:
    """(path, type) of the block, and of those in it, that an older set lacks and no text stands for."""
    from turnspec_generated.flatten import AS_IS

    if block.type in AS_IS and block.type not in known:
        yield path, block.type
    for index, inner in enumerate(getattr(block, "blocks", ())):
        yield from _unsayable(inner, (*path, "blocks", index), known)


def skip_unknown_blocks(messages: Iterable[Any], known: Sequence[str] | None = None) -> Read:
    """Leave out the blocks of types that the reader does not know, and tell which and where.

    `messages` are wire dicts, as a newer server may send them; `known` are the reader's block types (default: all
    that this version knows). What remains is validated: `ValidationError`, its pointers counted in `messages`.
    """
    if isinstance(known, str):
        raise TypeError("known must be a list of block types, not a string")
    types = frozenset(MESSAGE_BLOCK_TYPES if known is None else known)
    items = as_list(messages)
    skipped: list[Skipped] = []
    kept = [_skip(item, (index,), types, skipped) for index, item in enumerate(items)]
    if any(isinstance(item, dict) for item in kept):
        gone = tuple(item.pointer for item in skipped)
        try:
            to_structs(kept)
        except ValidationError as error:
            errors = explain([to_wire(item) for item in items], "conversation", CURRENT)
            rest = [error for error in errors if not any(f"{error.pointer}/".startswith(f"{path}/") for path in gone)]
            raise (ValidationError(rest) if rest else error) from None
    return Read(kept, skipped)


def _skip(value: Any, path: tuple[str | int, ...], types: frozenset[str], skipped: list[Skipped]) -> Any:
    """The message or block without inner blocks of unknown types."""
    if not isinstance(value, dict):
        if hasattr(value, "role"):
            return value
        raise TypeError(f"a message is a dict or a message object, not {type(value).__name__}")
    blocks = value.get("blocks")
    if not isinstance(blocks, list):
        return value
    kept = []
    for index, block in enumerate(blocks):
        here = (*path, "blocks", index)
        kind = block.get("type") if isinstance(block, dict) else None
        if isinstance(kind, str) and kind not in types:
            skipped.append(Skipped(pointer(here), kind))
        else:
            kept.append(_skip(block, here, types, skipped) if isinstance(block, dict) else block)
    return {**value, "blocks": kept}


def block_set_for(message_block_types: Iterable[str] | None = None) -> str:
    """The newest block set that a server's advertised `message_block_types` cover; absent means v1."""
    if message_block_types is None:
        return UNADVERTISED
    if isinstance(message_block_types, str):
        raise TypeError("message_block_types must be a list of block types, not a string")
    types = list(message_block_types)
    if not all(isinstance(item, str) for item in types):
        raise TypeError("message_block_types must be a list of block types, as a server's tool list advertises them")
    covered = [name for name in RELEASED if set(types).issuperset(BLOCK_SETS[name])]
    return covered[-1] if covered else UNADVERTISED


# --- shared ---

_modules: dict[str, ModuleType] = {}


def _module(format: str) -> ModuleType:
    module = _modules.get(format) if isinstance(format, str) else None
    if module is None:
        check_choice("format", format, FORMATS)
        module = _modules[format] = importlib.import_module(f"turnspec_generated.{MODULES[format]}")
    return module


def check_choice(name: str, value: object, allowed: Sequence[str]) -> None:
    """`ValueError` that names the allowed values of an argument."""
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")


def _canonical(found: tuple[str, tuple[str | int, ...], str, Any]) -> tuple[Any, ...]:
    """The sort key of canonical order: a place before what lies in it, fields in schema order, the root last."""
    code, path = found[:2]
    places: list[tuple[int, int, str]] = []
    free = False
    for part in path:
        if isinstance(part, int):
            places.append((0, part, ""))
        elif free or part not in FIELD_ORDER:
            places.append((1, 0, part))
        else:
            places.append((0, FIELD_ORDER[part], ""))
            free = part in FREE_FIELDS
    return not path, places, ORDER[code]


def _losses(found: list[Any]) -> list[Loss]:
    return [_record(Loss, item) for item in sorted(found, key=_canonical)]


def _record(kind: type[Kind], found: tuple[str, tuple[str | int, ...], str, Any]) -> Kind:
    code, path, note, allowed = found
    info = CODES[code]
    title = info.title[0].lower() + info.title[1:] if not info.title[1:2].isupper() else info.title
    return kind(code, pointer(path), f"{title}: {note}" if note else title, tuple(allowed), info.fix, info.severity)


def _unreadable(items: list[Any], problem: Exception) -> ValueError:
    """What to raise where a struct made by hand holds what no valid message holds."""
    try:
        errors = list(explain([to_wire(item) for item in items], "conversation", CURRENT))
    except Exception:
        errors = []
    if errors:
        return ValidationError(errors)
    return ValueError(f"the messages cannot be converted: {problem}")
