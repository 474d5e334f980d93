"""Calls of tools: in order within a session, their answers kept for a while for whoever asks again."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pydantic

from turnspec_generated import wire

from . import _streams
from ._base import Environment
from ._faults import FaultError, ReturnErrors, tool_failed, traced
from ._json import encode
from ._run import run
from ._tools import Tool
from ._types import ToolOutput

log = logging.getLogger("turnspec.environment")
MAX_WAITING = 1000  # calls under way in one session
MAX_KEPT_BYTES = 256 * 2**20  # answers kept for those who ask again
MAX_TOLD = 10_000  # characters of what is wrong with an input


class Gate:
    """Calls pass together; an exclusive one waits until it is alone, and holds back those that come after it."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()
        self._inside = 0
        self._waiting = 0
        self._alone = False

    @asynccontextmanager
    async def passing(self, exclusive: bool) -> AsyncIterator[None]:
        async with self._changed:
            if exclusive:
                self._waiting += 1
                try:
                    await self._changed.wait_for(lambda: not self._alone and not self._inside)
                    self._alone = True
                finally:
                    self._waiting -= 1
                    self._changed.notify_all()
            else:
                await self._changed.wait_for(lambda: not self._alone and not self._waiting)
                self._inside += 1
        try:
            yield
        finally:
            if exclusive:
                self._alone = False
            else:
                self._inside -= 1
            async with self._changed:
                self._changed.notify_all()


class Caller:
    """Calls the tools of one instance of an environment."""

    def __init__(self, environment: Environment, tools: Mapping[str, Tool]) -> None:
        self._environment = environment
        self._tools = tools
        self._owners: dict[type, Any] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._gate = Gate()
        self._finished = False

    async def call(self, name: str, input: Mapping[str, Any]) -> dict[str, Any]:
        """The result of a call as JSON. What the tool raises passes through."""
        tool = self._tools.get(name)
        if tool is None:
            return _refused("not_found", f"{name!r} is not a valid tool")
        if self._finished:
            return self._over(name)
        if tool.mark.concurrent and not tool.exclusive:
            async with self._gate.passing(exclusive=False):
                return await self._run(tool, input)
        async with self._locks.setdefault(name, asyncio.Lock()), self._gate.passing(tool.exclusive):
            return await self._run(tool, input)

    async def _run(self, tool: Tool, input: Mapping[str, Any]) -> dict[str, Any]:
        if self._finished:  # by the call that this one waited for
            return self._over(tool.name)
        try:
            arguments, options = tool.arguments(input)
        except pydantic.ValidationError as problem:
            errors = str(problem.errors(include_url=False))[:MAX_TOLD]
            return _refused("input_validation", f"Tool input validation error: {errors}")
        function = getattr(self._owner(tool.owner), tool.name)
        output = await run(function, *arguments, **options)
        if not isinstance(output, ToolOutput):
            raise TypeError(f"{tool.name!r} returned {type(output).__name__}; expected ToolOutput")
        if self._finished:  # by a call beside this one: the first grade stands
            return self._over(tool.name)
        told = {"ok": True, "output": output.model_dump(mode="json")}
        self._finished = output.finished
        return told

    def _owner(self, owner: type) -> Any:
        if isinstance(self._environment, owner):
            return self._environment
        if owner not in self._owners:
            try:
                self._owners[owner] = owner(self._environment)
            except TypeError:
                self._owners[owner] = owner()
        return self._owners[owner]

    def _over(self, name: str) -> dict[str, Any]:
        why = "the episode has finished (a tool returned finished=True), so no further tool calls are accepted"
        return _refused("episode_finished", f"{name!r} was not run: {why}.")


def _refused(reason: str, error: str) -> dict[str, Any]:
    return {"ok": False, "error": error, "reason": reason}


class Call:
    """One call: the id, and, once it is done, the bytes that its stream ends with."""

    def __init__(self, session: str, secrets: Collection[str] = ()) -> None:
        self.secrets = secrets
        self.id = uuid.uuid4().hex
        self.session = session
        self.done = asyncio.Event()
        self.answer = b""
        self.task: asyncio.Task[None] | None = None


class Calls:
    """All calls of a server. Answers are forgotten after a while, the oldest earlier where they grow too many."""

    def __init__(
        self, return_errors: ReturnErrors, keep: float = wire.REPLAY, max_kept_bytes: int = MAX_KEPT_BYTES
    ) -> None:
        self._return_errors = return_errors
        self._keep = keep
        self._max = max_kept_bytes
        self._calls: dict[str, Call] = {}
        self._under_way: dict[str, set[Call]] = {}
        self._kept: deque[tuple[float, str, int]] = deque()
        self.kept_bytes = 0

    def __len__(self) -> int:
        return len(self._calls)

    def start(self, session: str, work: Callable[[], Awaitable[Any]], secrets: Collection[str] = ()) -> Call:
        """Start a call; `work` gives its result as JSON value. Raises a fault where too many are under way."""
        self.sweep()
        waiting = self._under_way.setdefault(session, set())
        if len(waiting) >= MAX_WAITING:
            raise FaultError("too_many_calls")
        call = Call(session, secrets)
        self._calls[call.id] = call
        waiting.add(call)
        call.task = asyncio.get_running_loop().create_task(self._run(call, work))
        return call

    def find(self, call_id: str, session: str) -> Call | None:
        """An earlier call of the same session; None where it is unknown or forgotten."""
        self.sweep()
        call = self._calls.get(call_id)
        return call if call and call.session == session else None

    async def end(self, session: str) -> None:
        """Stop the calls of a session that ended; their streams are told."""
        tasks = [call.task for call in self._under_way.get(session, ()) if call.task]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5)

    def sweep(self) -> None:
        """Forget what is too old, and the oldest of what is too much."""
        now = time.monotonic()
        while self._kept and (self._kept[0][0] + self._keep <= now or self.kept_bytes > self._max):
            _, call_id, size = self._kept.popleft()
            self._calls.pop(call_id, None)
            self.kept_bytes -= size

    async def _run(self, call: Call, work: Callable[[], Awaitable[Any]]) -> None:
        answer = _streams.error(wire.FAULTS["session_deleted"].detail or "")
        try:
            answer = _streams.result(encode(await work()).decode())
        except asyncio.CancelledError:
            pass  # the session ended
        except Exception as problem:
            log.warning("a tool failed: %s", traced(problem, call.secrets))
            answer = _streams.error(tool_failed(problem, self._return_errors, call.secrets))
        finally:
            call.answer = answer
            call.done.set()
            waiting = self._under_way.get(call.session, set())
            waiting.discard(call)
            if not waiting:
                self._under_way.pop(call.session, None)
            self._kept.append((time.monotonic(), call.id, len(answer)))
            self.kept_bytes += len(answer)
            self.sweep()
