"""`turnspec validate`: what it says, in which order, and how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_cli_kit import HI, TASK, call, jsonl, run

Capture = pytest.CaptureFixture[str]

SEVERAL = """\
[
  {"role": "user", "blocks": [{"type": "text", "txt": "hi"}]},
  {"role": "assistant", "blocks": [
    {"type": "tool_result", "tool_call_id": "a", "blocks": []}
  ]},
  {"role": "bot", "blocks": {}}
]
"""
CALL = {"type": "tool_call", "id": "a", "name": "f", "input": {}}
OPEN = {"conversation": [HI, {"role": "assistant", "blocks": [CALL]}]}
SYSTEM_LATE = [HI, {"role": "system", "blocks": [{"type": "text", "text": "be kind"}]}, HI]


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "several.json").write_text(SEVERAL)


def test_text_tells_the_place_the_code_and_what_is_right(capsys: Capture) -> None:
    ran = call(capsys, "validate", "several.json")
    assert ran.code == 1
    assert [line.split(": ", 2)[:2] for line in ran.lines] == [
        ["several.json:2:31", "missing_field at /0/blocks/0"],
        ["several.json:2:48", "unknown_field at /0/blocks/0/txt"],
        ["several.json:4:5", "block_placement at /1/blocks/0"],
        ["several.json:6:12", "unknown_role at /2/role"],
        ["several.json:6:29", "wrong_type at /2/blocks"],
    ]
    assert "; allowed: text, image, reasoning, tool_call; hint: " in ran.lines[2]
    assert "; allowed: system, user, assistant; hint: " in ran.lines[3]
    assert ran.err == "1 file, 1 conversation: 5 errors in 1 file\n"


def test_json_has_the_same_in_fields(capsys: Capture) -> None:
    ran = call(capsys, "validate", "--output", "json", "several.json")
    assert (ran.code, ran.err) == (1, "")
    text = call(capsys, "validate", "several.json").lines
    assert len(ran.records) == len(text)
    for record, line in zip(ran.records, text, strict=True):
        assert list(record) == [
            name
            for name in ("file", "line", "column", "code", "pointer", "message", "allowed", "hint", "severity")
            if name in record
        ]
        place = f"{record['file']}:{record['line']}:{record['column']}"
        assert line.startswith(f"{place}: {record['code']} at {record['pointer']}: {record['message']}")
        assert record["severity"] == "error"
    assert ran.records[3]["allowed"] == ["system", "user", "assistant"]


def test_lines_of_jsonl_are_those_of_the_file(capsys: Capture, tmp_path: Path) -> None:
    nested = {"conversation": [HI, {"role": "user", "blocks": [{"type": "txt"}]}]}
    (tmp_path / "a.jsonl").write_text(jsonl(TASK, "", nested, [TASK, {"conversation": 1}]))
    ran = call(capsys, "validate", "--output", "json", "a.jsonl")
    assert [(item["line"], item["column"], item["code"], item["pointer"]) for item in ran.records] == [
        (3, json.dumps(nested).index('"txt"') + 1, "unknown_block_type", "/conversation/1/blocks/0/type"),
        (4, json.dumps([TASK, {"conversation": 1}]).rindex("1") + 1, "wrong_type", "/1/conversation"),
    ]


def test_columns_count_characters(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"é😀": 1, "conversation": 1}\n', encoding="utf-8")
    (record,) = call(capsys, "validate", "--output", "json", "a.jsonl").records
    assert record["column"] == 27


def test_max_errors_stops(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(jsonl(TASK, "{}", "{}", *[TASK] * 100, "{}"))
    ran = call(capsys, "validate", "--max-errors", "2", "a.jsonl", "several.json")
    assert ran.code == 1
    assert len(ran.lines) == 2
    assert ran.err == "1 file, 3 conversations: 2 errors in 1 file; stopped at --max-errors\n"
    ran = call(capsys, "validate", "--max-errors", "2", "several.json", "a.jsonl")
    assert len(ran.lines) == 2
    assert len(call(capsys, "validate", "--max-errors", "0", "a.jsonl", "several.json").lines) == 8


def test_key_names_another_place(capsys: Capture, tmp_path: Path) -> None:
    task: dict[str, Any] = {"data": {"turns": [HI], "n": 1}}
    bad: dict[str, Any] = {"data": {"turns": [{"role": "user"}]}}
    (tmp_path / "a.jsonl").write_text(jsonl(task, bad, {"data": {}}, {"data": 1}, {}, [task, bad, task]))
    ran = call(capsys, "validate", "--key", "data.turns", "--output", "json", "a.jsonl")
    assert [(item["line"], item["code"], item["pointer"]) for item in ran.records] == [
        (2, "missing_field", "/data/turns/0"),
        (3, "missing_field", "/data"),
        (4, "wrong_type", "/data"),
        (5, "missing_field", ""),
        (6, "missing_field", "/1/data/turns/0"),
    ]
    ran = call(capsys, "validate", "--key", "data.turns", "a.jsonl")
    assert ran.err == "1 file, 8 conversations: 5 errors in 1 file\n"
    for wrong in ("", ".", "a..b", "a."):
        assert call(capsys, "validate", f"--key={wrong}", "a.jsonl").code == 2


def test_block_set(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(OPEN))
    assert call(capsys, "validate", "--block-set", "v2", "a.json").code == 0
    (record,) = call(capsys, "validate", "--block-set", "v1", "--output", "json", "a.json").records
    assert (record["code"], record["allowed"]) == ("unknown_block_type", ["text", "image"])
    ran = call(capsys, "validate", "--block-set", "v3", "a.json")
    assert ran == (2, "", "turnspec: --block-set: 'v3' is not known; allowed: v1, v2\n")


def test_rules_warn_and_strict_makes_them_findings(capsys: Capture, tmp_path: Path) -> None:
    twice = [HI, {"role": "assistant", "blocks": [CALL, CALL]}]
    (tmp_path / "a.jsonl").write_text(jsonl({"conversation": twice}, TASK))
    assert call(capsys, "validate", "a.jsonl").code == 0
    ran = call(capsys, "validate", "--rules", "--output", "json", "a.jsonl")
    assert ran.code == 0
    found = {(item["code"], item["pointer"], item["severity"]) for item in ran.records}
    assert ("duplicate_call_id", "/conversation/1/blocks/1/id", "warning") in found
    assert all(item["line"] == 1 and item["column"] > 1 for item in ran.records)
    ran = call(capsys, "validate", "--rules", "a.jsonl")
    assert " duplicate_call_id at /conversation/1/blocks/1/id: warning: " in ran.out
    assert ran.err.endswith(f": no errors, {len(found)} warnings\n")
    ran = call(capsys, "validate", "--rules", "--strict", "a.jsonl")
    assert ran.code == 1
    assert ran.err.endswith(f": {len(found)} errors in 1 file\n")


def test_for_a_format(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(SYSTEM_LATE))
    assert call(capsys, "validate", "--for", "openai", "a.json").code == 0
    ran = call(capsys, "validate", "--for", "anthropic", "--output", "json", "a.json")
    assert ran.code == 1
    assert ("system_after_start", "/1", "error") in {
        (item["code"], item["pointer"], item["severity"]) for item in ran.records
    }
    ran = call(capsys, "validate", "--for", "opnai", "a.json")
    said = "--for: 'opnai' is not known; did you mean openai?; allowed: openai, openrouter, anthropic, google"
    assert ran == (2, "", f"turnspec: {said}\n")


def test_for_a_purpose(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(OPEN))
    assert call(capsys, "validate", "--for", "openai", "a.json").code == 1
    assert call(capsys, "validate", "--for", "openai", "--purpose", "training", "a.json").code == 0
    assert call(capsys, "validate", "--for", "openai", "--purpose", "fun", "a.json").code == 2


def test_a_single_message_has_pointers_of_its_own(capsys: Capture, tmp_path: Path) -> None:
    image = {"type": "image", "data": "AAAA", "mimeType": "image/tiff"}
    (tmp_path / "a.json").write_text(json.dumps({"role": "user", "blocks": [image]}))
    ran = call(capsys, "validate", "--for", "openai", "--output", "json", "a.json")
    assert ("unsupported_media_type", "/blocks/0/mimeType") in {(item["code"], item["pointer"]) for item in ran.records}


def test_rules_speak_of_valid_tasks_beside_bad_ones(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps([{"conversation": SYSTEM_LATE}, {}, {"conversation": SYSTEM_LATE}]))
    ran = call(capsys, "validate", "--for", "anthropic", "--output", "json", "a.json")
    assert [item["pointer"] for item in ran.records if item["severity"] == "error"] == [
        "/0/conversation/1",
        "/1",
        "/2/conversation/1",
    ]


def test_the_console_script_and_the_module_are_one(tmp_path: Path) -> None:
    ran = run("validate", "several.json")
    assert (ran.code, len(ran.lines)) == (1, 5)
    assert run("validate", "-q", "several.json").err == ""
