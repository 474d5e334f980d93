"""Requests, their answers, and when one is sent again.

All of it is written once, as generators that yield what is to be done (send a request, wait) and are given what came
of it; `_drive` does it with threads or with asyncio.
"""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

from turnspec_generated.wire import HEADERS, RETRY_STATUSES

from .._text import dumps_exact, parse
from ._errors import (
    AuthenticationFailed,
    ClientError,
    ConnectionFailed,
    ConnectionLost,
    NotFound,
    ProtocolError,
    RedirectRefused,
    SessionGone,
    StatusError,
)
from ._settings import UNKNOWN_SESSION, Settings
from ._sse import ResultReader

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """One request. A `reader` takes the body of a 200 answer piece by piece, and says when it has enough."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None = None
    silence: float | None = None
    deadline: float | None = None
    largest_body: int = 1 << 30
    reader: ResultReader | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait between two tries, in seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What the server answered. The body of a stream that a reader took is empty."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    request: Request = field(repr=False)

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


Step = Request | Pause
Flow = Generator[Step, Any, T]


def where(request: Request) -> dict[str, Any]:
    """How an error names the request: without query, which this protocol does not use."""
    return {"method": request.method, "url": request.url.partition("?")[0]}


def body_of(value: Any) -> bytes:
    """The value as JSON. `ValueError` or `TypeError` for what JSON cannot hold."""
    try:
        return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()
    except ValueError:
        return dumps_exact(value).encode()  # integers of any length


def send(request: Request, settings: Settings, *, safe: bool) -> Flow[Answer]:
    """Send a request until it is answered with success, again where that cannot do harm.

    Always again: what never reached the server, and what it refused for now (429 or 503 with `Retry-After`, or still
    starting). With `safe` also what was lost on the way, 502 and 504. Raises what the last try came to.
    """
    tries = 0
    began = time.monotonic()
    while True:
        failure: ClientError
        try:
            answer = yield from follow(request, settings)
        except ConnectionFailed as problem:
            failure, again = problem, True
        except ConnectionLost as problem:
            failure, again = problem, safe
        else:
            if answer.ok:
                return answer
            failure = refusal(answer)
            again = answer.status in RETRY_STATUSES and (safe or postponed(failure))
        tries += 1
        if not again or not can_wait(failure, tries, settings, began):
            raise failure
        yield Pause(wait_before(failure, tries, settings))


def follow(request: Request, settings: Settings) -> Flow[Answer]:
    """Send a request once, following redirects that keep method and body, on the same origin only."""
    for _ in range(settings.redirects + 1):
        answer: Answer = yield request
        if not 300 <= answer.status < 400:
            return answer
        target = answer.headers.get("location")
        if answer.status not in (307, 308) or not target:
            raise RedirectRefused(f"unexpected answer {answer.status}", status=answer.status, **where(request))
        url = urljoin(request.url, target)
        if origin(url) != origin(request.url):
            raise RedirectRefused(
                f"the server redirects to another origin, {':'.join(map(str, origin(url)))}; use it as base_url if "
                "you trust it",
                status=answer.status,
                **where(request),
            )
        request = replace(request, url=url)
    raise RedirectRefused(f"more than {settings.redirects} redirects", **where(request))


def origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port of an address."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "", "", None
    return parts.scheme, parts.hostname or "", port or {"http": 80, "https": 443}.get(parts.scheme)


def postponed(failure: ClientError) -> bool:
    """Whether the server said that it did not take the request, and when to ask again."""
    return (
        isinstance(failure, StatusError)
        and failure.status in (429, 503)
        and (failure.starting or failure.retry_after is not None)
    )


def can_wait(failure: ClientError, tries: int, settings: Settings, began: float) -> bool:
    """Whether another try is left after this many."""
    if isinstance(failure, StatusError):
        if failure.retry_after is not None and failure.retry_after > settings.longest_wait:
            return False
        if failure.starting:
            return time.monotonic() - began < settings.starting
    return tries <= settings.retries


def wait_before(failure: ClientError, tries: int, settings: Settings) -> float:
    """How long to wait after the failure of the given try, counted from 1."""
    if isinstance(failure, StatusError) and failure.retry_after is not None:
        return failure.retry_after
    return float(min(settings.backoff * 2 ** (tries - 1), settings.longest_wait))


def refusal(answer: Answer) -> StatusError:
    """The error of an answer that is no success."""
    detail = _detail(answer)
    kind: type[StatusError] = StatusError
    if answer.status in (401, 403):
        kind = AuthenticationFailed
    elif answer.status == 410 or (answer.status == 404 and detail == UNKNOWN_SESSION):
        kind = SessionGone
    elif answer.status == 404:
        kind = NotFound
    text = f"{answer.status}"
    if detail:
        text += f": {detail if isinstance(detail, str) else _told(detail)}"
    if kind is AuthenticationFailed and HEADERS["api_key"] not in answer.request.headers:
        text += " (no API key was sent)"
    return kind(
        text,
        status=answer.status,
        detail=detail,
        retry_after=_seconds(answer.headers.get("retry-after")),
        starting=answer.status == 503 and answer.headers.get("x-backend-state") == "starting",
        **where(answer.request),
    )


def _detail(answer: Answer) -> Any:
    """What the body says: the `detail` of a JSON object, or the beginning of a text."""
    try:
        value = parse(answer.body)
        return value["detail"] if isinstance(value, dict) and "detail" in value else str(value)[:2000]
    except (ValueError, RecursionError):
        pass
    kind = answer.headers.get("content-type", "").partition(";")[0].strip()
    return answer.body[:2000].decode("utf-8", "replace").strip() if kind in ("text/plain", "") else ""


def _told(detail: Any) -> str:
    """The list of what is wrong with a body, in one line."""
    if isinstance(detail, list) and all(isinstance(item, dict) and "msg" in item for item in detail):
        return "; ".join(f"{'.'.join(map(str, item.get('loc', ())))}: {item['msg']}" for item in detail)
    return str(detail)[:2000]


def _seconds(value: str | None) -> float | None:
    """The seconds that a Retry-After header asks for; it may name them or a date."""
    if value is None:
        return None
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value) if len(value) < 10 else float("inf")
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return None


def json_of(answer: Answer) -> Any:
    """The body as JSON. `ProtocolError` where it is none."""
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise unexpected(answer, f"expected JSON, but the content type is {kind or 'absent'}")
    try:
        return parse(answer.body)
    except (ValueError, RecursionError) as problem:
        raise unexpected(answer, f"the body is not JSON: {problem}") from None


def unexpected(answer: Answer, message: str) -> ProtocolError:
    """The error of a success whose body is not as the wire has it."""
    return ProtocolError(message, status=answer.status, **where(answer.request))


def stream(request: Request, settings: Settings, *, what: str) -> Flow[ResultReader]:
    """Post for a stream that does nothing but tell an id, again when it does not end. Its reader is the result."""
    reader = ResultReader()
    tries = 0
    while True:
        answer = yield from send(replace(request, reader=reader), settings, safe=True)
        if reader.done:
            return reader
        tries += 1
        if tries > settings.retries:
            raise unexpected(answer, f"the event stream of {what} ended without its `end` event, {tries} times")
        yield Pause(min(settings.backoff * 2 ** (tries - 1), settings.longest_wait))


__all__ = [
    "Answer",
    "Flow",
    "Pause",
    "Request",
    "Step",
    "body_of",
    "can_wait",
    "follow",
    "json_of",
    "origin",
    "postponed",
    "refusal",
    "send",
    "stream",
    "unexpected",
    "wait_before",
    "where",
]
