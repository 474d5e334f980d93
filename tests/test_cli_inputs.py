"""What the commands read: endings, globs, stdin, packed files, and input that is broken in every way."""

from __future__ import annotations

import gzip
import json
import os
import socket
import threading
from pathlib import Path

import pytest
from test_cli_kit import EMPTY_TASK, HI, TASK, call, jsonl, run

from turnspec.cli.sources import READS

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def places(out: str) -> list[str]:
    """`file:line:column: code at pointer` of each line of text output."""
    return [":".join(line.split(": ", 2)[:2]) for line in out.splitlines()]


@pytest.mark.parametrize(
    ("document", "conversations"),
    [(HI, 1), ([HI, HI], 1), ([], 1), (TASK, 1), ([TASK, EMPTY_TASK, TASK], 3), (EMPTY_TASK, 1)],
)
def test_json_holds_a_message_a_list_a_task_or_tasks(
    capsys: Capture, tmp_path: Path, document: object, conversations: int
) -> None:
    noun = "conversation" if conversations == 1 else "conversations"
    summary = f"1 file, {conversations} {noun}: no errors\n"
    (tmp_path / "a.json").write_text(json.dumps(document, indent=1))
    assert call(capsys, "validate", "a.json") == (0, "", summary)
    (tmp_path / "a.jsonl").write_text("\n" + json.dumps(document) + "\n")
    assert call(capsys, "validate", "a.jsonl") == (0, "", summary)


def test_bom_and_blank_lines_are_skipped_and_lines_are_counted(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + jsonl(TASK, "", " \t\r", "{}", "", TASK, "[]").encode())
    ran = call(capsys, "validate", "a.jsonl")
    assert places(ran.out) == ["a.jsonl:4:1:missing_field at (root)"]
    assert ran.err == "1 file, 4 conversations: 1 error in 1 file\n"
    (tmp_path / "b.json").write_bytes(b"\xef\xbb\xbf" + json.dumps(TASK).encode())
    assert call(capsys, "validate", "b.json").code == 0
    (tmp_path / "c.jsonl").write_bytes(b"\xef\xbb\xbf\n{}\n")
    assert places(call(capsys, "validate", "c.jsonl").out) == ["c.jsonl:2:1:missing_field at (root)"]


def test_a_bom_elsewhere_is_no_json(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"[]\n\xef\xbb\xbf[]\n")
    assert places(call(capsys, "validate", "a.jsonl").out) == ["a.jsonl:2:1:invalid_json at (root)"]


def test_empty_files(capsys: Capture, tmp_path: Path) -> None:
    for name in ("a.json", "a.jsonl", "a.txt"):
        (tmp_path / name).touch()
    ran = call(capsys, "validate", "a.json")
    assert ran.code == 1
    assert places(ran.out) == ["a.json:1:1:invalid_json at (root)"]
    for name in ("a.jsonl", "a.txt"):
        assert call(capsys, "validate", name) == (0, "", "1 file, 0 conversations: nothing to read\n")
    assert run("validate", "-") == (0, "", "1 file, 0 conversations: nothing to read\n")
    assert run("validate", "--json", "-").code == 1


def test_stdin_is_json_or_jsonl(tmp_path: Path) -> None:
    pretty = json.dumps([TASK, TASK], indent=2).encode()
    lines = jsonl(TASK, "{}", TASK).encode()
    assert run("validate", "-", stdin=pretty).err == "1 file, 2 conversations: no errors\n"
    ran = run("validate", "-", stdin=lines)
    assert places(ran.out) == ["<stdin>:2:1:missing_field at (root)"]
    assert ran.err == "1 file, 3 conversations: 1 error in 1 file\n"
    assert run("validate", "-", stdin=gzip.compress(lines)) == ran
    assert places(run("validate", "--json", "-", stdin=lines).out) == ["<stdin>:2:1:invalid_json at (root)"]
    assert len(run("validate", "--jsonl", "-", stdin=pretty).lines) == pretty.count(b"\n") + 1
    assert run("validate", "-", "-").code == 2


def test_other_endings_are_looked_into(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text(jsonl(TASK, "{}"))
    (tmp_path / "one").write_text(json.dumps([TASK, {}], indent=2))
    ran = call(capsys, "validate", "lines.txt", "one")
    assert places(ran.out) == ["lines.txt:2:1:missing_field at (root)", "one:16:3:missing_field at /1"]


def test_a_json_file_that_is_jsonl_is_told_so(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(jsonl(TASK, TASK))
    ran = call(capsys, "validate", "a.json")
    assert places(ran.out) == ["a.json:2:1:invalid_json at (root)"]
    assert ran.out.endswith("hint: this looks like JSONL: give the file the ending .jsonl, or say --jsonl\n")
    assert call(capsys, "validate", "--jsonl", "a.json").code == 0


def test_globs_are_expanded_and_sorted(capsys: Capture, tmp_path: Path) -> None:
    for name in ("b.jsonl", "a.jsonl", "sub/deep/c.jsonl"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")
    (tmp_path / "folder.jsonl").mkdir()
    names = [place.split(":")[0] for place in places(call(capsys, "validate", "**/*.jsonl").out)]
    assert names == ["a.jsonl", "b.jsonl", os.path.join("sub", "deep", "c.jsonl")]
    names = [place.split(":")[0] for place in places(call(capsys, "validate", "b.jsonl", "[a-b].jsonl").out)]
    assert names == ["b.jsonl", "a.jsonl", "b.jsonl"]
    (tmp_path / "[x].jsonl").write_text("[]\n")  # a file of that very name
    assert call(capsys, "validate", "[x].jsonl").code == 0


def test_a_glob_without_a_file_is_an_error(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[]")
    ran = call(capsys, "validate", "a.json", "no*.jsonl")
    assert ran == (
        2,
        "",
        "turnspec: no*.jsonl: matches no file\n2 files, 1 conversation: 1 file not read to the end\n",
    )


def test_what_cannot_be_read_does_not_stop_the_rest(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("{}\n")
    (tmp_path / "good.jsonl").write_text("[]\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop.jsonl").symlink_to("loop.jsonl")
    (tmp_path / "plain.jsonl.gz").write_text("[]\n")
    (tmp_path / "packed.jsonl").write_bytes(gzip.compress(b"[]\n"))
    broken = {
        "none.json": "no such file",
        "folder": "is a folder; name its files, for example 'folder/**/*.jsonl'",
        "loop.jsonl": "too many levels of symbolic links",
        "plain.jsonl.gz": "is not gzip, although its name ends in .gz",
        "packed.jsonl": "is gzip; give its name the ending .gz",
        "socket.jsonl": "no such device or address",
        "x.parquet": f".parquet is not read; turnspec reads {READS}",
        "a\0b": "the name holds a null byte",
    }
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket.jsonl")
        ran = call(capsys, "validate", "bad.jsonl", *broken, "good.jsonl")
    assert ran.code == 2
    assert places(ran.out) == ["bad.jsonl:1:1:missing_field at (root)"]
    assert ran.err.splitlines() == [
        *(f"turnspec: {name}: {why}".replace("\0", "\\x00") for name, why in broken.items()),
        "10 files, 2 conversations: 1 error in 1 file, 8 files not read to the end",
    ]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permission_denied(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[]")
    (tmp_path / "a.json").chmod(0)
    assert call(capsys, "validate", "-q", "a.json") == (2, "", "turnspec: a.json: permission denied\n")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_damaged_gzip(tmp_path: Path, jobs: str) -> None:
    whole = gzip.compress(jsonl("{}", *[{**TASK, "id": number} for number in range(10_000)]).encode())
    (tmp_path / "whole.jsonl.gz").write_bytes(whole)
    assert run("validate", "--jobs", jobs, "whole.jsonl.gz").err == ("1 file, 10001 conversations: 1 error in 1 file\n")
    (tmp_path / "cut.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    ran = run("validate", "--jobs", jobs, "cut.jsonl.gz")
    assert ran.code == 2
    assert places(ran.out) == ["cut.jsonl.gz:1:1:missing_field at (root)"]
    assert ran.err.startswith("turnspec: cut.jsonl.gz: ends too early: the gzip data is cut off\n")
    (tmp_path / "hurt.jsonl.gz").write_bytes(whole[:-6] + b"123456")
    ran = run("validate", "--jobs", jobs, "hurt.jsonl.gz")
    assert ran.code == 2
    assert ran.err.startswith("turnspec: hurt.jsonl.gz: is damaged gzip: ")


def test_gzip_of_several_members_and_of_json(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b"[]\n[") + gzip.compress(b"]\n{}\n") + gzip.compress(b""))
    assert places(call(capsys, "validate", "a.jsonl.gz").out) == ["a.jsonl.gz:3:1:missing_field at (root)"]
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(json.dumps([TASK, {}], indent=2).encode()))
    assert places(call(capsys, "validate", "b.json.gz").out) == ["b.json.gz:16:3:missing_field at /1"]


BROKEN = {
    "junk": (bytes(range(256)).replace(b"\n", b""), "invalid_json"),
    "null bytes": (b"\0" * 1000, "invalid_json"),
    "UTF-16": ("[]".encode("utf-16"), "invalid_json"),
    "bad UTF-8": (b'[{"role":"user","blocks":[{"type":"text","text":"\xff"}]}]', "invalid_json"),
    "NaN": (b'{"conversation": [], "score": NaN}', "invalid_json"),
    "Infinity": (b'{"conversation": [], "score": -Infinity}', "invalid_json"),
    "too large a number": (b'{"conversation": [], "score": 1e400}', "invalid_json"),
    "half a surrogate pair": (b'{"conversation": [], "a": "\\ud800"}', "invalid_json"),
    "a key twice": (b'{"conversation": [], "conversation": []}', "duplicate_key"),
    "100,000 arrays": (b"[" * 100_000, "too_deep"),
    "100,000 objects": (b'{"conversation":' * 100_000 + b"1" + b"}" * 100_000, "too_deep"),
    "cut off": (b'{"conversation": [{"role": "user", "blo', "invalid_json"),
    "a number": (b"1", "wrong_type"),
    "null": (b"null", "wrong_type"),
    "a form feed": (b"\x0c", "invalid_json"),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("ending", ["json", "jsonl"])
def test_broken_text_is_one_finding_and_the_rest_goes_on(
    capsys: Capture, tmp_path: Path, name: str, ending: str
) -> None:
    text, code = BROKEN[name]
    (tmp_path / f"a.{ending}").write_bytes(text + (b"\n" + json.dumps(HI).encode() if ending == "jsonl" else b""))
    for command in (
        ["validate"],
        ["validate", "--rules"],
        ["convert", "--to", "openai"],
        ["flatten"],
        ["downgrade"],
    ):
        ran = call(capsys, *command, f"a.{ending}")
        assert ran.code == 1
        found = [line for line in (ran.out + ran.err).splitlines() if line.startswith("a.")]
        assert len(found) == 1
        assert f": {code} at " in found[0]
        assert f" {2 if ending == 'jsonl' else 1} conversation" in ran.err


def test_an_integer_of_any_length_is_fine(capsys: Capture, tmp_path: Path) -> None:
    call_block = '{"type":"tool_call","id":"a","name":"f","input":{"n":%s}}' % ("9" * 10_000)
    (tmp_path / "a.jsonl").write_text(f'[{{"role":"assistant","blocks":[{call_block}]}}]\n')
    assert call(capsys, "validate", "a.jsonl").code == 0
    ran = call(capsys, "convert", "--purpose", "training", "--to", "anthropic", "a.jsonl")
    assert ran.code == 0
    assert "9" * 10_000 in ran.out


def test_names_that_are_no_text(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff\x1b[31m\n.jsonl")
    (tmp_path / name).write_text("{}\n")
    for locale in ("C", "C.UTF-8"):
        ran = run("validate", name, env={"LC_ALL": locale})
        assert ran.out.startswith("\\xff\\x1b[31m\\n.jsonl:1:1: missing_field at (root): ")
        assert len(ran.lines) == 1
        ran = run("validate", "--output", "json", name, env={"LC_ALL": locale})
        assert ran.records[0]["file"] == "\\xff\\x1b[31m\\n.jsonl"


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.jsonl"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=[jsonl(*[TASK] * 1000, "{}")], daemon=True)
    writer.start()
    ran = run("validate", "--jobs", "2", pipe)
    assert places(ran.out) == [f"{pipe}:1001:1:missing_field at (root)"]


def test_what_comes_from_outside_cannot_move_the_cursor(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"role": "user", "blocks": [], "\x1b[2J\n\u202e": 1}))
    ran = call(capsys, "validate", "a.json")
    assert len(ran.lines) == 1
    assert "unknown_field at /\\x1b[2J\\n\\u202e: " in ran.out
    assert ran.out.replace("\n", "").isprintable()


def test_a_long_line_is_read(tmp_path: Path) -> None:
    block = {"type": "text", "text": "x" * 20_000_000}
    (tmp_path / "a.jsonl").write_text(jsonl("[]", [{"role": "user", "blocks": [block]}], [{"role": "user"}]))
    for jobs in ("1", "2"):
        ran = run("validate", "--jobs", jobs, "a.jsonl")
        assert places(ran.out) == ["a.jsonl:3:2:missing_field at /0"]
        assert ran.err == "1 file, 3 conversations: 1 error in 1 file\n"
