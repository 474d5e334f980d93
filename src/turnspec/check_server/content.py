"""What a session serves: its messages and its prompt, each on its own and held against each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from turnspec.check_server.exchange import Answer
from turnspec.check_server.reading import Desk, said
from turnspec.check_server.shape import differences
from turnspec.check_server.tools import Tools
from turnspec_generated.names import BLOCK_SETS, ROLES
from turnspec_generated.tables import MESSAGE, SETS

MOST_TOLD = 5
_HEADERS = frozenset(f"[{role}]" for role in ROLES)
_BLOCKS = {kind: fields for item in SETS.values() for kind, fields in item.blocks.items()}


@dataclass(frozen=True, slots=True)
class Content:
    """The bodies of the two answers; None where there was no good one."""

    messages: bytes | None
    prompt: bytes | None


def check_content(desk: Desk, name: str, session: str, tools: Tools | None) -> Content:
    """Ask for messages and prompt, and check both."""
    answer = desk.get(f"/{name}/messages", session=session, patient=True)
    advertised = tools is not None and tools.advertised is not None
    messages: list[Any] | None = None
    if answer.status == 404:
        if advertised:
            desk.tell("messages_missing", answer, "answers 404, although the tool list has message_block_types")
    else:
        messages = _messages(desk, answer, tools)
        if answer.status == 200 and not advertised and tools is not None:
            desk.tell("messages_not_advertised", answer, "the tool list has no message_block_types")
    prompt_answer = desk.get(f"/{name}/prompt", session=session, patient=True)
    prompt = _prompt(desk, prompt_answer)
    if messages is not None and prompt is not None:
        _agree(desk, prompt_answer, messages, prompt)
    return Content(_body(answer), _body(prompt_answer))


def _body(answer: Answer) -> bytes | None:
    return answer.body if answer.status == 200 and answer.whole else None


def _messages(desk: Desk, answer: Answer, tools: Tools | None) -> list[Any] | None:
    """The messages, where they are valid in the newest block set."""
    value = desk.value(answer, None)
    if value is None:
        return None
    from turnspec.validation import iter_errors

    known = {kind for kinds in BLOCK_SETS.values() for kind in kinds}
    future = set(tools.block_types) - known if tools is not None else set()
    valid = True
    for problem in iter_errors(answer.body, entry="conversation"):
        valid = False
        if problem.code == "unknown_block_type" and _at(value, problem.pointer) in future:
            continue  # a newer server; clients skip the block
        desk.tell("invalid_messages", answer, f"{problem.code} at {problem.pointer or '(root)'}: {problem.message}")
    if not isinstance(value, list):
        return None
    if tools is not None:
        for place, kind in _types(value):
            if kind in known and kind not in tools.block_types:
                what = f"{kind} at {place}; advertised: {', '.join(tools.block_types)}"
                desk.tell("block_not_advertised", answer, what)
    if not valid:
        return None
    missing = [f"{place} lacks {key}" for place, key in _unwritten(value)]
    _tell_missing(desk, answer, missing)
    return value


def _prompt(desk: Desk, answer: Answer) -> list[Any] | None:
    if answer.status == 404:
        desk.tell("prompt_missing", answer, f"answers {said(answer)}")
        return None
    value = desk.value(answer, None)
    if value is None:
        return None
    found = differences(value, "Prompt")
    for difference in found[:MOST_TOLD]:
        desk.tell("invalid_prompt", answer, difference)
    if found:
        return None
    blocks: list[Any] = value
    _tell_missing(
        desk, answer, [f"/{index} lacks detail" for index, block in enumerate(blocks) if "detail" not in block]
    )
    return blocks


def _tell_missing(desk: Desk, answer: Answer, missing: list[str]) -> None:
    if missing:
        more = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        desk.tell("optional_key_missing", answer, missing[0] + more)


def _agree(desk: Desk, answer: Answer, messages: list[Any], prompt: list[Any]) -> None:
    """The prompt should be what the messages flatten to."""
    from turnspec.conversion import flatten_messages

    wanted, given = [_bare(block) for block in flatten_messages(messages)], [_bare(block) for block in prompt]
    if wanted == given:
        return
    texts = {block.get("text") for block in given}
    place = next((index for index, pair in enumerate(zip(wanted, given, strict=False)) if pair[0] != pair[1]), None)
    where = f"block {min(len(wanted), len(given)) if place is None else place} differs"
    sizes = f"{len(given)} blocks, the messages flatten to {len(wanted)}" if len(given) != len(wanted) else where
    code = "prompt_not_flattened" if _HEADERS & texts else "prompt_differs"
    desk.tell(code, answer, f"the prompt has {sizes}" if sizes is not where else f"of the prompt {where}")


def _bare(block: dict[str, Any]) -> dict[str, Any]:
    """A block without the keys that say nothing."""
    return {key: value for key, value in block.items() if value is not None}


def _types(messages: list[Any]) -> list[tuple[str, str]]:
    """The pointer and the type of every block, also of those in blocks."""
    found: list[tuple[str, str]] = []

    def walk(blocks: Any, place: str) -> None:
        for index, block in enumerate(blocks if isinstance(blocks, list) else ()):
            if isinstance(block, dict) and isinstance(block.get("type"), str):
                found.append((f"{place}/{index}", block["type"]))
                walk(block.get("blocks"), f"{place}/{index}/blocks")

    for index, message in enumerate(messages):
        if isinstance(message, dict):
            walk(message.get("blocks"), f"/{index}/blocks")
    return found


def _unwritten(messages: list[Any]) -> list[tuple[str, str]]:
    """The pointer and the key of every optional field of valid messages that is not there."""
    found: list[tuple[str, str]] = []

    def walk(blocks: Any, place: str) -> None:
        for index, block in enumerate(blocks):
            at = f"{place}/{index}"
            fields = _BLOCKS[block["type"]]
            found.extend((at, key) for key, item in fields.items() if not item.required and key not in block)
            walk(block.get("blocks", ()), f"{at}/blocks")

    for index, message in enumerate(messages):
        found.extend((f"/{index}", key) for key, item in MESSAGE.items() if not item.required and key not in message)
        walk(message["blocks"], f"/{index}/blocks")
    return found


def _at(value: Any, pointer: str) -> Any:
    for part in pointer.split("/")[1:]:
        try:
            value = value[int(part)] if isinstance(value, list) else value[part]
        except (KeyError, IndexError, ValueError, TypeError):
            return None
    return value
