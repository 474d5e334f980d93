"""Requests of the check: one server only, redirects by hand, and an end to everything in time and size."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx

from turnspec.check_server.findings import Findings
from turnspec.check_server.stream import LOOK, ended

MOST_BYTES = 1 << 26
MOST_REQUESTS = 600
MOST_SILENT = 3
BEHIND_THE_END = 0.5  # seconds that a stream gets to close behind its end
_REDIRECTS = (301, 302, 303, 307, 308)


class Unusable(Exception):
    """There is nothing to check: no server at the URL, or one that does not let us in. The message is one line."""


class GivenUp(Exception):
    """The check cannot go on; the findings tell why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: `request` names what was asked, `whole` says whether the body came to its end."""

    request: str
    status: int
    headers: httpx.Headers
    body: bytes
    whole: bool

    @property
    def content_type(self) -> str:
        kind: str = self.headers.get("content-type", "")
        return kind.partition(";")[0].strip().lower()

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


class Exchange:
    """Asks one server. Nothing that it answers leads anywhere else."""

    def __init__(self, url: str, timeout: float, token: str | None, findings: Findings) -> None:
        """`url` as `http://host:port`. Unusable: it is no such URL."""
        self.url = checked_url(url)
        self.timeout = timeout
        self.findings = findings
        self.requests = self._silent = 0
        self.answered = False
        headers = {"User-Agent": "turnspec-check-server", "Accept-Encoding": "identity"}
        if token is not None:
            headers |= {"X-API-Key": token, "Authorization": f"Bearer {token}"}
        self._client = httpx.Client(
            headers=headers, timeout=httpx.Timeout(timeout), follow_redirects=False, trust_env=False
        )

    def close(self) -> None:
        self._client.close()

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        session: str | None = None,
        raw: tuple[bytes, str | None] | None = None,
        stream: bool = False,
        patient: bool = False,
    ) -> Answer:
        """Send one request and read its answer; a redirect is followed once.

        `raw` is a body and its content type, in place of the JSON of `body`. `patient` waits while the server says
        that a session is still starting. GivenUp: the server has stopped answering.
        """
        end = time.monotonic() + self.timeout
        while True:
            answer = self._ask(method, path, body, session, raw, stream)
            if answer.status in _REDIRECTS and "location" in answer.headers:
                answer = self._follow(answer, method, body, session, raw, stream)
            starting = answer.status == 503 and answer.headers.get("x-backend-state") == "starting"
            if not (patient and starting and time.monotonic() < end):
                return answer
            time.sleep(min(1.0, self.timeout / 10))

    def _follow(self, answer: Answer, method: str, body: Any, session: Any, raw: Any, stream: bool) -> Answer:
        location = answer.headers["location"]
        target = urljoin(self.url + "/" + answer.request.partition(" ")[2].lstrip("/"), location)
        if not target.startswith(self.url + "/"):
            self.findings.add("foreign_redirect", answer.request, f"leads to {location[:200]!r}")
            return answer
        if urlsplit(location).netloc:
            self.findings.add("absolute_redirect", answer.request, f"the location is {location[:200]!r}")
        if answer.status in (301, 302, 303) and method != "GET":
            self.findings.add("redirect_loses_body", answer.request, f"the status is {answer.status}")
        return self._ask(method, target.removeprefix(self.url), body, session, raw, stream)

    def _ask(self, method: str, path: str, body: Any, session: Any, raw: Any, stream: bool) -> Answer:
        request = f"{method} {path}"
        if self.requests >= MOST_REQUESTS:
            raise GivenUp
        self.requests += 1
        headers: dict[str, str] = {}
        if session is not None:
            headers["X-Session-ID"] = session
        if stream:
            headers["Accept"] = "text/event-stream"
        options: dict[str, Any] = {}
        if raw is not None:
            options["content"] = raw[0]
            if raw[1] is not None:
                headers["Content-Type"] = raw[1]
        elif body is not None:
            options["json"] = body
        try:
            built = self._client.build_request(method, self.url + path, headers=headers, **options)
            answer = self._read(built, request, stream)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Unusable(f"cannot connect: {_words(error)}") from None
        except httpx.TimeoutException:
            answer = self._none(request, f"nothing came for {self.timeout:g} seconds")
        except httpx.HTTPError as error:
            answer = self._none(request, _words(error))
        except httpx.InvalidURL as error:
            raise Unusable(f"{self.url}: {error}") from None
        self.answered = self.answered or answer.status > 0
        if answer.status == 401:
            raise Unusable("the server asks for a key: --token-env names the environment variable that holds it")
        if b"Traceback (most recent call last)" in answer.body:
            self.findings.add("stack_trace", request, f"the body of the {answer.status} holds a traceback")
        return answer

    def _read(self, built: httpx.Request, request: str, stream: bool) -> Answer:
        start = time.monotonic()
        response = self._client.send(built, stream=True)
        body = bytearray()
        whole = True
        try:
            end = start + self.timeout
            seen_end = False
            for piece in response.iter_bytes():
                body += piece
                now = time.monotonic()
                if stream and not seen_end and response.status_code == 200 and ended(bytes(body[-LOOK:])):
                    seen_end, end = True, min(end, now + BEHIND_THE_END)
                if now > end or len(body) > MOST_BYTES:
                    whole = seen_end
                    break
        except httpx.TimeoutException:
            whole = False
        except httpx.HTTPError:
            whole = False
        finally:
            response.close()
        if not whole and not (stream and response.status_code == 200):
            size = f"over {MOST_BYTES >> 20} MB" if len(body) > MOST_BYTES else "the body does not come to its end"
            self._miss(request, size)
        else:
            self._silent = 0
        return Answer(request, response.status_code, response.headers, bytes(body), whole)

    def _none(self, request: str, why: str) -> Answer:
        self._miss(request, why)
        return Answer(request, 0, httpx.Headers(), b"", False)

    def _miss(self, request: str, why: str) -> None:
        self.findings.add("no_answer", request, why)
        self._silent += 1
        if self._silent >= MOST_SILENT:
            raise GivenUp


def checked_url(url: str) -> str:
    """`http://host:port`, without a slash at its end. Unusable: it has a path, or is no URL of HTTP."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Unusable(f"{url!r} is no URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Unusable(f"{url!r} is no URL of a server; write it as http://127.0.0.1:8080")
    if parts.path.strip("/") or parts.query or parts.fragment or parts.username is not None:
        raise Unusable(f"{url!r}: name only the host and the port; clients ask at the root of the server")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}" + (f":{port}" if port is not None else "")


def _words(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text[:200]
