"""`make` says what it can do, and fails clearly when no usable Python is there."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

OLD_PYTHON = """#!/bin/sh
case "$*" in
  *"version_info <"*) exit 1 ;;
  *print*) echo 3.9 ;;
  -V) echo "Python 3.9.1" ;;
esac
"""


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # The flags of a `make test` around this one would change what is printed.
    env = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", "PYTHON")}
    command = ["make", *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, encoding="utf-8", check=False)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder, with a space in its name, that holds what the set-up reads."""
    folder = tmp_path / "a clone"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return folder


def test_help_lists_the_targets(clone: Path) -> None:
    printed = make(clone).stdout
    for target in ("setup", "demo", "test", "lint", "generate", "check-generated", "bench"):
        assert f"make {target} " in printed


def test_a_python_that_is_too_old_is_named(clone: Path) -> None:
    python = clone.parent / "python3.9"
    python.write_text(OLD_PYTHON)
    python.chmod(0o755)
    done = make(clone, "demo", f"PYTHON={python}")
    assert done.returncode == 2
    assert "is Python 3.9.1. turnspec needs Python 3.11 or newer" in done.stderr
    assert "make demo PYTHON=" in done.stderr
    assert not (clone / ".venv").exists()


def test_a_python_that_is_not_there_is_named(clone: Path) -> None:
    done = make(clone, "test", "PYTHON=python-that-is-not-there")
    assert done.returncode == 2
    assert "python-that-is-not-there does not run" in done.stderr
    assert not (clone / ".venv").exists()


def test_nothing_is_set_up_twice(clone: Path) -> None:
    """A stamp that is newer than pyproject.toml and of this folder is enough; one of another is not."""
    (clone / ".venv").mkdir()
    (clone / ".venv" / ".ready").write_text(f"{clone} 3.11\n")
    assert make(clone, "setup").stdout == ".venv is ready\n"
    moved = clone.rename(clone.parent / "elsewhere")
    assert "venv --clear" in make(moved, "--dry-run", "setup").stdout
