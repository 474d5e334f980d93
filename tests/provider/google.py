"""generateContent: calls and responses are counted and named from one content to the next."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any


def relations(payload: dict[str, Any], training: bool) -> Iterator[str]:
    contents = payload["contents"]
    if not payload.get("system_instruction", "x").strip():
        yield "/system_instruction: blank"
    for index, content in enumerate(contents):
        for part in content["parts"]:
            if "thought_signature" in part and not _is_base64(part["thought_signature"]):
                yield f"/contents/{index}: the signature is not base64"
        calls = _names(content, "function_call")
        responses = _names(content, "function_response")
        before = contents[index - 1] if index else {"role": "", "parts": []}
        after = contents[index + 1] if index + 1 < len(contents) else None
        if calls and before["role"] != "user":
            yield f"/contents/{index}: calls must follow a user turn"
        if responses and not _names(before, "function_call"):
            yield f"/contents/{index}: responses without calls just before"
        if calls and not _answered(calls, after, training and index + 2 >= len(contents)):
            yield f"/contents/{index}: the next content does not answer its {len(calls)} calls one by one"


def _answered(calls: list[str], after: dict[str, Any] | None, at_the_end: bool) -> bool:
    """Whether the names of the responses are those of the calls; `at_the_end` some may be missing."""
    if after is None:
        return at_the_end
    responses = _names(after, "function_response")
    if at_the_end and len(responses) == len(after["parts"]) < len(calls):
        return True
    return sorted(calls) == sorted(responses)


def _names(content: dict[str, Any], kind: str) -> list[str]:
    return [part[kind]["name"] for part in content["parts"] if kind in part]


def _is_base64(text: str) -> bool:
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return bool(base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True))
    except binascii.Error:
        return False
