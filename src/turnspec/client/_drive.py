"""What the flows ask for, done with httpx: by threads that block, or by asyncio."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from functools import cache
from typing import Any, TypeVar, cast

import httpx

from ._errors import ClientError, ConnectionFailed, ConnectionLost, ProtocolError, RequestTimeout
from ._exchange import Answer, Flow, Pause, Request, Step, where
from ._protocol import Server
from ._settings import Settings

T = TypeVar("T")

# Idle connections are given up before common servers close them (5 s), which could take a request with them.
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=100, keepalive_expiry=3.0)


@cache
def _trust() -> ssl.SSLContext:
    """Whose certificates are trusted; reading them takes longer than all else, so clients share them."""
    return httpx.create_ssl_context()


class Driver:
    """Runs flows on a blocking client. Threads may share it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._http = httpx.Client(limits=_LIMITS, verify=_trust(), follow_redirects=False)

    def run(self, flow: Flow[T]) -> T:
        """The result of the flow. `ClientError`s come without secrets."""
        with _hiding(self._server.secrets):
            step = _next(flow)
            while isinstance(step, Request | Pause):
                try:
                    done = self._do(step)
                except ClientError as problem:
                    step = _next(flow, problem=problem)
                else:
                    step = _next(flow, done)
            result: T = step.value
            return result

    def _do(self, step: Step) -> Answer | None:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        with _translating(step):
            response = self._http.send(_build(self._http, step, self._server.settings), stream=True)
            try:
                intake = _Intake(step, response.status_code)
                for piece in response.iter_bytes():
                    if intake.take(piece):
                        break
            finally:
                response.close()
        return Answer(response.status_code, response.headers, intake.body, step)

    def close(self) -> None:
        self._http.close()


class AsyncDriver:
    """Runs flows on asyncio."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._http = httpx.AsyncClient(limits=_LIMITS, verify=_trust(), follow_redirects=False)

    async def run(self, flow: Flow[T]) -> T:
        """The result of the flow. `ClientError`s come without secrets."""
        with _hiding(self._server.secrets):
            step = _next(flow)
            while isinstance(step, Request | Pause):
                try:
                    done = await self._do(step)
                except ClientError as problem:
                    step = _next(flow, problem=problem)
                else:
                    step = _next(flow, done)
            result: T = step.value
            return result

    async def _do(self, step: Step) -> Answer | None:
        if isinstance(step, Pause):
            await asyncio.sleep(step.seconds)
            return None
        with _translating(step):
            response = await self._http.send(_build(self._http, step, self._server.settings), stream=True)
            try:
                intake = _Intake(step, response.status_code)
                async with aclosing(cast(AsyncGenerator[bytes, None], response.aiter_bytes())) as pieces:
                    async for piece in pieces:
                        if intake.take(piece):
                            break
            finally:
                await response.aclose()
        return Answer(response.status_code, response.headers, intake.body, step)

    async def close(self) -> None:
        await self._http.aclose()


class _Done:
    """The end of a flow, with its result."""

    def __init__(self, value: Any) -> None:
        self.value = value


def _next(flow: Flow[Any], done: Any = None, problem: ClientError | None = None) -> Step | _Done:
    try:
        return flow.throw(problem) if problem is not None else flow.send(done)
    except StopIteration as end:
        return _Done(end.value)


@contextmanager
def _hiding(secrets: set[str]) -> Iterator[None]:
    try:
        yield
    except ClientError as problem:
        problem.hide(frozenset(secrets))
        raise


def _build(http: httpx.Client | httpx.AsyncClient, step: Request, settings: Settings) -> httpx.Request:
    silence, connect = step.silence, settings.connect
    if step.deadline is not None:
        left = max(step.deadline - time.monotonic(), 0.001)
        silence = left if silence is None else min(silence, left)
        connect = min(connect, left)
    timeout = httpx.Timeout(silence, connect=connect, pool=None)
    return http.build_request(step.method, step.url, headers=dict(step.headers), content=step.body, timeout=timeout)


@contextmanager
def _translating(step: Request) -> Iterator[None]:
    """httpx's exceptions as ours; theirs carry the request with its headers, so they are not kept."""
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout) as problem:
        told = str(problem) or "no answer to the attempt to connect"
        raise ConnectionFailed(f"cannot connect: {told}", **where(step)) from None
    except httpx.TimeoutException:
        raise RequestTimeout(_too_long(step), **where(step)) from None
    except httpx.DecodingError as problem:
        raise ProtocolError(f"the body cannot be decompressed: {problem}", **where(step)) from None
    except httpx.TransportError as problem:
        raise ConnectionLost(f"the connection was lost: {problem or type(problem).__name__}", **where(step)) from None
    except httpx.InvalidURL as problem:
        raise ProtocolError(f"no address to send a request to: {problem}", **where(step)) from None


def _too_long(step: Request) -> str:
    early = 0.05  # clocks do not agree to the millisecond
    if step.deadline is not None and (step.silence is None or time.monotonic() >= step.deadline - early):
        return "the time that was given is over"
    return f"the server was silent for {step.silence:g} s"


class _Intake:
    """The body of one answer: kept, or told to the reader of a stream."""

    def __init__(self, step: Request, status: int) -> None:
        self._step = step
        self._reader = step.reader if status == 200 else None
        self._pieces: list[bytes] = []
        self._length = 0
        if self._reader is not None:
            self._reader.restart()

    @property
    def body(self) -> bytes:
        return b"".join(self._pieces)

    def take(self, piece: bytes) -> bool:
        """Take the next piece; True when no more is wanted."""
        step = self._step
        self._length += len(piece)
        if self._length > step.largest_body:
            raise ProtocolError(f"the body is larger than {step.largest_body} bytes", **where(step))
        if self._reader is None:
            self._pieces.append(piece)
            return False
        try:
            if self._reader.feed(piece):
                return True
        except UnicodeDecodeError as problem:
            raise ProtocolError(f"the event stream is not UTF-8: {problem.reason}", **where(step)) from None
        except OverflowError as problem:
            raise ProtocolError(f"the event stream has {problem}", **where(step)) from None
        if step.deadline is not None and time.monotonic() >= step.deadline:
            raise RequestTimeout(_too_long(step), **where(step))
        return False
