"""The rows measured from outside: whole processes, their speed, memory and start."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from .data import conversation, line
from .timing import Row

COMMAND = [sys.executable, "-m", "turnspec"]
SCRIPT = Path(sys.executable).with_name("turnspec")


def rows(megabytes: int, rounds: int) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        yield from validating(Path(folder) / "many.jsonl", megabytes, rounds)
        yield from starting(Path(folder) / "one.jsonl", max(5, rounds * 3))


def validating(path: Path, megabytes: int, rounds: int) -> Iterator[Row]:
    size = write(path, megabytes)
    found, memory, times, work = [], [], [], []
    for _ in range(rounds):
        one, cpu_one, peak_one = run([*command(), "validate", "--jobs", "1", str(path)])
        two, cpu_two, peak_two = run([*command(), "validate", "--jobs", "2", str(path)])
        found.append(one / two)
        times.append(one)
        work.append(cpu_two / cpu_one)
        memory += [peak_one, peak_two]
    note = f"{size / median(times) / 1e6:.0f} MB/s with one; two take {median(work):.2f} times its processor time"
    what = f"validate {megabytes} MB JSONL, --jobs 2"
    yield Row(what, "--jobs 1", 1.7, found, note=note)
    if all(memory):
        yield Row("its memory, largest process", "", 60, memory, " MB", at_most=True)


def starting(path: Path, rounds: int) -> Iterator[Row]:
    write(path, 0)
    for what, arguments in (("turnspec --help", ["--help"]), ("validate one line", ["validate", str(path)])):
        found, best = [], float("inf")
        for _ in range(rounds):
            bare = start([sys.executable, "-c", "import msgspec"])
            mine = start([*command(), *arguments])
            found.append(mine / bare)
            best = min(best, mine)
        yield Row(
            f"start of {what}", 'python -c "import msgspec"', 2, found, at_most=True, note=f"{best * 1000:.0f} ms"
        )


def command() -> list[str]:
    return [str(SCRIPT)] if SCRIPT.exists() else COMMAND


def write(path: Path, megabytes: int) -> int:
    """A JSONL file of about that size, at least one line long; how long it became."""
    lines = [line(conversation(seed), compact=seed % 2 == 0) + b"\n" for seed in range(400 if megabytes else 1)]
    size = 0
    with path.open("wb") as stream:
        while size == 0 or size < megabytes * 1_000_000:
            size += stream.write(b"".join(lines))
    return size


def start(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=True)
    return time.perf_counter() - started


def run(command: list[str]) -> tuple[float, float, float]:
    """(seconds, of them at work in all processes, peak of resident MB of the largest process).

    The peak is 0 where the system does not tell.
    """
    before = os.times()
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak = 0.0
    while process.poll() is None:
        peak = max([peak, *map(peak_of, family(process.pid))])
        time.sleep(0.02)
    taken = time.perf_counter() - started
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    after = os.times()
    work = after.children_user - before.children_user + after.children_system - before.children_system
    return taken, max(work, 0.01), peak


def family(pid: int) -> list[int]:
    """The process and all below it."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return [pid]
    return [pid, *(one for child in children for one in family(int(child)))]


def peak_of(pid: int) -> float:
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    found = next((part for part in status.splitlines() if part.startswith("VmHWM:")), "VmHWM: 0 kB")
    return int(found.split()[1]) / 1000


def processors() -> int:
    return os.cpu_count() or 1
