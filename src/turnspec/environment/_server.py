"""The server: environments as an ASGI application, and how to run it."""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from turnspec_generated import wire

from ._answers import Answer, Stalled, fault_answer
from ._base import Environment
from ._calls import Calls
from ._faults import RETURN_ERRORS, FaultError, ReturnErrors, environment_failed, traced
from ._front import Front
from ._hosted import Hosted
from ._json import encode_anyway
from ._routes import Handler, Handlers, Request
from ._sessions import Sessions

log = logging.getLogger("turnspec.environment")
KEY_VARIABLE = "OPENREWARD_API_KEY"  # where the reference SDK's client has its key


class Server:
    """Serves environments to any OpenReward client; an ASGI application. The first environment is the default.

    `api_token`: the key that requests must have, as `X-API-Key` or bearer token; True takes the value of
    OPENREWARD_API_KEY, None asks for none. `max_body`: bytes that a request may have. `session_ttl`: seconds without
    a request after which a session ends. `max_sessions`: how many live at a time. `return_errors` says what clients
    learn when an environment raises: "none", "exception" (its type and message) or "stacktrace".

    Raises TypeError or ValueError for environments that no client could use: without tools, splits, or a prompt.
    """

    def __init__(
        self,
        environments: Sequence[type[Environment]],
        return_errors: ReturnErrors = "exception",
        *,
        api_token: str | bool | None = None,
        max_body: int = 64 * 2**20,
        session_ttl: float = wire.IDLE,
        max_sessions: int = 10_000,
        setup_wait: float = wire.SETUP_WAIT,
    ) -> None:
        if return_errors not in RETURN_ERRORS:
            raise ValueError(f"return_errors must be one of {', '.join(RETURN_ERRORS)}, not {return_errors!r}")
        self.environments: dict[str, Hosted] = {}
        for hosted in map(Hosted, environments):
            if hosted.name in self.environments:
                raise ValueError(f"two environments have the name {hosted.name!r}")
            self.environments[hosted.name] = hosted
        if not self.environments:
            raise ValueError("a server needs at least one environment")
        self._return_errors = return_errors
        self._max_body = max_body
        self._token = _token(api_token)
        self.calls = Calls(return_errors)
        self.sessions = Sessions(self.calls, return_errors, session_ttl, max_sessions, setup_wait)
        handlers = Handlers(self.environments, self.sessions, self.calls)
        starlette = Starlette(
            routes=[self._route(route, getattr(handlers, route.name)) for route in _hottest_first()],
            exception_handlers={HTTPException: _refused},
            lifespan=self._lifespan,
        )
        starlette.router.redirect_slashes = False
        self.app: ASGIApp = Front(starlette, self.environments, self._token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)

    def run(
        self, host: str = "127.0.0.1", port: int = 8080, *, ready: Callable[[str, int], object] | None = None
    ) -> None:
        """Serve until the process is asked to end. `ready` is called with host and port once it listens.

        Raises OSError where the port cannot be had; port 0 takes any.
        """
        try:
            import uvicorn
        except ModuleNotFoundError:
            raise ImportError("Server.run needs uvicorn: pip install 'turnspec[server]'") from None

        with listen(host, port) as listening:
            if self._token is None and not _is_local(host):
                log.warning("%s can be reached from other machines, and the server asks for no key", host)
            if ready is not None:
                ready(host, listening.getsockname()[1])
            config = uvicorn.Config(
                self,
                access_log=False,
                log_level="warning",
                server_header=False,
                timeout_keep_alive=60,
                timeout_graceful_shutdown=5,
                ws="none",
            )
            with contextlib.suppress(KeyboardInterrupt):
                uvicorn.Server(config).run(sockets=[listening])

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        yield
        await self.sessions.close()

    def _route(self, route: wire.Route, handler: Handler) -> Route:
        made = Route(route.path, _Endpoint(self, route, handler), methods=[route.method])
        if made.methods:
            made.methods.discard("HEAD")
        return made

    async def answer(self, route: wire.Route, handler: Handler, scope: Scope, receive: Receive) -> ASGIApp:
        """The answer of a route; faults and whatever else is raised become answers too."""
        try:
            return await handler(Request(route, scope, receive, self._max_body))
        except FaultError as fault:
            return fault_answer(fault)
        except Exception as problem:
            log.error("%s failed: %s", route.name, traced(problem))
            return fault_answer(environment_failed(problem, self._return_errors))


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there. Raises OSError where the port cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With its protocol named: asyncio lets small answers go at once (TCP_NODELAY) only on such sockets.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(2048)
    except BaseException:
        listening.close()
        raise
    return listening


class _Endpoint:
    """A route as an application of its own; Starlette would wrap a function."""

    def __init__(self, server: Server, route: wire.Route, handler: Handler) -> None:
        self._server = server
        self._route = route
        self._handler = handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = await self._server.answer(self._route, self._handler, scope, receive)
        with contextlib.suppress(Stalled):
            await answer(scope, receive, send)


def _hottest_first() -> list[wire.Route]:
    """The routes, those of every step of an episode before those that are asked once: they are tried in order."""
    hot = ("call", "messages", "ping")
    return sorted(wire.ROUTES, key=lambda route: route.name not in hot)


async def _refused(request: Any, problem: Exception) -> Any:
    assert isinstance(problem, HTTPException)
    return Answer(encode_anyway({"detail": problem.detail}), problem.status_code, problem.headers)


def _token(asked: str | bool | None) -> str | None:
    if asked is None or asked is False:
        return None
    token = os.environ.get(KEY_VARIABLE, "") if asked is True else asked
    if not token:
        raise ValueError(f"the key is empty; give one, or set {KEY_VARIABLE}")
    return token


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


__all__ = ["KEY_VARIABLE", "Server"]
