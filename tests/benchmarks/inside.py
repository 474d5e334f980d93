"""The rows measured inside one process: reading, converting, flattening."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import orjson
from openreward.api.environments import client as sdk_client
from openreward.api.environments import types as sdk_types
from openreward.environments import types as sdk_models
from openreward.environments.utils import flatten_messages as sdk_flatten

import turnspec

from .data import conversation, line
from .timing import Row, ratios, sweep

Wire = dict[str, Any]
CONVERT_TARGETS = {"openai": 1.3, "anthropic": 1.5, "google": 1.5}


def rows(count: int, rounds: int) -> Iterator[Row]:
    conversations: list[Any] = [conversation(seed) for seed in range(count)]
    yield from reading(conversations, rounds)
    for format, target in CONVERT_TARGETS.items():
        some = conversations
        if format == "google":
            some = [conversation(seed, reasoning=False) for seed in range(count)]
        yield from converting(some, format, target, rounds)
    yield from flattening(conversations, rounds)


def reading(conversations: list[Any], rounds: int) -> Iterator[Row]:
    for style, compact in (("as Python writes it", False), ("compact UTF-8", True)):
        lines = [line(messages, compact=compact) for messages in conversations]
        found, best = ratios(sweep(turnspec.loads, lines), sweep(orjson.loads, lines), rounds)
        yield Row(f"loads, {style}", "orjson.loads", 0.85, found, note=f"{sum(map(len, lines)) / best / 1e6:.0f} MB/s")
    parsed = [orjson.loads(one) for one in lines]
    messages = [message for messages in parsed for message in messages]
    validate = sweep(sdk_models.Message.model_validate, messages)
    found, _ = ratios(sweep(turnspec.loads, lines), validate, rounds)
    yield Row("loads", "SDK Message.model_validate, parsed", 6, found)
    found, _ = ratios(sweep(turnspec.Message.model_validate, messages), validate, rounds)
    yield Row("pydantic Message.model_validate", "SDK Message.model_validate", 2, found)


def converting(conversations: list[Any], format: Any, target: float, rounds: int) -> Iterator[Row]:
    """From objects that are there already, and from wire dicts. Both sides must give the same payload."""
    loaded = [turnspec.loads(json.dumps(messages)) for messages in conversations]
    objects = [built(messages) for messages in conversations]
    convert, theirs = turnspec.convert_messages, sdk_client.convert_messages
    for mine, other in zip(loaded, objects, strict=True):
        assert _same(convert(mine, format, on_loss="ignore"), theirs(other, format))
    count = sum(map(len, conversations))
    found, best = ratios(sweep(convert, loaded, format, on_loss="ignore"), sweep(theirs, objects, format), rounds)
    note = f"{best / count * 1e9:.0f} ns a message"
    yield Row(f"convert_messages, {format}", "SDK, built objects", target, found, note=note)
    found, best = ratios(
        sweep(convert, conversations, format, on_loss="ignore"), sweep(sdk_from_dicts, conversations, format), rounds
    )
    note = f"{best / count * 1e9:.0f} ns a message"
    yield Row(f"from wire dicts, {format}", "SDK: validate, read, convert", 2, found, note=note)


def flattening(conversations: list[Any], rounds: int) -> Iterator[Row]:
    loaded = [turnspec.loads(json.dumps(messages)) for messages in conversations]
    models = [[sdk_models.Message.model_validate(message) for message in messages] for messages in conversations]
    found, _ = ratios(sweep(turnspec.flatten_messages, loaded), sweep(sdk_flatten, models), rounds)
    yield Row("flatten_messages", "SDK", 2, found)


def built(messages: list[Wire]) -> list[sdk_types.Message]:
    """What the SDK's client reads from the wire."""
    return [sdk_types.Message(m["role"], sdk_client._parse_blocks(m["blocks"]), m.get("detail")) for m in messages]


def sdk_from_dicts(messages: list[Wire], format: Any) -> Any:
    """The SDK's way: its server validates, its client reads and converts."""
    for message in messages:
        sdk_models.Message.model_validate(message)
    return sdk_client.convert_messages(built(messages), format)


def _same(ours: Any, theirs: Any) -> bool:
    """Equal but for google's failed results, which the SDK tells as successes."""
    text = json.dumps(ours).replace('"response": {"error": ', '"response": {"output": ')
    return text == json.dumps(theirs)
