"""Small environment servers, each with one fault, and the code that `check-server` must tell of it. No tests here.

`Script` is a server without a fault, in one page; a broken one is a subclass that does one thing otherwise.
"""

from __future__ import annotations

import json
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn

from turnspec import BLOCK_SETS, flatten_messages

JSON = "application/json"
STREAM = "text/event-stream; charset=utf-8"
CHUNK = 4096
Event = tuple[str, str]


@dataclass
class Reply:
    """An answer. `cut`: the connection closes although more of the body was promised."""

    status: int
    body: bytes
    kind: str = JSON
    headers: dict[str, str] = field(default_factory=dict)
    cut: bool = False


class Refuse(Exception):
    def __init__(self, status: int, detail: Any) -> None:
        self.reply = told({"detail": detail}, status)


def told(value: Any, status: int = 200) -> Reply:
    return Reply(status, json.dumps(value).encode())


def wrong_body(name: str) -> Refuse:
    return Refuse(422, [{"type": "missing", "loc": ["body", name], "msg": "Field required", "input": {}}])


@dataclass
class Session:
    task: dict[str, Any]
    finished: bool = False


class Script:
    """The server: one environment, `chat`, with one split of three tasks and one tool."""

    env = "chat"
    fixed = ("health", "version", "list_environments", "create_session", "create", "ping", "delete", "delete_session")

    def __init__(self) -> None:
        self.tasks: list[dict[str, Any]] = [{"id": number} for number in range(3)]
        self.sessions: dict[str, Session] = {}
        self.replays: dict[str, list[Event]] = {}
        self.url = ""

    # --- what comes in ---

    def respond(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        path = self.plain(path)
        parts = path.strip("/").split("/")
        first = parts[0].lower()
        if first not in self.fixed and first != self.env:
            return self.redirect(path)
        route = parts[0] if first in self.fixed else parts[1] if len(parts) == 2 else ""
        if route not in self.methods():
            return told({"detail": "Not Found"}, 404)
        if method != self.methods()[route]:
            return told({"detail": "Method Not Allowed"}, 405)
        self.headers, self.body = headers, body
        try:
            return getattr(self, "tasks_" if route == "tasks" else route)()
        except Refuse as refusal:
            return refusal.reply

    def methods(self) -> dict[str, str]:
        posts = ("tasks", "num_tasks", "task", "task_range", "call", "score_group", "create_session", "create", "ping")
        gets = ("health", "version", "list_environments", "splits", "tools", "messages", "prompt", "task_tools")
        return {**dict.fromkeys((*posts, "delete", "delete_session"), "POST"), **dict.fromkeys(gets, "GET")}

    def plain(self, path: str) -> str:
        return "/" + path.lstrip("/")

    def redirect(self, path: str) -> Reply:
        return Reply(308, b"", headers={"location": f"/{self.env}{path}"})

    def read(self, required: dict[str, type], optional: dict[str, type] | None = None) -> dict[str, Any]:
        """The body, which has these keys and no others."""
        if self.headers.get("content-type") != JSON:
            raise wrong_body("body")
        try:
            value = json.loads(self.body)
        except ValueError:
            raise wrong_body("body") from None
        if not isinstance(value, dict):
            raise wrong_body("body")
        known = {**required, **(optional or {})}
        for name in required:
            if name not in value:
                raise wrong_body(name)
        for name, item in value.items():
            if name not in known or not isinstance(item, known[name]):
                raise wrong_body(name)
        return value

    def sid(self) -> str:
        sid = self.headers.get("x-session-id", "").strip()
        if not sid:
            raise Refuse(400, "X-Session-ID header is required")
        return sid

    def session(self) -> Session:
        session = self.sessions.get(self.sid())
        if session is None:
            raise Refuse(404, "Active environment not found")
        return session

    # --- the server, the environment ---

    def health(self) -> Reply:
        return told({"status": "ok"})

    def version(self) -> Reply:
        return told({"version": "1", "build_sha": None})

    def list_environments(self) -> Reply:
        return told([self.env])

    def splits(self) -> Reply:
        return told([{"name": "train", "type": "train"}])

    def split_of(self, body: dict[str, Any]) -> list[dict[str, Any]]:
        if body["split"] != "train":
            raise Refuse(400, "Invalid split")
        return self.tasks

    def num_tasks(self) -> Reply:
        return told({"num_tasks": len(self.split_of(self.read({"split": str})))})

    def listing(self, tasks: list[dict[str, Any]]) -> Reply:
        return told({"tasks": tasks, "env_name": self.env})

    def tasks_(self) -> Reply:
        return self.listing(self.split_of(self.read({"split": str})))

    def task(self) -> Reply:
        body = self.read({"split": str, "index": int})
        return told({"task": self.at(body), "env_name": self.env})

    def at(self, body: dict[str, Any]) -> dict[str, Any]:
        tasks = self.split_of(body)
        if not -len(tasks) <= body["index"] < len(tasks):
            raise Refuse(400, "Invalid index")
        return tasks[body["index"]]

    def task_range(self) -> Reply:
        body = self.read({"split": str}, {"start": int, "stop": int})
        return self.listing(self.split_of(body)[body.get("start") : body.get("stop")])

    def tool_list(self) -> dict[str, Any]:
        schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
        return {
            "tools": [{"name": "submit", "description": "Hand in.", "input_schema": schema}],
            "terminal_tool": None,
            "supports_score_group": False,
            "message_block_types": list(BLOCK_SETS["v2"]),
        }

    def tools(self) -> Reply:
        return told(self.tool_list())

    def task_tools(self) -> Reply:
        self.session()
        return self.tools()

    # --- sessions ---

    def new_id(self) -> str:
        return str(uuid.uuid4())

    def create_session(self) -> Reply:
        return self.stream([("task_id", self.new_id()), ("end", "")])

    def create(self) -> Reply:
        known: dict[str, type] = {"task_spec": dict, "split": str, "index": int, "env_name": str}
        body = self.read({}, known)
        if ("task_spec" in body) == ("split" in body and "index" in body):
            raise wrong_body("task_spec")
        sid = self.sid()
        if sid in self.sessions:
            raise Refuse(400, "Session already exists")
        if body.get("env_name", self.env) != self.env:
            raise Refuse(404, f"unknown environment {body['env_name']!r}")
        self.sessions[sid] = Session(body["task_spec"] if "task_spec" in body else self.at(body))
        return told({"sid": sid})

    def ping(self) -> Reply:
        self.session()
        return told({"status": "ok"})

    def delete(self) -> Reply:
        self.sessions.pop(self.sid(), None)
        return told({"sid": self.sid()})

    def delete_session(self) -> Reply:
        return told({"sid": self.sid()})

    # --- content ---

    def conversation(self, task: dict[str, Any]) -> list[dict[str, Any]]:
        call = {"id": "c", "name": "look", "input": {"what": "é"}, "detail": None, "type": "tool_call"}
        result = {
            "tool_call_id": "c",
            "blocks": [text("seen")],
            "is_error": False,
            "detail": None,
            "type": "tool_result",
        }
        return [
            turn("system", text("Be brief.")),
            turn("user", text(f"Question {task.get('id')}")),
            turn("assistant", {"text": "Hm.", "signature": None, "detail": None, "type": "reasoning"}, call),
            turn("user", {**result, "type": "tool_result"}),
        ]

    def messages(self) -> Reply:
        return told(self.conversation(self.session().task))

    def flat(self, task: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"detail": None, **block} for block in flatten_messages(self.conversation(task))]

    def prompt(self) -> Reply:
        return told(self.flat(self.session().task))

    # --- calls ---

    def call(self) -> Reply:
        session = self.session()
        body = self.read({"name": str, "input": dict}, {"task_id": str})
        if "task_id" in body:
            events = self.again(body["task_id"])
            return self.stream(events or [("error", "unknown task_id")])
        task_id = uuid.uuid4().hex
        result = json.dumps(self.result(session, body["name"], body["input"]), ensure_ascii=False)
        self.replays[task_id] = [("task_id", task_id), *self.pieces(result)]
        return self.stream(self.replays[task_id])

    def again(self, task_id: str) -> list[Event]:
        return self.replays.get(task_id, [])

    def result(self, session: Session, name: str, given: dict[str, Any]) -> dict[str, Any]:
        if name != "submit":
            return refusal("not_found", f"{name!r} is not a valid tool")
        if session.finished:
            return refusal("episode_finished", "the episode has finished")
        if not isinstance(given.get("text"), str):
            return refusal("input_validation", "text is missing")
        session.finished = True
        return {"ok": True, "output": {"blocks": [text("ok")], "metadata": None, "reward": 1.0, "finished": True}}

    def pieces(self, result: str) -> list[Event]:
        """The result cut so that no piece begins with a blank."""
        result = result.replace("  ", "\\u0020\\u0020")
        cuts = range(0, len(result), CHUNK)
        pieces = [result[start : start + CHUNK] for start in cuts]
        return [*(("chunk", piece) for piece in pieces[:-1]), ("end", pieces[-1])]

    def stream(self, events: list[Event]) -> Reply:
        return Reply(200, b"".join(self.event(*event) for event in events), STREAM)

    def event(self, name: str, data: str) -> bytes:
        return f"event: {name}\r\ndata: {data}\r\n\r\n".encode()

    def score_group(self) -> Reply:
        self.session()
        raise Refuse(404, "no scoring here")


def turn(role: str, *blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": role, "blocks": list(blocks), "detail": None}


def text(value: str) -> dict[str, Any]:
    return {"text": value, "detail": None, "type": "text"}


def refusal(reason: str, error: str) -> dict[str, Any]:
    return {"ok": False, "error": error, "reason": reason}


# --- The broken ones ---------------------------------------------------------------------------------------

BROKEN: dict[str, tuple[type[Script], str]] = {}


def breaks(code: str) -> Callable[[type[Script]], type[Script]]:
    """This server has the fault `code`, and no other error."""

    def note(server: type[Script]) -> type[Script]:
        BROKEN[server.__name__] = (server, code)
        return server

    return note


@breaks("no_answer")
class CutsAnAnswer(Script):
    def version(self) -> Reply:
        return Reply(200, b'{"version": ', cut=True)


@breaks("wrong_status")
class HealthWithoutContent(Script):
    def health(self) -> Reply:
        return Reply(204, b"")


@breaks("wrong_content_type")
class JsonAsText(Script):
    def splits(self) -> Reply:
        return Reply(200, super().splits().body, "text/html")


@breaks("bad_json_answer")
class NanInJson(Script):
    def task(self) -> Reply:
        super().task()
        return Reply(200, b'{"task": {"id": NaN}, "env_name": "chat"}')


@breaks("bad_shape")
class SplitsAreNames(Script):
    def version(self) -> Reply:
        return told({"version": 1})


@breaks("error_shape")
class ErrorsAreText(Script):
    def ping(self) -> Reply:
        try:
            return super().ping()
        except Refuse as refusal:
            return Reply(refusal.reply.status, b"no session", "text/plain")


@breaks("stack_trace")
class ShowsItsInside(Script):
    def respond(self, method: str, path: str, headers: dict[str, str], body: bytes) -> Reply:
        reply = super().respond(method, path, headers, body)
        if reply.status == 404:
            return told({"detail": "Traceback (most recent call last):\n  File ..."}, 404)
        return reply


@breaks("foreign_redirect")
class RedirectsAway(Script):
    def redirect(self, path: str) -> Reply:
        return Reply(308, b"", headers={"location": f"http://127.0.0.1:9/{self.env}{path}"})


@breaks("absolute_redirect")
class RedirectsWithHost(Script):
    def redirect(self, path: str) -> Reply:
        return Reply(308, b"", headers={"location": f"{self.url}/{self.env}{path}"})


@breaks("redirect_loses_body")
class RedirectsWithFound(Script):
    def redirect(self, path: str) -> Reply:
        return Reply(302, b"", headers={"location": f"/{self.env}{path}"})


@breaks("bare_path_lost")
class NoDefaultEnvironment(Script):
    def redirect(self, path: str) -> Reply:
        return told({"detail": "Not Found"}, 404)


@breaks("no_environment")
class ListsAnEnvironmentTwice(Script):
    def list_environments(self) -> Reply:
        return told([self.env, self.env])


@breaks("no_split")
class ListsNoSplit(Script):
    def splits(self) -> Reply:
        return told([])


@breaks("tasks_disagree")
class CountsWrong(Script):
    def num_tasks(self) -> Reply:
        self.split_of(self.read({"split": str}))
        return told({"num_tasks": 2})


@breaks("tasks_disagree")
class RangesAreNoSlices(Script):
    def task_range(self) -> Reply:
        body = self.read({"split": str}, {"start": int, "stop": int})
        tasks = self.split_of(body)
        return self.listing(tasks[max(0, body.get("start") or 0) : body.get("stop")])


@breaks("bad_body_accepted")
class IgnoresUnknownKeys(Script):
    def num_tasks(self) -> Reply:
        if b"unknown" in self.body:
            return told({"num_tasks": 3})
        return super().num_tasks()


@breaks("bad_place_accepted")
class TakesAnyIndex(Script):
    def task(self) -> Reply:
        body = self.read({"split": str, "index": int})
        tasks = self.split_of(body)
        return told({"task": tasks[min(body["index"], len(tasks) - 1)], "env_name": self.env})


@breaks("unknown_environment_accepted")
class TakesAnyEnvironment(Script):
    def create(self) -> Reply:
        self.body = self.body.replace(b"turnspec-none", self.env.encode())
        return super().create()


@breaks("session_id_repeated")
class GivesAnIdTwice(Script):
    """Only the first one: what follows works."""

    def __init__(self) -> None:
        super().__init__()
        first = super().new_id()
        self.ids = [first, first]

    def new_id(self) -> str:
        return self.ids.pop() if self.ids else super().new_id()


@breaks("session_header_ignored")
class PingsAnybody(Script):
    def ping(self) -> Reply:
        return super().ping() if self.headers.get("x-session-id") else told({"status": "ok"})


@breaks("session_not_created")
class RefusesItsTasks(Script):
    def create(self) -> Reply:
        if b'"task_spec":{"id"' in self.body.replace(b" ", b"") and b"unknown" not in self.body:
            super().create()
            self.sessions.pop(self.sid())
            raise Refuse(500, "KeyError: 'conversation'")
        return super().create()


@breaks("session_twice")
class StartsTwice(Script):
    def create(self) -> Reply:
        try:
            return super().create()
        except Refuse as refusal:
            if b"already exists" in refusal.reply.body:
                return told({"sid": self.sid()})
            raise


@breaks("unknown_session_served")
class KnowsEverySession(Script):
    def prompt(self) -> Reply:
        return super().prompt() if self.sid() in self.sessions or len(self.sid()) != 36 else self.anyone()

    def anyone(self) -> Reply:
        return told(self.flat({})) if not self.sessions else super().prompt()


@breaks("deleted_session_served")
class NeverForgets(Script):
    def __init__(self) -> None:
        super().__init__()
        self.gone: set[str] = set()

    def delete(self) -> Reply:
        if self.sid() in self.sessions:
            self.gone.add(self.sid())
        return super().delete()

    def ping(self) -> Reply:
        return told({"status": "ok"}) if self.headers.get("x-session-id") in self.gone else super().ping()


@breaks("delete_not_repeatable")
class DeletesOnce(Script):
    def delete(self) -> Reply:
        self.session()
        return super().delete()


@breaks("sessions_mixed")
class SharesItsTask(Script):
    def conversation(self, task: dict[str, Any]) -> list[dict[str, Any]]:
        return super().conversation(list(self.sessions.values())[-1].task)


@breaks("no_tool")
class HasNoTool(Script):
    def tool_list(self) -> dict[str, Any]:
        return {**super().tool_list(), "tools": []}


@breaks("tool_keys")
class NamesParameters(Script):
    def tool_list(self) -> dict[str, Any]:
        listed = super().tool_list()
        listed["tools"][0]["parameters"] = {}
        return listed


@breaks("tool_lists_disagree")
class ForgetsBlockTypes(Script):
    def task_tools(self) -> Reply:
        self.session()
        return told({**self.tool_list(), "message_block_types": list(BLOCK_SETS["v1"])})


@breaks("unknown_block_set")
class KnowsVideo(Script):
    def tool_list(self) -> dict[str, Any]:
        return {**super().tool_list(), "message_block_types": [*BLOCK_SETS["v2"], "video"]}


@breaks("messages_missing")
class HasNoMessages(Script):
    def methods(self) -> dict[str, str]:
        return {name: method for name, method in super().methods().items() if name != "messages"}


@breaks("messages_not_advertised")
class AdvertisesNothing(Script):
    def tool_list(self) -> dict[str, Any]:
        return {name: item for name, item in super().tool_list().items() if name != "message_block_types"}

    def conversation(self, task: dict[str, Any]) -> list[dict[str, Any]]:
        return [turn("user", text(f"Question {task.get('id')}"))]


@breaks("block_not_advertised")
class AdvertisesTextOnly(Script):
    def tool_list(self) -> dict[str, Any]:
        return {**super().tool_list(), "message_block_types": list(BLOCK_SETS["v1"])}


@breaks("invalid_messages")
class MisplacesABlock(Script):
    def messages(self) -> Reply:
        messages = self.conversation(self.session().task)
        messages[1]["blocks"].append(messages[2]["blocks"][0])
        return told(messages)


@breaks("optional_key_missing")
class LeavesNullsOut(Script):
    def messages(self) -> Reply:
        bare = [{key: item for key, item in turn.items() if item is not None} for turn in self.told_messages()]
        return told(bare)

    def told_messages(self) -> list[dict[str, Any]]:
        return self.conversation(self.session().task)


@breaks("prompt_missing")
class HasNoPrompt(Script):
    def methods(self) -> dict[str, str]:
        return {name: method for name, method in super().methods().items() if name != "prompt"}


@breaks("invalid_prompt")
class PromptOfMessages(Script):
    def prompt(self) -> Reply:
        return self.messages()


@breaks("prompt_not_flattened")
class FlattensWithoutHeaders(Script):
    def prompt(self) -> Reply:
        return told([block for block in self.flat(self.session().task) if block["text"] != "[assistant]"])


@breaks("prompt_differs")
class HasItsOwnPrompt(Script):
    def prompt(self) -> Reply:
        self.session()
        return told([text("Answer the question.")])


@breaks("stream_content_type")
class StreamsAsText(Script):
    def stream(self, events: list[Event]) -> Reply:
        return Reply(200, super().stream(events).body, "text/plain")


@breaks("stream_bad_line")
class WritesBareFields(Script):
    def create_session(self) -> Reply:
        reply = super().create_session()
        return Reply(200, reply.body.replace(b"data: \r\n", b"data\r\n"), STREAM)


@breaks("stream_long_line")
class SendsOneLongLine(Script):
    def pieces(self, result: str) -> list[Event]:
        return [("end", result.replace("  ", "\\u0020\\u0020") + "\t" * 140_000)]


@breaks("stream_not_utf8")
class SendsLatinOne(Script):
    def refusal_text(self) -> str:
        return "unbekannt für uns"

    def result(self, session: Session, name: str, given: dict[str, Any]) -> dict[str, Any]:
        found = super().result(session, name, given)
        return found if found["ok"] else {**found, "error": self.refusal_text()}

    def event(self, name: str, data: str) -> bytes:
        return f"event: {name}\r\ndata: {data}\r\n\r\n".encode("latin-1")


@breaks("stream_not_ended")
class NeverEndsItsStream(Script):
    def call(self) -> Reply:
        reply = super().call()
        return reply if reply.status != 200 else Reply(200, reply.body[: reply.body.rindex(b"event: ")], STREAM)


@breaks("stream_not_ended")
class ForgetsTheEmptyLine(Script):
    def create_session(self) -> Reply:
        reply = super().create_session()
        return Reply(200, reply.body.removesuffix(b"\r\n"), STREAM)


@breaks("stream_goes_on")
class GoesOnBehindTheEnd(Script):
    def stream(self, events: list[Event]) -> Reply:
        return super().stream([*events, ("chunk", "more")])


@breaks("stream_without_id")
class CallsWithoutId(Script):
    def stream(self, events: list[Event]) -> Reply:
        return super().stream(events[1:] if len(events[0][1]) == 32 else events)


@breaks("stream_blank_lost")
class CutsAtBlanks(Script):
    def pieces(self, result: str) -> list[Event]:
        pieces = [result[start : start + CHUNK] for start in range(0, len(result), CHUNK)]
        return [*(("chunk", piece) for piece in pieces[:-1]), ("end", pieces[-1])]


@breaks("stream_bad_result")
class SendsHalfAnOutput(Script):
    def result(self, session: Session, name: str, given: dict[str, Any]) -> dict[str, Any]:
        found = super().result(session, name, given)
        return {"ok": True, "output": {"blocks": []}} if found["ok"] else found


@breaks("replay_differs")
class RunsAgain(Script):
    def again(self, task_id: str) -> list[Event]:
        events = super().again(task_id)
        return events and [events[0], ("end", json.dumps(refusal("episode_finished", "the episode has finished")))]


@breaks("unknown_tool_accepted")
class AnswersUnknownToolsWith404(Script):
    def result(self, session: Session, name: str, given: dict[str, Any]) -> dict[str, Any]:
        if name != "submit":
            raise Refuse(404, "no such tool")
        return super().result(session, name, given)


@breaks("bad_input_accepted")
class TakesAnyInput(Script):
    def result(self, session: Session, name: str, given: dict[str, Any]) -> dict[str, Any]:
        if name == "submit" and not given:
            return {"ok": True, "output": {"blocks": [], "metadata": None, "reward": None, "finished": False}}
        return super().result(session, name, given)


@breaks("finished_not_final")
class SubmitsTwice(Script):
    def result(self, session: Session, name: str, given: dict[str, Any]) -> dict[str, Any]:
        session.finished = False
        return super().result(session, name, given)


@breaks("finished_not_kept")
class AnOldServer(AdvertisesNothing):
    def methods(self) -> dict[str, str]:
        return {name: method for name, method in super().methods().items() if name != "messages"}

    def result(self, session: Session, name: str, given: dict[str, Any]) -> dict[str, Any]:
        session.finished = False
        return super().result(session, name, given)


@breaks("finished_session_lost")
class EndsWithTheEpisode(Script):
    def ping(self) -> Reply:
        if self.session().finished:
            raise Refuse(404, "Active environment not found")
        return super().ping()


@breaks("double_slash_lost")
class TakesPathsAsTheyAre(Script):
    def plain(self, path: str) -> str:
        return path if not path.startswith("//") else "/chat/nothing/here"


# --- Running them ------------------------------------------------------------------------------------------


class _App:
    """A script as an ASGI application."""

    def __init__(self, script: Script) -> None:
        self.script = script

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        reply = self.script.respond(scope["method"], scope["path"], headers, body)
        sent = [(b"content-type", reply.kind.encode())] if reply.body or reply.kind != JSON else []
        sent += [(name.encode(), value.encode()) for name, value in reply.headers.items()]
        if reply.cut:
            sent.append((b"content-length", b"100"))
        await send({"type": "http.response.start", "status": reply.status, "headers": sent})
        await send({"type": "http.response.body", "body": reply.body, "more_body": reply.cut})


@contextmanager
def running(script: Script) -> Iterator[str]:
    """Serve a script on a free port while the block runs; gives the URL."""
    with running_app(_App(script)) as url:
        script.url = url
        yield url


@contextmanager
def running_app(app: Any) -> Iterator[str]:
    """Serve an ASGI application on a free port of this machine, from a thread."""
    # With its protocol named: asyncio lets small answers go at once only on such sockets.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(64)
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", access_log=False))
    server.config.load()
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()
