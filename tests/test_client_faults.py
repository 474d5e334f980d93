"""The client against servers that misbehave: what it asks again, what it never does, and how it tells."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.interop.both import KINDS, client_of
from tests.interop.stub import Asked, Part, answer, event, events, result, stubbed
from turnspec import TextBlock
from turnspec.client import (
    AsyncEnvironmentClient,
    CallLost,
    CallTimedOut,
    ClientError,
    ConnectionLost,
    NotFound,
    ProtocolError,
    RedirectRefused,
    RequestTimeout,
    SessionGone,
    StatusError,
)

pytestmark = pytest.mark.parametrize("kind", KINDS)

SPEC = {"id": 1}
NAMED = event("task_id", "t1")
DONE = event("end", result())
REPLAYS = 5
RETRIES = 3


def in_turn(*scripts: list[Part]) -> Callable[[Asked], list[Part]]:
    """A script that answers one after the other, and goes on with the last."""
    return lambda asked: scripts[min(asked.time, len(scripts) - 1)]


def sent(stub: Any) -> list[str | None]:
    """The task_id of every call that came."""
    return [item.json.get("task_id") for item in stub.of("/call")]


# --- a call runs once ---

CUT = {
    "without end": events(NAMED),
    "in an event": events(NAMED, b"event: end\r\ndata: {"),
    "end without the blank line": events(NAMED, DONE.rstrip(b"\r\n") + b"\r\n"),
    "after chunks": events(NAMED, event("chunk", result()[:20])),
    "connection broken off": events(NAMED, event("chunk", "{"), 0.05, "reset"),
    "silence": events(NAMED, 1.0),
    "silence after a comment": events(NAMED, b": ping\r\n\r\n", 1.0),
}


@pytest.mark.parametrize("name", CUT)
def test_a_cut_answer_is_asked_for_again_by_its_name(kind: str, name: str) -> None:
    good = events(NAMED, event("chunk", result()[:20]), event("end", result()[20:]))
    with (
        stubbed(call=in_turn(CUT[name], CUT[name], good)) as stub,
        client_of(kind, stub.url, settings={"timeout": 0.4}) as client,
        client.session(task=SPEC) as session,
    ):
        assert session.call_tool("n", {"a": 1}).blocks == [TextBlock(text="done")]
    assert sent(stub) == [None, "t1", "t1"]
    assert [item.json["input"] for item in stub.of("/call")] == [{"a": 1}] * 3


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_gateway_between_is_no_reason_to_run_again(kind: str, status: int) -> None:
    with (
        stubbed(call=in_turn(events(NAMED), answer({"detail": "x"}, status), events(NAMED, DONE))) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
    ):
        assert session.call_tool("n").finished
    assert sent(stub) == [None, "t1", "t1"]


NAMELESS = {
    "empty stream": events(),
    "plain JSON": answer({"ok": True}),
    "plain result": answer(result().encode()),
    "cut end": events(DONE[:20]),
    "broken off": ["reset"],
    "broken off in the head": [b"HTTP/1.1 200 OK\r\nConte", 0.05, "reset"],
    "closed": [],
    "empty task_id": events(event("task_id", " ")),
    "bad gateway": answer({"detail": "x"}, 502),
    "gateway timeout": answer({"detail": "x"}, 504),
    "busy, without a word when": answer({"detail": "x"}, 503),
}


@pytest.mark.parametrize("name", NAMELESS)
def test_a_call_without_a_name_is_never_sent_twice(kind: str, name: str) -> None:
    with (
        stubbed(call=lambda asked: NAMELESS[name]) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
    ):
        with pytest.raises(CallLost, match=r"no answer of 'n' arrived.*may have run") as caught:
            session.call_tool("n")
        assert (caught.value.task_id, caught.value.tool) == (None, "n")
        assert session.get_messages() == []  # the session goes on
    assert sent(stub) == [None]


def test_silence_before_the_name(kind: str) -> None:
    with (
        stubbed(call=lambda asked: events(1.5, NAMED, DONE)) as stub,
        client_of(kind, stub.url, settings={"timeout": 0.4}) as client,
        client.session(task=SPEC) as session,
    ):
        began = time.monotonic()
        with pytest.raises(CallTimedOut, match=r"silent for 0\.4 s") as caught:
            session.call_tool("n")
        assert time.monotonic() - began < 1.4
        assert isinstance(caught.value, RequestTimeout)
    assert sent(stub) == [None]


@pytest.mark.parametrize("name", ["without end", "in an event", "connection broken off"])
def test_a_stream_that_never_ends_is_an_error(kind: str, name: str) -> None:
    with (
        stubbed(call=lambda asked: CUT[name]) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
    ):
        with pytest.raises(CallLost, match=f"after {REPLAYS + 1} tries") as caught:
            session.call_tool("n")
        assert caught.value.task_id == "t1"
    assert sent(stub) == [None] + ["t1"] * REPLAYS


def test_a_server_that_is_silent_while_the_tool_works_is_waited_for(kind: str) -> None:
    with (
        stubbed(call=in_turn(*[events(NAMED, 1.0)] * (REPLAYS + 2), events(NAMED, DONE))) as stub,
        client_of(kind, stub.url, settings={"timeout": 0.1, "silence": 0.1}) as client,
        client.session(task=SPEC) as session,
    ):
        assert session.call_tool("n").finished
    assert sent(stub) == [None] + ["t1"] * (REPLAYS + 2)


def test_the_time_of_a_call_is_limited(kind: str) -> None:
    endless = events(NAMED, *[b": ping\r\n\r\n", 0.05] * 100)
    for script in (endless, events(NAMED, 5.0), events(5.0)):
        with (
            stubbed(call=lambda asked, script=script: script) as stub,
            client_of(kind, stub.url, settings={"silence": 2.0}) as client,
            client.session(task=SPEC) as session,
        ):
            began = time.monotonic()
            with pytest.raises(CallTimedOut, match="the time that was given is over"):
                session.call_tool("n", timeout=0.3)
            assert 0.25 < time.monotonic() - began < 1.5
        assert len(stub.of("/call")) == 1


def test_a_call_that_is_given_up_leaves_no_session_behind(kind: str) -> None:
    if kind != "asyncio":
        return

    async def work(url: str) -> None:
        async with AsyncEnvironmentClient(url, "") as client, client.session(task=SPEC) as session:
            await asyncio.wait_for(session.call_tool("n"), 0.2)

    with stubbed(call=lambda asked: events(NAMED, 3.0)) as stub, pytest.raises(TimeoutError):
        asyncio.run(work(stub.url))
    assert [item.path for item in stub.asked][-3:] == ["/call", "/delete", "/delete_session"]


def test_comments_keep_a_call_going(kind: str) -> None:
    slow = events(NAMED, *[b": ping - now\r\n\r\n", 0.2] * 5, DONE)
    with (
        stubbed(call=lambda asked: slow) as stub,
        client_of(kind, stub.url, settings={"timeout": 0.4}) as client,
        client.session(task=SPEC) as session,
    ):
        assert session.call_tool("n").finished
    assert sent(stub) == [None]


def test_a_server_that_has_forgotten_the_call(kind: str) -> None:
    with (
        stubbed(call=in_turn(events(NAMED), events(event("error", "unknown task_id")))) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
        pytest.raises(CallLost, match="unknown task_id; the tool may have run"),
    ):
        session.call_tool("n")
    assert sent(stub) == [None, "t1"]


def test_a_session_that_is_gone_when_the_answer_is_asked_for(kind: str) -> None:
    gone = answer({"detail": "Active environment not found"}, 404)
    with (
        stubbed(call=in_turn(events(NAMED), gone)) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
    ):
        with pytest.raises(CallLost, match="Active environment not found") as caught:
            session.call_tool("n")
        assert caught.value.status == 404
    assert sent(stub) == [None, "t1"]


@pytest.mark.parametrize(
    ("status", "error"),
    [(404, NotFound), (409, StatusError), (410, SessionGone), (422, StatusError), (500, StatusError)],
)
def test_refusals_of_a_call_are_told_at_once(kind: str, status: int, error: type[ClientError]) -> None:
    with (
        stubbed(call=lambda asked: answer({"detail": "why"}, status)) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
        pytest.raises(error, match="why"),
    ):
        session.call_tool("n")
    assert sent(stub) == [None]


LENIENT = {
    "LF": events(NAMED.replace(b"\r\n", b"\n"), DONE.replace(b"\r\n", b"\n")),
    "CR": events(NAMED.replace(b"\r\n", b"\r"), DONE.replace(b"\r\n", b"\r")),
    "no blank after the colon": events(NAMED.replace(b": ", b":"), DONE.replace(b"data: ", b"data:")),
    "comments, ids and retries": events(b": c\n\nid: 1\nretry: 9\n", NAMED, b":\r\n", DONE),
    "another content type": events(NAMED, DONE, kind="text/plain"),
    "no task_id": events(DONE),
    "end in its own event": events(NAMED, event("chunk", result()), b"event: end\n\n"),
    "more after the end": events(NAMED, DONE, DONE, b"\xff\xff"),
    "open after the end": events(NAMED, DONE, 0.3),
    "byte by byte": events(*[part for byte in NAMED + DONE for part in (bytes([byte]), 0.0005)]),
}


@pytest.mark.parametrize("name", LENIENT)
def test_streams_that_are_odd_but_clear(kind: str, name: str) -> None:
    with (
        stubbed(call=lambda asked: LENIENT[name]) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
    ):
        assert session.call_tool("n").blocks == [TextBlock(text="done")]
    assert sent(stub) == [None]


def test_blanks_at_the_border_of_two_pieces(kind: str) -> None:
    text = " \u00a0\u2028\u0085  " * 3
    told = result({"blocks": [{"type": "text", "text": text}], "metadata": None, "reward": None, "finished": False})
    pieces = [event("chunk", char) for char in told[:-1]]
    with (
        stubbed(call=lambda asked: events(NAMED, *pieces, event("end", told[-1]))) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
    ):
        assert session.call_tool("n").blocks == [TextBlock(text=text)]


def test_a_stream_that_is_no_text(kind: str) -> None:
    with (
        stubbed(call=lambda asked: events(NAMED, b"data: \xff\r\n\r\n")) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
        pytest.raises(ProtocolError, match="not UTF-8"),
    ):
        session.call_tool("n")
    assert sent(stub) == [None]


def test_a_body_has_a_largest_size(kind: str) -> None:
    with (
        stubbed(messages=lambda asked: answer(["x" * 5000]), call=lambda asked: events(NAMED, b": x\n" * 5000)) as stub,
        client_of(kind, stub.url, settings={"largest_body": 5000}) as client,
        client.session(task=SPEC) as session,
    ):
        for ask in (session.get_messages, lambda: session.call_tool("n")):
            with pytest.raises(ProtocolError, match="larger than 5000 bytes"):
                ask()


# --- what is sent again ---


@pytest.mark.parametrize(
    "script",
    [
        ["reset"],
        [],
        [b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n["],
        *(answer({}, status) for status in (429, 502, 503, 504)),
    ],
)
def test_what_changes_nothing_is_asked_again(kind: str, script: list[Part]) -> None:
    with (
        stubbed(
            messages=in_turn(*[script] * RETRIES, answer([])),
            tasks=in_turn(*[script] * RETRIES, answer({"tasks": []})),
            splits=lambda asked: script,
        ) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
    ):
        assert session.get_messages() == []
        assert client.list_tasks("train") == []
        with pytest.raises(ClientError) as caught:
            client.list_splits()
        assert isinstance(caught.value, ConnectionLost | StatusError)
    assert [stub.times(path) for path in ("/messages", "/tasks", "/splits")] == [RETRIES + 1] * 3


def test_a_timeout_is_told_at_once(kind: str) -> None:
    with (
        stubbed(messages=lambda asked: [1.0, *answer([])]) as stub,
        client_of(kind, stub.url, settings={"timeout": 0.2}) as client,
        client.session(task=SPEC) as session,
    ):
        with pytest.raises(RequestTimeout, match=r"silent for 0\.2 s") as caught:
            session.get_messages()
        assert caught.value.url == stub.url + "/messages"
    assert stub.times("/messages") == 1


@pytest.mark.parametrize("path", ["create", "call", "messages"])
def test_a_server_that_says_when_to_come_back(kind: str, path: str) -> None:
    later = answer({"detail": "Environment still starting."}, 503, Retry_After="0", X_Backend_State="starting")
    good = {"create": answer({"sid": "s"}), "call": events(NAMED, DONE), "messages": answer([])}[path]
    with (
        stubbed(**{path: in_turn(*[later] * 8, good)}) as stub,
        client_of(kind, stub.url) as client,
        client.session(task=SPEC) as session,
    ):
        session.get_messages()
        session.call_tool("n")
    assert stub.times(f"/{path}") == 9  # longer than any other failure is put up with


def test_the_wait_is_the_one_that_was_asked_for(kind: str) -> None:
    later = answer({"detail": "busy"}, 429, Retry_After="1")
    with stubbed(list_environments=in_turn(later, answer([]))) as stub, client_of(kind, stub.url) as client:
        began = time.monotonic()
        assert client.list_environments() == []
        assert 0.95 < time.monotonic() - began < 3


@pytest.mark.parametrize("wait", ["3600", "99999999999999999999", "Wed, 21 Oct 2099 07:28:00 GMT"])
def test_nobody_waits_for_an_hour(kind: str, wait: str) -> None:
    later = answer({"detail": "busy"}, 503, Retry_After=wait)
    with stubbed(list_environments=lambda asked: later) as stub, client_of(kind, stub.url) as client:
        with pytest.raises(StatusError, match="busy") as caught:
            client.list_environments()
        assert caught.value.retry_after > 3000
    assert stub.times("/list_environments") == 1


@pytest.mark.parametrize("wait", ["soon", "-1", "Wed, 21 Oct 1999 07:28:00 GMT"])
def test_waits_that_are_none(kind: str, wait: str) -> None:
    later = answer({"detail": "busy"}, 503, Retry_After=wait)
    with stubbed(list_environments=in_turn(later, answer([]))) as stub, client_of(kind, stub.url) as client:
        assert client.list_environments() == []


@pytest.mark.parametrize(
    "script",
    [["reset"], [], answer({"detail": "x"}, 502), answer({"detail": "x"}, 504), answer({"detail": "x"}, 500), [1.0]],
)
def test_a_task_is_not_started_twice(kind: str, script: list[Part]) -> None:
    with (
        stubbed(create=lambda asked: script) as stub,
        client_of(kind, stub.url, settings={"timeout": 0.3}) as client,
        pytest.raises(ClientError),
    ):
        client.session(task=SPEC).__enter__()
    assert stub.times("/create") == 1
    assert stub.times("/delete_session") == 1
    answered = bool(script) and isinstance(script[0], bytes)
    assert stub.times("/delete") == (0 if answered else 1)  # it may be there after all


@pytest.mark.parametrize(
    "script", [events(), events(event("task_id", "s")), answer({}), events(event("end", "x")[:-2])]
)
def test_no_session_id(kind: str, script: list[Part]) -> None:
    with (
        stubbed(create_session=lambda asked: script) as stub,
        client_of(kind, stub.url) as client,
        pytest.raises(ProtocolError, match="ended without its `end` event, 4 times"),
    ):
        client.session(task=SPEC).__enter__()
    assert [item.path for item in stub.asked] == ["/create_session"] * (RETRIES + 1)


def test_a_session_that_is_refused(kind: str) -> None:
    with (
        stubbed(create_session=lambda asked: events(event("error", "no room"))) as stub,
        client_of(kind, stub.url) as client,
        pytest.raises(ProtocolError, match="no room"),
    ):
        client.session(task=SPEC).__enter__()
    assert stub.times("/create") == 0


# --- redirects ---


def test_redirects_on_the_same_server_are_followed_and_learnt(kind: str) -> None:
    def away(path: str) -> Callable[[Asked], list[Part]]:
        return lambda asked: answer(b"", 308, Location=f"/chat{path}")

    scripts = {f"/{path}": away(f"/{path}") for path in ("messages", "call")}
    with stubbed() as stub:
        stub.scripts.update(scripts)
        stub.scripts["/chat/messages"] = lambda asked: answer([])
        stub.scripts["/chat/call"] = lambda asked: events(NAMED, DONE)
        with client_of(kind, stub.url, "some-key") as client:
            for first in ("get_messages", "call_tool"):
                with client.session(task=SPEC) as session:
                    getattr(session, first)(*(["n", {"a": 1}] if first == "call_tool" else []))
                    session.get_messages()
                    session.call_tool("n", {"a": 2})
    assert (stub.times("/messages"), stub.times("/call")) == (1, 1)
    followed = stub.of("/chat/call")
    assert [item.json["input"] for item in followed] == [{"a": 2}, {"a": 1}, {"a": 2}]
    assert {(item.method, item.headers["x-api-key"], item.headers["x-session-id"]) for item in followed} == {
        ("POST", "some-key", "sid-1")
    }


@pytest.mark.parametrize(
    "scheme", ["http://127.0.0.1:{port}/x", "//localhost:{port}/x", "https://127.0.0.1/x", "file:///etc"]
)
def test_redirects_elsewhere_are_refused(kind: str, scheme: str) -> None:
    with stubbed(x=lambda asked: answer([])) as other:
        target = scheme.format(port=other.url.rpartition(":")[2])
        with (
            stubbed(list_environments=lambda asked: answer(b"", 308, Location=target)) as stub,
            client_of(kind, stub.url, "some-key") as client,
            pytest.raises(RedirectRefused, match="another origin"),
        ):
            client.list_environments()
        assert other.asked == []
        assert stub.times("/list_environments") == 1


def test_redirects_in_a_circle(kind: str) -> None:
    with (
        stubbed(list_environments=lambda asked: answer(b"", 308, Location="/list_environments")) as stub,
        client_of(kind, stub.url) as client,
        pytest.raises(RedirectRefused, match="more than 5 redirects"),
    ):
        client.list_environments()
    assert stub.times("/list_environments") == 6


@pytest.mark.parametrize("status", [301, 302, 303, 304])
def test_redirects_that_lose_the_body(kind: str, status: int) -> None:
    with (
        stubbed(tasks=lambda asked: answer(b"", status, Location="/elsewhere")) as stub,
        client_of(kind, stub.url) as client,
        pytest.raises(RedirectRefused, match=f"unexpected answer {status}"),
    ):
        client.list_tasks("train")
    assert stub.times("/elsewhere") == 0
