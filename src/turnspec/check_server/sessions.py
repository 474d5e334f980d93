"""Sessions: how they begin and end, who may ask for them, and what they serve."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from turnspec.check_server.content import Content, check_content
from turnspec.check_server.exchange import Answer, GivenUp
from turnspec.check_server.reading import Desk, no_route, said
from turnspec.check_server.stream import Stream, read_stream
from turnspec.check_server.tools import Tools, read_tools


@dataclass(frozen=True, slots=True)
class Place:
    """A task, and where it stands."""

    split: str
    index: int
    task: Any

    @property
    def body(self) -> dict[str, Any]:
        return {"task_spec": self.task}


class Sessions:
    """The sessions of one environment. All that were started are ended."""

    def __init__(self, desk: Desk, name: str) -> None:
        self.desk = desk
        self.name = name
        self._live: list[str] = []

    def reserve(self) -> str | None:
        """The id of a new session."""
        answer = self.desk.post("/create_session", {}, stream=True)
        stream = read_events(self.desk, answer)
        if stream is None:
            return None
        session = stream.task_id
        last = stream.last
        if last is not None and last[0] == "end" and not session:
            self.desk.tell("bad_shape", answer, "no task_id event names the session")
        elif last is not None and last[0] == "error":
            self.desk.tell("session_not_created", answer, f"ends with the error {last[1][:100]!r}")
        return session or None

    def start(self, body: dict[str, Any], session: str | None = None) -> str | None:
        """Start a session with a task; its id, or None and a finding."""
        session = session or self.reserve()
        if session is None:
            return None
        answer = self.desk.post("/create", {**body, "env_name": self.name}, session=session, patient=True)
        if answer.ok:
            self._live.append(session)
        found = self.desk.value(answer, "SessionId", "session_not_created")
        if found is not None and found["sid"] != session:
            self.desk.tell("bad_shape", answer, f"names the session {found['sid'][:60]!r}, not {session!r}")
        return session if answer.ok else None

    def keep(self, session: str) -> None:
        """A session that should not have started must be ended too."""
        self._live.append(session)

    def end_all(self) -> None:
        try:
            for session in dict.fromkeys(self._live):
                self.desk.post("/delete", session=session)
                self.desk.post("/delete_session", session=session)
        except GivenUp:
            pass


def read_events(desk: Desk, answer: Answer) -> Stream | None:
    """The events of a stream, its faults told; None where there is no stream."""
    if not answer.status:
        return None
    if answer.status != 200:
        desk.tell("wrong_status", answer, f"answers {said(answer)}, not 200")
        return None
    if answer.content_type != "text/event-stream":
        desk.tell("stream_content_type", answer, f"the content type is {answer.content_type or 'missing'!r}")
    stream = read_stream(answer.body, answer.whole)
    for code, words in stream.faults:
        desk.tell(code, answer, words)
    return stream


def check_sessions(desk: Desk, sessions: Sessions, places: list[Place], tools: Tools | None) -> None:
    """Everything about sessions but calls."""
    name = sessions.name
    _strangers(desk, name, tools)
    first, second = sessions.reserve(), sessions.reserve()
    if first is not None and first == second:
        desk.tell("session_id_repeated", "POST /create_session", f"{first!r} twice in a row")
    if first is None or not places:
        return
    _bad_creates(desk, sessions, places[0])
    if sessions.start(places[0].body, first) is None:
        return
    again = desk.post("/create", {**places[-1].body, "env_name": name}, session=first)
    desk.refused(again, 400, "session_twice", "the id of a live session")
    before = check_content(desk, name, first, tools)
    other = _by_index(desk, sessions, places[-1])
    _task_tools(desk, name, first, tools)
    _pings(desk, first)
    if other is not None:
        check_content(desk, name, other, tools)
        _unmixed(desk, name, first, before)
    for place in {place.split: place for place in reversed(places)}.values():
        if place.split != places[0].split:
            session = sessions.start(place.body)
            if session is not None:
                check_content(desk, name, session, tools)
    _endings(desk, name, first, before)


def _by_index(desk: Desk, sessions: Sessions, place: Place) -> str | None:
    return sessions.start({"split": place.split, "index": place.index})


def _routes(name: str, tools: Tools | None) -> list[tuple[str, str, Any, bool]]:
    """The routes of a session: method, path, body, and whether the server may lack it."""
    old = tools is None or tools.advertised is None
    return [
        ("GET", f"/{name}/messages", None, old),
        ("GET", f"/{name}/prompt", None, False),
        ("GET", f"/{name}/task_tools", None, True),
        ("POST", f"/{name}/call", {"name": "turnspec-no-such-tool", "input": {}}, False),
        ("POST", "/ping", None, False),
    ]


def _strangers(desk: Desk, name: str, tools: Tools | None) -> None:
    """Requests without a session, and of one that never was."""
    unknown = str(uuid.uuid4())
    for method, path, body, optional in _routes(name, tools):
        answer = desk.exchange.ask(method, path, body)
        if not (optional and answer.status == 404) and not no_route(answer):
            desk.refused(answer, 400, "session_header_ignored", "no X-Session-ID")
        answer = desk.exchange.ask(method, path, body, session=unknown)
        desk.refused(answer, 404, "unknown_session_served", "an unknown session")
    for path in ("/delete", "/delete_session"):
        desk.refused(desk.post(path), 400, "session_header_ignored", "no X-Session-ID")
        desk.value(desk.post(path, session=unknown), "SessionId", "delete_not_repeatable")


def _bad_creates(desk: Desk, sessions: Sessions, place: Place) -> None:
    """Bodies of /create that start no session."""
    by_index = {"split": place.split, "index": place.index}
    for body, status, code, what in (
        ({"env_name": sessions.name}, 422, "bad_body_accepted", "neither a task nor its place"),
        ({**place.body, **by_index}, 422, "bad_body_accepted", "a task and a place"),
        ({"task_spec": None}, 422, "bad_body_accepted", "null as task"),
        ({"task_spec": []}, 422, "bad_body_accepted", "a list as task"),
        ({**place.body, "unknown": 1}, 422, "bad_body_accepted", "a body with an unknown key"),
        ({**by_index, "split": "no such split"}, 400, "bad_place_accepted", "an unknown split"),
        ({**by_index, "index": 99_999_999}, 400, "bad_place_accepted", "an index out of range"),
        (
            {**place.body, "env_name": "turnspec-none"},
            404,
            "unknown_environment_accepted",
            "an unknown env_name",
        ),
    ):
        session = str(uuid.uuid4())
        answer = desk.post("/create", body, session=session)
        if answer.ok:
            sessions.keep(session)
        desk.refused(answer, status, code, what)
    answer = desk.post("/create", place.body)
    desk.refused(answer, 400, "session_header_ignored", "no X-Session-ID")


def _task_tools(desk: Desk, name: str, session: str, tools: Tools | None) -> None:
    answer = desk.get(f"/{name}/task_tools", session=session, patient=True)
    if answer.status == 404:  # clients then ask for the tools of the environment
        desk.error(answer)
        return
    own = read_tools(desk, answer)
    if own is None or tools is None:
        return
    if own.advertised != tools.advertised:
        what = f"advertises {_list(own.advertised)}; the environment {_list(tools.advertised)}"
        desk.tell("tool_lists_disagree", answer, what)
    terminal = own.terminal["name"] if own.terminal else None
    if missing := [tool for tool in tools.tools if tool not in own.tools and tool != terminal]:
        desk.tell("tool_lists_disagree", answer, f"the session lacks {', '.join(missing)}")


def _list(types: tuple[str, ...] | None) -> str:
    return "nothing" if types is None else ", ".join(types) or "no type"


def _pings(desk: Desk, session: str) -> None:
    desk.value(desk.post("/ping", session=session), "Health")
    answer = desk.post("//ping", session=session)
    if answer.status and not answer.ok:
        desk.tell("double_slash_lost", answer, f"answers {said(answer)}")


def _unmixed(desk: Desk, name: str, session: str, before: Content) -> None:
    """What a session serves must not change when another one starts."""
    for route, body in (("messages", before.messages), ("prompt", before.prompt)):
        if body is None:
            continue
        answer = desk.get(f"/{name}/{route}", session=session, patient=True)
        if answer.status == 200 and answer.whole and answer.body != body:
            desk.tell("sessions_mixed", answer, "answers something else since another session has started")


def _endings(desk: Desk, name: str, session: str, before: Content) -> None:
    """The end of a session, twice."""
    for path in ("/delete", "/delete", "/delete_session", "/delete_session"):
        answer = desk.post(path, session=session)
        found = desk.value(answer, "SessionId", "delete_not_repeatable")
        if found is not None and found["sid"] != session:
            desk.tell("bad_shape", answer, f"names the session {found['sid'][:60]!r}, not {session!r}")
    routes = [("POST", "/ping"), ("GET", f"/{name}/prompt")]
    if before.messages is not None:
        routes.append(("GET", f"/{name}/messages"))
    for method, path in routes:
        answer = desk.exchange.ask(method, path, session=session)
        desk.refused(answer, (404, 410), "deleted_session_served", "a session that was ended")
