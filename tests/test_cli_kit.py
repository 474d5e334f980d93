"""What the tests of the command line share: running the command, and small documents. No tests of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

COMMAND = [sys.executable, "-m", "turnspec"]
HI = {"role": "user", "blocks": [{"type": "text", "text": "hi"}]}
TASK = {"id": 1, "conversation": [HI]}
EMPTY_TASK = {"conversation": []}


class Ran(NamedTuple):
    """How a command ended: exit code, stdout, stderr."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.lines]


def environment(**more: str) -> dict[str, str]:
    """The environment of a command: no terminal settings of the person who runs the tests."""
    plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "TURNSPEC_DEBUG")}
    return {**plain, **more}


def run(*args: str | Path, stdin: bytes = b"", cwd: Path | None = None, env: dict[str, str] | None = None) -> Ran:
    """Run the real command in a process of its own; a traceback is never right."""
    done = subprocess.run(
        [*COMMAND, *args],
        input=stdin,
        capture_output=True,
        cwd=cwd,
        env=environment(**env or {}),
        timeout=120,
    )
    ran = Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert "Traceback" not in ran.err
    return ran


def call(capsys: pytest.CaptureFixture[str], *args: str | Path) -> Ran:
    """Run the command in this process, which is quicker."""
    from turnspec.cli import main

    code = main([os.fspath(arg) for arg in args])
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return Ran(code, out, err)


def jsonl(*documents: Any) -> str:
    """Documents as JSONL; text stands for itself."""
    return "".join((document if isinstance(document, str) else json.dumps(document)) + "\n" for document in documents)
