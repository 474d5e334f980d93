"""The reference SDK, old and new, and ours: servers as processes, and the same visits with every client."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from turnspec.client import AsyncEnvironmentClient, ClientError, EnvironmentClient

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
OLD_VERSION = "0.1.156"  # the last without conversations
OLD_VENV = ROOT / f".venv-openreward-{OLD_VERSION}"
OURS, NEW, OLD = "ours", "0.1.167", OLD_VERSION

Visit = dict[str, Any]


@cache
def python(version: str) -> str:
    """The interpreter that has this version of the reference SDK, or of ours."""
    if version != OLD:
        return sys.executable
    found = next((path for path in (OLD_VENV / "bin/python", OLD_VENV / "Scripts/python.exe") if path.exists()), None)
    if found is None:
        raise FileNotFoundError(
            f"the tests need the reference SDK {OLD} in {OLD_VENV.name}/; `make interop-venv` makes it"
        )
    asked = subprocess.run(
        [found, "-c", "import importlib.metadata as m; print(m.version('openreward'))"], capture_output=True, text=True
    )
    there = asked.stdout.strip()
    if not there or tuple(map(int, there.split("."))) > tuple(map(int, OLD.split("."))):
        raise FileNotFoundError(
            f"{OLD_VENV.name}/ has {f'openreward {there}' if there else 'no openreward'} instead of {OLD}; "
            "`make interop-venv` makes it anew"
        )
    if there != OLD:
        warnings.warn(f"the interop tests run with openreward {there}, since {OLD} was not to be had", stacklevel=2)
    return str(found)


@contextlib.contextmanager
def serving(version: str) -> Iterator[str]:
    """The address of a server of this version, which runs as long as the block."""
    sdk = "turnspec.environment" if version == OURS else "openreward.environments"
    process = subprocess.Popen(
        [python(version), str(HERE / "serve.py")],
        env={**os.environ, "INTEROP_SDK": sdk, "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port.isdigit(), f"the server of {version} did not start (exit {process.wait(10)})"
        url = f"http://127.0.0.1:{port}"
        with EnvironmentClient(url, "") as client:
            client.wait_until_ready(30)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Reference:
    """The reference SDK's client of one version, in a process of its own."""

    def __init__(self, version: str) -> None:
        self._process = subprocess.Popen(
            [python(version), str(HERE / "visit.py")],
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )

    def visit(self, url: str, visits: list[Visit]) -> list[list[Any]]:
        """What arrives at this client."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"base_url": url, "visits": visits}) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the reference client stopped (exit {self._process.wait(10)})"
        found: Any = json.loads(answer)
        assert isinstance(found, list), found
        return found

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def visit_with_ours(url: str, visits: list[Visit]) -> list[list[Any]]:
    """What arrives at our blocking client."""
    with EnvironmentClient(url, "") as client:
        found = []
        for wanted in visits:
            source = _source(wanted)
            if source is None:
                found.append([_attempt(client, step, wanted.get("env")) for step in wanted["steps"]])
                continue
            with client.session(**source) as session:
                found.append([_attempt(session, step) for step in wanted["steps"]])
        return found


def visit_with_async(url: str, visits: list[Visit]) -> list[list[Any]]:
    """What arrives at our asyncio client, all visits at the same time."""

    async def one(client: AsyncEnvironmentClient, wanted: Visit) -> list[Any]:
        source = _source(wanted)
        if source is None:
            return [await _attempt_async(client, step, wanted.get("env")) for step in wanted["steps"]]
        async with client.session(**source) as session:
            return [await _attempt_async(session, step) for step in wanted["steps"]]

    async def everything() -> list[list[Any]]:
        async with AsyncEnvironmentClient(url, "") as client:
            return await asyncio.gather(*(one(client, wanted) for wanted in visits))

    return asyncio.run(everything())


def _source(wanted: Visit) -> dict[str, Any] | None:
    secrets = {name: tuple(value) for name, value in wanted.get("secrets", {}).items()}
    common = {"env": wanted.get("env"), "secrets": secrets}
    if "spec" in wanted:
        return {"task": wanted["spec"], **common}
    return {"split": wanted["split"], "index": wanted["index"], **common} if "split" in wanted else None


def _call(target: Any, step: list[Any], env: str | None) -> Any:
    name, *arguments = step
    return getattr(target, name)(*arguments, **({"env": env} if env else {}))


def _attempt(target: Any, step: list[Any], env: str | None = None) -> dict[str, Any]:
    try:
        return {"is": plain(_call(target, step, env))}
    except (ClientError, ValueError) as problem:
        return _raised(problem)


async def _attempt_async(target: Any, step: list[Any], env: str | None = None) -> dict[str, Any]:
    try:
        return {"is": plain(await _call(target, step, env))}
    except (ClientError, ValueError) as problem:
        return _raised(problem)


def _raised(problem: Exception) -> dict[str, Any]:
    text = getattr(problem, "detail", None) or str(problem)
    return {"raises": type(problem).__name__, "reason": getattr(problem, "reason", None), "text": text}


def plain(value: Any) -> Any:
    """What a client gave, as JSON: models as their wire shape."""
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if hasattr(value, "__dataclass_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def bare(value: Any) -> Any:
    """Without what every optional field means when it is absent: null, and `is_error` false. Free objects stay."""
    if isinstance(value, list):
        return [bare(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {key: item for key, item in value.items() if item is not None and (key, item) != ("is_error", False)}
    return {key: bare(item) if key == "blocks" else item for key, item in kept.items()}
