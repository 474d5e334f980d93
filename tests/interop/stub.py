"""A server that answers what a test scripts, byte for byte, to try clients on what no good server does."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Part = bytes | float | str  # bytes to send, seconds to wait, "reset" to break the connection off
Script = Callable[["Asked"], list[Part]]


@dataclass
class Asked:
    """A request as it came; `time` counts the requests of its path from 0."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    time: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def answer(body: Any = None, status: int = 200, **headers: str) -> list[Part]:
    """A plain JSON answer."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = {"Content-Type": "application/json", **{key.replace("_", "-"): value for key, value in headers.items()}}
    head = "".join(f"{key}: {value}\r\n" for key, value in lines.items())
    return [f"HTTP/1.1 {status} X\r\n{head}Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode() + data]


def events(*parts: Part, kind: str = "text/event-stream; charset=utf-8") -> list[Part]:
    """An event stream that ends where the connection does."""
    return [f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n".encode(), *parts]


def event(name: str, data: str) -> bytes:
    return f"event: {name}\r\ndata: {data}\r\n\r\n".encode()


OUTPUT = {
    "blocks": [{"text": "done", "detail": None, "type": "text"}],
    "metadata": None,
    "reward": 1.0,
    "finished": True,
}
TOOLS = {"tools": [], "terminal_tool": None, "message_block_types": ["text", "image"]}


def result(output: Any = None) -> str:
    return json.dumps({"ok": True, "output": OUTPUT if output is None else output}, ensure_ascii=False)


@dataclass
class Stub:
    """The scripts by path, and every request that came. Paths without a script behave well."""

    url: str
    scripts: dict[str, Script] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)

    def times(self, path: str) -> int:
        return sum(item.path == path for item in self.asked)

    def of(self, path: str) -> list[Asked]:
        return [item for item in self.asked if item.path == path]


GOOD: dict[str, Script] = {
    "/health": lambda asked: answer({"status": "ok"}),
    "/create_session": lambda asked: events(event("task_id", "sid-1"), event("end", "")),
    "/create": lambda asked: answer({"sid": "sid-1"}),
    "/messages": lambda asked: answer([]),
    "/prompt": lambda asked: answer([]),
    "/tools": lambda asked: answer(TOOLS),
    "/task_tools": lambda asked: answer(TOOLS),
    "/call": lambda asked: events(event("task_id", "t1"), event("end", result())),
    "/ping": lambda asked: answer({"status": "ok"}),
    "/delete": lambda asked: answer({"sid": "sid-1"}),
    "/delete_session": lambda asked: answer({"sid": "sid-1"}),
}


@contextlib.contextmanager
def stubbed(**scripts: Script) -> Iterator[Stub]:
    """A running stub; the name of a script is its path without the slash."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(50)
    stub = Stub(f"http://127.0.0.1:{listener.getsockname()[1]}", {f"/{name}": item for name, item in scripts.items()})

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=_serve, args=(stub, connection), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield stub
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _serve(stub: Stub, connection: socket.socket) -> None:
    with connection, contextlib.suppress(OSError):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        reader = connection.makefile("rb")
        first = reader.readline().decode().split()
        if len(first) < 2:
            return
        headers = {}
        while (line := reader.readline().strip()) != b"":
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        body = reader.read(int(headers.get("content-length", "0")))
        asked = Asked(first[0], first[1], headers, body, stub.times(first[1]))
        stub.asked.append(asked)
        script = (
            stub.scripts.get(asked.path) or GOOD.get(asked.path) or (lambda _: answer({"detail": "Not Found"}, 404))
        )
        for part in script(asked):
            if isinstance(part, bytes):
                connection.sendall(part)
            elif isinstance(part, float):
                time.sleep(part)
            else:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return
