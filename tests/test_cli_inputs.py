"""What the commands read: endings, globs, stdin, packed files, and input that is broken in every way."""

from __future__ import annotations

import errno
import gzip
import io
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
        assert call(capsys, "validate", name) == (0, "", "1 file, 0 conversations: no conversations found\n")
    assert run("validate", "-") == (0, "", "1 file, 0 conversations: no conversations found\n")
    assert run("validate", "--json", "-").code == 1


def test_blank_files_are_told_beside_others(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "blank.jsonl").write_bytes(b"\xef\xbb\xbf \n\r\n\t")
    (tmp_path / "good.jsonl").write_text(jsonl(TASK))
    ran = call(capsys, "flatten", "blank.jsonl")
    assert ran == (0, "", "1 file, 0 conversations: 0 written, no conversations found\n")
    ran = call(capsys, "validate", "blank.jsonl", "good.jsonl", "blank.jsonl")
    assert ran == (0, "", "3 files, 1 conversation: no errors; no conversations found in 2 files\n")
    ran = call(capsys, "validate", "good.jsonl", "none.jsonl")
    assert ran.err.splitlines()[-1] == "2 files, 1 conversation: 1 file not read to the end"


def test_stdin_is_json_or_jsonl(tmp_path: Path) -> None:
    pretty = json.dumps([TASK, TASK], indent=2).encode()
    lines = jsonl(TASK, "{}", TASK).encode()
    assert run("validate", "-", stdin=pretty).err == "1 file, 2 conversations: no errors\n"
    ran = run("validate", "-", stdin=lines)
    assert places(ran.out) == ["<stdin>:2:1:missing_field at (root)"]
    assert ran.err == "1 file, 3 conversations: 1 error in 1 file\n"
    assert run("validate", "-", stdin=gzip.compress(lines)) == ran
    assert places(run("validate", "--json", "-", stdin=lines).out) == ["<stdin>:2:1:invalid_json at (root)"]
    assert len(run("validate", "--jsonl", "-", stdin=b" " + pretty).lines) == 1
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
    (tmp_path / "b.json").write_text("\ufeff\n" + jsonl("{}", "", "{ broken"))
    ran = call(capsys, "validate", "b.json")
    assert places(ran.out) == ["b.json:4:1:invalid_json at (root)"]
    assert ran.out.endswith("hint: this looks like JSONL: give the file the ending .jsonl, or say --jsonl\n")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        " \n\n \n",
        "id,role,text\n1,user,hi\n",
        "1\n2\n",
        '"a"\n"b"\n',
        '```json\n{"conversation": []}\n```\n',
        '// said by hand\n{"conversation": []}\n{"conversation": []}\n',
        '{"conversation": []}\n// said by hand\n',
        '{"conversation": [],}\n{"conversation": []}\n',
        '{"conversation": [\n{"role": "user"},\n]}\n',
        '{"conversation": []} x',
    ],
)
def test_other_text_in_a_json_file_is_not_taken_for_jsonl(capsys: Capture, tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    ran = call(capsys, "validate", "a.json")
    assert (ran.code, len(ran.lines), ran.err) == (1, 1, "1 file, 1 conversation: 1 error in 1 file\n")
    assert ": invalid_json at (root): " in ran.out
    assert "JSONL" not in ran.out


OPEN_END = "expected a value (an object, an array, a string, a number, true, false or null), found the end of the text"
SEVERAL = "this looks like JSON over several lines: give the file the ending .json, or say --json"


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_json_over_several_lines_in_a_jsonl_file_is_told_once(
    capsys: Capture, tmp_path: Path, name: str, jobs: str
) -> None:
    text = "\ufeff\n" + json.dumps([TASK, TASK], indent=1)
    more = len(text.splitlines()) - 2
    for path in (tmp_path / "a.jsonl", tmp_path / "a.jsonl.gz"):
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    (tmp_path / "b.jsonl").write_text("{}\n")
    ran = call(capsys, "validate", "--jobs", jobs, name, "b.jsonl")
    assert ran.code == 1
    first, second = ran.lines
    assert first == f"{name}:2:2: invalid_json at (root): {OPEN_END}; hint: {SEVERAL}"
    assert second.startswith("b.jsonl:1:1: missing_field at (root): ")
    assert ran.err == (
        f"turnspec: {name}: {more} more lines are not JSON\n2 files, 2 conversations: 2 errors in 2 files\n"
    )
    ran = call(capsys, "validate", "--output", "json", "--jobs", jobs, name)
    assert [(item["line"], item["code"], item["hint"]) for item in ran.records] == [(2, "invalid_json", SEVERAL)]
    assert ran.err == f"turnspec: {name}: {more} more lines are not JSON\n"
    ran = call(capsys, "flatten", "--jobs", jobs, name)
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == (
        f"{first}\nturnspec: {name}: {more} more lines are not JSON\n"
        "1 file, 1 conversation: 0 written, 1 error in 1 file\n"
    )
    assert call(capsys, "validate", "--json", name) == (0, "", "1 file, 2 conversations: no errors\n")


def test_what_is_json_inside_json_over_several_lines_is_told(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{\n"x": [\n1\n]}\n')
    ran = call(capsys, "validate", "a.jsonl")
    assert places(ran.out) == ["a.jsonl:1:2:invalid_json at (root)", "a.jsonl:3:1:wrong_type at (root)"]
    assert ran.err == "turnspec: a.jsonl: 2 more lines are not JSON\n1 file, 2 conversations: 2 errors in 1 file\n"
    (tmp_path / "a.jsonl").write_text("[\n]\n")
    assert call(capsys, "validate", "a.jsonl").err.startswith("turnspec: a.jsonl: 1 more line is not JSON\n")


@pytest.mark.parametrize(
    "text",
    [
        jsonl('{"conversation": [', TASK, "{broken"),  # only cut off
        jsonl(TASK, '{"conversation": [', "{broken"),
        jsonl('{"conversation": [{"role": "us', "{broken"),
        jsonl("{broken}", "{broken"),
    ],
)
def test_lines_that_are_cut_off_are_each_told(capsys: Capture, tmp_path: Path, text: str) -> None:
    (tmp_path / "a.jsonl").write_text(text)
    ran = call(capsys, "validate", "a.jsonl")
    assert ran.out.count(": invalid_json at (root): ") == len(ran.lines) == 2
    assert "several lines" not in ran.out
    assert "more line" not in ran.err


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
@pytest.mark.parametrize("command", [["validate"], ["validate", "--rules"], ["flatten"]])
def test_a_line_that_is_cut_off_ends_where_it_ends(
    capsys: Capture, tmp_path: Path, end: str, command: list[str]
) -> None:
    cut = '{"conversation": [{"role": "user", "blocks": [{"type": "text", "text": "cut of'
    (tmp_path / "a.jsonl").write_bytes((jsonl(TASK) + cut + end).encode())
    ran = call(capsys, *command, "a.jsonl")
    column = cut.index('"cut') + 1
    said = "the string that begins here is not closed; hint: add the closing '\"'"
    assert ran.code == 1
    assert f"a.jsonl:2:{column}: invalid_json at (root): {said}\n" in ran.out + ran.err
    (tmp_path / "a.jsonl").write_bytes(("[1,\t" + end).encode())
    assert places(call(capsys, "validate", "a.jsonl").out) == ["a.jsonl:1:5:invalid_json at (root)"]


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


def test_permission_denied(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Guarded(io.FileIO):
        def __init__(self, path: str) -> None:
            raise PermissionError(errno.EACCES, "Permission denied", path)

    (tmp_path / "a.json").write_text("[]")
    monkeypatch.setattr("turnspec.cli.sources.io.FileIO", Guarded)  # root may read everything
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
