"""The tour that `make demo` gives: the example tasks are validated, then converted to every provider format.

    python docs/examples/demo.py

It uses nothing but the command line and the public functions, holds every answer against `expected.toml`, and
exits 0 exactly when all of them are as expected there.
"""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
EXPECTED: dict[str, Any] = tomllib.loads((HERE / "expected.toml").read_text(encoding="utf-8"))
GOOD = [name for name in EXPECTED if not name.startswith("broken/")]
BROKEN = [name for name in EXPECTED if name.startswith("broken/")]
FORMATS = ("openai", "openrouter", "anthropic", "google")
COMMAND = shutil.which("turnspec", path=str(Path(sys.executable).parent)) or "turnspec"
WIDTH = 100
SERVED_MESSAGES = 4  # of order-4411, as openai takes it
SHOWN = 3  # findings of one file
FINDING = re.compile(r"(?P<file>.+?):(?P<at>\d+:\d+): (?P<code>\w+) at (?P<pointer>\S+): ")

Messages = list[dict[str, Any]]


class Answer(NamedTuple):
    """What one format says to one file: losses and refusals, each as (conversation, problem)."""

    lost: list[tuple[int, Any]]
    refused: list[tuple[int, Any]]

    def summary(self) -> dict[str, dict[str, int]]:
        """The counts as `expected.toml` has them."""
        counts = {
            "lost": Counter(loss.code for _, loss in self.lost),
            "refused": Counter(problem.code for _, problem in self.refused),
        }
        return {kind: dict(sorted(count.items())) for kind, count in counts.items() if count}


def conversations(path: Path) -> list[Messages]:
    """All conversations of a file: JSON or JSONL, of tasks, lists of messages or single messages."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    documents = raw.splitlines() if ".jsonl" in path.name else [raw]
    return [messages for document in documents for messages in _in_document(json.loads(document))]


def _in_document(value: Any) -> Iterator[Messages]:
    if isinstance(value, list) and value and "conversation" in value[0]:
        for task in value:
            yield task["conversation"]
    elif isinstance(value, list):
        yield value
    else:
        yield value.get("conversation", [value])


def answer(name: str, format: str, purpose: str = "request") -> Answer:
    """Convert every conversation of an example."""
    from turnspec import ConversionError, convert_with_report

    found = Answer([], [])
    for number, messages in enumerate(conversations(HERE / name)):
        try:
            report = convert_with_report(messages, format, purpose=purpose)
        except ConversionError as error:
            found.refused.append((number, error.problems[0]))
        else:
            found.lost.extend((number, loss) for loss in report.losses)
    return found


def turnspec(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in the root of the repository."""
    return subprocess.run(
        [COMMAND, *arguments],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        env={**os.environ, "NO_COLOR": "1", "PYTHONUTF8": "1"},
        check=False,
    )


class Tour:
    """Prints the story, and keeps what did not go as expected."""

    def __init__(self) -> None:
        self.surprises: list[str] = []

    def expect(self, what: str, got: object, wanted: object) -> None:
        if got != wanted:
            self.surprises.append(f"{what}: got {got!r}, expected {wanted!r}")

    def title(self, text: str) -> None:
        print(f"\n== {text} ".ljust(WIDTH, "="))

    def say(self, text: str, indent: int = 0, hang: int = 0) -> None:
        """Print a paragraph that fits a terminal."""
        lead = " " * indent
        lines = textwrap.wrap(
            text,
            WIDTH,
            initial_indent=lead,
            subsequent_indent=lead + " " * hang,
            break_long_words=False,
            break_on_hyphens=False,
        )
        print("\n".join(lines))

    def validate(self) -> None:
        self.title("1. Validate")
        print("$ turnspec validate docs/examples/*.json*")
        done = turnspec("validate", *(f"docs/examples/{name}" for name in GOOD))
        print((done.stdout + done.stderr).strip())
        self.expect("exit code of the good ones", done.returncode, 0)

        print("\n$ turnspec validate docs/examples/broken/*")
        done = turnspec("validate", *(f"docs/examples/{name}" for name in BROKEN))
        found = defaultdict(list)
        for line in (done.stdout + done.stderr).splitlines():
            finding = FINDING.match(line)
            if finding:
                name = finding["file"].removeprefix("docs/examples/")
                pointer = finding["pointer"].replace("(root)", "")
                found[name].append(f"{finding['at']} {finding['code']} {pointer}")
                if len(found[name]) > SHOWN:
                    more = len(EXPECTED[name]["errors"]) - SHOWN
                    if len(found[name]) == SHOWN + 1:
                        print(f"    ... and {more} more in {name}")
                    continue
            self.say(line.replace("docs/examples/", "", 1), hang=4)
        self.expect("exit code of the broken ones", done.returncode, 1)
        for name in BROKEN:
            self.expect(name, found[name], EXPECTED[name]["errors"])

    def convert(self) -> None:
        from turnspec import convert_with_report

        self.title("2. Convert: one conversation, the request of every provider")
        messages = conversations(HERE / "tasks.json")[1]
        payloads = {format: convert_with_report(messages, format).payload for format in FORMATS}
        self.expect("openrouter", payloads["openrouter"], payloads["openai"])
        print("the canonical conversation (docs/examples/tasks.json, order-4411):")
        self.show(messages)
        print("\nopenai, and the same for openrouter:")
        self.show(payloads["openai"])
        for format in ("anthropic", "google"):
            print(f"\n{format}:")
            self.show(payloads[format])

    def show(self, value: Any) -> None:
        """Print JSON, one message a line."""
        if isinstance(value, list):
            print("\n".join(self.items("[", value, "]")))
            return
        (lead_key, lead), (key, messages) = value.items()
        print("\n".join(self.items(f'{{"{lead_key}": {json.dumps(lead)}, "{key}": [', messages, "]}")))

    def items(self, head: str, values: list[Any], tail: str) -> Iterator[str]:
        yield f"  {head}"
        for number, value in enumerate(values, 1):
            comma = "," if number < len(values) else tail
            text = json.dumps(value, ensure_ascii=False) + comma
            yield from textwrap.wrap(text, WIDTH, initial_indent="    ", subsequent_indent="      ")

    def report(self) -> None:
        self.title("3. Convert all of them: what is lost, what is refused")
        rows = {(name, format): answer(name, format) for name in GOOD for format in FORMATS}
        print(f"{'':30}{'':>5}" + "".join(f"{format:>16}" for format in FORMATS))
        for name in GOOD:
            count = len(conversations(HERE / name))
            self.expect(f"conversations of {name}", count, EXPECTED[name]["conversations"])
            cells = []
            for format in FORMATS:
                cells.append(self.cell(rows[name, format], count))
                wanted = EXPECTED[name].get("openai" if format == "openrouter" else format, {})
                self.expect(f"{name} as {format}", rows[name, format].summary(), wanted)
            print(f"{name:30}{count:5}" + "".join(f"{cell:>16}" for cell in cells))
        print("(+ conversations converted, - refused, ~ things lost: structure or metadata, never content)")
        print("Lost (~):")
        self.explain([(key, *loss) for key, row in rows.items() for loss in row.lost])
        print("\nRefused (-), since the provider would refuse it or content would disappear:")
        self.explain([(key, *problem) for key, row in rows.items() for problem in row.refused])

    def cell(self, found: Answer, count: int) -> str:
        refused, lost = len(found.refused), len(found.lost)
        parts = [f"+{count - refused}"] if refused < count else []
        parts += [f"-{refused}"] if refused else []
        parts += [f"~{lost}"] if lost else []
        return " ".join(parts)

    def explain(self, cases: list[tuple[tuple[str, str], int, Any]]) -> None:
        """One entry for each code: how often in which format (openrouter is as openai), and the first case."""
        by_code = defaultdict(list)
        for (name, format), number, problem in cases:
            if format != "openrouter":
                by_code[problem.code].append((name, format, number, problem))
        for code, found in by_code.items():
            counts = Counter(format for _, format, _, _ in found)
            where = ", ".join(f"{count}x {format}" for format, count in counts.items())
            name, _, number, problem = found[0]
            place = f"{name}#{number + 1}" if EXPECTED[name]["conversations"] > 1 else name
            hint = f"; hint: {problem.hint}" if problem.hint and problem.severity != "info" else ""
            self.say(f"{code} ({where}): {place} at {problem.pointer}: {problem.message}{hint}", 2, 2)

    def serve(self) -> None:
        """Serve a file, ask for a conversation as a harness does, and hand in an answer."""
        from turnspec.client import EnvironmentClient

        self.title("4. Serve: a file as an environment, and a harness that asks it")
        with tempfile.TemporaryDirectory() as folder:
            record = Path(folder, "answers.jsonl")
            command = [COMMAND, "serve", "docs/examples/tasks.json", "--port", "0", "--record", str(record)]
            print("$ turnspec serve docs/examples/tasks.json --port 0 --record answers.jsonl")
            with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as server:
                try:
                    said = server.stderr.readline().strip() if server.stderr else ""
                    print(said)
                    with EnvironmentClient(said.split()[-1]) as client:
                        client.wait_until_ready()
                        task = next(task for task in client.list_tasks("train") if task.task_spec["id"] == "order-4411")
                        with client.session(task=task) as session:
                            asked = session.get_messages(format="openai", on_loss="ignore")
                            answer = session.call_tool("submit", {"text": "It is at the hub."})
                finally:
                    server.send_signal(signal.SIGINT)
                    server.communicate(timeout=30)
            line = json.loads(record.read_text(encoding="utf-8"))
        print(f"a harness got {len(asked)} openai messages and submitted its turn; finished: {answer.finished}")
        print(f"answers.jsonl holds: {line['answer']!r}")
        if (len(asked), answer.finished, line["answer"]) != (SERVED_MESSAGES, True, "It is at the hub."):
            self.surprises.append(f"serve: {len(asked)} messages, {answer}, {line}")

    def end(self) -> int:
        print()
        for surprise in self.surprises:
            self.say(f"UNEXPECTED {surprise}", hang=4)
        if self.surprises:
            return 1
        count = len(GOOD) + len(BROKEN)
        print(f"All {count} example files behaved as docs/examples/expected.toml says.")
        print("Next: .venv/bin/turnspec --help, docs/examples/README.md, make test")
        return 0


def main() -> int:
    print(f"{turnspec('--version').stdout.strip()}: conversation tasks, checked and turned into requests")
    tour = Tour()
    tour.validate()
    tour.convert()
    tour.report()
    tour.serve()
    return tour.end()


if __name__ == "__main__":
    sys.exit(main())
