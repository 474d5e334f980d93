"""The server answers as `schema/wire.json` says and as the reference SDK's server does."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from openreward import environments as sdk
from pydantic import BaseModel

from tests.servertools import Running, events, running
from turnspec import environment as ours
from turnspec_generated import wire
from turnspec_generated.names import MESSAGE_BLOCK_TYPES


class Sub(BaseModel):
    text: str


CONVERSATION = [
    {"role": "system", "blocks": [{"type": "text", "text": "Be brief."}]},
    {
        "role": "user",
        "blocks": [{"type": "text", "text": "Grüße"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}],
    },
    {
        "role": "assistant",
        "blocks": [
            {"type": "reasoning", "text": "Look.", "signature": "s=="},
            {"type": "tool_call", "id": "c1", "name": "read", "input": {"path": "a\u2028.txt", "n": 1.5}},
        ],
    },
    {
        "role": "user",
        "blocks": [
            {
                "type": "tool_result",
                "tool_call_id": "c1",
                "blocks": [{"type": "text", "text": "x"}],
                "is_error": True,
            }
        ],
        "detail": {"k": 1},
    },
]


def environments(made: Any) -> list[type]:
    """The same environments, written for either package: only the import differs."""

    class Chat(made.Environment):  # type: ignore[misc]
        def __init__(self, task_spec: Any = {}, secrets: Any = {}) -> None:  # noqa: B006
            super().__init__(task_spec, secrets)
            self.secrets = dict(secrets)
            if task_spec.get("fail") == "init":
                raise ValueError("no such task")

        def setup(self) -> None:
            if self.task_spec.get("fail") == "setup":
                raise ValueError("bad setup")

        @classmethod
        def list_splits(cls) -> list[Any]:
            return ["train", made.Split(name="odd", type="validation"), "other"]

        @classmethod
        def list_tasks(cls, split: str) -> list[dict[str, Any]]:
            return [{"id": index, "split": split} for index in range(3)]

        def get_messages(self) -> list[Any]:
            if self.task_spec.get("fail") == "messages":
                raise ValueError("bad messages")
            return [made.Message.model_validate(message) for message in self.task_spec.get("conversation", [])]

        async def submit(self, params):  # type: ignore[no-untyped-def]
            """Hand in the answer."""
            block = made.TextBlock(text="ok: " + params.text)
            return made.ToolOutput(blocks=[block], metadata={"n": 1}, reward=1.0, finished=True)

        def noargs(self):  # type: ignore[no-untyped-def]
            """No arguments."""
            return made.ToolOutput(blocks=[made.TextBlock(text=json.dumps(self.secrets))])

        async def kaboom(self):  # type: ignore[no-untyped-def]
            raise ValueError("kaboom line1\nline2")

        def wrong(self):  # type: ignore[no-untyped-def]
            return "text"

        def big(self, params):  # type: ignore[no-untyped-def]
            return made.ToolOutput(blocks=[made.TextBlock(text=params.text * 3000)])

        for _name in ("submit", "noargs", "kaboom", "wrong", "big"):
            _tool = locals()[_name]
            _tool.__annotations__ = {"params": Sub, "return": made.ToolOutput}
            if _name not in ("submit", "big"):
                del _tool.__annotations__["params"]
            locals()[_name] = made.tool(_tool)

    class Plain(made.Environment):  # type: ignore[misc]
        @classmethod
        def list_splits(cls) -> list[Any]:
            return ["test"]

        @classmethod
        def list_tasks(cls, split: str) -> list[dict[str, Any]]:
            return [{"id": 7}]

        async def get_prompt(self) -> list[Any]:
            return [
                made.TextBlock(text="What?", detail={"a": None}),
                made.ImageBlock(data="aGk=", mimeType="image/png"),
            ]

        def answer(self, params):  # type: ignore[no-untyped-def]
            """Grades the message."""
            return made.ToolOutput(blocks=[], reward=float(len(params.text)), finished=True)

        answer.__annotations__ = {"params": Sub, "return": made.ToolOutput}  # noqa: RUF012
        answer = made.terminal(made.tool(answer))

    return [Chat, Plain]


@pytest.fixture(scope="module")
def mine() -> Iterator[Running]:
    with running(ours.Server(environments(ours))) as server:
        yield server


@pytest.fixture(scope="module")
def reference() -> Iterator[Running]:
    with running(sdk.Server(environments(sdk)).app) as server:  # type: ignore[arg-type]
        yield server


def test_split_types_are_those_of_the_schema() -> None:
    from turnspec.environment import _types

    schema = json.loads((__import__("pathlib").Path(__file__).parent.parent / "schema/wire.json").read_text())
    assert list(_types.SPLIT_TYPES) == schema["schemas"]["Split"]["properties"]["type"]["enum"]


# --- the same as the reference, request by request ---

PLAIN_REQUESTS: list[tuple[str, str, Any]] = [
    ("GET", "/health", None),
    ("GET", "/list_environments", None),
    ("GET", "/chat/splits", None),
    ("GET", "/CHAT/splits", None),
    ("GET", "/chat/tools", None),
    ("GET", "/plain/tools", None),
    ("POST", "/chat/tasks", {"split": "train"}),
    ("POST", "/chat/tasks", {"split": "nix"}),
    ("POST", "/chat/tasks", {}),
    ("POST", "/chat/tasks", {"split": "train", "more": 1}),
    ("POST", "/chat/tasks", {"split": 1}),
    ("POST", "/chat/tasks", []),
    ("POST", "/chat/num_tasks", {"split": "other"}),
    ("POST", "/chat/task", {"split": "train", "index": 1}),
    ("POST", "/chat/task", {"split": "train", "index": -1}),
    ("POST", "/chat/task", {"split": "train", "index": "1"}),
    ("POST", "/chat/task", {"split": "train", "index": 3}),
    ("POST", "/chat/task", {"split": "train", "index": 10**30}),
    ("POST", "/chat/task", {"split": "train", "index": None}),
    ("POST", "/chat/task", {"split": "train", "index": 1.5}),
    ("POST", "/chat/task_range", {"split": "train"}),
    ("POST", "/chat/task_range", {"split": "train", "start": 1, "stop": 3}),
    ("POST", "/chat/task_range", {"split": "train", "start": -2, "stop": 99}),
    ("POST", "/chat/task_range", {"split": "train", "start": None, "stop": -9}),
    ("GET", "/tools?a=1", None),
    ("POST", "/tasks", {"split": "train"}),
    ("GET", "/nope/tools", None),
    ("GET", "/chat/nope/tools", None),
    ("GET", "/health/tools", None),
    ("GET", "/", None),
    ("GET", "/chat/call", None),
    ("POST", "/health", None),
    ("HEAD", "/chat/tools", None),
    ("OPTIONS", "/ping", None),
    ("POST", "/ping", None),
    ("POST", "/delete", None),
    ("POST", "/create", {"task_spec": {}}),
    ("GET", "/chat/messages", None),
]


@pytest.mark.parametrize(("method", "path", "body"), PLAIN_REQUESTS, ids=lambda value: str(value)[:40])
def test_same_answer_as_the_reference(mine: Running, reference: Running, method: str, path: str, body: Any) -> None:
    options = {} if body is None else {"json": body}
    given, expected = (server.http.request(method, path, **options) for server in (mine, reference))
    assert given.status_code == expected.status_code
    assert given.headers.get("location") == expected.headers.get("location")
    assert given.headers.get("content-type") == expected.headers.get("content-type")
    if given.status_code == 422:
        ids = [[(error["type"], error["loc"]) for error in answer.json()["detail"]] for answer in (given, expected)]
        # pydantic gives other names for numbers in text or with a fraction, and for a body that is a list.
        names = {"model_attributes_type": "dict_type", "int_from_float": "int_type"}
        assert sorted(ids[0]) == sorted((names.get(kind, kind), loc) for kind, loc in ids[1])
    else:
        assert given.text == expected.text


CREATES: list[Any] = [
    {"task_spec": {"id": 1}},
    {"task_spec": {"id": 1}, "env_name": "plain"},
    {"task_spec": {"id": 1}, "env_name": "Plain"},
    {"task_spec": {"id": 1}, "env_name": None},
    {"task_spec": {"id": 1}, "env_name": "nope"},
    {"split": "train", "index": 1},
    {"split": "train", "index": 9},
    {"split": "nix", "index": 0},
    {"split": "train"},
    {"split": "train", "index": 1, "task_spec": {}},
    {"split": "train", "task_spec": {}},
    {},
    {"task_spec": None},
    {"task_spec": []},
    {"task_spec": {}, "more": 1},
    {"task_spec": {"fail": "init"}},
]


@pytest.mark.parametrize("body", CREATES, ids=json.dumps)
def test_create_as_the_reference(mine: Running, reference: Running, body: Any) -> None:
    sid = f"session {json.dumps(body)}"
    found = []
    for server in (mine, reference):
        answer = server.post("/create", sid, json=body)
        told = answer.json() if answer.status_code != 422 else None
        found.append((answer.status_code, told, server.post("/ping", sid).status_code))
    assert found[0] == found[1]


def test_session_as_the_reference(mine: Running, reference: Running) -> None:
    """A whole session, answer by answer, streams included."""

    def walk(server: Running) -> list[Any]:
        task = {"conversation": CONVERSATION}
        headers = {"X-Secrets": base64.b64encode(b'{"k": {"value": "v", "allowed_domains": []}}').decode()}
        assert server.post("/create", "s1", json={"task_spec": task}, headers=headers).json() == {"sid": "s1"}
        found: list[Any] = [server.post("/create", "s1", json={"task_spec": task}).json()]
        for path in ("/chat/messages", "/chat/prompt", "/chat/task_tools", "/plain/prompt"):
            answer = server.get(path, "s1")
            found.append((path, answer.status_code, answer.headers["content-type"], answer.json()))
        for name, input in (
            ("noargs", {}),
            ("noargs", {"ignored": 1}),
            ("nix", {}),
            ("kaboom", {}),
            ("wrong", {}),
            ("__init__", {}),
            ("get_messages", {}),
            ("submit", {}),
            ("submit", {"text": "x"}),
            ("submit", {"text": "again"}),
            ("nix", {}),
        ):
            told = server.call("s1", name, input)
            assert told[0][0] == "task_id"
            found.append([(kind, _comparable(data)) for kind, data in told[1:]])
        found.append([server.post(path, "s1").json() for path in ("/ping", "/delete_session", "/ping", "/delete")])
        for method, path in (("GET", "/chat/messages"), ("POST", "/ping"), ("GET", "/chat/task_tools")):
            answer = server.http.request(method, path, headers={"X-Session-ID": "s1"})
            found.append((answer.status_code, answer.json()))
        found.append(server.post("/chat/call", "s1", json={"name": "a", "input": {}}).json())
        found += [server.post(path, "s1").json() for path in ("/delete", "/delete_session")]
        assert server.post("/create", "s1", json={"task_spec": {}}).status_code == 200
        return found

    given, expected = walk(mine), walk(reference)
    assert given == expected


def _comparable(data: str) -> Any:
    """The result of a call; what is wrong with an input without the links that pydantic adds."""
    import re

    try:
        return json.loads(re.sub(r", 'url': '[^']*'", "", data))
    except ValueError:
        return data


@pytest.mark.parametrize("fail", ["setup", "messages"])
def test_failing_environment_as_the_reference(mine: Running, reference: Running, fail: str) -> None:
    def walk(server: Running) -> list[Any]:
        sid = server.create({"fail": fail})
        answers = [server.get(f"/chat/{name}", sid) for name in ("messages", "prompt", "task_tools")]
        answers.append(server.post("/chat/call", sid, json={"name": "noargs", "input": {}}))
        return [(answer.status_code, answer.json() if answer.status_code != 200 else None) for answer in answers]

    assert walk(mine) == walk(reference)


def test_prompt_environment_as_the_reference(mine: Running, reference: Running) -> None:
    def walk(server: Running) -> list[Any]:
        sid = server.create({}, env_name="plain")
        answers = [server.get(f"/plain/{name}", sid).json() for name in ("messages", "prompt", "task_tools")]
        told = server.call(sid, "answer", {"text": "four"}, env="plain")
        return [*answers, json.loads(told[1][1])]

    assert walk(mine) == walk(reference)


def test_messages_bytes_are_those_of_the_reference(mine: Running, reference: Running) -> None:
    bodies = [
        server.get("/chat/messages", server.create({"conversation": CONVERSATION})).content
        for server in (mine, reference)
    ]
    assert bodies[0] == bodies[1]


# --- ours alone ---


def test_tool_list_names_the_block_types(mine: Running) -> None:
    assert mine.get("/chat/tools").json()["message_block_types"] == list(MESSAGE_BLOCK_TYPES)


def test_double_slash_is_answered(mine: Running) -> None:
    """The reference client pings there where its base address ends in a slash."""
    sid = mine.create()
    with socket.create_connection(("127.0.0.1", mine.port)) as raw:
        raw.sendall(f"POST //ping HTTP/1.1\r\nHost: x\r\nX-Session-ID: {sid}\r\nContent-Length: 0\r\n\r\n".encode())
        assert raw.recv(9999).startswith(b"HTTP/1.1 200 ")


def test_trailing_slash_is_redirected(mine: Running) -> None:
    answer = mine.get("/chat/tools/?a=1")
    assert (answer.status_code, answer.headers["location"]) == (307, "/chat/tools?a=1")


def test_redirect_stays_on_this_server(mine: Running) -> None:
    for path in ("//evil.example/x", "/%0d%0aX-A: b/x", "/%2F%2Fevil.example"):
        with socket.create_connection(("127.0.0.1", mine.port)) as raw:
            raw.sendall(f"GET {path.replace(' ', '%20')} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            answer = b""
            while piece := raw.recv(9999):
                answer += piece
        head = answer.decode().lower()
        assert head.startswith("http/1.1 308")
        assert "\r\nlocation: /chat/" in head
        assert "\r\nx-a" not in head


def test_stream_headers(mine: Running) -> None:
    answer = mine.post("/create_session", json={})
    assert answer.headers["content-type"] == wire.STREAM_TYPE
    assert {name: answer.headers[name] for name in wire.STREAM_HEADERS} == wire.STREAM_HEADERS
    assert [name for name, _ in events(answer.content)] == ["task_id", "end"]


def test_replay_runs_nothing(mine: Running) -> None:
    sid = mine.create()
    first = mine.call(sid, "submit", {"text": "x"})
    again = mine.call(sid, "whatever", {}, task_id=first[0][1])
    assert again == first
    assert mine.call(sid, "submit", {"text": "x"}, task_id="nix") == [("error", "unknown task_id")]
    other = mine.create()
    assert mine.call(other, "submit", {"text": "x"}, task_id=first[0][1]) == [("error", "unknown task_id")]


@pytest.mark.parametrize("text", ["ab ", "é\u2028\u0085", "   ", "\u00a0x", "\n \t", "\U0001f600 "])
def test_long_results_survive_every_reader(mine: Running, text: str) -> None:
    """The reference client strips white space at the start of a piece, others split at odd line ends."""
    told = mine.call(mine.create(), "big", {"text": text})
    assert len(told) > 2
    assert [name for name, _ in told[1:]] == ["chunk"] * (len(told) - 2) + ["end"]
    for _, data in told[1:]:
        assert data == data.lstrip()
        assert len(data) <= wire.CHUNK_CHARACTERS + 6
        assert data.splitlines() == [data]
    result = json.loads("".join(data for _, data in told[1:]))
    assert result["output"]["blocks"][0]["text"] == text * 3000


def test_schema_of_the_answers(mine: Running) -> None:
    """Every JSON answer is what the OpenAPI document says."""
    from importlib import resources

    from jsonschema import Draft202012Validator
    from referencing import Registry
    from referencing.jsonschema import DRAFT202012

    document = json.loads(resources.files("turnspec_generated").joinpath("openapi.json").read_text())
    registry: Any = Registry().with_resource("urn:doc", DRAFT202012.create_resource(document))
    sid = mine.create({"conversation": CONVERSATION})
    bodies = {"split": "train", "index": 0}
    for route in wire.ROUTES:
        if route.response is None or route.name in ("create", "delete"):
            continue
        body = {key: bodies[key] for key in wire.REQUESTS[route.request]["required"]} if route.request else None
        path = route.path.replace("{env}", "chat")
        options = {} if body is None else {"json": body}
        answer = mine.http.request(route.method, path, headers={"X-Session-ID": sid}, **options)
        assert answer.status_code == 200, (route.name, answer.text)
        pointer = {"$ref": f"urn:doc#/components/schemas/{route.response}"}
        assert not list(Draft202012Validator(pointer, registry=registry).iter_errors(answer.json())), route.name
