"""`--jobs` changes the speed and nothing else; memory does not grow with the file."""

from __future__ import annotations

import gzip
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from test_cli_kit import COMMAND, HI, TASK, Ran, call, environment, jsonl

from turnspec._errors import Problem
from turnspec.cli import crew, main, pieces
from turnspec.cli.documents import Reading
from turnspec.cli.sources import Opened, Source, open_source
from turnspec.cli.work import Outcome

Capture = pytest.CaptureFixture[str]


FORK_IS_SAFE = crew._fork_is_safe


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # Workers must have what a test replaces, also where other tests left threads behind in this process.
    monkeypatch.setattr(crew, "_fork_is_safe", lambda: True)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut even small files into many pieces, and send small frames."""
    monkeypatch.setattr(pieces, "RANGE", 300)
    monkeypatch.setattr(pieces, "BATCH", 300)
    monkeypatch.setattr(crew, "FRAME", 200)
    monkeypatch.setattr(crew, "HELD", 500)


def mixed(seed: int) -> str:
    """Lines of all kinds: good, bad, blank, long, lists of tasks."""
    random_ = random.Random(seed)
    kinds = [TASK, "{}", "", "  ", [TASK, TASK], [TASK, {}], "[]", "junk", HI, {"conversation": [HI] * 9}, "[1]"]
    return "\ufeff" + jsonl(*random_.choices(kinds, k=random_.randrange(300)))[: -random_.choice([1, 2])]


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("seed", range(6))
def test_the_same_with_any_number_of_jobs(capsys: Capture, tmp_path: Path, seed: int) -> None:
    text = mixed(seed).encode()
    (tmp_path / "a.jsonl").write_bytes(text)
    (tmp_path / "b.jsonl.gz").write_bytes(gzip.compress(text))
    (tmp_path / "c.json").write_text("[[]]")
    (tmp_path / "d").write_bytes(text[3:])
    files = ("a.jsonl", "b.jsonl.gz", "none.jsonl", "c.json", "d")
    for command in (
        ("validate",),
        ("validate", "--max-errors", "7", "--output", "json"),
        ("validate", "-o", "out"),
        ("flatten",),
        ("convert", "--to", "google", "-v"),
    ):

        def results(jobs: int, command: tuple[str, ...] = command) -> tuple[Ran, str]:
            ran = call(capsys, *command, "--jobs", str(jobs), *files)
            out = tmp_path / "out"
            return ran, out.read_text() if out.exists() else ""

        alone = results(1)
        assert results(2) == alone
        assert results(5) == alone


@pytest.mark.usefixtures("small_pieces")
def test_results_are_in_order_although_workers_are_not(capsys: Capture, tmp_path: Path) -> None:
    """Every third conversation is long, so that its worker is late."""
    texts = [f"{number} " + "x" * (200_000 if number % 3 == 0 else 1) for number in range(60)]
    tasks = [[{"role": "user", "blocks": [{"type": "text", "text": text}]}] for text in texts]
    (tmp_path / "a.jsonl").write_text(jsonl(*tasks))
    ran = call(capsys, "flatten", "-q", "--jobs", "3", "a.jsonl")
    assert [record[0]["text"] for record in ran.records] == texts


def test_jobs_without_fork(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.jsonl").write_text(jsonl(TASK, "{}", TASK))
    (tmp_path / "b.jsonl").write_text(jsonl(TASK, "{}", TASK))
    alone = call(capsys, "validate", "a.jsonl", "b.jsonl")
    monkeypatch.setattr(crew, "_fork_is_safe", lambda: False)
    assert call(capsys, "validate", "--jobs", "2", "a.jsonl", "b.jsonl") == alone
    assert multiprocessing.active_children() == []


def test_a_program_with_threads_is_not_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "_fork_is_safe", FORK_IS_SAFE)
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    assert not crew._fork_is_safe()
    done.set()
    thread.join()


def test_no_process_to_be_had(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise BlockingIOError("no more processes")

    (tmp_path / "a.jsonl").write_text(jsonl(TASK, "{}"))
    alone = call(capsys, "validate", "a.jsonl", "a.jsonl")
    monkeypatch.setattr(crew, "_Hand", refuse)
    assert call(capsys, "validate", "--jobs", "2", "a.jsonl", "a.jsonl") == alone


def test_jobs_are_counted_from_zero(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(jsonl(TASK))
    assert call(capsys, "validate", "--jobs", "0", "a.jsonl", "a.jsonl").code == 0
    for wrong in ("-1", "two", "1.5", ""):
        ran = call(capsys, "validate", f"--jobs={wrong}", "a.jsonl")
        assert ran.code == 2
        assert (
            ran.err == f"turnspec: argument --jobs: {wrong!r} is no number from 0 on (see turnspec validate --help)\n"
        )


def children(of: int) -> list[int]:
    listed = Path(f"/proc/{of}/task/{of}/children")
    return [int(number) for number in listed.read_text().split()]


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A command with two workers that waits for the end of its input."""
    os.mkfifo(tmp_path / "slow.jsonl")
    process = subprocess.Popen(
        [*COMMAND, "validate", "--jobs", "2", "slow.jsonl"], stderr=subprocess.PIPE, env=environment()
    )
    with open("slow.jsonl", "wb", buffering=0) as pipe:
        pipe.write(jsonl(*[TASK] * 40_000).encode())
        for _ in range(200):
            if len(children(process.pid)) == 2:
                break
            time.sleep(0.05)
        yield process
    process.wait(20)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_worker_that_is_killed_is_told(waiting: subprocess.Popen[bytes]) -> None:
    victims = children(waiting.pid)
    for victim in victims:
        os.kill(victim, signal.SIGKILL)
    with suppress(BrokenPipeError):  # the command may be gone already
        Path("slow.jsonl").write_bytes(jsonl(*[TASK] * 20_000).encode())
    _, err = waiting.communicate(timeout=20)
    assert waiting.returncode == 2
    assert err.decode() == "turnspec: a worker process was killed; is there enough memory?\n"


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_workers_end_when_the_first_process_is_killed(waiting: subprocess.Popen[bytes]) -> None:
    workers = children(waiting.pid)
    assert len(workers) == 2
    waiting.kill()
    waiting.wait(20)
    for worker in workers:
        for _ in range(100):
            if not Path(f"/proc/{worker}").exists() or " Z " in Path(f"/proc/{worker}/stat").read_text():
                break
            time.sleep(0.05)
        else:
            pytest.fail("a worker lives on")


class Clumsy:
    """A job that fails in a way that nobody foresaw."""

    key = ("conversation",)

    def prepare(self) -> None:
        return None

    def document(self, data: bytes) -> Outcome:
        raise ZeroDivisionError("on purpose")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_the_last_resort(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: str) -> None:
    monkeypatch.setattr("turnspec.cli.commands.flatten.Flattening", lambda args: Clumsy())
    (tmp_path / "a.jsonl").write_text(jsonl(TASK))
    ran = call(capsys, "flatten", "--jobs", jobs, "a.jsonl", "a.jsonl")
    said = "turnspec: internal error: ZeroDivisionError: on purpose (TURNSPEC_DEBUG=1 shows the traceback)\n"
    assert ran == (2, "", said)
    monkeypatch.setenv("TURNSPEC_DEBUG", "1")
    assert main(["flatten", "--jobs", jobs, "a.jsonl", "a.jsonl"]) == 2
    assert "ZeroDivisionError: on purpose\n" in capsys.readouterr().err
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_out_of_memory_is_told(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: str) -> None:
    def read(self: object, data: bytes) -> Reading:
        raise MemoryError

    monkeypatch.setattr("turnspec.cli.documents.Reader.read", read)
    (tmp_path / "a.jsonl").write_text(jsonl(TASK))
    ran = call(capsys, "flatten", "-q", "--jobs", jobs, "a.jsonl", "a.jsonl")
    assert ran == (2, "", "turnspec: a.jsonl: out of memory\n" * 2)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("jobs", ["1", "3"])
def test_nothing_is_told_behind_the_place_where_reading_failed(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: str
) -> None:
    """Memory runs out in the middle; later pieces were read, but on which lines they begin is not known."""

    def read(self: object, data: bytes) -> Reading:
        if b"enough" in data:
            raise MemoryError
        return Reading(1, [], [Problem("wrong_type", "", "no", line=1, column=1)])

    monkeypatch.setattr("turnspec.cli.documents.Reader.read", read)
    (tmp_path / "a.jsonl").write_text("0\n" * 700 + '"enough"\n' + "0\n" * 700)
    (tmp_path / "b.jsonl").write_text("0\n")
    ran = call(capsys, "flatten", "--jobs", jobs, "a.jsonl", "b.jsonl")
    assert ran.code == 2
    assert [line.split(" ")[0] for line in ran.err.splitlines()[:-1]] == [
        *(f"a.jsonl:{number + 1}:1:" for number in range(700)),
        "turnspec:",
        "b.jsonl:1:1:",
    ]
    assert ran.err.endswith(
        "turnspec: a.jsonl: out of memory\n"
        "b.jsonl:1:1: wrong_type at (root): no\n"
        "2 files, 701 conversations: 0 written, 701 errors in 2 files, 1 file not read to the end\n"
    )


@pytest.mark.usefixtures("small_pieces")
def test_a_file_that_vanishes(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def vanish(source: Source) -> Opened:
        Path(source.path).unlink(missing_ok=True)
        return open_source(source)

    monkeypatch.setattr("turnspec.cli.work.open_source", vanish)
    (tmp_path / "a.jsonl").write_text(jsonl(*[TASK] * 100))
    ran = call(capsys, "validate", "-q", "--jobs", "2", "a.jsonl")
    assert ran == (2, "", "turnspec: a.jsonl: no such file\n")


@pytest.mark.skipif(sys.platform != "linux", reason="counts in kilobytes")
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_memory_does_not_grow_with_the_file(tmp_path: Path, jobs: str) -> None:
    task = {"conversation": [{"role": "user", "blocks": [{"type": "text", "text": "x" * 5000}]}] * 4}
    text = jsonl(*[task] * 4000)
    (tmp_path / "large.jsonl").write_text(text)
    (tmp_path / "large.jsonl.gz").write_bytes(gzip.compress(text.encode(), 1))
    for command in (["validate", "large.jsonl.gz"], ["flatten", "-o", os.devnull, "large.jsonl"]):
        assert largest([*COMMAND, *command, "-q", "--jobs", jobs]) < 60_000


def largest(command: list[str]) -> int:
    """The most memory that a command or a child of it had, in kilobytes."""
    script = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], check=True)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, *command], capture_output=True, check=True, env=environment())
    return int(done.stdout)
