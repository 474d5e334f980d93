"""Nothing is lost in silence: each piece is in the payload, or a loss names it, or the conversion raised."""

from __future__ import annotations

import copy
import json
import random
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

from tests.provider.account import account
from tests.strategies import Wire, conversations, seeded, spec, tidy_conversations
from turnspec import ConversionError, ConversionWarning, Loss, convert_messages, convert_with_report, loads

FORMATS = ("openai", "openrouter", "anthropic", "google")
PURPOSES = ("request", "training")
SET = "v2"  # what the account can read


def marked(conversation: list[Wire]) -> list[Wire]:
    """The conversation with a number before each text that shows something, so that no two are alike."""
    count = 0

    def mark(value: Any) -> Any:
        nonlocal count
        if isinstance(value, list):
            return [mark(item) for item in value]
        if not isinstance(value, dict):
            return value
        new = {key: mark(item) if key == "blocks" else item for key, item in value.items()}
        if isinstance(new.get("text"), str) and new["text"].strip():
            count += 1
            new["text"] = f"{count}:{new['text']}"
        return new

    return [mark(message) for message in conversation]


def unaccounted(conversation: list[Wire]) -> list[str]:
    found = []
    for format in FORMATS:
        for purpose in PURPOSES:
            try:
                payload, losses = convert_with_report(conversation, format, purpose=purpose)
            except ConversionError:
                continue
            found += [f"{format}, {purpose}: {problem}" for problem in account(format, conversation, payload, losses)]
    return found


@settings(max_examples=300, deadline=None)
@given(conversations(block_set=SET))
def test_conversations(conversation: list[Wire]) -> None:
    assert unaccounted(marked(conversation)) == []


@settings(max_examples=100, deadline=None)
@given(tidy_conversations(spice=8))
def test_unmarked_conversations(conversation: list[Wire]) -> None:
    assert unaccounted(conversation) == []


@pytest.mark.parametrize("start", range(0, 4000, 1000))
def test_seeded_conversations(start: int) -> None:
    found = {
        seed: problems
        for seed in range(start, start + 1000)
        if (problems := unaccounted(marked(seeded(seed, block_set=SET))))
    }
    assert found == {}


@pytest.mark.parametrize("seed", range(0, 400, 4))
def test_no_format_means_no_change(seed: int) -> None:
    conversation = seeded(seed)
    assert convert_messages(conversation) == conversation
    assert convert_with_report(conversation, None) == (conversation, [])


@pytest.mark.parametrize("format", FORMATS)
def test_input_stays_as_it_is(format: str) -> None:
    for seed in range(300):
        conversation = seeded(seed)
        before = json.dumps(conversation)
        try:
            payload = convert_with_report(conversation, format).payload
        except ConversionError:
            payload = None
        assert json.dumps(conversation) == before
        del payload


def quick_answer(conversation: Any, format: str, purpose: str) -> tuple[Any, ...]:
    """(payload, warnings, problems) of `convert_messages`."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            payload = convert_messages(conversation, format, purpose=purpose)
        except ConversionError as error:
            return None, [], [(one.code, one.pointer) for one in error.problems]
    told = [one.message.loss for one in caught if isinstance(one.message, ConversionWarning)]
    return json.dumps(payload), [(one.code, one.pointer) for one in told], []


def full_answer(conversation: Any, format: str, purpose: str) -> tuple[Any, ...]:
    """The same, of `convert_with_report`."""
    try:
        payload, losses = convert_with_report(conversation, format, purpose=purpose)
    except ConversionError as error:
        return None, [], [(one.code, one.pointer) for one in error.problems]
    told = [loss for loss in losses if loss.severity == "warning"]
    return json.dumps(payload), [(one.code, one.pointer) for one in told], []


@pytest.mark.parametrize("start", range(0, 1500, 500))
def test_convert_messages_warns_of_what_the_report_tells(start: int) -> None:
    """Both ways to convert give one payload, one set of problems, and the same warnings in the same order."""
    for seed in range(start, start + 500):
        conversation = seeded(seed)
        objects = loads(json.dumps(conversation), entry="conversation")
        for format in FORMATS:
            for purpose in PURPOSES:
                full = full_answer(conversation, format, purpose)
                assert quick_answer(conversation, format, purpose) == full, (seed, format, purpose)
                assert quick_answer(objects, format, purpose) == full, (seed, format, purpose)


@pytest.mark.parametrize("format", FORMATS)
def test_losses_are_in_canonical_order_and_once(format: str) -> None:
    """By index, by field, and a place before what lies in it; pointers lead to something."""
    order = spec().field_order
    for seed in range(400):
        conversation = seeded(seed)
        try:
            losses = convert_with_report(conversation, format).losses
        except ConversionError as error:
            losses = error.problems  # type: ignore[assignment]
            if any(one.pointer == "" for one in losses[:-1]):
                pytest.fail(f"{seed}: the root is not last")
        paths = [one.pointer.split("/")[1:] for one in losses if one.pointer]
        places = [[int(step) if step.isdigit() else order.index(step) for step in path] for path in paths]
        assert places == sorted(places), seed
        assert len({(one.code, one.pointer) for one in losses}) == len(losses), seed
        for one in losses:
            value: Any = conversation
            for step in one.pointer.split("/")[1:]:
                value = value[int(step) if isinstance(value, list) else step.replace("~1", "/").replace("~0", "~")]


def with_half_a_pair(conversation: Any, choose: random.Random) -> Any:
    """The conversation with half of a surrogate pair in one of its strings or in a key of an input."""
    changed = copy.deepcopy(conversation)
    spots: list[tuple[Any, Any]] = []

    def gather(value: Any) -> None:
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            if isinstance(item, str) and key not in ("role", "type"):
                spots.append((value, key))
            elif isinstance(item, dict | list):
                gather(item)
                if key == "input" and isinstance(item, dict):
                    spots.append((item, ...))

    gather(changed)
    if spots:
        holder, key = choose.choice(spots)
        half = choose.choice(("\ud800", "\udfff", "a\udc00b", "é\ud83d"))
        holder[half if key is ... else key] = 1 if key is ... else half
    return changed


def test_half_a_surrogate_pair_is_never_sent() -> None:
    """It raises, or stood where nothing is sent from."""
    raised = 0
    for seed in range(1500):
        conversation = with_half_a_pair(seeded(seed, spice=2), random.Random(seed))
        for format in FORMATS:
            answers = [full_answer(conversation, format, "request"), quick_answer(conversation, format, "request")]
            assert answers[0] == answers[1], (seed, format)
            payload, _, problems = answers[0]
            raised += any(code == "lone_surrogate" for code, _ in problems)
            if payload is not None:
                json.dumps(json.loads(payload), ensure_ascii=False).encode()  # raises for half a pair
    assert raised > 500


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("format", FORMATS)
def test_what_is_no_json_number_is_never_sent(number: float, format: str) -> None:
    call = {"type": "tool_call", "id": "a", "name": "f", "input": {"deep": [{"x": number}]}}
    answer = {"type": "tool_result", "tool_call_id": "a", "blocks": [{"type": "text", "text": "x"}]}
    conversation = [
        {"role": "user", "blocks": [{"type": "text", "text": "x"}]},
        {"role": "assistant", "blocks": [call]},
        {"role": "user", "blocks": [answer]},
    ]
    for convert in (convert_messages, convert_with_report):
        with pytest.raises(ValueError, match=r"(?i)json"):
            convert(conversation, format)  # type: ignore[operator]


# --- The account can fail ----------------------------------------------------------------------------------

READ_KEYS = frozenset(
    {"content", "text", "thinking", "signature", "reasoning_content", "system", "system_instruction", "role"}
    | {"id", "tool_call_id", "tool_use_id", "name", "arguments", "output", "error"}
    | {"url", "data", "media_type", "mime_type"}
)


def edits(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Ways to damage a payload: (path, what to put there); `...` takes the item out."""
    key = path[-1] if path else None
    if isinstance(value, dict):
        if key in ("input", "args"):
            yield path, {**value, "more": 1}
            yield from ((path, {k: v for k, v in value.items() if k != gone}) for gone in value)
            if len(value) > 1:
                yield path, dict(reversed(value.items()))
            return
        if "is_error" in value:
            yield path, {k: v for k, v in value.items() if k != "is_error"}
        for name, item in value.items():
            yield from edits(item, (*path, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield (*path, index), ...
            yield path, [*value[: index + 1], *value[index:]]
            yield from edits(item, (*path, index))
    elif key in READ_KEYS and isinstance(value, str):
        yield path, other(key, value)
    elif key == "is_error":
        yield path, not value


def swaps(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Two neighbours in another order, anywhere but inside a call's input."""
    if isinstance(value, list):
        for index in range(len(value) - 1):
            if value[index] != value[index + 1]:
                yield path, [*value[:index], value[index + 1], value[index], *value[index + 2 :]]
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if key not in ("input", "args"):
            yield from swaps(item, (*path, key))


def other(key: str, value: str) -> str:
    if key == "arguments":
        return json.dumps({**json.loads(value), "more": 1})
    if key == "role":
        return "assistant" if value == "user" else "user"
    return value[:-1] + "Z" if value[-1:] != "Z" else value + "Z"


def edited(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    changed = copy.copy(value)
    if len(path) == 1 and new is ...:
        del changed[path[0]]
    else:
        changed[path[0]] = edited(value[path[0]], path[1:], new)
    return changed


def converted() -> Iterator[tuple[str, list[Wire], Any, list[Loss]]]:
    """Some conversions of each format, both with losses and without."""
    for format in FORMATS:
        for seed in range(0, 300):
            conversation = marked(seeded(seed, block_set=SET))
            try:
                payload, losses = convert_with_report(conversation, format)
            except ConversionError:
                continue
            yield format, conversation, payload, losses


def is_seen(format: str, conversation: list[Wire], damaged: Any, losses: list[Loss]) -> bool:
    try:
        return bool(account(format, conversation, damaged, losses))
    except (KeyError, ValueError, TypeError, AttributeError, IndexError):
        return True  # no payload at all any more


def test_every_damage_is_seen() -> None:
    """Each piece taken out, doubled or altered, one at a time."""
    tried = 0
    for format, conversation, payload, losses in converted():
        for path, new in edits(payload):
            tried += 1
            damaged = edited(payload, path, new)
            assert is_seen(format, conversation, damaged, losses), (format, path, new, conversation)
    assert tried > 10_000


def test_every_swap_is_seen() -> None:
    """Two pieces in another order, where no loss says that the order is another one."""
    tried = 0
    for format, conversation, payload, losses in converted():
        if any(loss.code in ("results_moved", "order_lost") for loss in losses):
            continue
        for path, new in swaps(payload):
            tried += 1
            damaged = edited(payload, path, new)
            assert is_seen(format, conversation, damaged, losses), (format, path, new, conversation)
    assert tried > 500


def test_every_loss_is_needed() -> None:
    """A loss kept silent is seen, and so is one that tells of nothing."""
    tried = 0
    for format, conversation, payload, losses in converted():
        for loss in losses:
            if loss.code == "results_moved" and format in ("openai", "openrouter"):
                continue  # a result is a message of its own there, so that only some moves show
            tried += 1
            # Of two results that changed places either one explains it.
            alike = (loss.code,) if loss.code == "results_moved" else ()
            rest = [other for other in losses if other != loss and other.code not in alike]
            assert account(format, conversation, payload, rest), (format, loss, conversation)
        invented = Loss("blank_text_dropped", "/0/blocks/0/nowhere", "")
        assert account(format, conversation, payload, [*losses, invented])
    assert tried > 1_000
