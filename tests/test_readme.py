"""What README.md shows is what happens: its commands and programs are run, and their output compared.

In a `console` block each `$` line is a command, and what follows it is its output (both streams). A `text`
block right behind a `python` block is what that program prints. To put the real outputs into README.md:

    python tests/test_readme.py
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = re.compile(r"^\$ (.+)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


class Example(NamedTuple):
    """Something to run, the output that is printed for it, and where in the README that output stands."""

    kind: str
    source: str
    output: str
    start: int
    end: int


def examples(readme: str) -> Iterator[Example]:
    """All commands and programs, in order."""
    fences = list(FENCE.finditer(readme))
    for fence, following in zip(fences, [*fences[1:], None], strict=True):
        if fence[1] == "console":
            for command in COMMANDS.finditer(fence[2]):
                start, end = (fence.start(2) + at for at in command.span(2))
                yield Example("console", command[1], command[2], start, end)
        if fence[1] == "python":
            if following is None or following[1] != "text" or readme[fence.end() : following.start()].strip():
                raise ValueError(f"no output stands behind the program\n{fence[2]}")
            yield Example("python", fence[2], following[2], *following.span(2))


def output(example: Example, folder: Path) -> str:
    """What it prints, run in the root of the repository."""
    if example.kind == "python":
        program = folder / "program.py"
        program.write_text(example.source, encoding="utf-8")
        command = [sys.executable, "-W", "error", str(program)]
    else:
        command = [str(Path(sys.executable).parent / shlex.split(example.source)[0])]
        command += shlex.split(example.source)[1:]
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONUTF8": "1", "NO_COLOR": "1", "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        check=False,
    ).stdout


@pytest.mark.parametrize("example", list(examples(README.read_text(encoding="utf-8"))), ids=lambda e: e.source[:60])
def test_the_readme_shows_what_happens(example: Example, tmp_path: Path) -> None:
    assert output(example, tmp_path) == example.output, "to put it right: .venv/bin/python tests/test_readme.py"


def test_the_first_screen_has_the_two_commands_and_an_example() -> None:
    screen = "\n".join(README.read_text(encoding="utf-8").splitlines()[:40])
    assert "make demo" in screen
    assert "make test" in screen
    assert "$ turnspec" in screen


def test_the_make_targets_that_are_named_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for name in ("README.md", "CONTRIBUTING.md", "docs/examples/README.md"):
        named = set(re.findall(r"(?:`|^)make ([a-z-]+)", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE))
        assert named <= targets, name


def test_the_links_lead_somewhere() -> None:
    for name in ("README.md", "CONTRIBUTING.md", "docs/examples/README.md"):
        page = ROOT / name
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{name}: {target}"


def rewrite() -> None:
    """Put the real outputs into the README."""
    readme = README.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        for example in reversed(list(examples(readme))):
            readme = readme[: example.start] + output(example, Path(folder)) + readme[example.end :]
    README.write_text(readme, encoding="utf-8")


if __name__ == "__main__":
    rewrite()
