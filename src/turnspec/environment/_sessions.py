"""Sessions: created, prepared in the background, found by id, and ended by request, by silence or with the server."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from turnspec_generated import wire

from ._base import Environment
from ._calls import Caller, Calls
from ._faults import FaultError, ReturnErrors, environment_failed, traced, without
from ._hosted import Hosted
from ._messages import found_in, told
from ._run import run

log = logging.getLogger("turnspec.environment")
TEARDOWN_WAIT = 30.0  # seconds that a request waits for a teardown; it goes on behind
MAX_CACHED_BYTES = 256 * 2**20
MAX_LOGGED = 10_000


class Session:
    """One episode: an instance of an environment, and the answers that stay the same while it lives."""

    def __init__(self, sid: str, hosted: Hosted, secrets: Collection[str]) -> None:
        self.sid = sid
        self.secrets = secrets
        self.hosted = hosted
        self.environment: Environment | None = None
        self.caller: Caller | None = None
        self.ready = asyncio.Event()
        self.setup: asyncio.Task[None] | None = None
        self.failure: Exception | None = None
        self.ended = False
        self.seen = time.monotonic()
        self.cached: dict[str, bytes] = {}
        self.lock = asyncio.Lock()


class Sessions:
    """The sessions of a server."""

    def __init__(
        self,
        calls: Calls,
        return_errors: ReturnErrors,
        ttl: float,
        limit: int,
        setup_wait: float = wire.SETUP_WAIT,
        look_every: float = 5.0,
    ) -> None:
        self._calls = calls
        self._return_errors = return_errors
        self._ttl = ttl
        self._limit = limit
        self._setup_wait = setup_wait
        self._look_every = min(look_every, max(ttl / 4, 0.01))
        self._sessions: dict[str, Session] = {}
        self._reaper: asyncio.Task[None] | None = None
        self._logged: set[tuple[str, str, str]] = set()
        self.cached_bytes = 0

    def __len__(self) -> int:
        return len(self._sessions)

    async def create(
        self, sid: str, hosted: Hosted, task_spec: Callable[[], Awaitable[Any]], secrets: Mapping[str, str]
    ) -> None:
        """Make the session; its setup goes on behind. The id is taken from the first moment."""
        if sid in self._sessions:
            raise FaultError("session_exists")
        if len(self._sessions) >= self._limit:
            raise FaultError("server_full")
        self._watch()
        session = self._sessions[sid] = Session(sid, hosted, list(secrets.values()))
        try:
            task = await task_spec()
            try:
                environment = await run(hosted.cls, task_spec=task, secrets=secrets)
            except Exception as problem:
                raise self.failed(problem, hosted, session.secrets) from problem
        except BaseException:
            self._drop(session)
            raise
        session.environment = environment
        session.caller = Caller(environment, hosted.tools)
        if session.ended:
            await self._teardown(session)
            raise FaultError("session_deleted")
        session.seen = time.monotonic()
        session.setup = asyncio.get_running_loop().create_task(self._set_up(session, environment))

    def find(self, sid: str) -> Session:
        """The session, which counts as seen. Its setup may still run."""
        session = self._sessions.get(sid)
        if session is None or session.environment is None:
            raise FaultError("unknown_session")
        session.seen = time.monotonic()
        return session

    def usable(self, sid: str) -> Session:
        """The session, unless its setup has failed."""
        session = self.find(sid)
        if session.failure is not None:
            raise self.failed(session.failure, session.hosted, session.secrets)
        return session

    async def ready(self, sid: str) -> Session:
        """The session once its setup is done."""
        session = self.find(sid)
        if not session.ready.is_set():
            try:
                async with asyncio.timeout(self._setup_wait):
                    await session.ready.wait()
            except TimeoutError:
                raise FaultError("starting") from None
        if session.ended:
            raise FaultError("session_deleted")
        if session.failure is not None:
            raise self.failed(session.failure, session.hosted, session.secrets)
        return session

    async def answer(self, session: Session, name: str, make: Callable[[Environment], Awaitable[bytes]]) -> bytes:
        """A body that stays the same while the session lives: made once, and kept as far as there is room."""
        body = session.cached.get(name)
        if body is not None:
            return body
        async with session.lock:
            body = session.cached.get(name)
            if body is not None:
                return body
            assert session.environment is not None
            try:
                body = await make(session.environment)
            except Exception as problem:
                raise self.failed(problem, session.hosted, session.secrets) from problem
            if not session.ended and self.cached_bytes + len(body) <= MAX_CACHED_BYTES:
                session.cached[name] = body
                self.cached_bytes += len(body)
            return body

    async def delete(self, sid: str) -> None:
        """End a session; one that is unknown has ended already."""
        session = self._sessions.get(sid)
        if session is None:
            return
        self._drop(session)
        if session.setup and not session.setup.done():
            session.setup.cancel()
            await asyncio.wait([session.setup])
        session.ready.set()
        await self._calls.end(sid)
        await self._teardown(session)

    async def close(self) -> None:
        """End all sessions."""
        if self._reaper:
            self._reaper.cancel()
            self._reaper = None
        await asyncio.gather(*(self.delete(sid) for sid in list(self._sessions)))

    def failed(self, problem: Exception, hosted: Hosted, secrets: Collection[str] = ()) -> FaultError:
        """The answer for an exception of the environment's code. Invalid messages are logged once for each place."""
        problem = told(problem)
        found = found_in(problem)
        if found is None:
            log.error("%s failed: %s", hosted.name, traced(problem, secrets))
        elif (hosted.name, *found) not in self._logged:
            if len(self._logged) < MAX_LOGGED:
                self._logged.add((hosted.name, *found))
            log.error("%s gives an invalid conversation: %s", hosted.name, without(str(problem), secrets))
        return environment_failed(problem, self._return_errors, secrets)

    def _drop(self, session: Session) -> None:
        session.ended = True
        if self._sessions.get(session.sid) is session:
            del self._sessions[session.sid]
        self.cached_bytes -= sum(map(len, session.cached.values()))
        session.cached = {}

    async def _set_up(self, session: Session, environment: Environment) -> None:
        try:
            await run(environment.setup)
        except Exception as problem:
            session.failure = problem
        finally:
            session.ready.set()

    async def _teardown(self, session: Session) -> None:
        environment, session.environment = session.environment, None
        if environment is None:
            return
        task = asyncio.get_running_loop().create_task(run(environment.teardown))
        task.add_done_callback(lambda done: _log_teardown(session, done))
        await asyncio.wait([task], timeout=TEARDOWN_WAIT)

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        if self._reaper is None or self._reaper.done() or self._reaper.get_loop() is not loop:
            self._reaper = loop.create_task(self._reap())

    async def _reap(self) -> None:
        while True:
            await asyncio.sleep(self._look_every)
            self._calls.sweep()
            late = time.monotonic() - self._ttl
            silent = [
                session.sid for session in self._sessions.values() if session.seen <= late and session.environment
            ]
            if silent:
                log.info("%d sessions ended after %g s without a request", len(silent), self._ttl)
                await asyncio.gather(*map(self.delete, silent), return_exceptions=True)


def _log_teardown(session: Session, task: asyncio.Task[Any]) -> None:
    problem = None if task.cancelled() else task.exception()
    if problem is not None:
        log.error("teardown of %s failed: %s", session.hosted.name, traced(problem, session.secrets))
