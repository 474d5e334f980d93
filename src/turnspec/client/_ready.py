"""Waiting for a server that is just starting."""

from __future__ import annotations

import time
from dataclasses import replace

from ._errors import ClientError, RequestTimeout
from ._exchange import Flow, Pause, follow, refusal
from ._protocol import Server

DEFAULT_PATIENCE = 30.0
_LONGEST_TRY = 5.0
_PAUSE = 0.05
_LONGEST_PAUSE = 0.5


def until_ready(server: Server, timeout: float) -> Flow[None]:
    """Ask `/health` until it answers with success. `RequestTimeout` after `timeout` seconds, with the last failure."""
    deadline = time.monotonic() + timeout
    pause = _PAUSE
    request = server.request("GET", "/health")
    while True:
        silence = min(max(deadline - time.monotonic(), 0.05), _LONGEST_TRY)
        try:
            answer = yield from follow(replace(request, silence=silence), server.settings)
            if answer.ok:
                return
            failure: ClientError = refusal(answer)
        except ClientError as problem:
            failure = problem
        if time.monotonic() + pause >= deadline:
            raise RequestTimeout(
                f"the server was not ready after {timeout:g} s: {failure.message}",
                status=failure.status,
                detail=failure.detail,
                method="GET",
                url=request.url,
            )
        yield Pause(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


def wait_until_ready(base_url: str, timeout: float = DEFAULT_PATIENCE, *, api_key: str | None = None) -> None:
    """Return when the server at this address says that it is up; `RequestTimeout` when it does not in that time."""
    from ._sync import EnvironmentClient

    with EnvironmentClient(base_url, api_key) as client:
        client.wait_until_ready(timeout)
