"""Chat completions: what one message of the list demands of the others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any


def relations(messages: list[dict[str, Any]], training: bool) -> Iterator[str]:
    for index, message in enumerate(messages):
        for call in message.get("tool_calls", []):
            if not _is_object_text(call["function"]["arguments"]):
                yield f"/{index}: the arguments of {call['id']!r} are no JSON object"
    yield from _pairs(messages, training)


def _pairs(messages: list[dict[str, Any]], training: bool) -> Iterator[str]:
    """Each run of tool messages answers the calls of the message before it: each once, and nothing else."""
    place = 0
    while place < len(messages):
        head = messages[place]
        end = place + 1
        while end < len(messages) and messages[end]["role"] == "tool":
            end += 1
        asked = Counter(call["id"] for call in head.get("tool_calls", []))
        given = Counter(message["tool_call_id"] for message in messages[place + 1 : end])
        if head["role"] == "tool":
            given[head["tool_call_id"]] += 1
        if max(asked.values(), default=0) > 1:
            yield f"/{place}: an id is used twice in the message"
        if given - asked:
            yield f"/{place}: results {list(given - asked)} answer no call before, or one twice"
        if asked - given and not (training and end == len(messages)):
            yield f"/{place}: calls {list(asked - given)} have no result right behind them"
        place = end


def _is_object_text(text: str) -> bool:
    def no_constant(name: str) -> Any:
        raise ValueError(name)

    try:
        value = json.loads(text, parse_constant=no_constant, parse_int=lambda digits: digits)
    except ValueError:
        return False
    return isinstance(value, dict)
