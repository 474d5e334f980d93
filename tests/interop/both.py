"""Our two clients behind one blocking face, so that each test tries both."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from turnspec.client import AsyncEnvironmentClient, EnvironmentClient

KINDS = ("blocking", "asyncio")
QUICK = {"timeout": 2.0, "silence": 0.4, "backoff": 0.01, "closing": 1.0}


@contextmanager
def client_of(kind: str, url: str, api_key: str | None = "", settings: dict[str, Any] | None = None) -> Iterator[Any]:
    """A client that loses no time between tries. `settings` overrides more of its numbers."""
    client: Any = (EnvironmentClient if kind == "blocking" else AsyncEnvironmentClient)(url, api_key)
    client._server.settings = dataclasses.replace(client._server.settings, **{**QUICK, **(settings or {})})
    if kind == "blocking":
        with client:
            yield client
        return
    with asyncio.Runner() as runner:
        awaited = Awaited(runner, client)
        with awaited:
            yield awaited


class Awaited:
    """An object for asyncio, used as a blocking one."""

    def __init__(self, runner: asyncio.Runner, target: Any) -> None:
        self._runner = runner
        self._target = target

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        return self._blocking(value) if callable(value) else value

    def _blocking(self, method: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            found = method(*arguments, **named)
            if inspect.isawaitable(found):
                return self._runner.run(_wait(found))
            return Awaited(self._runner, found) if hasattr(found, "__aenter__") else found

        return call

    def __enter__(self) -> Awaited:
        self._runner.run(self._target.__aenter__())
        return self

    def __exit__(self, *problem: Any) -> None:
        self._runner.run(self._target.__aexit__(*problem))


async def _wait(found: Any) -> Any:
    return await found
