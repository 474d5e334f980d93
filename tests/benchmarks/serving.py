"""Load on a server, beside the reference SDK's server in the same run: throughput, times, lost sessions, memory.

Sessions that each ask for the messages, call a tool five times and end, so many of them at once; then `/messages`
alone. Each server is a process of its own; the two take turns, so that a busy machine is busy for both.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

SERVERS = ("turnspec", "openreward")
CALLS = 5
ROUNDS = 3
MESSAGES_TARGET = 3.0
ROOT = Path(__file__).resolve().parent.parent.parent


# --- the servers ---


def conversation(number: int) -> list[dict[str, Any]]:
    """A dialogue with tool history that nobody else has."""
    turns: list[dict[str, Any]] = [{"role": "system", "blocks": [{"type": "text", "text": f"Session {number}."}]}]
    for turn in range(4):
        name = f"c{number}-{turn}"
        call = {"type": "tool_call", "id": name, "name": "look", "input": {"n": number, "turn": turn}}
        thought = {"type": "reasoning", "text": f"Thought {turn} of {number}. " * 4}
        result = [{"type": "text", "text": f"Result {turn} of {number}. " * 8}]
        turns += [
            {"role": "user", "blocks": [{"type": "text", "text": f"Question {turn} of {number}? " * 4}]},
            {"role": "assistant", "blocks": [thought, call]},
            {"role": "user", "blocks": [{"type": "tool_result", "tool_call_id": name, "blocks": result}]},
        ]
    return turns


def serve(name: str) -> None:
    """Run the server of that name on a free port, which is printed."""
    import uvicorn

    from turnspec.environment._server import listen

    app = _application(name)
    listening = listen("127.0.0.1", 0)
    print(listening.getsockname()[1], flush=True)
    config = uvicorn.Config(app, access_log=False, log_level="critical", timeout_keep_alive=60, log_config=None)
    uvicorn.Server(config).run(sockets=[listening])


def _application(name: str) -> Any:
    import logging

    from pydantic import BaseModel

    class Input(BaseModel):
        text: str

    made: Any
    if name == "turnspec":
        from turnspec import environment as made
    else:
        from openreward import environments as made

        logging.disable(logging.CRITICAL)  # its logs, written as it does by default, would cost it more

    class Bench(made.Environment):  # type: ignore[misc]
        @classmethod
        def list_splits(cls) -> list[str]:
            return ["train"]

        @classmethod
        def list_tasks(cls, split: str) -> list[dict[str, Any]]:
            return []

        def get_messages(self) -> list[Any]:
            return [made.Message.model_validate(message) for message in self.task_spec["conversation"]]

        async def echo(self, params):  # type: ignore[no-untyped-def]
            """Repeat the text."""
            number = self.task_spec["number"]
            return made.ToolOutput(blocks=[made.TextBlock(text=f"{number}: {params.text}")], reward=0.5)

        # Not `-> made.ToolOutput`: annotations are texts here, and name nothing outside of this function.
        echo.__annotations__.update(params=Input, **{"return": made.ToolOutput})
        echo = made.tool(echo)

    return made.Server([Bench]).app


@contextlib.contextmanager
def started(name: str) -> Iterator[tuple[int, int]]:
    """The port and process of a server that runs until the block ends."""
    command = [sys.executable, "-m", "tests.benchmarks.serving", "--serve", name]
    environment = {**os.environ, "OPENREWARD_LOG_LEVEL": "CRITICAL", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
    try:
        assert process.stdout
        port = int(process.stdout.readline())
        yield port, process.pid
    finally:
        process.terminate()
        process.wait(20)


# --- the client: small, so that what is measured is the server ---


class Connection:
    """A kept HTTP connection."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def ask(self, method: str, path: str, sid: str = "", body: bytes = b"") -> tuple[int, bytes]:
        if self._reader is None or self._writer is None:
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=2**20)
        head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nX-Session-ID: {sid}\r\nContent-Length: {len(body)}\r\n"
        kind = "Content-Type: application/json\r\n" if body else ""
        self._writer.write(f"{head}{kind}\r\n".encode() + body)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        status = int(lines[0].split()[1])
        length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), None)
        if length is not None:
            return status, await self._reader.readexactly(length)
        pieces = []
        while size := int(await self._reader.readline(), 16):
            pieces.append(await self._reader.readexactly(size))
            await self._reader.readexactly(2)
        await self._reader.readexactly(2)
        return status, b"".join(pieces)

    def close(self) -> None:
        if self._writer:
            self._writer.close()
        self._reader = self._writer = None


@dataclass
class Load:
    """What a round found: seconds of each request, requests in a second, faults, processor time, memory."""

    times: list[float] = field(default_factory=list)
    seconds: float = 0.0
    cpu: float = 0.0
    errors: list[str] = field(default_factory=list)
    sessions: int = 0
    peak: int = 0

    @property
    def rate(self) -> float:
        return len(self.times) / self.seconds if self.seconds else 0.0

    @property
    def cpu_rate(self) -> float:
        """Requests in a second of the server's processor time."""
        return len(self.times) / self.cpu if self.cpu else 0.0

    def percentile(self, part: float) -> float:
        """Milliseconds."""
        ordered = sorted(self.times)
        return ordered[min(int(len(ordered) * part), len(ordered) - 1)] * 1000 if ordered else 0.0


async def episodes(port: int, load: Load, until: float, numbers: Iterator[int]) -> None:
    """Whole sessions, one after another; every answer is held against what this session must get."""
    connection = Connection(port)

    async def ask(method: str, path: str, sid: str = "", body: bytes = b"") -> bytes:
        begun = time.perf_counter()
        status, answer = await connection.ask(method, path, sid, body)
        load.times.append(time.perf_counter() - begun)
        if status != 200:
            load.errors.append(f"{path}: {status}")
        return answer

    while time.perf_counter() < until:
        number = next(numbers)
        try:
            sid = (await ask("POST", "/create_session", body=b"{}")).split(b"\r\n")[1][6:].decode()
            spec = {"number": number, "conversation": conversation(number)}
            await ask("POST", "/create", sid, json.dumps({"task_spec": spec}).encode())
            if _plain(json.loads(await ask("GET", "/bench/messages", sid))) != spec["conversation"]:
                load.errors.append("/messages: not the conversation of this session")
            for turn in range(CALLS):
                body = json.dumps({"name": "echo", "input": {"text": f"turn {turn}"}}).encode()
                if f'"{number}: turn {turn}"'.encode() not in await ask("POST", "/bench/call", sid, body):
                    load.errors.append("/call: not the answer of this session")
            await ask("POST", "/delete", sid)
            load.sessions += 1
        except (OSError, asyncio.IncompleteReadError, ValueError) as problem:
            load.errors.append(f"{type(problem).__name__}: {problem}")
            connection.close()
    connection.close()


def _plain(value: Any) -> Any:
    """Without the optional fields that the wire writes out."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if item is not None and item is not False}
    return [_plain(item) for item in value] if isinstance(value, list) else value


class Reader(asyncio.Protocol):
    """Asks for the same thing again and again. What comes back always has the same size, which saves reading it."""

    def __init__(self, load: Load, until: float, request: bytes) -> None:
        self._load, self._until, self._request = load, until, request
        self._size = self._seen = 0
        self._first = b""
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._ask()

    def _ask(self) -> None:
        self._begun = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._seen += len(data)
        if not self._size:
            self._first += data
            head, ends, _ = self._first.lower().partition(b"\r\n\r\n")
            if ends:
                length = next(line for line in head.split(b"\r\n") if line.startswith(b"content-length:"))
                self._size = len(head) + 4 + int(length[15:])
                if b" 200 " not in head:
                    self._load.errors.append(f"/messages: {head.partition(b' ')[2][:3].decode()}")
        if self._size and self._seen >= self._size:
            now = time.perf_counter()
            self._load.times.append(now - self._begun)
            self._seen -= self._size
            if now < self._until:
                self._ask()
            else:
                self._transport.close()

    def connection_lost(self, problem: Exception | None) -> None:
        if problem is not None or self._seen:
            self._load.errors.append("/messages: cut off")
        self.over.set_result(None)


async def readers(port: int, load: Load, until: float, sid: str) -> None:
    """`/messages` of one session, again and again."""
    request = f"GET /bench/messages HTTP/1.1\r\nHost: x\r\nX-Session-ID: {sid}\r\n\r\n".encode()
    loop = asyncio.get_running_loop()
    _, reader = await loop.create_connection(lambda: Reader(load, until, request), "127.0.0.1", port)
    await reader.over


def busy(pid: int) -> float:
    """Processor seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> int:
    """Kilobytes of memory of a process at most so far."""
    text = Path(f"/proc/{pid}/status").read_text()
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("VmHWM")), 0)


async def _episodes(server: tuple[int, int], seconds: float, sessions: int, first: int) -> Load:
    port, pid = server
    load, numbers = Load(), iter(range(first, first + 10**9))
    begun, used = time.perf_counter(), busy(pid)
    await asyncio.gather(*(episodes(port, load, begun + seconds, numbers) for _ in range(sessions)))
    load.seconds, load.cpu, load.peak = time.perf_counter() - begun, busy(pid) - used, resident(pid)
    return load


async def _readers(server: tuple[int, int], seconds: float, clients: int) -> Load:
    port, pid = server
    connection, load = Connection(port), Load()
    sid = (await connection.ask("POST", "/create_session", body=b"{}"))[1].split(b"\r\n")[1][6:].decode()
    spec = {"number": 0, "conversation": conversation(0)}
    await connection.ask("POST", "/create", sid, json.dumps({"task_spec": spec}).encode())
    await connection.ask("GET", "/bench/messages", sid)
    begun, used = time.perf_counter(), busy(pid)
    await asyncio.gather(*(readers(port, load, begun + seconds, sid) for _ in range(clients)))
    load.seconds, load.cpu = time.perf_counter() - begun, busy(pid) - used
    await connection.ask("POST", "/delete", sid)
    connection.close()
    return load


def measure(seconds: float, sessions: int) -> tuple[dict[str, list[Load]], dict[str, list[Load]]]:
    """(episodes, messages): the rounds of each server by its name. `seconds` is what episodes take for each."""
    whole: dict[str, list[Load]] = {name: [] for name in SERVERS}
    read: dict[str, list[Load]] = {name: [] for name in SERVERS}
    with contextlib.ExitStack() as stack:
        servers = {name: stack.enter_context(started(name)) for name in SERVERS}
        for turn in range(ROUNDS):
            for name in SERVERS if turn % 2 else reversed(SERVERS):
                read[name].append(asyncio.run(_readers(servers[name], max(seconds / ROUNDS / 4, 0.5), 16)))
                first = turn * 10**6
                whole[name].append(asyncio.run(_episodes(servers[name], seconds / ROUNDS, sessions, first)))
    return whole, read


def table(whole: dict[str, list[Load]], read: dict[str, list[Load]], sessions: int) -> str:
    """What was measured, for people."""
    lines = [f"{sessions} sessions at once, each: create, messages, {CALLS} calls, delete", ""]
    lines.append(
        f"{'server':12} {'requests/s':>11} {'p50 ms':>8} {'p99 ms':>8} {'sessions':>9} {'errors':>7} {'peak MB':>8}"
    )
    for name in SERVERS:
        every = Load([t for load in whole[name] for t in load.times], sum(load.seconds for load in whole[name]))
        errors = [error for load in whole[name] for error in load.errors]
        count, peak = sum(load.sessions for load in whole[name]), max(load.peak for load in whole[name]) / 1024
        lines.append(
            f"{name:12} {every.rate:11.0f} {every.percentile(0.5):8.1f} {every.percentile(0.99):8.1f} "
            f"{count:9} {len(errors):7} {peak:8.0f}"
        )
        lines += [f"  {error}" for error in sorted(set(errors))[:5]]
    lines += [
        "",
        f"/messages alone, 16 clients\n{'server':12} {'requests/s':>11} {'p50 ms':>8} {'p99 ms':>8} {'per CPU s':>10}",
    ]
    for name in SERVERS:
        every = Load(
            [t for load in read[name] for t in load.times],
            sum(load.seconds for load in read[name]),
            sum(load.cpu for load in read[name]),
        )
        row = f"{name:12} {every.rate:11.0f} {every.percentile(0.5):8.1f} {every.percentile(0.99):8.1f}"
        lines.append(f"{row} {every.cpu_rate:10.0f}")
    ours, theirs = (read[name] for name in SERVERS)
    pairs = list(zip(ours, theirs, strict=True))
    for what, ratios in (
        ("requests/s", [mine.rate / other.rate for mine, other in pairs if other.rate]),
        ("per CPU s", [mine.cpu_rate / other.cpu_rate for mine, other in pairs if other.cpu_rate]),
    ):
        reached = "" if median(ratios) >= MESSAGES_TARGET else "  !"
        span = f"{min(ratios):.1f}–{max(ratios):.1f}"
        lines.append(
            f"{what}, against openreward: {median(ratios):.1f}× ({span}); target ≥ {MESSAGES_TARGET:g}×{reached}"
        )
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.serving", description=__doc__)
    parser.add_argument("--serve", choices=SERVERS, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=60, help="how long the sessions go on, for each server")
    parser.add_argument("--sessions", type=int, default=200, help="how many at once")
    options = parser.parse_args(argv)
    if options.serve:
        serve(options.serve)
        return 0
    print(table(*measure(options.seconds, options.sessions), options.sessions))
    return 0


if __name__ == "__main__":
    sys.exit(main())
