"""`turnspec convert`, `flatten` and `downgrade`: a line for each conversation, losses beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_cli_kit import HI, TASK, call, jsonl

import turnspec

Capture = pytest.CaptureFixture[str]

CALL = {"type": "tool_call", "id": "a", "name": "f", "input": {"n": 12345678901234567890}}
RESULT = {"type": "tool_result", "tool_call_id": "a", "blocks": [{"type": "text", "text": "no"}], "is_error": True}
AGENTIC = [
    {"role": "system", "blocks": [{"type": "text", "text": "Be brief."}]},
    HI,
    {"role": "assistant", "blocks": [CALL]},
    {"role": "user", "blocks": [RESULT], "detail": {"by": "hand"}},
]
OPEN = [HI, {"role": "assistant", "blocks": [CALL]}]


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jsonl").write_text(jsonl({"conversation": AGENTIC}, {"conversation": OPEN}, TASK, HI))


@pytest.mark.parametrize("format", ["openai", "openrouter", "anthropic", "google"])
def test_lines_are_the_payloads_of_the_library(capsys: Capture, format: str) -> None:
    ran = call(capsys, "convert", "--to", format, "a.jsonl")
    assert ran.code == 1
    assert ran.records == [
        turnspec.convert_messages(messages, format, on_loss="ignore") for messages in (AGENTIC, [HI], [HI])
    ]
    assert "a.jsonl:2:" in ran.err
    assert ": call_without_result at /conversation/1/blocks/0: " in ran.err


def test_losses_are_told_on_stderr(capsys: Capture) -> None:
    ran = call(capsys, "convert", "--to", "openai", "--purpose", "training", "a.jsonl")
    assert ran.code == 0
    assert len(ran.lines) == 4
    loss, summary = ran.err.splitlines()
    column = json.dumps({"conversation": AGENTIC}).index("true") + 1
    pointer = "/conversation/3/blocks/0/is_error"
    assert loss.startswith(f"a.jsonl:1:{column}: error_flag_dropped at {pointer}: warning: ")
    assert summary == (
        "1 file, 4 conversations: 4 written, no errors, 1 warning; also 1 detail_dropped (-v lists them)"
    )
    ran = call(capsys, "convert", "--to", "openai", "--purpose", "training", "-v", "a.jsonl")
    assert [line.split(": ")[1].split(" ")[0] for line in ran.err.splitlines()[:-1]] == [
        "error_flag_dropped",
        "detail_dropped",
    ]
    assert ran.err.endswith("4 written, no errors, 1 warning, 1 note\n")


def test_losses_as_json(capsys: Capture) -> None:
    ran = call(capsys, "convert", "--to", "openai", "--output", "json", "a.jsonl")
    assert ran.code == 1
    records = [json.loads(line) for line in ran.err.splitlines()]
    assert [(item["line"], item["code"], item["severity"]) for item in records] == [
        (1, "error_flag_dropped", "warning"),
        (1, "detail_dropped", "info"),
        (2, "call_without_result", "error"),
    ]
    assert all(item["file"] == "a.jsonl" for item in records)


def test_losses_may_be_findings_or_nothing(capsys: Capture) -> None:
    common = ("convert", "--to", "openai", "--purpose", "training", "a.jsonl")
    ran = call(capsys, *common, "--on-loss", "raise")
    assert ran.code == 1
    assert len(ran.lines) == 3
    assert ran.err.endswith("4 conversations: 3 written, 1 error in 1 file\n")
    ran = call(capsys, *common, "--on-loss", "ignore")
    assert (ran.code, len(ran.lines)) == (0, 4)
    assert ran.err == "1 file, 4 conversations: 4 written, no errors\n"


def test_every_task_of_a_list_stands_for_itself(capsys: Capture, tmp_path: Path) -> None:
    tasks = [TASK, {"conversation": [{"role": "bot"}]}, {"conversation": OPEN}, TASK]
    (tmp_path / "a.json").write_text(json.dumps(tasks))
    ran = call(capsys, "convert", "--to", "openai", "--output", "json", "a.json")
    assert ran.code == 1
    assert len(ran.lines) == 2
    assert {(item["code"], item["pointer"]) for item in map(json.loads, ran.err.splitlines())} == {
        ("unknown_role", "/1/conversation/0/role"),
        ("missing_field", "/1/conversation/0"),
        ("call_without_result", "/2/conversation/1/blocks/0"),
    }


def test_key(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(json.dumps([{"x": {"y": AGENTIC}}, {"x": {"y": [HI]}}]))
    ran = call(capsys, "convert", "--to", "anthropic", "--key", "x.y", "-v", "b.json")
    assert ran.code == 0
    assert len(ran.lines) == 2
    assert ": detail_dropped at /0/x/y/3/detail: info: " in ran.err


def test_flatten(capsys: Capture) -> None:
    ran = call(capsys, "flatten", "a.jsonl")
    assert ran.code == 0
    assert ran.records == [turnspec.flatten_messages(messages) for messages in (AGENTIC, OPEN, [HI], [HI])]
    assert ran.err == "1 file, 4 conversations: 4 written, no errors\n"


def test_downgrade(capsys: Capture) -> None:
    ran = call(capsys, "downgrade", "a.jsonl")
    assert ran.code == 0
    expected: list[Any] = [
        turnspec.downgrade_messages(messages, "v1").messages for messages in (AGENTIC, OPEN, [HI], [HI])
    ]
    assert ran.records == expected
    assert ran.err.count(": rendered_as_text at /conversation/") == 3
    assert call(capsys, "downgrade", "--to", "v1", "a.jsonl").out == ran.out
    assert call(capsys, "downgrade", "--on-loss", "raise", "a.jsonl").code == 1
    same = call(capsys, "downgrade", "--to", "v2", "a.jsonl")
    assert (same.records[0], same.code) == (AGENTIC, 0)
    assert call(capsys, "downgrade", "--to", "v9", "a.jsonl").code == 2


def test_what_is_written_can_be_read_again(capsys: Capture) -> None:
    for command in (("downgrade", "--to", "v1"), ("downgrade", "--to", "v2")):
        assert call(capsys, *command, "-q", "a.jsonl", "-o", "b.jsonl").code == 0
        assert call(capsys, "validate", "--block-set", command[-1], "b.jsonl").code == 0


def test_usage(capsys: Capture) -> None:
    allowed = "allowed: openai, openrouter, anthropic, google"
    for args, said in (
        (("a.jsonl",), "the following arguments are required: --to (see turnspec convert --help)"),
        (("--to", "Google", "a.jsonl"), f"--to: 'Google' is not known; did you mean google?; {allowed}"),
        (("--to", "openai"), "the following arguments are required: FILE (see turnspec convert --help)"),
        (
            ("--to", "openai", "--purpose", "x", "a.jsonl"),
            "--purpose: 'x' is not known; allowed: request, training",
        ),
    ):
        assert call(capsys, "convert", *args) == (2, "", f"turnspec: {said}\n")
