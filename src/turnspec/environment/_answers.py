"""Answers as ASGI messages: whole bodies in slices, and event streams that always end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from starlette.types import Receive, Scope, Send

from turnspec_generated import wire

from . import _streams
from ._calls import Call
from ._faults import FaultError
from ._json import encode, encode_anyway

SLICE = 256 * 2**10  # bytes that are handed over at once, so that a slow client does not fill memory
SEND_WAIT = 60.0  # seconds that a client may take nothing
AT_ONCE = 0.01  # seconds in which the answer of a quick call goes out together with its id
_JSON_TYPE = (b"content-type", b"application/json")
_STREAM_HEADERS = [
    (b"content-type", wire.STREAM_TYPE.encode()),
    *((name.lower().encode(), value.encode()) for name, value in wire.STREAM_HEADERS.items()),
]


class Stalled(Exception):
    """The client takes nothing any more; the connection is given up."""


class Answer:
    """A JSON body with a status."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, body: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.body = body
        self.headers = [_JSON_TYPE, (b"content-length", str(len(body)).encode())]
        for name, value in (headers or {}).items():
            self.headers.append((name.lower().encode("latin-1"), value.encode("latin-1")))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
        await _send(send, self.body, more=False)


def json_answer(value: Any) -> Answer:
    """200 with the value. Raises ValueError or TypeError for what is no JSON."""
    return Answer(encode(value))


def fault_answer(fault: FaultError) -> Answer:
    return Answer(encode_anyway({"detail": fault.detail}), fault.status, fault.headers)


class Redirect:
    """To another path of this server; the client repeats method, headers and body there."""

    def __init__(self, status: int, location: str) -> None:
        self._status = status
        self._location = location

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-length", b"0"), (b"location", self._location.encode("latin-1"))]
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


class Events:
    """A stream of bytes that are there already."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})
        await _send(send, self._body, more=False)


class CallEvents:
    """The stream of a call: its id first, a comment while it runs, then its answer. The call outlives the client."""

    def __init__(self, call: Call, alive: Callable[[], None], every: float = wire.COMMENT_EVERY) -> None:
        self._call = call
        self._alive = alive
        self._every = every

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        call = self._call
        await send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})
        head = _streams.event("task_id", call.id)
        if not await _done(call, AT_ONCE):
            await _send(send, head, more=True)
            head = b""
            gone = asyncio.ensure_future(_disconnected(receive))
            try:
                while not await _done(call, self._every, gone):
                    if gone.done():
                        return
                    self._alive()
                    await _send(send, _streams.comment(), more=True)
            finally:
                gone.cancel()
        await _send(send, head + call.answer if len(call.answer) < SLICE else head, more=len(call.answer) >= SLICE)
        if len(call.answer) >= SLICE:
            await _send(send, call.answer, more=False)


async def _done(call: Call, seconds: float, gone: asyncio.Future[None] | None = None) -> bool:
    """Whether the call is done within that time; earlier where the client is gone."""
    if not call.done.is_set():
        done = asyncio.ensure_future(call.done.wait())
        try:
            waiting: list[asyncio.Future[Any]] = [done, gone] if gone else [done]
            await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            done.cancel()
    return call.done.is_set()


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Send, body: bytes, more: bool) -> None:
    """Send a body in slices. Raises Stalled where the client takes nothing for too long."""
    try:
        for start in range(0, max(len(body), 1), SLICE):
            stop = start + SLICE
            piece = body if len(body) <= SLICE else body[start:stop]
            async with asyncio.timeout(SEND_WAIT):
                await send({"type": "http.response.body", "body": piece, "more_body": more or stop < len(body)})
    except TimeoutError:
        raise Stalled from None
