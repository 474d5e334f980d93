"""What the package knows of an `audio` block that only the schema was told of. Run by `test_house.py`, in its copy."""

from __future__ import annotations

import importlib.resources
import json
from pathlib import Path
from typing import Any

import jsonschema
import pydantic
import pytest

import turnspec
import turnspec_generated
from turnspec_generated import structs

STRUCTS: Any = structs  # a type checker sees the repository's own package, which has no such block
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA="
AUDIO = {"type": "audio", "data": WAV, "mimeType": "audio/wav"}
TURN = {"role": "user", "blocks": [{"type": "text", "text": "What is said?"}, AUDIO]}
WIRE = [TURN]
MISPLACED = {"role": "assistant", "blocks": [AUDIO]}


def in_result(**fields: Any) -> list[dict[str, Any]]:
    """A conversation with the recording in the result of a call."""
    result = {"type": "tool_result", "tool_call_id": "c1", "blocks": [AUDIO], **fields}
    return [
        {"role": "user", "blocks": [{"type": "text", "text": "Listen."}]},
        {"role": "assistant", "blocks": [{"type": "tool_call", "id": "c1", "name": "listen", "input": {}}]},
        {"role": "user", "blocks": [result]},
    ]


def found(messages: Any, **options: Any) -> list[tuple[str, str]]:
    return [(error.code, error.pointer) for error in turnspec.iter_errors(messages, **options)]


def test_this_is_the_copy() -> None:
    """The generated package comes from the working folder, the runtime from the repository."""
    assert Path.cwd() in Path(turnspec_generated.__file__).parents
    assert Path.cwd() not in Path(turnspec.__file__).parents


# --- Names and negotiation ---


def test_names() -> None:
    assert turnspec.MESSAGE_BLOCK_TYPES[-1] == "audio"
    assert turnspec.BLOCK_SETS["v3"] == turnspec.MESSAGE_BLOCK_TYPES
    assert "audio" not in turnspec.BLOCK_SETS["v2"]
    assert turnspec.CURRENT == "v3"


def test_negotiation() -> None:
    assert turnspec.block_set_for(turnspec.MESSAGE_BLOCK_TYPES) == "v3"
    assert turnspec.block_set_for([*turnspec.BLOCK_SETS["v2"], "video"]) == "v2"
    assert turnspec.block_set_for(None) == "v1"


def test_reader_keeps_or_skips_it() -> None:
    assert turnspec.skip_unknown_blocks(WIRE) == (WIRE, [])
    messages, skipped = turnspec.skip_unknown_blocks(WIRE, turnspec.BLOCK_SETS["v2"])
    assert messages == [{**TURN, "blocks": TURN["blocks"][:1]}]
    assert skipped == [("/0/blocks/1", "audio")]


# --- Validation ---


@pytest.mark.parametrize("messages", [WIRE, in_result()], ids=["turn", "result"])
def test_valid_where_it_may_stand(messages: list[Any]) -> None:
    assert found(messages) == []
    assert found(json.dumps(messages)) == []
    assert [message.to_wire() for message in turnspec.loads(json.dumps(messages))] == messages
    assert json.loads(turnspec.dumps(turnspec.loads(json.dumps(messages)))) == messages


def test_unknown_to_older_sets() -> None:
    for block_set in ("v1", "v2"):
        for document in (WIRE, json.dumps(WIRE)):
            assert found(document, block_set=block_set) == [("unknown_block_type", "/0/blocks/1/type")]


@pytest.mark.parametrize("role", ["assistant", "system"])
def test_placement_names_what_is_allowed(role: str) -> None:
    for document in ([{**MISPLACED, "role": role}], json.dumps([{**MISPLACED, "role": role}])):
        (error,) = turnspec.iter_errors(document)
        assert (error.code, error.pointer) == ("block_placement", "/0/blocks/0")
        assert "text" in error.allowed
        assert "audio" not in error.allowed
        assert "audio" in error.message
        assert "user" in str(error)


@pytest.mark.parametrize(
    ("block", "error"),
    [
        ({"type": "audio", "data": WAV}, ("missing_field", "/0/blocks/0")),
        ({**AUDIO, "data": 1}, ("wrong_type", "/0/blocks/0/data")),
        ({**AUDIO, "detail": []}, ("wrong_type", "/0/blocks/0/detail")),
        ({**AUDIO, "seconds": 3}, ("unknown_field", "/0/blocks/0/seconds")),
    ],
)
def test_faults_inside(block: dict[str, Any], error: tuple[str, str]) -> None:
    document = [{"role": "user", "blocks": [block]}]
    assert found(document) == [error]
    assert found(json.dumps(document)) == [error]
    with pytest.raises(turnspec.ValidationError):
        turnspec.loads(json.dumps(document))
    with pytest.raises(pydantic.ValidationError):
        turnspec.Message.model_validate(document[0])


@pytest.mark.parametrize("kind", ["types", "validate"])
def test_bundles(kind: str) -> None:
    folder = importlib.resources.files("turnspec_generated") / "schemas" / "v3"
    check = jsonschema.Draft202012Validator(json.loads((folder / f"{kind}.schema.json").read_text("utf-8")))
    assert check.is_valid(WIRE)
    assert check.is_valid(in_result())
    assert not check.is_valid([MISPLACED])
    assert not check.is_valid([{"role": "user", "blocks": [{**AUDIO, "seconds": 3}]}])


# --- Models and structs ---


def test_model() -> None:
    block = turnspec.AudioBlock(data=WAV, mimeType="audio/wav")
    message = turnspec.Message(role="user", blocks=[block])
    assert message.blocks[0] == block
    assert block.type == "audio"
    assert turnspec.Message.model_validate(TURN).blocks[1] == block
    assert "A recording, carried in the message itself." in (type(block).__doc__ or "")
    assert json.loads(turnspec.dumps([message])) == [{"role": "user", "blocks": [AUDIO]}]
    inner = turnspec.ToolResultBlock(tool_call_id="c1", blocks=[block])
    assert turnspec.Message(role="user", blocks=[inner]).blocks[0] == inner


def test_model_refuses_misplacement_at_construction() -> None:
    block = turnspec.AudioBlock(data=WAV, mimeType="audio/wav")
    with pytest.raises(pydantic.ValidationError) as caught:
        turnspec.Message(role="assistant", blocks=[block])
    assert [error["type"] for error in caught.value.errors()] == ["block_placement"]
    assert "audio" in str(caught.value)


def test_struct() -> None:
    block = STRUCTS.AudioBlock(data=WAV, mimeType="audio/wav")
    assert block.to_wire() == AUDIO
    assert STRUCTS.UserMessage(blocks=[block]).to_wire() == {"role": "user", "blocks": [AUDIO]}


# --- Flatten and downgrade ---


def test_flatten_keeps_it() -> None:
    assert turnspec.flatten_messages(WIRE) == TURN["blocks"]
    header = {"type": "text", "text": "[user]", "detail": {"role": "user"}}
    assert turnspec.flatten_messages([TURN, TURN]) == [header, *TURN["blocks"]] * 2
    assert turnspec.flatten_messages(in_result())[-1] == AUDIO


@pytest.mark.parametrize("to", ["v1", "v2"])
@pytest.mark.parametrize("messages", [WIRE, in_result()], ids=["turn", "result"])
def test_downgrade_never_drops_it_in_silence(to: str, messages: list[Any]) -> None:
    """There is no text for a recording, so the older sets cannot say what it said."""
    with pytest.raises(turnspec.ConversionError) as caught:
        turnspec.downgrade_messages(messages, to)
    assert caught.value.code == "unknown_block_type"
    assert turnspec.downgrade_messages(messages, "v3").messages == messages


# --- Formats ---


def converted(messages: list[Any], format: str) -> Any:
    """The payload; the fast and the full converter agree on it."""
    report = turnspec.convert_with_report(messages, format)
    assert turnspec.convert_messages(messages, format, on_loss="ignore") == report.payload
    assert turnspec.convert_messages(turnspec.loads(json.dumps(messages)), format, on_loss="ignore") == report.payload
    return report.payload


def refused(messages: list[Any], format: str) -> list[tuple[str, str]]:
    with pytest.raises(turnspec.ConversionError) as caught:
        turnspec.convert_messages(messages, format)
    return [(problem.code, problem.pointer) for problem in caught.value.problems]


@pytest.mark.parametrize("format", ["openai", "openrouter"])
def test_openai(format: str) -> None:
    part = {"type": "input_audio", "input_audio": {"data": WAV, "format": "wav"}}
    assert converted(WIRE, format) == [{"role": "user", "content": [{"type": "text", "text": "What is said?"}, part]}]
    assert refused(in_result(), format) == [("audio_placement", "/2/blocks/0/blocks/0")]


def test_google() -> None:
    part = {"inline_data": {"mime_type": "audio/wav", "data": WAV}}
    assert converted(WIRE, "google")["contents"] == [{"role": "user", "parts": [{"text": "What is said?"}, part]}]
    assert refused(in_result(), "google") == [("audio_placement", "/2/blocks/0/blocks/0")]


def test_anthropic_has_no_place_for_it() -> None:
    assert refused(WIRE, "anthropic") == [("audio_unsupported", "/0/blocks/1")]
    assert refused(in_result(), "anthropic") == [("audio_unsupported", "/2/blocks/0/blocks/0")]
    assert refused(in_result(is_error=True), "anthropic") == [("audio_unsupported", "/2/blocks/0/blocks/0")]


def test_none_is_the_conversation_itself() -> None:
    assert turnspec.convert_messages(WIRE) == WIRE


def test_media_are_checked_and_mended() -> None:
    def turn(**fields: Any) -> list[Any]:
        return [{"role": "user", "blocks": [{**AUDIO, **fields}]}]

    payload, losses = turnspec.convert_with_report(turn(mimeType="Audio/MP3", data=WAV.rstrip("=")), "openai")
    assert payload[0]["content"][0]["input_audio"] == {"data": WAV, "format": "mp3"}
    assert [(loss.code, loss.pointer) for loss in losses] == [
        ("base64_normalized", "/0/blocks/0/data"),
        ("mime_normalized", "/0/blocks/0/mimeType"),
    ]
    assert refused(turn(mimeType="audio/ogg"), "openai") == [("unsupported_media_type", "/0/blocks/0/mimeType")]
    assert refused(turn(mimeType="audio/flac"), "google") == [("mime_mismatch", "/0/blocks/0/mimeType")]
    assert refused(turn(data="?"), "google") == [("bad_base64", "/0/blocks/0/data")]


def test_detail_stays_behind() -> None:
    losses = turnspec.convert_with_report(
        [{"role": "user", "blocks": [{**AUDIO, "detail": {"s": 3}}]}], "openai"
    ).losses
    assert [(loss.code, loss.pointer) for loss in losses] == [("detail_dropped", "/0/blocks/0/detail")]


# --- Rules and codes ---


def test_rules_see_it() -> None:
    broken = [{"role": "user", "blocks": [{**AUDIO, "data": "?"}]}]
    assert [(item.code, item.pointer) for item in turnspec.check_rules(broken)] == [("bad_base64", "/0/blocks/0/data")]
    assert turnspec.check_rules(WIRE) == []


@pytest.mark.parametrize("code", ["audio_placement", "audio_unsupported"])
def test_codes_are_explained(code: str) -> None:
    from turnspec_generated.codes import CODES

    example = CODES[code].example
    assert refused(example["messages"], example["format"]) == [(code, example["pointer"])]
