"""What goes wrong around the server: clients that vanish or dawdle, wrong bodies, dead sessions, restarts, load."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.servertools import JSON, Running, events, running
from turnspec.environment import Environment, Message, Server, TextBlock, ToolOutput, _answers, _bodies, _calls, tool
from turnspec_generated import wire

ROOT = Path(__file__).resolve().parent.parent
EVENTS: list[str] = []


class Chat(Environment):
    @classmethod
    def list_splits(cls) -> list[str]:
        return ["train"]

    @classmethod
    def list_tasks(cls, split: str) -> list[dict[str, Any]]:
        return [{"id": 0}]

    async def setup(self) -> None:
        EVENTS.append("setup")
        await asyncio.sleep(self.task_spec.get("setup", 0))

    def teardown(self) -> None:
        EVENTS.append("teardown")
        if self.task_spec.get("fail") == "teardown":
            raise ValueError("teardown")

    def get_messages(self) -> list[Message]:
        EVENTS.append("messages")
        return [Message(role="user", blocks=[TextBlock(text="x" * self.task_spec.get("size", 1))])]

    @tool
    async def sleep(self, seconds: float, text: str = "") -> ToolOutput:
        EVENTS.append(f"start {text}")
        await asyncio.sleep(seconds)
        EVENTS.append(f"stop {text}")
        return ToolOutput(blocks=[TextBlock(text=text)])

    @tool(concurrent=True)
    async def overlap(self, seconds: float) -> ToolOutput:
        EVENTS.append("enter")
        await asyncio.sleep(seconds)
        EVENTS.append("leave")
        return ToolOutput(blocks=[])

    @tool(exclusive=True)
    async def submit(self) -> ToolOutput:
        EVENTS.append("submit")
        return ToolOutput(blocks=[], finished=True)

    @tool
    def exhausted(self) -> ToolOutput:
        return next(iter([]))  # type: ignore[call-overload,no-any-return]

    @tool
    def leave(self) -> ToolOutput:
        sys.exit(3)

    @tool
    async def silent_error(self) -> ToolOutput:
        raise ValueError

    @tool
    def big(self, size: int) -> ToolOutput:
        return ToolOutput(blocks=[TextBlock(text=" é" * size)])

    @tool
    def no_json(self) -> ToolOutput:
        return ToolOutput(blocks=[], metadata={"n": float("nan"), "s": "\ud800"})


@pytest.fixture(autouse=True)
def _clean() -> None:
    EVENTS.clear()


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(Server([Chat])) as here:
        yield here


def until(holds: Any, seconds: float = 5) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it never did"
        time.sleep(0.01)


def raw(port: int, text: str, body: bytes = b"") -> bytes:
    """The answer to a request as it stands; the server closes the connection, or has answered in full."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(text.replace("\n", "\r\n").encode() + body)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    return answer


# --- bodies ---


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "missing"),
        (b"{", "json_invalid"),
        (b"\xff", "json_invalid"),
        (b'{"split": NaN}', "json_invalid"),
        (b'{"split": "\\ud800"}', "json_invalid"),
        (b"[" * 100_000, "json_invalid"),
        (b'{"split": ' + b"[" * 200 + b"]" * 200 + b"}", "json_invalid"),
        (b'{"split": 1e999}', "json_invalid"),
        (b'{"split": ' + b"9" * 10_000 + b"}", "string_type"),
        (b"null", "dict_type"),
        (b'"train"', "dict_type"),
    ],
    ids=lambda value: str(value)[:24],
)
def test_malformed_json(server: Running, body: bytes, code: str) -> None:
    answer = server.post("/chat/tasks", content=body, headers=JSON)
    assert answer.status_code == 422
    assert answer.json()["detail"][0]["type"] == code
    assert answer.json()["detail"][0]["loc"][0] == "body"


@pytest.mark.parametrize("kind", ["", "text/plain", "application/xml", "application/jsonx", "multipart/form-data"])
def test_wrong_content_type(server: Running, kind: str) -> None:
    answer = server.post("/chat/tasks", content=b'{"split": "train"}', headers={"content-type": kind} if kind else {})
    assert answer.status_code == 422
    assert "application/json" in answer.json()["detail"][0]["msg"]


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.x+json"])
def test_right_content_type(server: Running, kind: str) -> None:
    answer = server.post("/chat/tasks", content=b'{"split": "train"}', headers={"content-type": kind})
    assert answer.status_code == 200


def test_errors_do_not_repeat_large_values(server: Running) -> None:
    answer = server.post("/chat/tasks", json={"split": ["secret" * 10_000]})
    assert answer.status_code == 422
    assert len(answer.content) < 500


def test_fifty_megabytes(server: Running) -> None:
    """As a task, as a conversation, as an input and as a result."""
    size = 50 * 10**6
    sid = server.create({"size": size, "filler": "y" * size})
    answer = server.get("/chat/messages", sid)
    assert answer.status_code == 200
    assert len(answer.json()[0]["blocks"][0]["text"]) == size
    told = server.call(sid, "sleep", {"seconds": 0, "text": "z" * size})
    assert len("".join(data for _, data in told[1:])) > size
    assert server.post("/delete", sid).status_code == 200


def test_too_large_a_body() -> None:
    with running(Server([Chat], max_body=1000)) as here:
        sid = here.create()
        for content in (b"x" * 1001, b"x" * 5_000_000, iter([b"x" * 600] * 2)):
            answer = here.post("/chat/call", sid, content=content, headers=JSON)
            assert (answer.status_code, answer.json()) == (
                413,
                {"detail": "The body is too large; the limit is 1000 bytes"},
            )
        assert here.post("/create_session", content=b"x" * 1001).status_code == 413
        assert here.post("/chat/tasks", json={"split": "train", "x": "y" * 900}).status_code == 422


def test_half_sent_body(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that stays half open gets an answer, and others are served meanwhile."""
    monkeypatch.setitem(_bodies.read.__kwdefaults__ or {}, "wait", 0.2)
    monkeypatch.setattr(_bodies.read, "__defaults__", (0.2,))
    head = (
        "POST /chat/tasks HTTP/1.1\nHost: x\nConnection: close\nContent-Type: application/json\nContent-Length: 100\n\n"
    )
    found: list[bytes] = []
    thread = threading.Thread(target=lambda: found.append(raw(server.port, head, b'{"spl')))
    thread.start()
    assert server.get("/health").status_code == 200
    thread.join(10)
    assert found[0].startswith(b"HTTP/1.1 408 ")
    assert found[0].endswith(b'{"detail":"The body did not arrive in time"}')


def test_half_open_connections_hold_nobody_up(server: Running) -> None:
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(100)]
    for connection in idle[:50]:
        connection.sendall(b"POST /chat/ta")
    assert server.get("/health").status_code == 200
    for connection in idle:
        connection.close()
    assert server.get("/health").status_code == 200


@pytest.mark.parametrize("text", ["GARBAGE\n\n", "POST /ping HTTP/1.1\nContent-Length: -1\n\n"])
def test_no_http(server: Running, text: str) -> None:
    assert raw(server.port, text).startswith(b"HTTP/1.1 400 ")
    assert server.get("/health").status_code == 200


# --- clients that vanish or dawdle ---


def test_client_killed_in_a_call(server: Running) -> None:
    """The tool runs on, once; whoever comes back gets its answer by the id, without running it again."""
    sid = server.create()
    body = {"name": "sleep", "input": {"seconds": 0.5, "text": "one"}}
    headers = {"X-Session-ID": sid}
    with httpx.stream("POST", f"{server.url}/chat/call", json=body, headers=headers) as answer:
        first = next(answer.iter_raw()).decode()
    call_id = first.split("data: ")[1].strip()
    until(lambda: "start one" in EVENTS)
    told = server.call(sid, "sleep", {"seconds": 0}, task_id=call_id)
    assert told[0] == ("task_id", call_id)
    assert json.loads(told[1][1])["output"]["blocks"][0]["text"] == "one"
    assert [event for event in EVENTS if "one" in event] == ["start one", "stop one"]


def test_task_id_comes_at_once_and_comments_after(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_answers.CallEvents.__init__, "__defaults__", (0.1,))
    sid = server.create()
    begun = time.monotonic()
    body = {"name": "sleep", "input": {"seconds": 0.5}}
    with server.http.stream("POST", "/chat/call", json=body, headers={"X-Session-ID": sid}) as answer:
        pieces = [(time.monotonic() - begun, piece.decode()) for piece in answer.iter_raw()]
    assert pieces[0][0] < 0.3
    assert pieces[0][1].startswith("event: task_id\r\ndata: ")
    comments = [text for _, text in pieces if text.startswith(":")]
    assert 2 <= len(comments) <= 5
    assert all(text.startswith(": ping - 20") and text.endswith("\r\n\r\n") for text in comments)
    assert pieces[-1][1].endswith("\r\n\r\n")
    assert [name for name, _ in events("".join(text for _, text in pieces).encode())] == ["task_id", "end"]


def test_slow_client_holds_nobody_up(server: Running) -> None:
    sid = server.create({"size": 20_000_000})
    with socket.create_connection(("127.0.0.1", server.port)) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(f"GET /chat/messages HTTP/1.1\r\nHost: x\r\nX-Session-ID: {sid}\r\n\r\n".encode())
        assert slow.recv(100).startswith(b"HTTP/1.1 200 ")
        for _ in range(3):
            assert server.get("/health").status_code == 200
            assert len(server.get("/chat/messages", sid).content) > 20_000_000


def test_client_that_takes_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A body goes out in slices, each in its time, so that a slow client fills no memory."""
    sizes: list[int] = []

    async def stuck(message: Any) -> None:
        sizes.append(len(message.get("body", b"")))
        if len(sizes) > 2:
            await asyncio.sleep(60)

    monkeypatch.setattr(_answers, "SEND_WAIT", 0.1)
    with pytest.raises(_answers.Stalled):
        asyncio.run(_answers.Answer(b"x" * 10**7)({}, None, stuck))  # type: ignore[arg-type]
    assert sizes == [0, _answers.SLICE, _answers.SLICE]


# --- sessions ---


def test_unknown_and_deleted_sessions(server: Running) -> None:
    gone = fresh(server)
    assert server.post("/delete", gone).json() == {"sid": gone}
    assert EVENTS == ["teardown"]
    for sid in (gone, "never"):
        answers = [server.get(f"/chat/{name}", sid) for name in ("messages", "prompt", "task_tools")]
        answers.append(server.post("/chat/call", sid, json={"name": "submit", "input": {}}))
        answers += [server.post("/ping", sid)]
        assert {(a.status_code, a.text) for a in answers} == {(404, '{"detail":"Active environment not found"}')}
        assert server.post("/delete", sid).json() == {"sid": sid}


def test_sessions_expire_unless_asked() -> None:
    with running(Server([Chat], session_ttl=1.5)) as here:
        quiet, pinged = here.create(), here.create()
        for _ in range(22):
            assert here.post("/ping", pinged).status_code == 200
            time.sleep(0.1)
        until(lambda: len(here.server.sessions) == 1)
        assert here.post("/ping", quiet).status_code == 404
        assert here.post("/ping", pinged).status_code == 200
        assert EVENTS.count("teardown") == 1
    assert EVENTS.count("teardown") == 2  # with the server


def test_setup_in_the_background(server: Running) -> None:
    sid = server.create({"setup": 0.3})
    assert server.get("/chat/task_tools", sid).status_code == 200
    assert server.post("/ping", sid).status_code == 200
    assert server.get("/chat/messages", sid).status_code == 200
    assert EVENTS == ["setup", "messages"]


def test_setup_that_takes_too_long() -> None:
    with running(Server([Chat], setup_wait=0.1)) as here:
        sid = here.create({"setup": 1})
        for answer in (here.get("/chat/messages", sid), here.get("/chat/prompt", sid)):
            assert (answer.status_code, answer.json()) == (503, {"detail": "Environment still starting."})
            assert (answer.headers["x-backend-state"], answer.headers["retry-after"]) == ("starting", "2")
        until(lambda: here.get("/chat/messages", sid).status_code == 200)


def test_deleted_while_a_request_waits(server: Running) -> None:
    sid = server.create({"setup": 30})
    found: list[httpx.Response] = []
    thread = threading.Thread(
        target=lambda: found.append(httpx.get(f"{server.url}/chat/messages", headers={"X-Session-ID": sid}, timeout=30))
    )
    thread.start()
    ready = server.server.sessions.find(sid).ready
    until(lambda: ready._waiters)  # type: ignore[attr-defined]
    assert server.post("/delete", sid).status_code == 200
    thread.join(10)
    assert (found[0].status_code, found[0].json()) == (410, {"detail": "Session deleted"})


def test_deleted_while_a_call_runs(server: Running) -> None:
    sid = server.create()
    found: list[Any] = []
    body = {"name": "sleep", "input": {"seconds": 30}}
    thread = threading.Thread(
        target=lambda: found.append(
            events(httpx.post(f"{server.url}/chat/call", json=body, headers={"X-Session-ID": sid}, timeout=30).content)
        )
    )
    thread.start()
    until(lambda: "start " in EVENTS)
    assert server.post("/delete", sid).status_code == 200
    thread.join(10)
    assert found[0][1:] == [("error", "Session deleted")]


def test_failing_teardown_is_logged_alone(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    sid = server.create({"fail": "teardown"})
    assert server.post("/delete", sid).status_code == 200
    assert "teardown of chat failed" in caplog.text


def test_a_full_server_says_so() -> None:
    with running(Server([Chat], max_sessions=2)) as here:
        sids = [here.create() for _ in range(2)]
        answer = here.post("/create", "third", json={"task_spec": {}})
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
        here.post("/delete", sids[0])
        assert here.post("/create", "third", json={"task_spec": {}}).status_code == 200


def test_restart_in_a_session(tmp_path: Path) -> None:
    """SIGTERM ends the server in order; the new one knows nothing of the session and says so."""
    script = tmp_path / "served.py"
    script.write_text(
        "from tests.test_server_faults import Chat\n"
        "from turnspec.environment import Server\n"
        "Server([Chat]).run(port=0, ready=lambda host, port: print(port, flush=True))\n"
    )

    def start() -> tuple[subprocess.Popen[str], str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout
        return process, f"http://127.0.0.1:{process.stdout.readline().strip()}"

    process, url = start()
    try:
        headers = {"X-Session-ID": "s"}
        assert httpx.post(f"{url}/create", json={"task_spec": {}}, headers=headers).status_code == 200
        assert httpx.get(f"{url}/chat/messages", headers=headers).status_code == 200
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) in (0, -signal.SIGTERM)
    process, url = start()
    try:
        answer = httpx.get(f"{url}/chat/messages", headers=headers)
        assert (answer.status_code, answer.json()) == (404, {"detail": "Active environment not found"})
        assert httpx.post(f"{url}/create", json={"task_spec": {}}, headers=headers).status_code == 200
    finally:
        process.kill()
        process.wait(20)


# --- calls ---


def together(server: Running, sid: str, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """The results of calls that are made at the same time, in this order."""

    async def ask() -> list[Any]:
        async with httpx.AsyncClient(base_url=server.url, headers={"X-Session-ID": sid}, timeout=30) as http:
            tasks = []
            for name, input in calls:
                known = len(server.server.calls)
                tasks.append(asyncio.ensure_future(http.post("/chat/call", json={"name": name, "input": input})))
                while len(server.server.calls) == known and not tasks[-1].done():
                    await asyncio.sleep(0.01)
            return [json.loads(events((await task).content)[-1][1]) for task in tasks]

    return asyncio.run(ask())


def fresh(server: Running) -> str:
    """A session whose setup is done, and nothing noted yet."""
    sid = server.create()
    until(lambda: "setup" in EVENTS)
    EVENTS.clear()
    return sid


def test_calls_of_one_tool_run_one_after_another(server: Running) -> None:
    sid = fresh(server)
    together(server, sid, *(("sleep", {"seconds": 0.2, "text": str(n)}) for n in range(3)))
    assert [f"{what} {n}" for n in range(3) for what in ("start", "stop")] == EVENTS


def test_concurrent_calls_overlap(server: Running) -> None:
    sid = fresh(server)
    together(server, sid, ("overlap", {"seconds": 0.5}), ("overlap", {"seconds": 0.5}))
    assert EVENTS == ["enter", "enter", "leave", "leave"]


def test_exclusive_call_waits_for_all_and_ends_the_episode(server: Running) -> None:
    sid = fresh(server)
    calls = [("overlap", {"seconds": 1.2}), ("sleep", {"seconds": 0.8}), ("submit", {}), ("overlap", {"seconds": 0})]
    results = together(server, sid, *calls)
    assert EVENTS == ["enter", "start ", "stop ", "leave", "submit"]
    assert [result["ok"] for result in results] == [True, True, True, False]
    assert results[3]["reason"] == "episode_finished"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("exhausted", "StopIteration"),
        ("leave", "the environment asked the process to exit (3)"),
        ("silent_error", "ValueError"),
    ],
)
def test_tools_that_raise_what_breaks_loops(server: Running, name: str, text: str) -> None:
    """A StopIteration from a thread hangs a future for ever, a SystemExit ends the loop; the server goes on."""
    assert server.call(server.create(), name, {})[1:] == [("error", text)]
    assert server.get("/health").status_code == 200


def test_result_that_is_no_json(server: Running) -> None:
    ((kind, text),) = server.call(server.create(), "no_json", {})[1:]
    assert kind == "error"
    assert text


def test_answers_are_kept_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        calls = _calls.Calls("exception", keep=0.2, max_kept_bytes=5000)

        async def work() -> dict[str, str]:
            return {"text": "x" * 1000}

        first = calls.start("s", work)
        await first.done.wait()
        assert calls.find(first.id, "s") is first
        assert calls.find(first.id, "other") is None
        more = [calls.start("s", work) for _ in range(10)]
        await asyncio.gather(*(call.done.wait() for call in more))
        assert calls.kept_bytes <= 5000
        assert calls.find(first.id, "s") is None
        assert calls.find(more[-1].id, "s") is more[-1]
        await asyncio.sleep(0.25)
        assert calls.find(more[-1].id, "s") is None
        assert (len(calls), calls.kept_bytes) == (0, 0)

    assert wire.REPLAY == 60
    asyncio.run(check())


def test_calls_that_pile_up_are_refused(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_calls, "MAX_WAITING", 1)
    sid = server.create()
    thread = threading.Thread(target=lambda: together(server, sid, ("sleep", {"seconds": 0.5})))
    thread.start()
    until(lambda: "start " in EVENTS)
    answer = server.post("/chat/call", sid, json={"name": "sleep", "input": {"seconds": 0}})
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    thread.join(10)


def test_messages_are_made_once(server: Running) -> None:
    sid = server.create()
    bodies = {server.get("/chat/messages", sid).content for _ in range(5)}
    assert len(bodies) == 1
    assert EVENTS.count("messages") == 1


def test_many_sessions_at_once() -> None:
    """Nothing lost, nothing mixed, nothing left behind."""
    from tests.benchmarks import serving

    with running(Server([_bench()])) as here:
        load = serving.Load()
        numbers = iter(range(10**6))

        async def drive() -> None:
            end = time.perf_counter() + 2
            await asyncio.gather(*(serving.episodes(here.port, load, end, numbers) for _ in range(50)))

        asyncio.run(drive())
        assert load.errors == []
        assert load.sessions >= 50
        assert len(here.server.sessions) == 0
        assert here.server.sessions.cached_bytes == 0


def _bench() -> type[Environment]:
    class Bench(Chat):
        def get_messages(self) -> list[Message]:
            return [Message.model_validate(message) for message in self.task_spec["conversation"]]

        @tool
        async def echo(self, text: str) -> ToolOutput:
            return ToolOutput(blocks=[TextBlock(text=f"{self.task_spec['number']}: {text}")])

    return Bench


# --- what the environment says is wrong ---


BAD: list[tuple[Any, str, str]] = [
    (None, "wrong_type", ""),
    ("text", "wrong_type", ""),
    ({"role": "user", "blocks": []}, "wrong_type", ""),
    ([1], "wrong_type", "/0"),
    ([{"role": "user", "blocks": [{"text": "x"}]}], "missing_type", "/0/blocks/0"),
    ([{"role": "user", "blocks": []}, {"role": "bot", "blocks": []}], "unknown_role", "/1/role"),
    (
        [{"role": "user", "blocks": [{"type": "reasoning", "text": "x"}]}],
        "block_placement",
        "/0/blocks/0",
    ),
    (
        [{"role": "user", "blocks": [], "detail": {"n": float("nan")}}],
        "wrong_type",
        "/0/detail/n",
    ),
]


@pytest.mark.parametrize(("messages", "code", "pointer"), BAD, ids=lambda value: str(value)[:30])
def test_invalid_messages(caplog: pytest.LogCaptureFixture, messages: Any, code: str, pointer: str) -> None:
    class Bad(Chat):
        def get_messages(self) -> Any:
            return messages

    where = pointer or "(root)"
    with running(Server([Bad])) as here, caplog.at_level(logging.ERROR, "turnspec.environment"):
        for _ in range(3):
            sid = here.create()
            for _ in range(2):
                answer = here.get("/bad/messages", sid)
                assert answer.status_code == 500
                assert answer.json()["detail"].startswith(f"ValidationError: {code} at {where}: ")
        told = [record for record in caplog.records if "invalid conversation" in record.getMessage()]
        assert len(told) == 1
        assert f"{code} at {where}" in told[0].getMessage()
        assert here.get("/bad/prompt", sid).status_code == 500
        assert here.get("/health").status_code == 200


def test_invalid_message_of_the_environments_own_making(caplog: pytest.LogCaptureFixture) -> None:
    """`Message.model_validate` raises pydantic's error: it too gets code and pointer."""

    class Bad(Chat):
        def get_messages(self) -> list[Message]:
            return [Message.model_validate({"role": "user", "blocks": [{"type": "reasoning", "text": "x"}]})]

    with running(Server([Bad])) as here:
        for _ in range(2):
            detail = here.get("/bad/messages", here.create()).json()["detail"]
            assert detail.startswith("ValidationError: block_placement at /blocks/0: ")
    assert caplog.text.count("block_placement at /blocks/0") == 1


@pytest.mark.parametrize(
    ("blocks", "code", "pointer"),
    [
        ("text", "wrong_type", ""),
        (None, "wrong_type", ""),
        ([{"type": "tool_result", "tool_call_id": "x", "blocks": []}], "block_placement", "/0"),
        ([{"type": "text", "text": 1}], "wrong_type", "/0/text"),
        ([{"type": "text", "text": "x"}, {"type": "reasoning", "text": ""}], "block_placement", "/1"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_invalid_prompt(blocks: Any, code: str, pointer: str) -> None:
    class Bad(Chat):
        get_messages = Environment.get_messages  # type: ignore[assignment]

        def get_prompt(self) -> Any:
            return blocks

    with running(Server([Bad])) as here:
        sid = here.create()
        for name in ("prompt", "messages"):
            answer = here.get(f"/bad/{name}", sid)
            assert answer.status_code == 500
            assert answer.json()["detail"].startswith(f"ValidationError: {code} at {pointer or '(root)'}: ")


# --- security ---


def test_no_stack_trace_unless_asked() -> None:
    class Bad(Chat):
        def get_messages(self) -> list[Message]:
            raise ValueError("secret place")

    for how, detail in (("none", "Internal Server Error"), ("exception", "ValueError: secret place")):
        with running(Server([Bad], how)) as here:  # type: ignore[arg-type]
            sid = here.create()
            assert here.get("/bad/messages", sid).json() == {"detail": detail}
            ((kind, text),) = here.call(sid, "silent_error", {}, env="bad")[1:]
            assert (kind, text) == ("error", "Internal Server Error" if how == "none" else "ValueError")
    with running(Server([Bad], "stacktrace")) as here:
        sid = here.create()
        assert "Traceback" in here.get("/bad/messages", sid).json()["detail"]
        assert "Traceback" in here.call(sid, "silent_error", {}, env="bad")[1][1]
    with pytest.raises(ValueError, match="none, exception, stacktrace"):
        Server([Bad], "all")  # type: ignore[arg-type]


def test_token() -> None:
    with running(Server([Chat], api_token="käy")) as here:
        wrong: list[dict[str, Any]] = [
            {},
            {"X-API-Key": "nope"},
            {"Authorization": "Bearer nope"},
            {"Authorization": "Basic käy".encode()},
            {"Authorization": "Bearer"},
            {"X-API-Key": ""},
        ]
        for headers in wrong:
            for path in ("/list_environments", "/chat/tools", "/nix", "//ping"):
                answer = here.http.get(path, headers=headers)
                assert (answer.status_code, answer.json()) == (401, {"detail": "The key is missing or wrong"})
                assert answer.headers["www-authenticate"] == "Bearer"
        for headers in ({"X-API-Key": "käy".encode()}, {"Authorization": "Bearer käy".encode()}):
            assert here.http.get("/list_environments", headers=headers).status_code == 200
        assert here.http.get("/health").status_code == 200


def test_token_of_the_environment_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where it is asked for: the variable is the client's, and a local server asks for no key."""
    monkeypatch.setenv("OPENREWARD_API_KEY", "k")
    with running(Server([Chat])) as here:
        assert here.get("/list_environments").status_code == 200
    with running(Server([Chat], api_token=True)) as here:
        assert here.get("/list_environments").status_code == 401
        assert here.http.get("/list_environments", headers={"X-API-Key": "k"}).status_code == 200
    monkeypatch.delenv("OPENREWARD_API_KEY")
    with pytest.raises(ValueError, match="OPENREWARD_API_KEY"):
        Server([Chat], api_token=True)


def test_nothing_secret_is_logged_or_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with running(Server([Chat], api_token="hush-token")) as here:
        headers = {"X-API-Key": "hush-token", "X-Session-ID": "s", "X-Secrets": "hush-secret"}
        answers = [here.http.post("/create", json={"task_spec": {}}, headers=headers)]
        assert answers[0].status_code == 400
        for value in ("e30=", "bnVsbA==", "W10=", "eyJhIjogMX0=", "eyJhIjogeyJ2YWx1ZSI6IDF9fQ=="):
            answers.append(here.http.post("/create", json={"task_spec": {}}, headers=headers | {"X-Secrets": value}))
        answers.append(here.http.get("/list_environments", headers={"X-API-Key": "hush-tokem"}))
    assert [answer.status_code for answer in answers[1:]] == [200, 400, 400, 400, 400, 401]
    assert "hush" not in caplog.text
    assert all("hush" not in answer.text for answer in answers)


def test_secrets_that_an_environment_repeats_are_blotted_out(caplog: pytest.LogCaptureFixture) -> None:
    class Careless(Chat):
        def get_messages(self) -> list[Message]:
            raise ValueError(f"no access with {self.secrets['key']}")

        @tool
        def ask(self) -> ToolOutput:
            raise ValueError(f"no access with {self.secrets['key']}")

        def teardown(self) -> None:
            raise ValueError(f"no access with {self.secrets['key']}")

    secrets = base64.b64encode(b'{"key": {"value": "hush-hush"}}').decode()
    for how in ("exception", "stacktrace"):
        with running(Server([Careless], how)) as here:  # type: ignore[arg-type]
            headers = {"X-Secrets": secrets}
            assert here.post("/create", "s", json={"task_spec": {}}, headers=headers).status_code == 200
            answer = here.get("/careless/messages", "s")
            told = here.call("s", "ask", {}, env="careless")[1][1]
            for text in (answer.json()["detail"], told):
                assert "no access with ***" in text
                assert ("Traceback" in text) == (how == "stacktrace")
            here.post("/delete", "s")
    assert caplog.text.count("no access with ***") >= 6
    assert "hush" not in caplog.text


def test_paths_reach_no_files(server: Running) -> None:
    for path in ("/../../etc/passwd", "/chat/..%2f..%2fetc%2fpasswd", "/%2e%2e/etc/passwd", "/chat/tools%00"):
        answer = raw(server.port, f"GET {path} HTTP/1.1\nHost: x\nConnection: close\n\n")
        assert answer.split()[1] in (b"308", b"404")
        assert b"root:" not in answer


def test_only_this_machine_by_default() -> None:
    import inspect

    assert inspect.signature(Server.run).parameters["host"].default == "127.0.0.1"


def test_port_in_use(server: Running) -> None:
    with pytest.raises(OSError, match="in use"):
        Server([Chat]).run(port=server.port)


def test_lifespan_is_optional() -> None:
    """Without a lifespan, as some test clients drive applications, everything works all the same."""

    async def check() -> None:
        transport = httpx.ASGITransport(Server([Chat]))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
            headers = {"X-Session-ID": "s"}
            assert (await http.post("/create", json={"task_spec": {}}, headers=headers)).status_code == 200
            assert (await http.get("/chat/messages", headers=headers)).status_code == 200
            assert (await http.post("/delete", headers=headers)).status_code == 200

    asyncio.run(check())
