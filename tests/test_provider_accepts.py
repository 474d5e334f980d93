"""No conversion that does not raise gives a payload that the provider refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from tests.provider import refusals
from tests.strategies import conversations, seeded, wild_conversations
from turnspec import ConversionError, ValidationError, convert_with_report

FORMATS = ("openai", "anthropic", "google")
PURPOSES = ("request", "training")
SET = "v2"  # what the shapes in `provider/` describe
VECTORS = Path(__file__).parent / "vectors"


def refused(conversation: list[Any]) -> list[str]:
    """What the providers would say to every payload that the conversation converts to."""
    found = []
    for format in FORMATS:
        for purpose in PURPOSES:
            try:
                payload = convert_with_report(conversation, format, purpose=purpose).payload
            except ConversionError:
                continue
            found += [f"{format}, {purpose}: {problem}" for problem in refusals(format, payload, purpose)]
    return found


@settings(max_examples=300, deadline=None)
@given(conversations(block_set=SET))
def test_conversations(conversation: list[Any]) -> None:
    assert refused(conversation) == []


@settings(max_examples=200, deadline=None)
@given(wild_conversations(block_set=SET))
def test_wild_conversations(conversation: list[Any]) -> None:
    assert refused(conversation) == []


@pytest.mark.parametrize("start", range(0, 5000, 500))
def test_seeded_conversations(start: int) -> None:
    found = {seed: problems for seed in range(start, start + 500) if (problems := refused(seeded(seed, block_set=SET)))}
    assert found == {}


def test_enough_of_them_convert() -> None:
    """The proof would be empty if nearly all of them raised."""
    for format in FORMATS:
        converted = 0
        for seed in range(400):
            try:
                convert_with_report(seeded(seed, block_set=SET), format)
            except ConversionError:
                continue
            converted += 1
        assert converted > 50, format


def conversations_in(value: Any) -> Iterator[list[Any]]:
    """Every list under a key `messages`, wherever it stands in a file of vectors."""
    if isinstance(value, dict):
        if isinstance(value.get("messages"), list):
            yield value["messages"]
        for item in value.values():
            yield from conversations_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from conversations_in(item)


def test_vectors() -> None:
    found = []
    for path in sorted(VECTORS.rglob("*.json")):
        for conversation in conversations_in(json.loads(path.read_text(encoding="utf-8"))):
            try:
                found += refused(conversation)
            except ValidationError:
                continue
    assert found == []


# --- The checks themselves can fail ------------------------------------------------------------------------

PNG = "iVBORw0KGgoAAAAN"
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ASKED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
ANSWER = {"role": "tool", "tool_call_id": "c1", "content": "x"}
HELLO = {"role": "user", "content": "hi"}


def call(**changes: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": [{**CALL, **changes}]}


def image(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


REFUSED_BY_OPENAI: dict[str, list[Any]] = {
    "nothing": [],
    "unknown role": [{"role": "bot", "content": "x"}],
    "null without calls": [HELLO, {"role": "assistant", "content": None}],
    "no content": [HELLO, {"role": "assistant"}],
    "null from the user": [{"role": "user", "content": None}],
    "no parts": [{"role": "user", "content": []}],
    "no calls": [HELLO, {"role": "assistant", "content": "x", "tool_calls": []}],
    "image of the assistant": [{"role": "assistant", "content": [image(f"data:image/png;base64,{PNG}")]}],
    "image of a tool": [HELLO, ASKED, {**ANSWER, "content": [image(f"data:image/png;base64,{PNG}")]}],
    "jpg": [{"role": "user", "content": [image(f"data:image/jpg;base64,{PNG}")]}],
    "no data": [{"role": "user", "content": [image("data:image/png;base64,")]}],
    "no padding": [{"role": "user", "content": [image("data:image/png;base64,AAA")]}],
    "empty id": [HELLO, call(id=""), {**ANSWER, "tool_call_id": ""}],
    "long id": [HELLO, call(id="x" * 41), {**ANSWER, "tool_call_id": "x" * 41}],
    "bad name": [HELLO, call(function={"name": "a.b", "arguments": "{}"}), ANSWER],
    "name with a line end": [HELLO, call(function={"name": "ab\n", "arguments": "{}"}), ANSWER],
    "no JSON": [HELLO, call(function={"name": "f", "arguments": "{"}), ANSWER],
    "no object": [HELLO, call(function={"name": "f", "arguments": "[]"}), ANSWER],
    "not a number": [HELLO, call(function={"name": "f", "arguments": '{"a": NaN}'}), ANSWER],
    "id twice": [HELLO, {**ASKED, "tool_calls": [CALL, CALL]}, ANSWER],
    "no result": [HELLO, ASKED, HELLO],
    "late result": [HELLO, ASKED, HELLO, ANSWER],
    "two results": [HELLO, ASKED, ANSWER, ANSWER],
    "result first": [ANSWER],
    "result of nothing": [HELLO, ANSWER],
    "open call": [HELLO, ASKED],
    "surrogate": [{"role": "user", "content": "\ud800"}],
    "surrogate in a key": [HELLO, {**ASKED, "\udfff": 1}, ANSWER],
    "infinity": [{"role": "user", "content": "x", "n": float("inf")}],
}


def said(role: str, *content: Any) -> dict[str, Any]:
    return {"role": role, "content": list(content)}


def picture(data: str = PNG, media_type: str = "image/png") -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


TEXT = {"type": "text", "text": "x"}
USE = {"type": "tool_use", "id": "c1", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "c1", "content": [TEXT]}
ASK = said("user", TEXT)
SAY = said("assistant", TEXT)

REFUSED_BY_ANTHROPIC: dict[str, list[Any]] = {
    "nothing": [],
    "system turn": [said("system", TEXT)],
    "no content": [said("user"), SAY],
    "empty assistant turn inside": [ASK, said("assistant"), ASK],
    "empty text": [said("user", {"type": "text", "text": ""})],
    "blank text": [said("user", {"type": "text", "text": "\u00a0\n"})],
    "unknown key": [said("user", {**TEXT, "detail": None})],
    "image of the assistant": [ASK, said("assistant", picture())],
    "jpg": [said("user", picture(media_type="image/jpg"))],
    "wrong media type": [said("user", picture(media_type="image/jpeg"))],
    "wrong media type in a result": [
        ASK,
        said("assistant", USE),
        said("user", {**RESULT, "content": [picture(media_type="image/gif")]}),
    ],
    "no data": [said("user", picture(""))],
    "bad id": [ASK, said("assistant", {**USE, "id": "a|b"}), said("user", {**RESULT, "tool_use_id": "a|b"})],
    "bad name": [ASK, said("assistant", {**USE, "name": "a.b"}), said("user", RESULT)],
    "id twice in a turn": [ASK, said("assistant", USE, USE), said("user", RESULT)],
    "id twice": [
        ASK,
        said("assistant", USE),
        said("user", RESULT),
        said("assistant", USE),
        said("user", RESULT),
    ],
    "no result": [ASK, said("assistant", USE), ASK],
    "open call": [ASK, said("assistant", USE)],
    "result behind text": [ASK, said("assistant", USE), said("user", TEXT, RESULT)],
    "two results": [ASK, said("assistant", USE), said("user", RESULT, RESULT)],
    "result of nothing": [ASK, SAY, said("user", RESULT)],
    "result first": [said("user", RESULT)],
    "image in a failed result": [
        ASK,
        said("assistant", USE),
        said("user", {**RESULT, "is_error": True, "content": [picture()]}),
    ],
    "empty failed result": [
        ASK,
        said("assistant", USE),
        said("user", {**RESULT, "is_error": True, "content": []}),
    ],
    "empty text in a result": [
        ASK,
        said("assistant", USE),
        said("user", {**RESULT, "content": [{"type": "text", "text": ""}]}),
    ],
    "empty signature": [ASK, said("assistant", {"type": "thinking", "thinking": "x", "signature": ""}, TEXT)],
    "thinking last": [ASK, said("assistant", TEXT, {"type": "thinking", "thinking": "x"})],
    "thinking last of two": [ASK, SAY, said("assistant", {"type": "thinking", "thinking": "x"}), ASK],
    "space at the end": [ASK, said("assistant", {"type": "text", "text": "x "})],
}


def content(role: str, *parts: Any) -> dict[str, Any]:
    return {"role": role, "parts": list(parts)}


P = {"text": "x"}
FC = {"function_call": {"name": "f", "args": {}}}
FR = {"function_response": {"name": "f", "response": {"output": "x"}}}
U = content("user", P)

REFUSED_BY_GOOGLE: dict[str, list[Any]] = {
    "nothing": [],
    "unknown role": [content("assistant", P)],
    "no parts": [content("user")],
    "empty text": [content("user", {"text": ""})],
    "no field": [content("user", {})],
    "two fields": [content("user", {**P, "inline_data": {"mime_type": "image/png", "data": PNG}})],
    "gif": [content("user", {"inline_data": {"mime_type": "image/gif", "data": PNG}})],
    "bad base64": [content("user", {"inline_data": {"mime_type": "image/png", "data": "A"}})],
    "bad name": [
        U,
        content("model", {"function_call": {"name": "2f", "args": {}}}),
        content("user", {"function_response": {"name": "2f", "response": {}}}),
    ],
    "no name": [U, content("model", FC), content("user", {"function_response": {"response": {}}})],
    "call of the user": [content("user", FC), content("user", FR)],
    "response of the model": [U, content("model", FC), content("model", FR)],
    "call first": [content("model", FC), content("user", FR)],
    "call behind a model turn": [U, content("model", P), content("model", FC), content("user", FR)],
    "no response": [U, content("model", FC), U],
    "late response": [U, content("model", FC), U, content("user", FR)],
    "too few": [U, content("model", FC, FC), content("user", FR), U],
    "too many": [U, content("model", FC), content("user", FR, FR)],
    "another name": [
        U,
        content("model", FC),
        content("user", {"function_response": {"name": "g", "response": {}}}),
    ],
    "response of nothing": [U, content("user", FR)],
    "open call": [U, content("model", FC)],
    "id of its own": [content("user", {**P, "id": "x"})],
}


@pytest.mark.parametrize("case", REFUSED_BY_OPENAI)
def test_openai_refuses(case: str) -> None:
    assert refusals("openai", REFUSED_BY_OPENAI[case])


@pytest.mark.parametrize("case", REFUSED_BY_ANTHROPIC)
def test_anthropic_refuses(case: str) -> None:
    assert refusals("anthropic", {"system": None, "messages": REFUSED_BY_ANTHROPIC[case]})


@pytest.mark.parametrize("case", REFUSED_BY_GOOGLE)
def test_google_refuses(case: str) -> None:
    assert refusals("google", {"system_instruction": None, "contents": REFUSED_BY_GOOGLE[case]})


@pytest.mark.parametrize("system", ["", " \n", ["x"], 1])
def test_system_is_refused(system: Any) -> None:
    assert refusals("anthropic", {"system": system, "messages": [ASK]})
    assert refusals("google", {"system_instruction": system, "contents": [U]})


def test_open_ends_are_for_training() -> None:
    two = [HELLO, {**ASKED, "tool_calls": [CALL, {**CALL, "id": "c2"}]}, ANSWER]
    uses = [ASK, said("assistant", USE, {**USE, "id": "c2"}), said("user", RESULT)]
    calls = [U, content("model", FC, FC), content("user", FR)]
    for format, payload in (
        ("openai", two),
        ("openai", two[:2]),
        ("openai", [HELLO, {"role": "assistant", "content": "x "}]),
        ("anthropic", {"messages": uses}),
        ("anthropic", {"messages": uses[:2]}),
        ("anthropic", {"messages": [ASK, said("assistant", {"type": "text", "text": "x "})]}),
        ("google", {"contents": calls}),
        ("google", {"contents": calls[:2]}),
    ):
        assert refusals(format, payload, "training") == [], payload
    for format, payload in (
        ("openai", [*two, HELLO]),
        ("anthropic", {"messages": [*uses, ASK]}),
        ("google", {"contents": [*calls, U]}),
    ):
        assert refusals(format, payload, "training"), payload
