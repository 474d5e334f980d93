"""Equal to the reference SDK where it is right: its payloads, its flattened prompts, its models."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from openreward.api.environments import client as sdk_client
from openreward.api.environments import types as sdk_types
from openreward.environments import types as sdk_models
from openreward.environments.utils import flatten_messages as sdk_flatten

import turnspec
from tests.provider import refusals
from tests.strategies import Wire, conversations, seeded, tidy_conversations
from turnspec import ConversionError, convert_with_report, flatten_messages, loads

SET = "v2"  # what the reference knows
FORMATS = ("openai", "openrouter", "anthropic", "google")
PURPOSES = ("request", "training")
STEPS = {
    "turns_joined",
    "results_moved",
    "id_rewritten",
    "mime_normalized",
    "base64_normalized",
    "blank_text_dropped",
    "empty_turn_dropped",
}
# Reasons to raise that a provider cannot see in the reference's payload, each with what hides it there.
UNSEEN = {
    "call_without_result",  # on google a result that names no call gets the name of another one
    "result_without_call",  # the same
    "empty_conversation",  # on anthropic a single assistant turn without blocks is taken
}


def reference(conversation: list[Wire], format: str) -> Any:
    """What the SDK's client makes of it; None where it raises."""
    try:
        return sdk_client.convert_messages(built(conversation), format)  # type: ignore[call-overload]
    except ValueError:
        return None


def built(conversation: list[Wire]) -> list[sdk_types.Message]:
    """The conversation as the SDK's client reads it from the wire."""
    return [sdk_types.Message(m["role"], sdk_client._parse_blocks(m["blocks"]), m.get("detail")) for m in conversation]


def without_failures(payload: Any) -> Any:
    """google's payload with failed results as the reference writes them; ours say `error`."""
    text = json.dumps(payload)
    return json.loads(text.replace('"response": {"error": ', '"response": {"output": '))


def differences(conversation: list[Wire]) -> list[str]:
    """Where a right payload of the reference is not ours."""
    found = []
    for format in FORMATS:
        theirs = reference(conversation, format)
        for purpose in PURPOSES:
            if theirs is None or refusals("openai" if format == "openrouter" else format, theirs, purpose):
                continue
            try:
                ours, losses = convert_with_report(conversation, format, purpose=purpose)
            except ConversionError as problem:
                codes = {one.code for one in problem.problems}
                if not codes <= UNSEEN:
                    found.append(f"{format}, {purpose}: raises {codes}")
                continue
            if STEPS & {loss.code for loss in losses}:
                continue
            if format == "google":
                ours = without_failures(ours)
            if json.dumps(ours) != json.dumps(theirs):
                found.append(f"{format}, {purpose}: {json.dumps(ours)} for {json.dumps(theirs)}")
    return found


@settings(max_examples=250, deadline=None)
@given(conversations(block_set=SET))
def test_payloads(conversation: list[Wire]) -> None:
    assert differences(conversation) == []


@settings(max_examples=100, deadline=None)
@given(tidy_conversations())
def test_payloads_of_clean_conversations(conversation: list[Wire]) -> None:
    assert differences(conversation) == []
    assert convert_with_report(conversation, "openai", purpose="training")


@pytest.mark.parametrize("start", range(0, 3000, 1000))
def test_payloads_of_seeded_conversations(start: int) -> None:
    found = {
        seed: problems for seed in range(start, start + 1000) if (problems := differences(seeded(seed, block_set=SET)))
    }
    assert found == {}


def test_openrouter_is_openai() -> None:
    for seed in range(300):
        answers = []
        for format in ("openai", "openrouter"):
            try:
                answers.append(convert_with_report(seeded(seed), format))
            except ConversionError as problem:
                answers.append([(one.code, one.pointer) for one in problem.problems])  # type: ignore[arg-type]
        assert answers[0] == answers[1]


# --- Flatten -----------------------------------------------------------------------------------------------


def bare(value: Any) -> Any:
    """The wire shape without what absence says as well: null, and `is_error: false`."""
    if isinstance(value, list):
        return [bare(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: item for key, item in value.items() if item is not None and (key, item) != ("is_error", False)}
    return {key: bare(item) if key == "blocks" else item for key, item in kept.items()}


def same(ours: Any, theirs: Any) -> bool:
    """Equal as JSON, types of numbers included; the order of keys is none of a model's business."""
    return json.dumps(ours, sort_keys=True) == json.dumps(theirs, sort_keys=True)


def check_flatten(conversation: list[Wire]) -> None:
    models = [sdk_models.Message.model_validate(message) for message in conversation]
    theirs = [bare(block.model_dump()) for block in sdk_flatten(models)]
    read = loads(json.dumps(conversation), entry="conversation")
    assert same([bare(block) for block in flatten_messages(conversation)], theirs)
    assert same([block.to_wire() for block in flatten_messages(read)], theirs)
    ours = [turnspec.Message.model_validate(message) for message in conversation]
    assert same([bare(block.model_dump()) for block in flatten_messages(ours)], theirs)


@settings(max_examples=150, deadline=None)
@given(conversations(block_set=SET))
def test_flatten(conversation: list[Wire]) -> None:
    check_flatten(conversation)


@pytest.mark.parametrize("start", range(0, 1500, 500))
def test_flatten_of_seeded_conversations(start: int) -> None:
    for seed in range(start, start + 500):
        check_flatten(seeded(seed, block_set=SET))


def test_flatten_of_one_user_turn() -> None:
    plain = [{"role": "user", "blocks": [{"type": "text", "text": "Hi"}], "detail": {"a": 1}}]
    check_flatten(plain)
    assert flatten_messages(plain) == plain[0]["blocks"]


# --- Models ------------------------------------------------------------------------------------------------


def check_models(conversation: list[Wire]) -> None:
    """Whatever ours accept, the SDK's accept, and the way there and back changes nothing."""
    text = json.dumps(conversation)
    wire = bare(conversation)
    structs = loads(text, entry="conversation")
    models = [turnspec.Message.model_validate(message) for message in conversation]
    for read in (structs, models):
        sent = json.loads(turnspec.dumps(read))
        assert same(bare(sent), wire)
        for message, expected in zip(bare(sent), wire, strict=True):
            theirs = sdk_models.Message.model_validate(message).model_dump(mode="json")
            assert same(bare(theirs), expected)
            again = loads(json.dumps([theirs]), entry="conversation")
            assert same([one.to_wire() for one in again], [expected])
    assert same([message.to_wire() for message in structs], wire)
    assert same([bare(message.model_dump()) for message in models], wire)


@settings(max_examples=150, deadline=None)
@given(conversations(block_set=SET))
def test_models(conversation: list[Wire]) -> None:
    check_models(conversation)


@pytest.mark.parametrize("start", range(0, 1500, 500))
def test_models_of_seeded_conversations(start: int) -> None:
    for seed in range(start, start + 500):
        check_models(seeded(seed, block_set=SET))


def test_same_payload_from_every_kind_of_message() -> None:
    """Dicts, structs, our models, and the SDK's own objects."""
    for seed in range(400):
        conversation = seeded(seed, block_set=SET)
        kinds: list[list[Any]] = [
            conversation,
            loads(json.dumps(conversation), entry="conversation"),
            [turnspec.Message.model_validate(message) for message in conversation],
            [sdk_models.Message.model_validate(message) for message in conversation],
            built(conversation),
        ]
        for format in ("openai", "anthropic", "google"):
            answers = []
            for messages in kinds:
                try:
                    payload, losses = convert_with_report(messages, format)
                    answers.append((json.dumps(payload), [(one.code, one.pointer) for one in losses]))
                except ConversionError as problem:
                    answers.append((None, [(one.code, one.pointer) for one in problem.problems]))
            assert answers[1:] == answers[:1] * (len(kinds) - 1)
