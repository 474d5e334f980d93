"""The client against a server that behaves: what it sends, what it reads, what it keeps to itself."""

from __future__ import annotations

import base64
import json
import logging
import pickle
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import turnspec.client as public
from tests.interop.both import KINDS, client_of
from tests.interop.stub import OUTPUT, TOOLS, answer, event, events, result, stubbed
from turnspec import ImageBlock, Message, TextBlock
from turnspec.client import (
    AuthenticationFailed,
    ClientError,
    ConnectionFailed,
    EnvironmentClient,
    InvalidMessages,
    ProtocolError,
    RequestTimeout,
    SessionEnded,
    SessionGone,
    Split,
    Task,
    TerminalTool,
    ToolCallRefused,
    ToolFailed,
    ToolSpec,
    wait_until_ready,
)
from turnspec.client import _settings as settings

KEY = "key-that-nobody-may-see"
SECRET = "secret-that-nobody-may-see"
SPEC = {"id": 1}
WIRE = json.loads((Path(__file__).parents[1] / "schema" / "wire.json").read_text("utf-8"))

pytestmark = pytest.mark.parametrize("kind", KINDS)


def test_the_numbers_are_those_of_the_wire(kind: str) -> None:
    assert WIRE["errors"]["unknown_session"]["detail"] == settings.UNKNOWN_SESSION
    assert tuple(WIRE["schemas"]["CallRefused"]["properties"]["reason"]["enum"]) == settings.REFUSAL_REASONS
    numbers = settings.Settings()
    assert numbers.silence == WIRE["stream"]["silence_seconds"]
    assert numbers.ping_every == WIRE["session"]["ping_every_seconds"]
    assert numbers.timeout is not None
    assert numbers.timeout > WIRE["session"]["setup_wait_seconds"]  # servers may let a request wait that long


# --- a session, request by request ---


def test_a_session_from_the_beginning_to_the_end(kind: str) -> None:
    with stubbed() as stub, client_of(kind, stub.url + "/", KEY) as client:
        with client.session(
            task=SPEC, env="Chat Env/x", secrets={"a": SECRET, "b": ("v2", ["example.org"])}
        ) as session:
            stub.scripts["/Chat%20Env%2Fx/call"] = lambda asked: events(event("task_id", "t"), event("end", result()))
            assert session.sid == "sid-1"
            output = session.call_tool("submit", {"text": "ü"})
        assert (output.blocks, output.metadata, output.reward, output.finished, output.skipped) == (
            [TextBlock(text="done")],
            None,
            1.0,
            True,
            [],
        )
    assert [item.path for item in stub.asked] == [
        "/create_session",
        "/create",
        "/Chat%20Env%2Fx/call",
        "/delete",
        "/delete_session",
    ]
    reserve, create, call, delete, _ = stub.asked
    assert {item.method for item in stub.asked} == {"POST"}
    assert {item.headers.get("x-api-key") for item in stub.asked} == {KEY}
    assert "x-session-id" not in reserve.headers
    assert {item.headers["x-session-id"] for item in stub.asked[1:]} == {"sid-1"}
    told = [json.loads(base64.b64decode(item.headers["x-secrets"])) for item in (reserve, create)]
    assert (
        told
        == [{"a": {"value": SECRET, "allowed_domains": []}, "b": {"value": "v2", "allowed_domains": ["example.org"]}}]
        * 2
    )
    assert not any("x-secrets" in item.headers for item in (call, delete))
    assert create.json == {"task_spec": {"id": 1}, "env_name": "Chat Env/x"}
    assert call.json == {"name": "submit", "input": {"text": "ü"}}
    assert (call.headers["accept"], call.headers["content-type"]) == ("text/event-stream", "application/json")


def test_what_a_session_is_created_with(kind: str) -> None:
    with stubbed() as stub, client_of(kind, stub.url) as client:
        for arguments in (
            {"split": "train", "index": -1},
            {"split": "train", "index": 0, "env": "chat", "toolset": "codex"},
            {"task": Task({"id": 2}, "plain")},
            {"task": Task({"id": 2}, "plain"), "env": "chat"},
        ):
            with client.session(**arguments):
                pass
    assert [item.json for item in stub.of("/create")] == [
        {"split": "train", "index": -1},
        {"split": "train", "index": 0, "env_name": "chat", "toolset_name": "codex"},
        {"task_spec": {"id": 2}, "env_name": "plain"},
        {"task_spec": {"id": 2}, "env_name": "chat"},
    ]


@pytest.mark.parametrize(
    "arguments", [{}, {"task": SPEC, "split": "train", "index": 0}, {"split": "train"}, {"index": 0}]
)
def test_a_session_needs_one_task(kind: str, arguments: dict[str, Any]) -> None:
    with (
        stubbed() as stub,
        client_of(kind, stub.url) as client,
        pytest.raises(ValueError, match="either task, or both split and index"),
    ):
        client.session(**arguments)
    assert stub.asked == []


def test_the_last_word_on_the_session_id_is_the_end_event(kind: str) -> None:
    with (
        stubbed(create_session=lambda asked: events(event("task_id", "a"), event("end", '{"sid":"b"}'))) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
    ):
        assert session.sid == "b"
    assert stub.of("/create")[0].headers["x-session-id"] == "b"


@pytest.mark.parametrize("sid", ["a\u00e9", "\t", "", "a\u2028b"])
def test_a_session_id_that_cannot_be_sent(kind: str, sid: str) -> None:
    with (
        stubbed(create_session=lambda asked: events(event("task_id", sid), event("end", ""))) as stub,
        client_of(kind, stub.url) as client,
        pytest.raises(ProtocolError),
    ):
        client.session(task=SPEC).__enter__()
    assert stub.times("/create") == 0


def test_a_session_is_given_back_when_the_block_raises(kind: str) -> None:
    with stubbed() as stub, client_of(kind, stub.url) as client, pytest.raises(KeyError), client.session(task=SPEC):
        raise KeyError
    assert [item.path for item in stub.asked][-2:] == ["/delete", "/delete_session"]


def test_a_session_that_cannot_be_given_back_is_no_error(kind: str) -> None:
    broken = lambda asked: ["reset"]  # noqa: E731
    with (
        stubbed(delete=broken, delete_session=broken) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC),
    ):
        pass
    assert stub.times("/delete") == 4


def test_a_session_is_used_in_its_block_only(kind: str) -> None:
    with stubbed() as stub, client_of(kind, stub.url) as client:
        session = client.session(task=SPEC)
        with pytest.raises(SessionEnded, match="not opened"):
            session.get_messages()
        with session:
            pass
        with pytest.raises(SessionEnded, match="closed"):
            session.call_tool("submit", {})
        with pytest.raises(SessionEnded, match="only once"):
            session.__enter__()
    assert (stub.times("/messages"), stub.times("/call"), stub.times("/create")) == (0, 0, 1)


# --- the conversation ---

TALK = [
    {"role": "system", "blocks": [{"type": "text", "text": "s"}], "detail": None},
    {"role": "user", "blocks": [{"type": "text", "text": "\u2028 u", "detail": {"k": 1}}]},
]


def test_messages_are_models_or_payloads(kind: str) -> None:
    with (
        stubbed(messages=lambda asked: answer(TALK)) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
    ):
        assert session.get_messages() == [
            Message(role="system", blocks=[TextBlock(text="s")]),
            Message(role="user", blocks=[TextBlock(text="\u2028 u", detail={"k": 1})]),
        ]
        assert session.get_messages("openai") == [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "\u2028 u"},
        ]
        assert session.get_messages(format="anthropic", purpose="training", on_loss="raise")["system"] == "s"
        with pytest.raises(ValueError, match="format must be one of"):
            session.get_messages("xml")
    assert stub.times("/messages") == 3


def test_a_404_of_messages_means_the_prompt(kind: str) -> None:
    prompt = [{"type": "text", "text": "p"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}]
    missing = lambda asked: answer({"detail": "Not Found"}, 404)  # noqa: E731
    with (
        stubbed(messages=missing, prompt=lambda asked: answer(prompt)) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
    ):
        blocks = [TextBlock(text="p"), ImageBlock(data="aGk=", mimeType="image/png")]
        assert session.get_messages() == [Message(role="user", blocks=blocks)]
        assert session.get_messages() == [Message(role="user", blocks=blocks)]
        assert session.get_prompt() == blocks
    assert (stub.times("/messages"), stub.times("/prompt")) == (1, 3)


@pytest.mark.parametrize("status", [400, 401, 403, 405, 406, 410, 422, 500, 501])
def test_nothing_else_means_the_prompt(kind: str, status: int) -> None:
    with (
        stubbed(messages=lambda asked: answer({"detail": "why"}, status)) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
        pytest.raises(ClientError, match="why") as caught,
    ):
        session.get_messages()
    assert (caught.value.status, caught.value.detail, caught.value.method) == (status, "why", "GET")
    assert caught.value.url == stub.url + "/messages"
    assert isinstance(caught.value, AuthenticationFailed) == (status in (401, 403))
    assert isinstance(caught.value, SessionGone) == (status == 410)
    assert (stub.times("/messages"), stub.times("/prompt")) == (1, 0)


def test_a_deleted_session(kind: str) -> None:
    gone = lambda asked: answer({"detail": "Active environment not found"}, 404)  # noqa: E731
    with (
        stubbed(messages=gone, prompt=gone, call=gone, task_tools=gone, tools=gone) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
    ):
        for ask in (session.get_messages, session.get_messages, session.get_prompt, session.list_tools):
            with pytest.raises(SessionGone, match="Active environment not found"):
                ask()
        with pytest.raises(SessionGone):
            session.call_tool("submit", {})
        with pytest.raises(SessionEnded, match="does not know it any more"):
            session.call_tool("submit", {})
    assert (stub.times("/messages"), stub.times("/call")) == (2, 1)


def test_unknown_blocks_are_skipped_and_told(kind: str) -> None:
    talk = [
        {"role": "user", "blocks": [{"type": "audio", "wave": 1}, {"type": "text", "text": "u"}]},
        {"role": "assistant", "blocks": [{"type": "tool_call", "id": "c", "name": "n", "input": {}}]},
        {
            "role": "user",
            "blocks": [{"type": "tool_result", "tool_call_id": "c", "blocks": [{"type": "video"}]}],
        },
    ]
    prompt = [{"type": "text", "text": "p"}, {"type": "audio"}]
    output = {**OUTPUT, "blocks": [{"type": "audio"}, {"type": "text", "text": "o"}]}
    with (
        stubbed(
            messages=lambda asked: answer(talk),
            prompt=lambda asked: answer(prompt),
            call=lambda asked: events(event("end", result(output))),
        ) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
    ):
        assert session.get_messages()[0].blocks == [TextBlock(text="u")]
        assert session.skipped == [("/0/blocks/0", "audio"), ("/2/blocks/0/blocks/0", "video")]
        assert session.get_prompt() == [TextBlock(text="p")]
        assert session.skipped == [("/1", "audio")]
        called = session.call_tool("x")
        assert (called.blocks, called.skipped) == ([TextBlock(text="o")], [("/0", "audio")])


@pytest.mark.parametrize(
    ("talk", "code", "pointer"),
    [
        ([{"role": "robot", "blocks": []}], "unknown_role", "/0/role"),
        ([{"role": "user", "blocks": [{"text": "x"}]}], "missing_type", "/0/blocks/0"),
        ([{"role": "user", "blocks": [{"type": "reasoning", "text": "x"}]}], "block_placement", "/0/blocks/0"),
        ([{"role": "user", "blocks": [{"type": "text", "text": 1}]}], "wrong_type", "/0/blocks/0/text"),
        ([{"role": "user"}], "missing_field", "/0"),
    ],
)
def test_messages_that_are_not_valid(kind: str, talk: Any, code: str, pointer: str) -> None:
    with (
        stubbed(messages=lambda asked: answer(talk)) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
        pytest.raises(InvalidMessages, match=code) as caught,
    ):
        session.get_messages()
    assert [(error.code, error.pointer) for error in caught.value.errors] == [(code, pointer)]
    assert stub.times("/prompt") == 0


@pytest.mark.parametrize(
    ("sent", "told"),
    [
        (answer({"messages": []}), "expected a list of messages"),
        (answer([1]), "expected a list of messages"),
        (answer(b"[{]"), "not JSON"),
        (answer(b"[NaN]"), "not JSON"),
        (answer(b"\xff"), "not JSON"),
        (answer(b"[" * 100_000), "not JSON"),
        (answer([], Content_Type="text/html"), "content type is text/html"),
        (answer([], 204), "not JSON"),
    ],
)
def test_answers_that_are_no_messages(kind: str, sent: Any, told: str) -> None:
    with (
        stubbed(messages=lambda asked: sent) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
        pytest.raises(ProtocolError, match=told),
    ):
        session.get_messages()


def test_integers_of_any_length(kind: str) -> None:
    number = 10**5000 + 7
    talk = b'[{"role":"assistant","blocks":[{"type":"tool_call","id":"c","name":"n","input":{"n":1%07d}}]}]'
    talk = talk.replace(b"1%07d", b"1" + b"0" * 4999 + b"7")
    with (
        stubbed(messages=lambda asked: answer(talk)) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
    ):
        assert session.get_messages()[0].blocks[0].input == {"n": number}
        session.call_tool("n", {"n": number})
    assert b"1" + b"0" * 4999 + b"7" in stub.of("/call")[0].body


# --- tools ---


def test_tool_lists(kind: str) -> None:
    listed = {
        "tools": [{"name": "n", "description": "d", "input_schema": None, "new": 1}],
        "terminal_tool": {"name": "t", "arg": None, "description": "e"},
        "supports_score_group": False,
        "new": 1,
    }
    with (
        stubbed(task_tools=lambda asked: answer(listed), tools=lambda asked: answer(listed)) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
    ):
        for source in (client, session):
            assert source.list_tools() == [ToolSpec("n", "d", None)]
            assert source.list_tools("openai") == [
                {"type": "function", "name": "n", "description": "d", "parameters": None}
            ]
            with pytest.raises(ValueError, match="format must be one of"):
                source.list_tools("xml")
        asked = stub.times("/task_tools")
        assert session.terminal_tool() == TerminalTool("t", None, "e")
        assert session.is_assistant_message_final() is True
        assert session.message_block_types() is None
        assert session.block_set() == "v1"
        session.call_terminal_tool("text")
        assert stub.times("/task_tools") == asked  # they are remembered
    assert stub.of("/call")[0].json == {"name": "t", "input": {}}


def test_the_tools_of_the_environment_where_the_session_has_none(kind: str) -> None:
    full = {**TOOLS, "message_block_types": ["text", "image", "reasoning", "tool_call", "tool_result", "audio"]}
    missing = lambda asked: answer({"detail": "Not Found"}, 404)  # noqa: E731
    with (
        stubbed(task_tools=missing, tools=lambda asked: answer(full)) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
    ):
        assert session.list_tools() == []
        assert session.list_tools() == []
        assert session.block_set() == "v2"
        assert session.message_block_types()[-1] == "audio"
    assert (stub.times("/task_tools"), stub.times("/tools")) == (1, 2)


@pytest.mark.parametrize(
    "listed",
    [
        [],
        {},
        {"tools": [{"name": "n"}]},
        {"tools": [{"name": 1, "description": "", "input_schema": None}]},
        {"tools": [{"name": "n", "description": "", "input_schema": []}]},
        {"tools": [{"name": "n", "description": ""}]},
        {"tools": [], "terminal_tool": "t"},
        {"tools": [], "message_block_types": "text"},
    ],
)
def test_answers_that_are_no_tool_list(kind: str, listed: Any) -> None:
    with (
        stubbed(tools=lambda asked: answer(listed)) as stub,
        client_of(kind, stub.url) as client,
        pytest.raises(ProtocolError, match="expected"),
    ):
        client.list_tools()


@pytest.mark.parametrize("value", [["text"], {1: "x"}, {"x": float("nan")}, {"x": object()}, "text", 5])
def test_inputs_that_are_no_objects_are_not_sent(kind: str, value: Any) -> None:
    with stubbed() as stub, client_of(kind, stub.url) as client, client.session(task=SPEC) as session:
        with pytest.raises(ToolCallRefused) as caught:
            session.call_tool("submit", value)
        assert (caught.value.reason, caught.value.tool) == ("bad_input_shape", "submit")
        assert stub.times("/call") == 0


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({"error": "x", "reason": "input_validation"}, "input_validation"),
        ({"error": "'n' is not a valid tool"}, "not_found"),
        ({"error": "Tool input validation error: []", "reason": None}, "input_validation"),
        ({"error": "Tool name collision: n"}, "name_collision"),
        ({"error": "something new", "reason": "something_new"}, "not_found"),
    ],
)
def test_refused_calls(kind: str, told: dict[str, Any], reason: str) -> None:
    body = json.dumps({"ok": False, **told})
    with (
        stubbed(call=lambda asked: events(event("task_id", "t"), event("end", body))) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
    ):
        for _ in range(2):  # the session goes on
            with pytest.raises(ToolCallRefused) as caught:
                session.call_tool("n", {})
            assert (caught.value.reason, caught.value.detail, caught.value.tool) == (reason, told["error"], "n")
    assert stub.times("/call") == 2


def test_a_tool_that_raises_ends_the_session(kind: str) -> None:
    broken = b"event: error\r\ndata: one\r\ndata: two\r\n\r\n"
    with (
        stubbed(call=lambda asked: events(event("task_id", "t"), broken)) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
    ):
        with pytest.raises(ToolFailed, match="one\ntwo") as caught:
            session.call_tool("n", {})
        assert caught.value.detail == "one\ntwo"
        assert stub.times("/delete") == 1  # at once
        with pytest.raises(SessionEnded, match="the tool 'n' failed"):
            session.call_tool("n", {})
    assert (stub.times("/call"), stub.times("/delete")) == (1, 1)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "[]",
        '{"ok":true}',
        '{"ok":1,"output":{}}',
        '{"ok":true,"output":{"blocks":null}}',
        '{"ok":true,"output":{"blocks":[],"reward":"1"}}',
        '{"ok":true,"output":{"blocks":[],"reward":true}}',
        '{"ok":true,"output":{"blocks":[],"reward":1e999}}',
        '{"ok":true,"output":{"blocks":[],"reward":NaN}}',
        '{"ok":true,"output":{"blocks":[],"finished":"no"}}',
        '{"ok":true,"output":{"blocks":[],"metadata":[]}}',
        '{"ok":true,"output":{"blocks":[{"type":"text"}]}}',
        '{"ok":true,"output":{"blocks":[{"type":"reasoning","text":"x"}]}}',
        '{"ok":false}',
        '{"ok":false,"error":1}',
    ],
)
def test_results_of_a_wrong_shape(kind: str, body: str) -> None:
    with (
        stubbed(call=lambda asked: events(event("task_id", "t"), event("end", body))) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
        pytest.raises(ProtocolError),
    ):
        session.call_tool("n", {})
    assert stub.times("/call") == 1


# --- listings ---


def test_listings(kind: str) -> None:
    with stubbed(
        list_environments=lambda asked: answer(["a", "b"]),
        splits=lambda asked: answer([{"name": "train", "type": "train"}, {"name": "odd", "type": "test"}]),
        tasks=lambda asked: answer({"tasks": [{"id": 0}], "env_name": "a"}),
        num_tasks=lambda asked: answer({"num_tasks": 3}),
        task=lambda asked: answer({"task": {"id": 1}, "env_name": "a"}),
        task_range=lambda asked: answer({"tasks": [], "env_name": "a"}),
    ) as stub:
        stub.scripts["/b/tasks"] = stub.scripts["/tasks"]
        with client_of(kind, stub.url) as client:
            assert client.list_environments() == ["a", "b"]
            splits = client.list_splits()
            assert splits == ["train", "odd"]
            assert [split.type for split in splits] == ["train", "test"]
            assert client.list_tasks(splits[1]) == [Task({"id": 0}, "a")]
            assert client.list_tasks("train", env="b") == [Task({"id": 0}, "a")]
            assert client.num_tasks("train") == 3
            assert client.get_task("train", -1) == Task({"id": 1}, "a")
            assert client.get_task_range("train", stop=2) == []
    assert [item.json for item in stub.asked if item.method == "POST"] == [
        {"split": "odd"},
        {"split": "train"},
        {"split": "train"},
        {"split": "train", "index": -1},
        {"split": "train", "stop": 2},
    ]
    assert "x-session-id" not in stub.asked[0].headers


def test_behind_a_deployment_every_request_has_a_session(kind: str) -> None:
    with stubbed(splits=lambda asked: answer([])) as stub, client_of(kind, stub.url) as client:
        client._server.deployment = "owner/name"
        assert client.list_splits() == []
    assert [item.path for item in stub.asked] == ["/create_session", "/splits", "/delete_session"]
    assert {item.headers["x-deployment"] for item in stub.asked} == {"owner/name"}
    assert stub.asked[1].headers["x-session-id"] == "sid-1"


@pytest.mark.parametrize(
    ("path", "ask", "body"),
    [
        ("list_environments", ("list_environments",), {}),
        ("list_environments", ("list_environments",), [1]),
        ("splits", ("list_splits",), [{"name": "a", "type": "other"}]),
        ("splits", ("list_splits",), ["a"]),
        ("tasks", ("list_tasks", "a"), {"tasks": [1]}),
        ("tasks", ("list_tasks", "a"), []),
        ("num_tasks", ("num_tasks", "a"), {"num_tasks": True}),
        ("task", ("get_task", "a", 0), {"task": []}),
    ],
)
def test_listings_of_a_wrong_shape(kind: str, path: str, ask: Any, body: Any) -> None:
    with stubbed(**{path: lambda asked: answer(body)}) as stub, client_of(kind, stub.url) as client:
        with pytest.raises(ProtocolError, match="expected") as caught:
            getattr(client, ask[0])(*ask[1:])
        assert caught.value.url == f"{stub.url}/{path}"


def test_what_a_refused_body_says(kind: str) -> None:
    detail = [{"type": "missing", "loc": ["body", "split"], "msg": "Field required", "input": {}}]
    with stubbed(tasks=lambda asked: answer({"detail": detail}, 422)) as stub, client_of(kind, stub.url) as client:
        with pytest.raises(ClientError, match=r"422: body\.split: Field required") as caught:
            client.list_tasks("a")
        assert caught.value.detail == detail


# --- addresses, keys and secrets ---


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1:80", "ftp://x", "http://", "http://x:y", "http://x?a=1", "http://x#f", "http://u:pass@x", None],
)
def test_addresses_that_are_none(kind: str, url: Any) -> None:
    with pytest.raises(ValueError, match="base_url must") as caught, client_of(kind, url):
        pass
    assert "pass@" not in str(caught.value)


def test_addresses_with_a_slash_or_a_path(kind: str) -> None:
    with stubbed(list_environments=lambda asked: answer(["a"])) as stub:
        stub.scripts["/deep/down/list_environments"] = stub.scripts["/list_environments"]
        for end in ("", "/", "//", "/deep/down", "/deep/down/"):
            with client_of(kind, stub.url + end) as client:
                assert client.list_environments() == ["a"]
                assert not client.base_url.endswith("/")


def test_where_the_key_comes_from(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENREWARD_API_KEY", "from-the-environment")
    with stubbed(list_environments=lambda asked: answer([])) as stub:
        for key in (None, "", KEY):
            with client_of(kind, stub.url, key) as client:
                client.list_environments()
    keys = [item.headers.get("x-api-key") for item in stub.asked]
    assert keys == ["from-the-environment", None, KEY]


@pytest.mark.parametrize("key", ["a\r\nX-Other: b", "schlüssel", "a\x00"])
def test_a_key_that_cannot_be_sent_is_not_told(kind: str, key: str) -> None:
    with pytest.raises(ValueError, match="api_key must be printable ASCII") as caught:
        client_of(kind, "http://127.0.0.1:1", key).__enter__()
    assert key not in str(caught.value)


def test_no_key_and_no_secret_is_told(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echo = lambda asked: answer({"detail": [KEY, {"k": SECRET}, asked.headers.get("x-secrets")]}, 401)  # noqa: E731
    echo_key = lambda asked: answer({"detail": [asked.headers["x-api-key"]]}, 401)  # noqa: E731
    failing = lambda asked: events(event("error", f"no {SECRET} {KEY}"))  # noqa: E731
    problems: list[ClientError] = []
    with (
        stubbed(messages=echo, call=failing, ping=echo, list_environments=echo_key, create=echo) as stub,
        client_of(kind, stub.url, KEY, {"ping_every": 0.05}) as client,
    ):
        with pytest.raises(ClientError) as caught:
            client.list_environments()
        problems.append(caught.value)
        with pytest.raises(ClientError) as caught:
            client.session(task=SPEC, secrets={"s": SECRET}).__enter__()
        problems.append(caught.value)
        del stub.scripts["/create"]
        with client.session(task=SPEC, secrets={"s": (SECRET, [])}) as session:
            with pytest.raises(ClientError) as caught:
                session.get_messages()
            problems.append(caught.value)
            with pytest.raises(ToolFailed) as failed:
                session.call_tool("n")
            problems.append(failed.value)
            assert failed.value.detail == "no *** ***"
        told = repr(client) + repr(session)
    header = base64.b64encode(json.dumps({"s": {"value": SECRET, "allowed_domains": []}}).encode()).decode()
    for problem in problems:
        told += str(problem) + repr(problem) + str(vars(problem)) + str(problem.args)
    for text in (KEY, SECRET, header):
        assert text not in told
        assert text not in caplog.text
    assert problems[0].detail[0] == "***"


def test_errors_can_be_pickled(kind: str) -> None:
    with (
        stubbed(messages=lambda asked: answer([{"role": "x", "blocks": []}])) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
        pytest.raises(InvalidMessages) as caught,
    ):
        session.get_messages()
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.errors, again.url) == (str(caught.value), caught.value.errors, caught.value.url)
    split = pickle.loads(pickle.dumps(Split("odd", "test")))
    assert (split, split.type) == ("odd", "test")


def test_one_base_for_all_errors(kind: str) -> None:
    classes = [item for item in vars(public).values() if isinstance(item, type) and issubclass(item, Exception)]
    assert len(classes) > 15
    assert all(issubclass(item, ClientError) for item in classes)
    assert issubclass(RequestTimeout, TimeoutError)


# --- pings ---


def test_pings_keep_a_session_alive(kind: str) -> None:
    quiet = lambda asked: events(0.5, event("end", result()))  # noqa: E731
    with stubbed(call=quiet) as stub, client_of(kind, stub.url, KEY, {"ping_every": 0.05, "silence": 2.0}) as client:
        with client.session(task=SPEC) as session:
            session.call_tool("n")
        during = stub.times("/ping")
        assert during >= 3
        time.sleep(0.2)
        assert stub.times("/ping") <= during + 1
    ping = stub.of("/ping")[0]
    assert (ping.headers["x-session-id"], ping.headers["x-api-key"], ping.body) == ("sid-1", KEY, b"")


@pytest.mark.parametrize("script", [["reset"], answer({"detail": "busy"}, 503), answer({"detail": "no"}, 404)])
def test_failing_pings_disturb_nobody(kind: str, script: Any) -> None:
    quiet = lambda asked: events(0.3, event("end", result()))  # noqa: E731
    with (
        stubbed(call=quiet, ping=lambda asked: script) as stub,
        client_of(kind, stub.url, "", {"ping_every": 0.05, "silence": 2.0}) as client,
        client.session(task=SPEC) as session,
    ):
        session.call_tool("n")
        assert session.get_messages() == []
    gone = b" 404 " in script[0] if isinstance(script[0], bytes) else False
    assert (stub.times("/ping") == 1) is gone  # there is no session any more: no use in asking again


def test_the_ping_thread_ends_with_the_last_session(kind: str) -> None:
    with stubbed() as stub, client_of(kind, stub.url, "", {"ping_every": 0.05}) as client:
        for _ in range(2):
            with client.session(task=SPEC):
                time.sleep(0.1)
            deadline = time.monotonic() + 2
            while any(thread.name == "turnspec-ping" for thread in threading.enumerate()):
                assert time.monotonic() < deadline
                time.sleep(0.01)


# --- being there ---


def closed_port() -> str:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{found.getsockname()[1]}"


def test_nobody_there(kind: str) -> None:
    with client_of(kind, closed_port()) as client:
        for ask in (client.list_environments, client.session(task=SPEC).__enter__):
            with pytest.raises(ConnectionFailed, match="cannot connect"):
                ask()


def test_waiting_for_a_server(kind: str) -> None:
    starting = lambda asked: answer({"status": "ok"}) if asked.time >= 3 else answer({"detail": "soon"}, 503)  # noqa: E731
    with stubbed(health=starting) as stub:
        with client_of(kind, stub.url) as client:
            client.wait_until_ready(10)
        assert stub.times("/health") == 4
        wait_until_ready(stub.url + "/", 10)
    with (
        client_of(kind, closed_port()) as client,
        pytest.raises(RequestTimeout, match=r"not ready after 0\.2 s: cannot"),
    ):
        client.wait_until_ready(0.2)
    with stubbed(health=lambda asked: answer({"detail": "soon"}, 503)) as stub:
        with pytest.raises(RequestTimeout, match="soon") as caught:
            wait_until_ready(stub.url, 0.2)
        assert caught.value.status == 503


def test_threads_may_share_a_client(kind: str) -> None:
    if kind != "blocking":
        return
    numbered = lambda asked: events(event("task_id", f"sid-{asked.time}"), event("end", ""))  # noqa: E731
    echo = lambda asked: events(  # noqa: E731
        event("end", result({**OUTPUT, "metadata": {"sid": asked.headers["x-session-id"], **asked.json["input"]}}))
    )
    with stubbed(create_session=numbered, call=echo) as stub, EnvironmentClient(stub.url, "") as client:
        wrong: list[Any] = []

        def work() -> None:
            with client.session(task=SPEC) as session:
                for turn in range(5):
                    found = session.call_tool("n", {"turn": turn}).metadata
                    if found != {"sid": session.sid, "turn": turn}:
                        wrong.append(found)

        threads = [threading.Thread(target=work) for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert stub.times("/call") == 100
