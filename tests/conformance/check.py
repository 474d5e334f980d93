"""Run the vectors against the runner of any language.

    python tests/conformance/check.py tests/conformance/python/run

Sends one request a line, reads one answer a line, and compares exactly (1 is not 1.0). Prints the differences
and a summary; exits 0 if every answer was right, 1 if not, 2 where the runner does not run.
"""

from __future__ import annotations

import argparse
import queue
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from vectortools import VECTORS, Case, differences, read_cases, read_json, request_of, write_json  # noqa: E402

OPERATIONS = ("validate", "rules", "convert", "import", "flatten", "downgrade", "read", "negotiate")
BUILD_SECONDS = 900.0  # a runner may build itself before its first answer
ANSWER_SECONDS = 60.0

HELLO = {"role": "user", "blocks": [{"type": "text", "text": "Hi"}]}
ASKED = [{"role": "assistant", "blocks": [{"type": "tool_call", "id": "c", "name": "f", "input": {"n": 10**5000}}]}]
# What no vector can say: lines that are no requests, and what must not end a runner. (line, wanted answer);
# an error that begins with "bad request" stands for each of its kind.
PROTOCOL: list[tuple[str, Any]] = [
    (write_json({"id": "p1", "op": "no such operation"}), {"id": "p1", "error": "unsupported"}),
    ("{no JSON", {"id": None, "error": "bad request"}),
    ("[1]", {"id": None, "error": "bad request"}),
    (write_json({"id": "p2"}), {"id": "p2", "error": "bad request"}),
    (write_json({"id": "p3", "op": "flatten"}), {"id": "p3", "error": "bad request"}),
    (
        write_json({"id": "p4", "op": "convert", "format": "no such format", "messages": [HELLO]}),
        {"id": "p4", "error": "bad request"},
    ),
    (
        write_json({"id": "p5", "op": "convert", "format": "openai", "purpose": "fun", "messages": [HELLO]}),
        {"id": "p5", "error": "bad request"},
    ),
    (write_json({"id": 6, "op": "negotiate"}), {"id": 6, "result": {"block_set": "v1"}}),
    (
        write_json({"id": "p7", "op": "flatten", "messages": [HELLO, "Hi"]}),
        {"id": "p7", "result": {"raises": {"code": "wrong_type", "pointer": "/1"}}},
    ),
    (
        write_json({"id": "p8", "op": "convert", "format": "openai", "messages": ["Hi"]}),
        {"id": "p8", "result": {"raises": {"code": "wrong_type", "pointer": "/0"}}},
    ),
    (
        write_json({"id": "p9", "op": "read", "messages": ASKED}),
        {"id": "p9", "result": {"messages": ASKED, "skipped": []}},
    ),
    (
        write_json({"id": "\u00e9\U0001f600", "op": "flatten", "messages": [HELLO]}),
        {"id": "\u00e9\U0001f600", "result": {"blocks": HELLO["blocks"]}},
    ),
]


class Gone(Exception):
    """The runner ended, or did not answer in time."""


class Runner:
    """A runner's process, and a thread that reads its answers."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.lines: queue.Queue[bytes] = queue.Queue()
        self.seconds = BUILD_SECONDS
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(b"")

    def ask(self, line: str) -> Any:
        """The answer to one request line, parsed."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
            answer = self.lines.get(timeout=self.seconds)
        except queue.Empty:
            raise Gone(f"no answer within {self.seconds:.0f} seconds") from None
        except OSError as problem:
            raise Gone(f"the runner takes no more requests: {problem}") from None
        if not answer:
            raise Gone(f"the runner ended with exit code {self.process.wait()}")
        self.seconds = ANSWER_SECONDS
        try:
            return read_json(answer)
        except ValueError as problem:
            raise Gone(f"an answer that is no JSON line ({problem}): {answer[:200]!r}") from None

    def close(self) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.close()
            self.process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()


def vectors(folder: Path, operations: list[str], only: str) -> Iterator[Case]:
    for case in read_cases(folder):
        if case["op"] in operations and only in case["id"]:
            yield case


def judge(case: Case, answer: Any) -> list[str]:
    """What is wrong with the answer to a vector."""
    if isinstance(answer, dict) and answer.get("id") == case["id"] and "error" in answer:
        return [f"error: {answer['error']}"]
    return differences({"id": case["id"], "result": case["expect"]}, answer)


def judge_protocol(wanted: Any, answer: Any) -> list[str]:
    if wanted.get("error") == "bad request" and isinstance(answer, dict):
        error = answer.get("error")
        if isinstance(error, str) and error.startswith("bad request"):
            answer = {**answer, "error": "bad request"}
    return differences(wanted, answer)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Run the vectors against a conformance runner.")
    parser.add_argument("runner", nargs="+", help="the executable, and its arguments if it has any")
    parser.add_argument("--vectors", type=Path, default=VECTORS, metavar="FOLDER")
    parser.add_argument("--ops", default=",".join(OPERATIONS), help="only these operations, with commas between")
    parser.add_argument("--only", default="", metavar="TEXT", help="only vectors with this text in their id")
    parser.add_argument("--show", type=int, default=20, metavar="N", help="show N failures (default: %(default)s)")
    options = parser.parse_args(argv)
    operations = options.ops.split(",")
    if unknown := sorted(set(operations) - set(OPERATIONS)):
        parser.error(f"unknown operations: {', '.join(unknown)}; known: {', '.join(OPERATIONS)}")

    started = time.monotonic()
    passed: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    try:
        runner = Runner(options.runner)
    except OSError as problem:
        print(f"{options.runner[0]}: {problem}", file=sys.stderr)
        return 2

    def record(operation: str, name: str, wrong: list[str]) -> None:
        (failed if wrong else passed)[operation] += 1
        if wrong and failed.total() <= options.show:
            print(f"FAILED {name}", *wrong[:10], sep="\n    ")

    try:
        for case in vectors(options.vectors, operations, options.only):
            record(case["op"], case["id"], judge(case, runner.ask(write_json(request_of(case)))))
        if not options.only and set(operations) == set(OPERATIONS):
            for line, wanted in PROTOCOL:
                record("protocol", f"the line {line[:100]}", judge_protocol(wanted, runner.ask(line)))
    except Gone as problem:
        print(f"{options.runner[0]}: after {passed.total() + failed.total()} answers: {problem}", file=sys.stderr)
        return 2
    finally:
        runner.close()

    for operation in [*OPERATIONS, "protocol"]:
        if passed[operation] or failed[operation]:
            print(f"{operation:10} {passed[operation]:5} right {failed[operation]:5} wrong")
    seconds = time.monotonic() - started
    print(f"{passed.total()} of {passed.total() + failed.total()} right ({seconds:.1f} seconds)")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
