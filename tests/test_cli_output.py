"""Where results go: whole files or none, broken pipes, full disks, signals, colour."""

from __future__ import annotations

import gzip
import os
import pty
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_cli_kit import COMMAND, TASK, call, environment, jsonl

Capture = pytest.CaptureFixture[str]
FLAT = '[{"type":"text","text":"hi"}]\n'


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").write_text(jsonl(TASK, TASK))
    (tmp_path / "bad.jsonl").write_text(jsonl(TASK, "{}", TASK))


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".turnspec")]


def test_a_file_is_written_whole(capsys: Capture, tmp_path: Path) -> None:
    assert call(capsys, "flatten", "a.jsonl", "-o", "out.jsonl") == (
        0,
        "",
        "1 file, 2 conversations: 2 written, no errors\n",
    )
    assert (tmp_path / "out.jsonl").read_text() == FLAT * 2
    assert leftovers(tmp_path) == []


def test_findings_leave_a_file_with_all_that_went_well(capsys: Capture, tmp_path: Path) -> None:
    ran = call(capsys, "flatten", "bad.jsonl", "-o", "out.jsonl")
    assert ran.code == 1
    assert ran.err.splitlines()[-1] == "1 file, 3 conversations: 2 written, 1 error in 1 file"
    assert (tmp_path / "out.jsonl").read_text() == FLAT * 2


def test_findings_are_written_to_a_file(capsys: Capture, tmp_path: Path) -> None:
    ran = call(capsys, "validate", "bad.jsonl", "-o", "out.txt")
    assert ran == (1, "", "1 file, 3 conversations: 1 error in 1 file\n")
    assert (tmp_path / "out.txt").read_text().startswith("bad.jsonl:2:1: missing_field at (root): ")


def test_an_input_that_fails_leaves_the_old_file(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text("old")
    ran = call(capsys, "flatten", "a.jsonl", "none.jsonl", "-o", "out.jsonl")
    assert ran == (
        2,
        "",
        "turnspec: none.jsonl: no such file\n"
        "turnspec: out.jsonl is not written, because not every input could be read\n"
        "2 files, 2 conversations: 2 written, 1 file not read to the end\n",
    )
    assert (tmp_path / "out.jsonl").read_text() == "old"
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("command", [["validate"], ["convert", "--to", "openai"], ["flatten"], ["downgrade"]])
def test_no_output_onto_an_input(capsys: Capture, tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "soft.jsonl").symlink_to("a.jsonl")
    (tmp_path / "hard.jsonl").hardlink_to(tmp_path / "a.jsonl")
    (tmp_path / "here").symlink_to(".")
    before = (tmp_path / "a.jsonl").read_bytes()
    for files, target, name in (
        (["a.jsonl"], "a.jsonl", "a.jsonl"),
        (["none.jsonl", "bad.jsonl", "a.jsonl"], "here/a.jsonl", "a.jsonl"),
        (["soft.jsonl"], "a.jsonl", "soft.jsonl"),
        (["a.jsonl"], "soft.jsonl", "a.jsonl"),
        (["a.jsonl"], "hard.jsonl", "a.jsonl"),
        (["a*.jsonl"], tmp_path / "a.jsonl", "a.jsonl"),
    ):
        ran = call(capsys, *command, *files, "-o", target)
        assert ran == (2, "", f"turnspec: -o would overwrite the input {name}; name another file\n")
        assert (tmp_path / "a.jsonl").read_bytes() == before
    assert (tmp_path / "soft.jsonl").is_symlink()
    assert leftovers(tmp_path) == []


def test_no_output_onto_stdin(tmp_path: Path) -> None:
    with open("a.jsonl", "rb") as stdin:
        done = subprocess.run(
            [*COMMAND, "flatten", "-", "-o", "a.jsonl"], stdin=stdin, capture_output=True, env=environment()
        )
    said = b"turnspec: -o would overwrite the input <stdin>; name another file\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, b"", said)


def test_a_device_may_be_input_and_output(capsys: Capture) -> None:
    ran = call(capsys, "flatten", os.devnull, "-o", os.devnull)
    assert ran == (0, "", "1 file, 0 conversations: 0 written, no conversations found\n")


def test_permission_bits(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "old.jsonl").touch(0o600)
    before = os.umask(0o027)
    try:
        call(capsys, "flatten", "a.jsonl", "-o", "new.jsonl")
        call(capsys, "flatten", "a.jsonl", "-o", "old.jsonl")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new.jsonl").stat().st_mode) == 0o640
    assert stat.S_IMODE((tmp_path / "old.jsonl").stat().st_mode) == 0o600


def test_a_link_stays_a_link(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "out.jsonl").touch()
    (tmp_path / "link.jsonl").symlink_to("real/out.jsonl")
    (tmp_path / "dangling.jsonl").symlink_to("real/new.jsonl")
    for name, target in (("link.jsonl", "out.jsonl"), ("dangling.jsonl", "new.jsonl")):
        assert call(capsys, "flatten", "a.jsonl", "-o", name).code == 0
        assert (tmp_path / name).is_symlink()
        assert (tmp_path / "real" / target).read_text() == FLAT * 2


def test_packed_output(capsys: Capture, tmp_path: Path) -> None:
    for name in ("1.jsonl.gz", "2.jsonl.gz"):
        assert call(capsys, "flatten", "a.jsonl", "-o", name).code == 0
    assert gzip.decompress((tmp_path / "1.jsonl.gz").read_bytes()).decode() == FLAT * 2
    assert (tmp_path / "1.jsonl.gz").read_bytes() == (tmp_path / "2.jsonl.gz").read_bytes()


def test_targets_that_are_no_files(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "dangling").symlink_to("gone/out")
    for target, why in (
        ("folder", "is a folder, not a file"),
        ("none/out", "the folder none does not exist"),
        ("no/ne/out", "the folder no/ne does not exist"),
        ("dangling", f"the folder {os.path.realpath(tmp_path)}/gone does not exist"),
        ("a.jsonl/out", "not a directory"),
        ("n" * 300, "the file name is too long"),
        ("a\0b", "the name holds a null byte"),
    ):
        ran = call(capsys, "flatten", "a.jsonl", "-o", target)
        shown = target.replace("\0", "\\x00")
        assert ran == (2, "", f"turnspec: cannot write {shown}: {why}\n")
    assert call(capsys, "flatten", "a.jsonl", "-o", "-").out == FLAT * 2
    assert call(capsys, "flatten", "a.jsonl", "-o", os.devnull).code == 0
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_a_target_that_is_read_only(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "out.jsonl").touch(0o400)
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: may(path, mode) and mode != os.W_OK)  # root may write all
    ran = call(capsys, "flatten", "a.jsonl", "-o", "out.jsonl")
    assert ran == (2, "", "turnspec: cannot write out.jsonl: permission denied\n")
    assert (tmp_path / "out.jsonl").read_bytes() == b""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk(tmp_path: Path) -> None:
    full = "no space left on the device"
    for target in ("/dev/full", None):
        with open("/dev/full", "wb") as stdout:
            command = [*COMMAND, "flatten", "a.jsonl", *(["-o", target] if target else [])]
            done = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, env=environment())
        assert done.returncode == 2
        assert done.stderr.decode() == f"turnspec: cannot write {target or 'to stdout'}: {full}\n"
    with open("/dev/full", "wb") as stdout:
        for args in (["--help"], ["schema"], ["explain"], ["--version"]):
            done = subprocess.run([*COMMAND, *args], stdout=stdout, stderr=subprocess.PIPE, env=environment())
            assert (done.returncode, done.stderr.decode()) == (
                2,
                f"turnspec: cannot write to stdout: {full}\n",
            )
        done = subprocess.run([*COMMAND, "validate", "none"], stderr=stdout, env=environment())
        assert done.returncode == 2


def test_closed_streams(tmp_path: Path) -> None:
    def shell(line: str) -> tuple[int, str, str]:
        done = subprocess.run(
            ["sh", "-c", line.replace("turnspec", " ".join(COMMAND), 1)],
            capture_output=True,
            env=environment(),
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    assert shell("turnspec validate -q bad.jsonl >&-") == (
        2,
        "",
        "turnspec: cannot write to stdout: it is closed\n",
    )
    assert shell("turnspec validate -q a.jsonl >&-") == (0, "", "")
    assert shell("turnspec validate - <&-")[0] == 2
    assert shell("turnspec validate none 2>&-") == (2, "", "")
    code, out, _ = shell("turnspec flatten bad.jsonl 2>&-")
    assert (code, out) == (1, FLAT * 2)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_broken_pipe_is_quiet(tmp_path: Path, jobs: str) -> None:
    (tmp_path / "many.jsonl").write_text("{}\n" * 30_000)
    (tmp_path / "large.jsonl").write_text(jsonl(*[TASK] * 30_000))
    for command in (["validate", "many.jsonl"], ["flatten", "large.jsonl"], ["schema"]):
        jobs_of = ["--jobs", jobs] if command != ["schema"] else []
        process = subprocess.Popen(
            [*COMMAND, *command, *jobs_of], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
        )
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(20) in (0, 141)


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize(
    ("number", "code", "said"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_signals_take_the_temporary_file_along(
    tmp_path: Path, jobs: str, number: signal.Signals, code: int, said: str
) -> None:
    os.mkfifo(tmp_path / "slow.jsonl")
    (tmp_path / "large.jsonl").write_text(jsonl(*[TASK] * 20_000))
    process = subprocess.Popen(
        [*COMMAND, "flatten", "--jobs", jobs, "large.jsonl", "slow.jsonl", "-o", "out.jsonl"],
        stderr=subprocess.PIPE,
        env=environment(),
        start_new_session=True,
    )
    writer = os.open("slow.jsonl", os.O_WRONLY)  # waits until the command reads it
    time.sleep(0.3)
    assert len(leftovers(tmp_path)) == 1
    os.killpg(process.pid, number)
    _, err = process.communicate(timeout=20)
    os.close(writer)
    assert (process.returncode, err.decode()) == (code, f"turnspec: {said}\n")
    assert leftovers(tmp_path) == []
    assert not (tmp_path / "out.jsonl").exists()


def in_terminal(*args: str, env: dict[str, str] | None = None) -> str:
    """What a command writes to a terminal that is its stdout and stderr."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([*COMMAND, *args], stdout=theirs, stderr=theirs, env=environment(**env or {}))
    os.close(theirs)
    out = b""
    while True:
        try:
            piece = os.read(ours, 1 << 16)
        except OSError:
            break
        if not piece:
            break
        out += piece
    process.wait(20)
    os.close(ours)
    return out.decode()


@pytest.mark.skipif(sys.platform != "linux", reason="the end of a pseudo-terminal differs")
def test_colour_is_for_terminals(capsys: Capture, tmp_path: Path) -> None:
    red = "\x1b[31mmissing_field\x1b[0m"
    assert red in in_terminal("validate", "bad.jsonl", env={"TERM": "xterm"})
    assert "\x1b" not in in_terminal("validate", "bad.jsonl", env={"TERM": "xterm", "NO_COLOR": "1"})
    assert "\x1b" not in in_terminal("validate", "--color", "never", "bad.jsonl", env={"TERM": "xterm"})
    assert "\x1b" not in in_terminal("validate", "bad.jsonl", env={"TERM": "dumb"})
    assert "\x1b" not in call(capsys, "validate", "bad.jsonl").out
    assert red in call(capsys, "validate", "--color", "always", "bad.jsonl").out
    assert red in call(capsys, "flatten", "--color", "always", "bad.jsonl").err
    call(capsys, "validate", "--color", "always", "bad.jsonl", "-o", "out.txt")
    assert red in (tmp_path / "out.txt").read_text()
    assert "\x1b" not in call(capsys, "validate", "--color", "always", "--output", "json", "bad.jsonl").out


@pytest.mark.skipif(sys.platform != "linux", reason="the end of a pseudo-terminal differs")
def test_progress_is_for_terminals_and_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "large.jsonl").write_text(jsonl(*[TASK] * 30_000))
    command = ("flatten", "large.jsonl", "-o", "out.jsonl")
    shown = in_terminal(*command)
    assert "\r\x1b[Klarge.jsonl: " in shown
    assert shown.endswith("\r\x1b[K1 file, 30000 conversations: 30000 written, no errors\r\n")
    assert "\r" not in in_terminal(*command, "-q")
