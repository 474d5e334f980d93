"""A server on a free port of this machine, in a thread, and the requests of tests to it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import uvicorn

from turnspec.environment import Server

JSON = {"content-type": "application/json"}


class Running:
    """A server that runs; `sid` of a new session, and plain requests."""

    def __init__(self, server: Server, port: int) -> None:
        self.server = server
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.http = httpx.Client(base_url=self.url, timeout=30)

    def create(self, task: dict[str, Any] | None = None, **body: Any) -> str:
        """Start a session as clients do; its id."""
        sid = events(self.http.post("/create_session", json={}).content)[0][1]
        body = {"task_spec": task or {}} | body
        answer = self.http.post("/create", json=body, headers={"X-Session-ID": sid})
        assert (answer.status_code, answer.json()) == (200, {"sid": sid})
        return sid

    def get(self, path: str, sid: str = "", **options: Any) -> httpx.Response:
        return self.http.get(path, headers={"X-Session-ID": sid} if sid else {}, **options)

    def post(self, path: str, sid: str = "", **options: Any) -> httpx.Response:
        headers = options.pop("headers", {}) | ({"X-Session-ID": sid} if sid else {})
        return self.http.post(path, headers=headers, **options)

    def call(self, sid: str, name: str, input: dict[str, Any], env: str = "chat", **more: Any) -> Any:
        """The events of a call: (name, data) pairs."""
        answer = self.post(f"/{env}/call", sid, json={"name": name, "input": input, **more})
        assert answer.status_code == 200, answer.text
        return events(answer.content)


@contextlib.contextmanager
def running(server: Server) -> Iterator[Running]:
    """Run the server until the block ends, in order."""
    config = uvicorn.Config(server, port=0, log_level="error", access_log=False, timeout_graceful_shutdown=2, ws="none")
    runner = uvicorn.Server(config)
    started = threading.Event()

    async def serve() -> None:
        task = asyncio.ensure_future(runner.serve())
        while not runner.started and not task.done():
            await asyncio.sleep(0.005)
        started.set()
        await task

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert started.wait(20)
    port = runner.servers[0].sockets[0].getsockname()[1]
    here = Running(server, port)
    try:
        yield here
    finally:
        here.http.close()
        runner.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


def events(body: bytes) -> list[tuple[str, str]]:
    """The events of a stream, read strictly: CRLF, one blank, every event closed."""
    assert body.endswith(b"\r\n\r\n")
    found = []
    for block in body[:-4].split(b"\r\n\r\n"):
        lines = block.decode().split("\r\n")
        if lines[0].startswith(":"):
            assert len(lines) == 1
            continue
        assert lines[0].startswith("event: ")
        assert all(line.startswith("data: ") for line in lines[1:])
        found.append((lines[0][7:], "\n".join(line[6:] for line in lines[1:])))
    return found
