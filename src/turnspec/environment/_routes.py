"""What each route does. The routes themselves stand in `schema/wire.json`."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import uuid4

from starlette.types import ASGIApp, Receive, Scope

from turnspec import __version__
from turnspec_generated import wire

from . import _bodies, _streams
from ._answers import Answer, CallEvents, Events, json_answer
from ._calls import Calls
from ._faults import FaultError
from ._hosted import Hosted
from ._messages import messages_of, prompt_of
from ._run import run
from ._sessions import Sessions
from ._tools import list_of

_HEADERS = {key: name.lower() for key, name in wire.HEADERS.items()}
_OK = b'{"status":"ok"}'


class Request:
    """What a handler needs of a request: the session it names, the environment in its path, and its body."""

    def __init__(self, route: wire.Route, scope: Scope, receive: Receive, max_body: int) -> None:
        self.route = route
        self.headers = _bodies.header(scope)
        self.env: str = scope.get("path_params", {}).get("env", "").lower()
        self._receive = receive
        self._max_body = max_body

    @property
    def sid(self) -> str:
        sid = self.headers.get(_HEADERS["session"], "").strip()
        if not sid:
            raise FaultError("no_session_header")
        return sid

    async def read(self) -> bytes:
        return await _bodies.read(self._receive, self.headers, self._max_body)

    def parse(self, data: bytes) -> dict[str, Any]:
        return _bodies.parse(data, self.headers, self.route.request or "")

    async def body(self) -> dict[str, Any]:
        return self.parse(await self.read())


Handler = Callable[[Request], Awaitable[ASGIApp]]


class Handlers:
    """One method for each route, by its name."""

    def __init__(self, environments: Mapping[str, Hosted], sessions: Sessions, calls: Calls) -> None:
        self._environments = environments
        self._sessions = sessions
        self._calls = calls

    def _hosted(self, name: str) -> Hosted:
        try:
            return self._environments[name.lower()]
        except KeyError:
            raise FaultError("unknown_environment", name=name) from None

    # --- the server ---

    async def health(self, request: Request) -> ASGIApp:
        return Answer(_OK)

    async def version(self, request: Request) -> ASGIApp:
        return json_answer({"version": __version__, "build_sha": os.environ.get("OPENREWARD_BUILD_SHA")})

    async def list_environments(self, request: Request) -> ASGIApp:
        return json_answer(list(self._environments))

    # --- an environment ---

    async def splits(self, request: Request) -> ASGIApp:
        return json_answer([split.model_dump() for split in self._hosted(request.env).splits])

    async def tasks(self, request: Request) -> ASGIApp:
        hosted, body = await self._asked(request)
        return await self._told(hosted, "tasks", hosted.tasks(body["split"]))

    async def num_tasks(self, request: Request) -> ASGIApp:
        hosted, body = await self._asked(request)
        return await self._told(hosted, "num_tasks", hosted.num_tasks(body["split"]), named=False)

    async def task(self, request: Request) -> ASGIApp:
        hosted, body = await self._asked(request)
        index = _bodies.as_integer(body["index"])
        assert index is not None
        return await self._told(hosted, "task", hosted.task(body["split"], index))

    async def task_range(self, request: Request) -> ASGIApp:
        hosted, body = await self._asked(request)
        start, stop = _bodies.as_integer(body.get("start")), _bodies.as_integer(body.get("stop"))
        return await self._told(hosted, "tasks", hosted.task_range(body["split"], start, stop))

    async def _asked(self, request: Request) -> tuple[Hosted, dict[str, Any]]:
        body = await request.body()
        return self._hosted(request.env), body

    async def _told(self, hosted: Hosted, key: str, value: Awaitable[Any], named: bool = True) -> ASGIApp:
        try:
            found = {key: await value}
            return json_answer({**found, "env_name": hosted.name} if named else found)
        except FaultError:
            raise
        except Exception as problem:
            raise self._sessions.failed(problem, hosted) from problem

    async def tools(self, request: Request) -> ASGIApp:
        return json_answer(self._hosted(request.env).tool_list.model_dump())

    # --- sessions ---

    async def create_session(self, request: Request) -> ASGIApp:
        await request.read()
        return Events(_streams.event("task_id", str(uuid4())) + _streams.event("end", ""))

    async def create(self, request: Request) -> ASGIApp:
        data = await request.read()
        sid = request.sid
        body = request.parse(data)
        name = body.get("env_name")
        hosted = self._hosted(name) if name is not None else next(iter(self._environments.values()))
        if body.get("toolset_name") is not None:
            raise FaultError("unknown_toolset", name=body["toolset_name"])
        secrets = _secrets(request.headers.get(_HEADERS["secrets"], ""))

        async def task_spec() -> Any:
            if body.get("task_spec") is not None:
                return body["task_spec"]
            try:
                return await hosted.task(body["split"], _bodies.as_integer(body["index"]) or 0)
            except FaultError:
                raise
            except Exception as problem:
                raise self._sessions.failed(problem, hosted) from problem

        await self._sessions.create(sid, hosted, task_spec, secrets)
        return json_answer({"sid": sid})

    async def messages(self, request: Request) -> ASGIApp:
        session = await self._sessions.ready(request.sid)
        return Answer(await self._sessions.answer(session, "messages", messages_of))

    async def prompt(self, request: Request) -> ASGIApp:
        session = await self._sessions.ready(request.sid)
        return Answer(await self._sessions.answer(session, "prompt", prompt_of))

    async def task_tools(self, request: Request) -> ASGIApp:
        session = self._sessions.usable(request.sid)
        assert session.environment is not None
        try:
            more = (await run(session.environment.list_task_tools)).tools
            return json_answer(list_of(session.hosted.tools, more).model_dump())
        except Exception as problem:
            raise self._sessions.failed(problem, session.hosted, session.secrets) from problem

    async def call(self, request: Request) -> ASGIApp:
        data = await request.read()
        sid = request.sid
        session = self._sessions.find(sid)
        body = request.parse(data)
        session = await self._sessions.ready(sid)
        assert session.caller is not None
        caller = session.caller
        if body.get("task_id") is not None:
            call = self._calls.find(body["task_id"], sid)
            if call is None:
                return Events(_streams.error("unknown task_id"))
        else:
            call = self._calls.start(sid, lambda: caller.call(body["name"], body["input"]), session.secrets)

        def alive() -> None:
            if not session.ended:
                self._sessions.find(sid)

        return CallEvents(call, alive)

    async def ping(self, request: Request) -> ASGIApp:
        self._sessions.find(request.sid)
        return Answer(_OK)

    async def delete(self, request: Request) -> ASGIApp:
        sid = request.sid
        await self._sessions.delete(sid)
        return json_answer({"sid": sid})

    async def delete_session(self, request: Request) -> ASGIApp:
        return json_answer({"sid": request.sid})

    async def score_group(self, request: Request) -> ASGIApp:
        data = await request.read()
        session = self._sessions.find(request.sid)
        request.parse(data)
        await self._sessions.ready(session.sid)
        raise FaultError("not_found", f"Environment {session.hosted.name!r} does not implement score_group")


def _secrets(text: str) -> dict[str, str]:
    """The secrets by name. They are never repeated, not even where they are wrong."""
    if not text:
        return {}
    try:
        found = {name: item["value"] for name, item in json.loads(base64.b64decode(text, validate=True)).items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise FaultError("bad_secrets") from None
    if not all(isinstance(value, str) for value in found.values()):
        raise FaultError("bad_secrets")
    return found


__all__ = ["Handler", "Handlers", "Request"]
