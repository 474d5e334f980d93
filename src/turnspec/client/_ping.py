"""Keeping sessions alive, on connections of their own and apart from what else the client does."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

from ._drive import AsyncDriver, Driver
from ._errors import ClientError, NotFound
from ._exchange import Flow, follow, refusal
from ._protocol import Server, closing

logger = logging.getLogger("turnspec.client")


def _beat(server: Server, sid: str) -> Flow[bool]:
    """Ping once; whether there is still a session to ping. The session id, which opens it, goes into no log."""
    try:
        answer = yield from follow(closing(server, server.request("POST", "/ping", sid=sid)), server.settings)
        if not answer.ok:
            raise refusal(answer)
    except NotFound as problem:
        problem.hide(frozenset(server.secrets))
        logger.debug("ping: %s", problem)
        return False
    except ClientError as problem:
        problem.hide(frozenset(server.secrets))
        logger.warning("ping: %s", problem)
    return True


class Pinger:
    """One thread that pings all sessions of a client; it runs only while there are any."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._due: dict[str, float] = {}
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, sid: str) -> None:
        with self._changed:
            self._due[sid] = time.monotonic() + self._server.settings.ping_every
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="turnspec-ping", daemon=True)
                self._thread.start()
            self._changed.notify()

    def remove(self, sid: str) -> None:
        with self._changed:
            self._due.pop(sid, None)
            self._changed.notify()

    def _run(self) -> None:
        driver = Driver(self._server)
        try:
            while (sid := self._next()) is not None:
                try:
                    alive = driver.run(_beat(self._server, sid))
                except Exception:  # whatever it is, the other sessions need their pings
                    logger.exception("ping")
                    alive = True
                with self._changed:
                    if sid in self._due:
                        if alive:
                            self._due[sid] = time.monotonic() + self._server.settings.ping_every
                        else:
                            del self._due[sid]
        finally:
            driver.close()

    def _next(self) -> str | None:
        """Wait for the next session that is due; None when none is left."""
        with self._changed:
            while self._due:
                sid = min(self._due, key=self._due.__getitem__)
                wait = self._due[sid] - time.monotonic()
                if wait <= 0:
                    return sid
                self._changed.wait(wait)
            self._thread = None
            return None


class AsyncPinger:
    """One asyncio task per session."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._driver: AsyncDriver | None = None

    def add(self, sid: str) -> None:
        if self._driver is None:
            self._driver = AsyncDriver(self._server)
        self._tasks[sid] = asyncio.create_task(self._run(self._driver, sid), name="turnspec-ping")

    async def _run(self, driver: AsyncDriver, sid: str) -> None:
        while True:
            await asyncio.sleep(self._server.settings.ping_every)
            if not await driver.run(_beat(self._server, sid)):
                return

    async def remove(self, sid: str) -> None:
        task = self._tasks.pop(sid, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if not self._tasks and self._driver is not None:
            driver, self._driver = self._driver, None
            await driver.close()
