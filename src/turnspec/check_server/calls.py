"""Calls of tools: refusals, results, replay, and the end of the episode."""

from __future__ import annotations

import json
import uuid
from typing import Any

from turnspec.check_server.exchange import Answer
from turnspec.check_server.reading import Desk, no_route, said
from turnspec.check_server.sessions import Place, Sessions, read_events
from turnspec.check_server.shape import differences
from turnspec.check_server.stream import Stream
from turnspec.check_server.tools import Tools

MOST_CALLED = 3
# An unknown name, which servers like to repeat in their refusal: then a long text that is all blanks, in chunks.
LONG_NAME = "turnspec-no-such-tool" + " " * 9000 + "."
SHORT_NAME = "turnspec-no-such-tool"


def check_calls(desk: Desk, sessions: Sessions, place: Place, tools: Tools) -> None:
    """Check everything about calls in sessions of one task."""
    session = sessions.start(place.body)
    if session is None:
        return
    path = f"/{sessions.name}/call"
    _refusals(desk, path, session, tools)
    replayed = False
    for name, given in tools.callable[:MOST_CALLED]:
        answer = desk.post(path, {"name": name, "input": given}, session=session, stream=True, patient=True)
        stream = _stream(desk, answer)
        result = _result(desk, answer, stream)
        if result is None:  # a tool that raises ends its session
            session = sessions.start(place.body)
            if session is None:
                return
            continue
        if result["ok"] and stream is not None and not replayed:
            replayed = True
            _replay(desk, path, session, stream)
        if result["ok"] and result["output"]["finished"]:
            code = "finished_not_kept" if tools.advertised is None else "finished_not_final"
            _finished(desk, sessions.name, session, {"name": name, "input": given}, code)
            break
    _score(desk, sessions, place, tools)


def _refusals(desk: Desk, path: str, session: str, tools: Tools) -> None:
    for body, what in (
        ({"input": {}}, "a call without a name"),
        ({"name": SHORT_NAME, "input": []}, "a call whose input is a list"),
        ({"name": SHORT_NAME, "input": {}, "unknown": 1}, "a call with an unknown key"),
    ):
        desk.refused(desk.post(path, body, session=session, stream=True), 422, "bad_body_accepted", what)
    for name in (SHORT_NAME, LONG_NAME):
        _refused(desk, path, session, {"name": name, "input": {}}, "not_found", "unknown_tool_accepted")
    if tools.demanding is not None:
        _refused(desk, path, session, {"name": tools.demanding, "input": {}}, "input_validation", "bad_input_accepted")
    again: dict[str, Any] = {"name": SHORT_NAME, "input": {}, "task_id": uuid.uuid4().hex}
    answer = desk.post(path, again, session=session, stream=True)
    stream = read_events(desk, answer)
    if stream is not None and stream.last is not None and stream.last[0] != "error":
        desk.tell("replay_differs", answer, "an unknown task_id does not end in an error event")


def _refused(desk: Desk, path: str, session: str, body: dict[str, Any], reason: str, code: str) -> None:
    """The call must end with ok false and this reason."""
    answer = desk.post(path, body, session=session, stream=True, patient=True)
    if answer.status and answer.status != 200:
        desk.tell(code, answer, f"answers {said(answer)}, not a stream that says why")
        return
    stream = _stream(desk, answer)
    if stream is not None and stream.last is not None and stream.last[0] == "error":
        desk.tell(code, answer, f"ends with the error {stream.last[1][:100]!r}, which ends the session")
        return
    result = _result(desk, answer, stream)
    if result is None:
        return
    if result["ok"]:
        desk.tell(code, answer, "the call ran")
    elif result["reason"] != reason:
        desk.tell(code, answer, f"the reason is {result['reason']!r}, not {reason!r}")


def _stream(desk: Desk, answer: Answer) -> Stream | None:
    stream = read_events(desk, answer)
    if stream is not None and stream.events and stream.events[0][0] != "task_id":
        desk.tell("stream_without_id", answer, f"the first event is {stream.events[0][0][:60]!r}")
    return stream


def _result(desk: Desk, answer: Answer, stream: Stream | None) -> dict[str, Any] | None:
    """The result of a call; None where it has none."""
    if stream is None or stream.last is None or stream.last[0] != "end":
        return None
    try:
        value = json.loads(stream.result)
    except (ValueError, RecursionError) as error:
        desk.tell("stream_bad_result", answer, f"the joined pieces are no JSON: {str(error)[:120]}")
        return None
    found = differences(value, "CallResult")
    for difference in found:
        desk.tell("stream_bad_result", answer, difference)
    result: dict[str, Any] | None = None if found else value
    return result


def _replay(desk: Desk, path: str, session: str, first: Stream) -> None:
    """The same call again, by its id: name and input do not count then."""
    if not first.task_id:
        return
    body = {"name": SHORT_NAME, "input": {}, "task_id": first.task_id}
    answer = desk.post(path, body, session=session, stream=True)
    stream = read_events(desk, answer)
    if stream is None or stream.last is None:
        return
    if first.last is None or stream.last[0] != first.last[0]:
        desk.tell("replay_differs", answer, f"ends with {stream.last[0]}: {stream.last[1][:100]!r}")
    elif stream.result != first.result:
        desk.tell("replay_differs", answer, "the answer is another one than that of the call")


def _finished(desk: Desk, name: str, session: str, call: dict[str, Any], code: str) -> None:
    """The same call is refused from now on, but the session is still there."""
    _refused(desk, f"/{name}/call", session, call, "episode_finished", code)
    for method, path in (("GET", f"/{name}/prompt"), ("POST", "/ping")):
        answer = desk.exchange.ask(method, path, session=session)
        if answer.status and answer.status != 200 and not no_route(answer):
            desk.tell("finished_session_lost", answer, f"answers {said(answer)} after the end of the episode")


def _score(desk: Desk, sessions: Sessions, place: Place, tools: Tools) -> None:
    """A group of nobody: a stream with no scores, or 404 where there is no scoring."""
    session = sessions.start(place.body)
    if session is None:
        return
    answer = desk.post(f"/{sessions.name}/score_group", {"candidates": []}, session=session, stream=True, patient=True)
    if not tools.scores:
        if answer.status == 404:
            desk.error(answer)
        elif answer.status:
            desk.tell(
                "wrong_status", answer, f"answers {said(answer)}, not 404: the tool list says that there is no scoring"
            )
        return
    stream = _stream(desk, answer)
    if stream is None or stream.last is None or stream.last[0] != "end":
        return
    try:
        found = differences(json.loads(stream.result), "Scores")
    except (ValueError, RecursionError) as error:
        found = [f"the joined pieces are no JSON: {str(error)[:120]}"]
    for difference in found:
        desk.tell("stream_bad_result", answer, difference)
