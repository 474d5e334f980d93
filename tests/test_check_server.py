"""`turnspec check-server`: silent about good servers, and one code for each fault of a broken one."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from brokenservers import BROKEN, Reply, Script, Session, running, running_app, told
from test_cli_kit import call

from turnspec.check_server import Unusable, check
from turnspec.check_server.exchange import MOST_REQUESTS, checked_url
from turnspec.check_server.shape import differences
from turnspec.check_server.stream import read_stream
from turnspec.check_server.tools import sample
from turnspec.environment import Environment, Message, Server, TextBlock, ToolOutput, tool
from turnspec_generated.server_checks import SERVER_CHECKS

Capture = pytest.CaptureFixture[str]
ROOT = Path(__file__).resolve().parent.parent
OLD_SDK = ROOT / ".venv-openreward-0.1.156" / "bin" / "python"

SDK_SERVER = """
import os, socket
import uvicorn
from pydantic import BaseModel
from openreward import environments
from openreward.environments import Environment, Server, Split, TextBlock, ToolOutput, tool

class Answer(BaseModel):
    text: str

class Plain(Environment):
    def get_prompt(self):
        return [TextBlock(text=f"Question {self.task_spec['id']}")]
    @tool
    async def look(self) -> ToolOutput:
        return ToolOutput(blocks=[TextBlock(text="seen")])
    @tool
    async def submit(self, answer: Answer) -> ToolOutput:
        return ToolOutput(blocks=[TextBlock(text="ok")], reward=1.0, finished=True)
    @classmethod
    def list_splits(cls):
        return ["train", Split(name="odd", type="validation")]
    @classmethod
    def list_tasks(cls, split):
        return [{"id": number, "split": split} for number in range(3)]

served = [Plain]
if hasattr(environments, "Message"):
    from openreward.environments import Message, ReasoningBlock, ToolCallBlock, ToolResultBlock

    class Chat(Plain):
        get_prompt = Environment.get_prompt
        def get_messages(self):
            return [
                Message(role="system", blocks=[TextBlock(text="Be brief.")]),
                Message(role="user", blocks=[TextBlock(text=f"Question {self.task_spec['id']}")]),
                Message(role="assistant", blocks=[
                    ReasoningBlock(text="Hm.", signature="s"),
                    ToolCallBlock(id="c", name="look", input={"a": "\\u00e9"})]),
                Message(role="user", blocks=[
                    ToolResultBlock(tool_call_id="c", blocks=[TextBlock(text="x")], is_error=True)]),
            ]

    class Both(Chat):
        def get_prompt(self):
            return [TextBlock(text="Something else.")]

    served = [Chat, Plain, Both]
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
listener.bind(("127.0.0.1", 0))
listener.listen(64)
print(listener.getsockname()[1], flush=True)
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what it logs would fill the pipe
uvicorn.Server(uvicorn.Config(Server(served).app, log_level="critical", access_log=False)).run(sockets=[listener])
"""


def codes(url: str, **options: Any) -> set[str]:
    return {finding.code for finding in check(url, **options).findings}


# --- Broken servers ----------------------------------------------------------------------------------------


def test_a_server_without_fault_gives_no_finding() -> None:
    with running(Script()) as url:
        checked = check(url)
    assert checked.findings == []
    assert checked.environments == ["chat"]
    assert not checked.stopped
    assert 50 < checked.requests < MOST_REQUESTS


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_server_is_found_out(name: str) -> None:
    make, code = BROKEN[name]
    with running(make()) as url:
        checked = check(url, timeout=5)
    assert {finding.code for finding in checked.findings} == {code}
    assert {finding.severity for finding in checked.findings} == {SERVER_CHECKS[code].severity}
    assert not checked.stopped


def test_every_code_has_a_server_that_gives_it() -> None:
    assert {code for _, code in BROKEN.values()} == set(SERVER_CHECKS)
    assert len(BROKEN) > 20


def test_all_sessions_are_ended() -> None:
    script = Script()
    with running(script) as url:
        check(url)
    assert script.sessions == {}


def test_a_server_that_falls_silent_ends_the_check_in_time() -> None:
    class Sleeps(Script):
        def health(self) -> Reply:
            time.sleep(1.2)
            return super().health()

        version = list_environments = health

    with running(Sleeps()) as url:
        begin = time.monotonic()
        checked = check(url, timeout=0.3)
        assert time.monotonic() - begin < 5
    assert checked.stopped
    assert {finding.code for finding in checked.findings} == {"no_answer"}


def test_an_endless_stream_ends_the_check_in_time() -> None:
    async def endless(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        for _ in range(500):
            await send({"type": "http.response.body", "body": b" " * 1024, "more_body": True})
            await asyncio.sleep(0.01)

    with running_app(endless) as url:
        begin = time.monotonic()
        checked = check(url, timeout=0.3)
        assert time.monotonic() - begin < 10
    assert checked.stopped
    assert {finding.code for finding in checked.findings} == {"no_answer"}


def test_a_stream_that_stays_open_behind_its_end_is_fine() -> None:
    assert read_stream(b"event: end\r\ndata: {}\r\n\r\n", False).faults == []


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"event: end\ndata: 1\n\n", []),
        (b"event:end\rdata:1\r\r", []),
        (b": hello\r\nid: 5\r\nretry: 1\r\nevent: end\r\ndata: 1\r\n\r\n", []),
        (b"event: end\r\ndata: a\xe2\x80\xa8b\r\n\r\n", []),  # U+2028 ends no line
        (b"", ["stream_not_ended"]),
        (b"event: end\r\ndata: 1\r\n", ["stream_not_ended"]),
        (b"event: chunk\r\ndata: 1\r\n\r\n", ["stream_not_ended"]),
        (b"event: end\r\ndata\r\n\r\n", ["stream_bad_line"]),
        (b"event: end\r\ndata:  1\r\n\r\n", ["stream_blank_lost"]),
        (b"event: end\r\ndata: \xc2\xa01\r\n\r\n", ["stream_blank_lost"]),
        (b"event: end\r\ndata: \xff\r\n\r\n", ["stream_not_utf8"]),
        (b"event: error\r\ndata: a\r\ndata: b\r\n\r\nevent: end\r\ndata: 1\r\n\r\n", ["stream_goes_on"]),
    ],
)
def test_streams(body: bytes, expected: list[str]) -> None:
    assert [code for code, _ in read_stream(body, True).faults] == expected


def test_pieces_of_a_stream_are_joined_as_they_are() -> None:
    body = b'event: task_id\r\ndata: t\r\n\r\nevent: chunk\r\ndata: {"a\r\n\r\nevent: end\r\ndata:  b"}\r\n\r\n'
    stream = read_stream(body, True)
    assert (stream.task_id, stream.result) == ("t", '{"a b"}')
    assert read_stream(b"event: error\ndata: a\ndata: b\n\n", True).last == ("error", "a\nb")


# --- Good servers ------------------------------------------------------------------------------------------


@pytest.fixture(params=[sys.executable, str(OLD_SDK)], ids=["0.1.167", "0.1.156"])
def sdk(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of the real SDK's server."""
    if not os.path.exists(request.param):
        pytest.fail("`make interop-venv` makes the environment of the old SDK")
    with subprocess.Popen([request.param, "-c", SDK_SERVER], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = f"http://127.0.0.1:{process.stdout.readline().strip()}"
            for _ in range(600):
                try:
                    check(url, environment="no such environment")
                except Unusable as problem:
                    if "cannot connect" not in str(problem):
                        break
                time.sleep(0.05)
            yield url
        finally:
            process.kill()


def test_the_real_server_passes(sdk: str, request: pytest.FixtureRequest, capsys: Capture) -> None:
    """Where it is faulty the finding is a warning."""
    faults = {"double_slash_lost", "stream_blank_lost"}
    ran = call(capsys, "check-server", sdk, "--output", "json")
    assert ran.code == 0
    found = {record["code"] for record in ran.records}
    if "0.1.167" in request.node.name:
        assert found == {*faults, "prompt_differs"}
        differs = {record["request"] for record in ran.records if record["code"] == "prompt_differs"}
        assert differs == {"GET /both/prompt"}
    else:
        assert found == {*faults, "finished_not_kept"}


def test_our_server_passes_without_a_word() -> None:
    class Dialogue(Environment):
        def get_messages(self) -> list[Message]:
            return [Message(role="user", blocks=[TextBlock(text=f"Question {self.task_spec.get('id')}")])]

        @tool
        def submit(self, text: str) -> ToolOutput:
            """Hand in."""
            return ToolOutput(blocks=[TextBlock(text=text)], finished=True)

        @classmethod
        def list_splits(cls) -> list[str]:
            return ["train", "test"]

        @classmethod
        def list_tasks(cls, split: str) -> list[dict[str, Any]]:
            return [{"id": f"{split}-{number}"} for number in range(4)]

    with running_app(Server([Dialogue])) as url:
        assert check(url).findings == []
    with running_app(Server([Dialogue], api_token="secret")) as url:
        assert check(url, token="secret").findings == []
        with pytest.raises(Unusable, match="asks for a key"):
            check(url)


# --- The command -------------------------------------------------------------------------------------------


def test_findings_as_text_and_as_json(capsys: Capture) -> None:
    with running(BROKEN["TakesAnyInput"][0]()) as url:
        ran = call(capsys, "check-server", url)
        assert ran.code == 1
        assert ran.lines == [
            f"{url}: bad_input_accepted at POST /chat/call: the call ran; "
            f"hint: {SERVER_CHECKS['bad_input_accepted'].fix}"
        ]
        assert ran.err.startswith(f"{url}: 1 environment, ")
        assert ran.err.endswith(" requests: 1 error (turnspec explain CODE tells more)\n")
        ran = call(capsys, "check-server", url, "--output", "json", "--env", "CHAT")
    assert ran.code == 1
    assert ran.records == [
        {
            "url": url,
            "code": "bad_input_accepted",
            "severity": "error",
            "request": "POST /chat/call",
            "message": "the call ran",
        }
    ]
    assert ran.err == ""


def test_warnings_leave_the_exit_code(capsys: Capture) -> None:
    with running(BROKEN["CutsAtBlanks"][0]()) as url:
        ran = call(capsys, "check-server", url)
    assert ran.code == 0
    assert all(": warning: " in line for line in ran.lines)
    assert "no errors" in ran.err


def test_nobody_there(capsys: Capture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    ran = call(capsys, "check-server", f"http://127.0.0.1:{port}")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"turnspec: http://127.0.0.1:{port}: cannot connect: ")
    assert len(ran.err.splitlines()) == 1


def test_a_server_of_something_else(capsys: Capture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            for _ in range(4):
                connection, _ = listener.accept()
                connection.sendall(b"220 mail.example ESMTP\r\n")
                connection.close()

        threading.Thread(target=greet, daemon=True).start()
        ran = call(capsys, "check-server", f"http://127.0.0.1:{listener.getsockname()[1]}", "--timeout", "2")
    assert ran.code == 1
    assert {line.split()[1] for line in ran.lines} == {"no_answer"}


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8080",
        "ftp://x",
        "http://",
        "http://a/b",
        "http://a?b",
        "http://u:p@a",
        "http://a:99999",
        "http://[::1",
    ],
)
def test_urls_that_are_none(capsys: Capture, url: str) -> None:
    ran = call(capsys, "check-server", url)
    assert (ran.code, ran.out) == (2, "")
    assert len(ran.err.splitlines()) == 1


def test_urls() -> None:
    assert checked_url("http://127.0.0.1:80/") == "http://127.0.0.1:80"
    assert checked_url("https://[::1]:9") == "https://[::1]:9"
    assert checked_url("http://example.org") == "http://example.org"


def test_usage(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(Script()) as url:
        ran = call(capsys, "check-server", url, "--env", "nope")
        assert (ran.code, ran.err) == (2, f"turnspec: {url}: there is no environment 'nope'; environments: chat\n")
    for args in (["--timeout", "0"], ["--timeout", "x"], ["--token-env", "NO_SUCH_VARIABLE"]):
        ran = call(capsys, "check-server", "http://127.0.0.1:9", *args)
        assert ran.code == 2
        assert len(ran.err.splitlines()) == 1
    monkeypatch.setattr("turnspec.cli.extras.find_spec", lambda name: None)
    ran = call(capsys, "check-server", "http://127.0.0.1:9")
    assert (ran.code, ran.err) == (2, "turnspec: needs httpx: pip install 'turnspec[client]'\n")


def test_only_the_named_server_is_asked() -> None:
    """A redirect elsewhere is told and not followed, and no proxy is used."""
    asked: list[str] = []

    class Trap(Script):
        def respond(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
            asked.append(path)
            return told({})

    with running(Trap()) as trap:

        class Leads(Script):
            def redirect(self, path: str) -> Reply:
                return Reply(308, b"", headers={"location": f"{trap}{path}"})

        with running(Leads()) as url, pytest.MonkeyPatch.context() as patch:
            patch.setenv("HTTP_PROXY", trap)
            patch.setenv("ALL_PROXY", trap)
            assert codes(url) == {"foreign_redirect"}
    assert asked == []


# --- Its parts ---------------------------------------------------------------------------------------------


def test_shapes() -> None:
    assert differences({"status": "ok"}, "Health") == []
    assert differences({"status": "up"}, "Health") == ['/status: is not "ok"']
    assert differences([], "Health") == ["(root): is array, not object"]
    assert differences({"num_tasks": True}, "TaskCount") == ["/num_tasks: is boolean, not integer"]
    assert differences([{"name": "a"}], "Splits") == ["/0: lacks type"]
    assert differences({"ok": False, "error": "x", "reason": "why"}, "CallResult") == [
        '/reason: is none of "not_found", "input_validation", "episode_finished", "name_collision"'
    ]
    assert differences([{"type": "text", "text": "x", "size": 1}], "Prompt") == ["/0: has the unknown key 'size'"]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "string"}, "turnspec check-server"),
        ({"type": "string", "maxLength": 4}, "turn"),
        ({"type": "string", "minLength": 23}, "turnspec check-server.."),
        ({"type": "integer", "minimum": 5}, 5),
        ({"type": "number", "maximum": 0}, 0),
        ({"type": ["boolean", "null"]}, True),
        ({"enum": ["b", "a"]}, "b"),
        ({"const": 3}, 3),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, 1),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 2}, [1, 1]),
        (
            {"type": "object", "properties": {"a": {"type": "string"}, "b": {}}, "required": ["a"]},
            {"a": "turnspec check-server"},
        ),
        ({"$ref": "#/$defs/X", "$defs": {"X": {"type": "boolean"}}}, True),
        ({"$ref": "#/$defs/X", "$defs": {"X": {"$ref": "#/$defs/X"}}}, None),
    ],
)
def test_samples_of_inputs(schema: dict[str, Any], value: Any) -> None:
    assert sample(schema, schema) == value


def test_a_tool_that_raises_is_no_fault_of_the_server() -> None:
    class Raises(Script):
        def call(self) -> Reply:
            reply = super().call()
            if b'"ok": true' in reply.body:
                return self.stream([("task_id", "t"), ("error", "kaboom")])
            return reply

        def result(self, session: Session, name: str, given: dict[str, Any]) -> dict[str, Any]:
            return super().result(session, name, given)

    with running(Raises()) as url:
        assert codes(url) == set()
