"""What every request passes first: the key, paths that are spelled otherwise, and the environment left out."""

from __future__ import annotations

import hmac
from collections.abc import Collection
from urllib.parse import quote

from starlette.types import ASGIApp, Receive, Scope, Send

from turnspec_generated import wire

from ._answers import Redirect, fault_answer
from ._bodies import header
from ._faults import FaultError

OPEN = frozenset(["/health"])  # answered without a key, for whoever watches the server
_BEARER = "bearer "


class Front:
    """The application behind a door."""

    def __init__(self, app: ASGIApp, environments: Collection[str], token: str | None) -> None:
        self._app = app
        self._environments = environments
        self._default = next(iter(environments))
        self._token = None if token is None else token.encode()
        self._words = {route.path.strip("/") for route in wire.ROUTES if "{" not in route.path}
        self._ends = {route.path.rsplit("/", 1)[1] for route in wire.ROUTES if "{" in route.path}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path: str = scope["path"]
        if self._token is not None and path not in OPEN and not self._admits(scope):
            await fault_answer(FaultError("unauthorized"))(scope, receive, send)
            return
        if path.startswith("//"):  # a base address with a slash at its end
            path = "/" + path.lstrip("/")
            scope = {**scope, "path": path, "raw_path": quote(path).encode()}
        first, _, rest = path[1:].partition("/")
        if first.lower() not in self._words and first.lower() not in self._environments:
            await self._redirect(wire.REDIRECT_STATUS, f"/{self._default}{path}", scope, receive, send)
        elif path.endswith("/") and (rest.rstrip("/") in self._ends or (not rest and first in self._words)):
            await self._redirect(307, path.rstrip("/"), scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def _admits(self, scope: Scope) -> bool:
        """Whether the request has the key. The time that this takes tells nothing about it."""
        assert self._token is not None
        headers = header(scope)
        key = headers.get(wire.HEADERS["api_key"].lower(), "")
        bearer = headers.get("authorization", "")
        token = bearer[len(_BEARER) :].strip() if bearer.lower().startswith(_BEARER) else ""
        return any(hmac.compare_digest(item.encode("latin-1"), self._token) for item in (key, token))

    async def _redirect(self, status: int, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        query = scope.get("query_string", b"").decode("latin-1")
        location = quote(path, safe="/~!$&'()*+,;=:@") + (f"?{query}" if query else "")
        await Redirect(status, location)(scope, receive, send)
