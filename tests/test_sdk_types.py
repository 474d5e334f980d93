"""Payloads are what the official clients take: by the types of their SDKs, and as they send them."""

from __future__ import annotations

import base64
import copy
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anthropic
import openai
import pytest
from anthropic.types import ContentBlockParam, MessageParam
from google import genai
from google.genai import types as google_types
from hypothesis import given, settings
from openai.types.chat import ChatCompletionMessageParam
from pydantic import ConfigDict, TypeAdapter, ValidationError

from tests.strategies import GOOD_DATA, Wire, conversations, seeded
from turnspec import ConversionError, convert_with_report, request_arguments

STRICT = ConfigDict(extra="forbid")
OPENAI = TypeAdapter(list[ChatCompletionMessageParam], config=STRICT)
ANTHROPIC = TypeAdapter(list[MessageParam])
# The blocks of a request: in messages the SDK also takes those of answers, which let any key pass.
ANTHROPIC_BLOCKS = TypeAdapter(list[ContentBlockParam], config=STRICT)
SENTINEL = "skip_thought_signature_validator"


def exhaust(value: Any) -> None:
    """The SDKs type lists as Iterable, which pydantic only checks item by item, as one goes through them."""
    if isinstance(value, dict):
        for item in value.values():
            exhaust(item)
    elif not isinstance(value, str) and hasattr(value, "__iter__"):
        for item in value:
            exhaust(item)


def check_openai(arguments: dict[str, Any]) -> None:
    assert set(arguments) == {"messages"}
    messages = copy.deepcopy(arguments["messages"])
    for message in messages:
        message.pop("reasoning_content", None)  # a convention of others, not of OpenAI
    exhaust(OPENAI.validate_python(messages, strict=True))


def check_anthropic(arguments: dict[str, Any]) -> None:
    assert set(arguments) <= {"messages", "system"}
    assert isinstance(arguments.get("system", ""), str)
    messages = copy.deepcopy(arguments["messages"])
    for message in messages:
        for block in message["content"]:
            if block["type"] == "thinking":
                block.setdefault("signature", "unsigned")
        exhaust(ANTHROPIC_BLOCKS.validate_python(message["content"]))
    exhaust(ANTHROPIC.validate_python(messages))


def check_google(arguments: dict[str, Any]) -> None:
    assert set(arguments) <= {"contents", "config"}
    google_contents(arguments["contents"])
    if "config" in arguments:
        google_types.GenerateContentConfig.model_validate(arguments["config"])


def canonical(data: str) -> str:
    return base64.b64encode(base64.b64decode(data.replace("-", "+").replace("_", "/"))).decode()


def google_contents(contents: Any) -> list[google_types.Content]:
    """The contents as the SDK types them.

    Its reader of base64 refuses unused bits in the last character, which the API does not mind.
    """
    contents = copy.deepcopy(contents)
    for content in contents:
        for part in content["parts"]:
            for blob in (part.get("inline_data"), part.get("inlineData")):
                if blob:
                    blob["data"] = canonical(blob["data"])
    return [google_types.Content.model_validate(content) for content in contents]


CHECKS = {
    "openai": check_openai,
    "openrouter": check_openai,
    "anthropic": check_anthropic,
    "google": check_google,
}


def converted(conversation: list[Wire]) -> Iterator[tuple[str, dict[str, Any]]]:
    for format in CHECKS:
        try:
            payload = convert_with_report(conversation, format).payload
        except ConversionError:
            continue
        yield format, request_arguments(payload, format)


@settings(max_examples=150, deadline=None)
@given(conversations(block_set="v2"))
def test_types(conversation: list[Wire]) -> None:
    for format, arguments in converted(conversation):
        CHECKS[format](arguments)


def test_types_of_seeded_conversations() -> None:
    seen = dict.fromkeys(CHECKS, 0)
    for seed in range(1000):
        for format, arguments in converted(seeded(seed, block_set="v2")):
            CHECKS[format](arguments)
            seen[format] += 1
    assert min(seen.values()) > 100


def test_the_types_are_strict() -> None:
    """Unknown keys and wrong values are seen, also deep inside."""
    text = {"type": "text", "text": "x"}
    for wrong in (
        {"role": "user", "content": "x", "detail": None},
        {"role": "user", "content": [{**text, "detail": None}]},
        {"role": "tool", "content": "x"},
        {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f"}}]},
    ):
        with pytest.raises(ValidationError):
            check_openai({"messages": [wrong]})
    result = {"type": "tool_result", "tool_use_id": "a", "content": [{**text, "detail": {}}]}
    for content in ([{**text, "detail": None}], [result], [{"type": "thinking", "signature": "x"}]):
        with pytest.raises(ValidationError):
            check_anthropic({"messages": [{"role": "user", "content": content}]})
    for part in ({"text": "x", "detail": None}, {"function_call": {"name": "f", "input": {}}}):
        with pytest.raises(ValidationError):
            check_google({"contents": [{"role": "user", "parts": [part]}]})


# --- Through the clients -----------------------------------------------------------------------------------


class Wiretap:
    """A server on this machine that keeps the body of each request and has nothing to say."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        bodies = self.bodies

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                answer = b'{"error": {"code": 400, "message": "heard", "status": "INVALID_ARGUMENT"}}'
                self.send_response(400)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def wire() -> Iterator[Wiretap]:
    tap = Wiretap()
    yield tap
    tap.close()


def sent_openai(wire: Wiretap, arguments: dict[str, Any]) -> Any:
    client = openai.OpenAI(api_key="none", base_url=wire.url, max_retries=0)
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="m", **arguments)
    return wire.bodies.pop()


def sent_anthropic(wire: Wiretap, arguments: dict[str, Any]) -> Any:
    client = anthropic.Anthropic(api_key="none", base_url=wire.url, max_retries=0)
    with pytest.raises(anthropic.BadRequestError):
        client.messages.create(model="m", max_tokens=1, **arguments)
    return wire.bodies.pop()


def sent_google(wire: Wiretap, arguments: dict[str, Any]) -> Any:
    client = genai.Client(api_key="none", http_options=google_types.HttpOptions(base_url=wire.url))
    with pytest.raises(genai.errors.ClientError):
        client.models.generate_content(model="m", **arguments)
    return wire.bodies.pop()


def sample(format: str) -> list[list[Wire]]:
    """A few conversations that convert, plain and odd ones."""
    found: list[list[Wire]] = []
    for seed in range(400):
        conversation = seeded(seed, block_set="v2")
        try:
            convert_with_report(conversation, format)
        except ConversionError:
            continue
        if set(images(conversation)) <= set(GOOD_DATA.values()):  # see `google_contents`
            found.append(conversation)
    return found[:12]


def images(value: Any) -> list[str]:
    return [block["data"] for turn in value for block in turn["blocks"] if block["type"] == "image"]


def test_openai_client_sends_the_payload(wire: Wiretap) -> None:
    for conversation in sample("openai"):
        payload = convert_with_report(conversation, "openai").payload
        body = sent_openai(wire, request_arguments(payload, "openai"))
        assert body == {"model": "m", "messages": payload}


def test_anthropic_client_sends_the_payload(wire: Wiretap) -> None:
    systems = set()
    for conversation in sample("anthropic"):
        payload = convert_with_report(conversation, "anthropic").payload
        body = sent_anthropic(wire, request_arguments(payload, "anthropic"))
        systems.add("system" in body)
        expected = {key: value for key, value in payload.items() if value is not None}
        assert body == {"model": "m", "max_tokens": 1, **expected}
    assert systems == {True, False}


def test_google_client_sends_the_payload(wire: Wiretap) -> None:
    systems = set()
    for conversation in sample("google"):
        payload = convert_with_report(conversation, "google").payload
        body = sent_google(wire, request_arguments(payload, "google"))
        systems.add("systemInstruction" in body)
        assert google_contents(body["contents"]) == google_contents(payload["contents"])
        if payload["system_instruction"] is None:
            assert "systemInstruction" not in body
        else:
            assert body["systemInstruction"]["parts"] == [{"text": payload["system_instruction"]}]
    assert systems == {True, False}


def call(name: str) -> Wire:
    return {"type": "tool_call", "id": f"id_{name}", "name": name, "input": {"file_name": name}}


def result(name: str) -> Wire:
    return {"type": "tool_result", "tool_call_id": f"id_{name}", "blocks": [{"type": "text", "text": name}]}


def said(role: str, *blocks: Wire) -> Wire:
    return {"role": role, "blocks": list(blocks)}


TEXT = {"type": "text", "text": "x"}
TWO_TURNS = [
    said("user", TEXT),
    said("assistant", call("past")),
    said("user", result("past")),
    said("assistant", TEXT),
    said("user", TEXT),
    said("assistant", TEXT, call("first"), call("second")),
    said("user", result("first"), result("second")),
    said("assistant", call("third")),
    said("user", result("third")),
]


def signatures(body: Any) -> dict[str, Any]:
    """The signature of each call on the wire, by name."""
    parts = [part for content in body["contents"] for part in content["parts"]]
    return {p["functionCall"]["name"]: p.get("thoughtSignature") for p in parts if "functionCall" in p}


def test_unsigned_calls_of_the_current_turn_are_marked_on_the_wire(wire: Wiretap) -> None:
    """The first call of each model turn behind the last text of the user, in the words of the documentation."""
    payload = convert_with_report(TWO_TURNS, "google").payload
    before = copy.deepcopy(payload)
    body = sent_google(wire, request_arguments(payload, "google", unsigned_calls="sentinel"))
    assert signatures(body) == {"past": None, "first": SENTINEL, "second": None, "third": SENTINEL}
    assert payload == before
    body = sent_google(wire, request_arguments(payload, "google"))
    assert set(signatures(body).values()) == {None}


@pytest.mark.parametrize("format", ["openai", "openrouter", "anthropic"])
def test_unsigned_calls_change_nothing_elsewhere(format: str) -> None:
    payload = convert_with_report(TWO_TURNS, format).payload
    plain = request_arguments(payload, format)
    assert request_arguments(payload, format, unsigned_calls="sentinel") == plain


def test_wrong_arguments_are_told() -> None:
    with pytest.raises(ValueError, match="as_is"):
        request_arguments([], "openai", unsigned_calls="never")
    with pytest.raises(ValueError, match="openrouter"):
        request_arguments([], "mistral")
    with pytest.raises(ValueError, match="contents"):
        request_arguments({"messages": []}, "google")
    with pytest.raises(ValueError, match="list"):
        request_arguments({"messages": []}, "openai")
