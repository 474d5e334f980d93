"""Agentic conversations to measure with: the same for everybody, 2 to 60 KB a line."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

Wire = dict[str, Any]

PROSE = (
    "the config loads before tests run so parse_args returns None when path is missing and retry fails with timeout "
    "while the index rebuilds a stale cache entry for user admin error: expected 3 got 4 in line 120 of "
    'src/app/main.py def handle(self, request): return await self.queue.get() # TODO check "quotes" \\ and tabs\t'
)
WORDS = PROSE.split(" ")
FOREIGN = ("über", "naïve", "“quoted”", "漢字", "→", "✓", "😀")  # in every eighth text
TOOLS = ("read_file", "edit_file", "run_tests", "search_code", "list_dir")


def conversation(seed: int, *, reasoning: bool = True) -> Wire | list[Wire]:
    """The transcript of an agent at work; every call is answered, and no provider would refuse it."""
    choose = random.Random(seed)
    count = 0

    def prose(low: int, high: int) -> str:
        words = choose.choices(WORDS, k=choose.randint(low, high))
        if choose.random() < 0.125:
            for place in range(0, len(words), choose.randint(3, 20)):
                words[place] = choose.choice(FOREIGN)
        return " ".join(words)

    def thought() -> list[Wire]:
        if not reasoning or choose.random() < 0.5:
            return []
        block: Wire = {"type": "reasoning", "text": prose(20, 120)}
        if choose.random() < 0.2:
            block["signature"] = base64.b64encode(choose.randbytes(120)).decode()
        return [block]

    def arguments() -> Wire:
        found: Wire = {"path": f"src/{choose.choice(WORDS)}.py", "line": choose.randint(1, 4000)}
        if choose.random() < 0.3:
            found["content"] = prose(20, 200)
        if choose.random() < 0.2:
            found["options"] = {"recursive": True, "limit": choose.random(), "names": [prose(1, 2), None]}
        return found

    messages: list[Wire] = [{"role": "system", "blocks": [text(prose(60, 250))]}]
    request = [text(prose(10, 120))]
    if choose.random() < 0.05:
        picture = b"\x89PNG\r\n\x1a\n" + choose.randbytes(choose.randint(300, 6000))
        request.append({"type": "image", "data": base64.b64encode(picture).decode(), "mimeType": "image/png"})
    messages.append({"role": "user", "blocks": request})
    for _ in range(choose.choice((1, 2, 3, 4, 6, 8, 12, 18))):
        calls, results = [], []
        for _ in range(choose.choice((1, 1, 1, 2, 3))):
            name = f"call_{seed}_{count}"
            count += 1
            calls.append({"type": "tool_call", "id": name, "name": choose.choice(TOOLS), "input": arguments()})
            result: Wire = {"type": "tool_result", "tool_call_id": name, "blocks": [text(prose(10, 300))]}
            if choose.random() < 0.1:
                result["is_error"] = True
            results.append(result)
        spoken = [text(prose(5, 60))] if choose.random() < 0.6 else []
        messages.append({"role": "assistant", "blocks": [*thought(), *spoken, *calls]})
        messages.append({"role": "user", "blocks": results})
    messages.append({"role": "assistant", "blocks": [*thought(), text(prose(20, 150))]})
    messages.append({"role": "user", "blocks": [text(prose(5, 40))]})
    return messages


def text(value: str) -> Wire:
    return {"type": "text", "text": value}


def line(messages: Any, *, compact: bool) -> bytes:
    """One line of JSONL, as Python's `json` writes it, or compact and in UTF-8."""
    if compact:
        return json.dumps(messages, ensure_ascii=False, separators=(",", ":")).encode()
    return json.dumps(messages).encode()
