"""The messages API: turns of one role count as one, and what must hold in and between these."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from typing import Any

Block = dict[str, Any]


def relations(payload: dict[str, Any], training: bool) -> Iterator[str]:
    messages = payload["messages"]
    if not payload.get("system", "x").strip():
        yield "/system: blank"
    for index, message in enumerate(messages):
        last = index == len(messages) - 1
        if not message["content"] and not (last and message["role"] == "assistant"):
            yield f"/messages/{index}: empty"
        for block in _blocks(message):
            yield from (f"/messages/{index}: {problem}" for problem in _block(block))
    ids = [block["id"] for message in messages for block in _blocks(message) if block["type"] == "tool_use"]
    if repeated := [one for one, count in Counter(ids).items() if count > 1]:
        yield f"call ids {repeated} are used more than once"
    turns = [
        (role, [block for message in group for block in _blocks(message)])
        for role, group in groupby(messages, key=lambda message: message["role"])
    ]
    for index, (role, blocks) in enumerate(turns):
        if role == "assistant":
            after = turns[index + 1][1] if index + 1 < len(turns) else []
            behind = index + 2 < len(turns)
            yield from (f"turn {index}: {problem}" for problem in _assistant(blocks, after, behind, training))
        elif index == 0 and _results(blocks):
            yield "turn 0: a result before any call"
        if role == "user":
            kinds = [block["type"] == "tool_result" for block in blocks]
            if kinds != sorted(kinds, reverse=True):
                yield f"turn {index}: a result behind other content"
    final = turns[-1][1][-1] if turns[-1][0] == "assistant" and turns[-1][1] else {}
    text = final.get("text", "")
    if text.rstrip() != text and not training:
        yield "the text to continue ends in white space"


def _assistant(blocks: list[Block], after: list[Block], behind: bool, training: bool) -> Iterator[str]:
    """`after`: the blocks of the next turn; `behind`: whether something follows that."""
    if blocks and blocks[-1]["type"] == "thinking":
        yield "ends in thinking"
    asked = Counter(block["id"] for block in blocks if block["type"] == "tool_use")
    given = Counter(_results(after))
    if given - asked:
        yield f"the next turn holds results {list(given - asked)} that answer no call, or one twice"
    open_end = training and not behind and sum(given.values()) == len(after)
    if asked - given and not open_end:
        yield f"calls {list(asked - given)} have no result in the next turn"


def _block(block: Block) -> Iterator[str]:
    if block["type"] == "text" and not block["text"].strip():
        yield "blank text"
    elif block["type"] == "image":
        yield from _image(block)
    elif block["type"] == "tool_result" and isinstance(block.get("content"), list):
        for inner in block["content"]:
            if inner["type"] == "image":
                yield from _image(inner)


def _image(block: Block) -> Iterator[str]:
    source = block["source"]
    head = base64.b64decode(source["data"][:16])
    shown = None
    if head.startswith(b"\x89PNG\x0d\x0a"):
        shown = "image/png"
    elif head.startswith(b"\xff\xd8\xff"):
        shown = "image/jpeg"
    elif head.startswith(b"GIF8"):
        shown = "image/gif"
    elif head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        shown = "image/webp"
    if shown not in (None, source["media_type"]):
        yield f"the bytes are {shown}, not {source['media_type']}"


def _results(blocks: list[Block]) -> list[str]:
    return [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]


def _blocks(message: dict[str, Any]) -> list[Block]:
    content = message["content"]
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    found: list[Block] = content
    return found
