"""The record of answers: whole lines, each on the disk before it is told, whatever happens to the process."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from test_cli_kit import TASK, call, jsonl
from test_serve import Client, serving

from turnspec.cli.failures import CommandError
from turnspec.serve.recording import Recorder

Capture = pytest.CaptureFixture[str]


def record(number: int) -> dict[str, Any]:
    return {"task": {"index": number}, "answer": "ä\u2028\n" * (number % 50)}


def lines(path: Path) -> list[Any]:
    text = path.read_text()
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.split("\n")[:-1]]


def test_records_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for start in (0, 3):
        recorder = Recorder(str(path))
        for number in range(start, start + 3):
            recorder.add(record(number)).result(10)
        recorder.close()
    assert lines(path) == [record(number) for number in range(6)]


def test_many_threads_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    recorder = Recorder(str(path))
    with ThreadPoolExecutor(50) as pool:
        list(pool.map(lambda number: recorder.add(record(number)).result(30), range(1000)))
    recorder.close()
    assert sorted(line["task"]["index"] for line in lines(path)) == list(range(1000))
    assert all(line == record(line["task"]["index"]) for line in lines(path))


def test_it_is_on_the_disk_before_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written and synced, in this order; those that wait meanwhile share the next sync."""
    steps: list[str] = []
    write, sync = os.write, os.fsync
    slow = threading.Event()
    recorder = Recorder(str(tmp_path / "a.jsonl"))

    def slow_sync(descriptor: int) -> None:
        slow.wait(10)
        steps.append("sync")
        sync(descriptor)

    monkeypatch.setattr(os, "write", lambda descriptor, data: steps.append("write") or write(descriptor, data))
    monkeypatch.setattr(os, "fsync", slow_sync)
    first = recorder.add(record(1))
    time.sleep(0.1)
    waiting = [recorder.add(record(number)) for number in range(2, 9)]
    assert not first.done()
    slow.set()
    for future in [first, *waiting]:
        future.result(10)
    assert steps == ["write", "sync", "write", "sync"]
    recorder.close()
    assert len(lines(tmp_path / "a.jsonl")) == 8


def test_a_disk_that_is_full_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    recorder = Recorder(str(path))
    recorder.add(record(1)).result(10)
    write = os.write
    left = [20]

    def full(descriptor: int, data: Any) -> int:
        if not left[0]:
            raise OSError(28, "No space left on device")
        count = write(descriptor, data[: left[0]])
        left[0] -= count
        return count

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(RuntimeError, match=r"the answer is not recorded: .*: no space left on the device"):
        recorder.add(record(7)).result(10)
    assert lines(path) == [record(1)]
    monkeypatch.undo()
    recorder.add(record(2)).result(10)
    recorder.close()
    assert lines(path) == [record(1), record(2)]


def test_one_process_at_a_time(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path / "a.jsonl"))
    with pytest.raises(CommandError, match="another process records there"):
        Recorder(str(tmp_path / "a.jsonl"))
    recorder.close()
    Recorder(str(tmp_path / "a.jsonl")).close()


WHOLE = b'{"task":{},"answer":"a"}\n'


@pytest.mark.parametrize(
    ("tail", "kept", "said"),
    [
        (b"", b"", ""),
        (b'{"task":{},"answer":"b"}', b'{"task":{},"answer":"b"}\n', ""),  # only its end is missing
        (b'{"task":{},"answ', b"", "removed 16 bytes of a line that was never finished"),
        (b'{"ta', b"", "removed 4 bytes of a line that was never finished"),
        (b'{"task":{},"a\0\0\0\0', b"", "removed 17 bytes of a line that was never finished"),
        (b"\0\0\0\0", b"", "removed 4 bytes of a line that was never finished"),
        (b'{"task":"' + b"x" * 200_000, b"", "removed 200009 bytes of a line that was never finished"),
    ],
)
@pytest.mark.parametrize("before", [b"", WHOLE * 3])
def test_a_torn_last_line_is_repaired(
    tmp_path: Path, capsys: Capture, before: bytes, tail: bytes, kept: bytes, said: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(before + tail)
    recorder = Recorder(str(path))
    assert path.read_bytes() == before + kept
    assert capsys.readouterr().err == (f"turnspec: {path}: {said}\n" if said else "")
    recorder.add(record(1)).result(10)
    recorder.close()
    assert lines(path)[-1] == record(1)
    assert len(lines(path)) == (before + kept).count(b"\n") + 1


def test_a_file_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "thesis.txt"
    path.write_text("chapter one\nlast line without end")
    with pytest.raises(CommandError, match="its last line is no record of answers"):
        Recorder(str(path))
    assert path.read_text() == "chapter one\nlast line without end"
    with pytest.raises(CommandError, match="is a folder"):
        Recorder(str(tmp_path))
    with pytest.raises(CommandError, match="no such file"):
        Recorder(str(tmp_path / "no" / "such.jsonl"))
    if os.path.exists("/dev/null"):
        with pytest.raises(CommandError, match="is no regular file"):
            Recorder("/dev/null")


def test_the_served_file_is_no_record(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "a.jsonl").write_text(jsonl(TASK))
    ran = call(capsys, "serve", tmp_path / "a.jsonl", "--port", "0", "--record", tmp_path / "a.jsonl")
    assert ran.code == 2
    assert ran.err == f"turnspec: --record: {tmp_path}/a.jsonl is a file that is served\n"
    assert (tmp_path / "a.jsonl").read_text() == jsonl(TASK)


def test_200_sessions_at_once(tmp_path: Path) -> None:
    """Every answer is recorded once, with its own session, task and text."""
    tasks = [{"id": number, "conversation": TASK["conversation"]} for number in range(20)]
    (tmp_path / "a.jsonl").write_text(jsonl(*tasks))
    path = tmp_path / "answers.jsonl"
    with serving(tmp_path / "a.jsonl", "--record", path) as server:
        client = Client(server.url)
        client.http.timeout = 60

        def play(number: int) -> None:
            sid = f"session-{number}"
            client.start({"split": "train", "index": number % 20}, sid)
            assert client.submit(f"answer {number} " + "é" * (number * 10), sid)["ok"]
            client.post("/delete", sid=sid)

        with ThreadPoolExecutor(50) as pool:
            list(pool.map(play, range(200)))
        server.process.send_signal(signal.SIGINT)
        server.process.wait(15)
    found = lines(path)
    assert sorted(line["session"] for line in found) == sorted(f"session-{number}" for number in range(200))
    for line in found:
        number = int(line["session"].removeprefix("session-"))
        assert list(line) == ["task", "conversation_sha256", "answer", "time", "session"]
        assert line["task"] == {"id": number % 20, "split": "train", "index": number % 20}
        assert line["answer"] == f"answer {number} " + "é" * (number * 10)
        assert line["time"].endswith("Z")
        assert datetime.fromisoformat(line["time"]).utcoffset() is not None
    assert len({line["conversation_sha256"] for line in found}) == 1


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_kill_9_loses_nothing_that_was_told(tmp_path: Path) -> None:
    """Again and again: what was answered is there, the file holds whole lines, and the next start goes on."""
    (tmp_path / "a.jsonl").write_text(jsonl(TASK))
    path = tmp_path / "answers.jsonl"
    told: set[str] = set()
    for life in range(3):
        with serving(tmp_path / "a.jsonl", "--record", path) as server:
            stop = threading.Event()

            def play(worker: int, life: int = life, url: str = server.url, stop: threading.Event = stop) -> None:
                client = Client(url)
                number = 0
                while not stop.is_set():
                    sid = f"{life}-{worker}-{number}"
                    number += 1
                    try:
                        client.start({"split": "train", "index": 0}, sid)
                        if client.submit("x" * 3000, sid)["ok"]:
                            told.add(sid)
                    except Exception:
                        return

            workers = [threading.Thread(target=play, args=(worker,)) for worker in range(8)]
            for worker in workers:
                worker.start()
            time.sleep(0.7)
            server.process.kill()
            stop.set()
            for worker in workers:
                worker.join(30)
        if life == 1:  # what a power cut may leave
            with path.open("ab") as stream:
                stream.write(b'{"task":{"split":"train","ind')
    Recorder(str(path)).close()
    found = [line["session"] for line in lines(path)]
    assert len(told) > 5
    assert told <= set(found)
    assert len(found) == len(set(found))


def test_a_future_that_nobody_waits_for(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path / "a.jsonl"))
    waiting: Future[None] = recorder.add(record(1))
    waiting.cancel()
    recorder.add(record(2)).result(10)
    recorder.close()
    assert lines(tmp_path / "a.jsonl") == [record(1), record(2)]
