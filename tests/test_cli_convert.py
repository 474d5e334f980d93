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


@pytest.mark.parametrize("unsigned_calls", ["as_is", "sentinel"])
@pytest.mark.parametrize("format", ["openai", "openrouter", "anthropic", "google"])
def test_arguments_are_those_of_the_library(capsys: Capture, format: str, unsigned_calls: str) -> None:
    ran = call(capsys, "convert", "--to", format, "--arguments", "--unsigned-calls", unsigned_calls, "a.jsonl")
    assert ran.code == 1
    assert ran.records == [
        turnspec.request_arguments(
            turnspec.convert_messages(messages, format, on_loss="ignore"), format, unsigned_calls=unsigned_calls
        )
        for messages in (AGENTIC, [HI], [HI])
    ]


def test_arguments_hold_no_null_and_payloads_do(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text(jsonl([HI], AGENTIC[:2]))
    hi, parts = '{"role":"user","content":[{"type":"text","text":"hi"}]}', '{"role":"user","parts":[{"text":"hi"}]}'
    chat, system = '{"role":"user","content":"hi"}', '{"role":"system","content":"Be brief."}'
    for args, first, second in (
        (["openai"], f"[{chat}]", f"[{system},{chat}]"),
        (["openai", "--arguments"], f'{{"messages":[{chat}]}}', f'{{"messages":[{system},{chat}]}}'),
        (["anthropic"], f'{{"system":null,"messages":[{hi}]}}', f'{{"system":"Be brief.","messages":[{hi}]}}'),
        (
            ["anthropic", "--arguments"],
            f'{{"messages":[{hi}]}}',
            f'{{"system":"Be brief.","messages":[{hi}]}}',
        ),
        (
            ["google"],
            f'{{"system_instruction":null,"contents":[{parts}]}}',
            f'{{"system_instruction":"Be brief.","contents":[{parts}]}}',
        ),
        (
            ["google", "--arguments"],
            f'{{"contents":[{parts}]}}',
            f'{{"contents":[{parts}],"config":{{"system_instruction":"Be brief."}}}}',
        ),
    ):
        assert call(capsys, "convert", "-q", "--to", *args, "b.jsonl") == (0, f"{first}\n{second}\n", "")


def test_unsigned_calls_are_marked_for_google(capsys: Capture) -> None:
    common = ("convert", "-q", "--to", "google", "--arguments", "a.jsonl")
    sentinel = call(capsys, *common, "--unsigned-calls", "sentinel").records[0]["contents"]
    assert "thought_signature" in sentinel[1]["parts"][0]
    as_is = call(capsys, *common, "--unsigned-calls", "as_is").out
    assert "thought_signature" not in as_is
    assert call(capsys, *common).out == as_is
    ran = call(capsys, "convert", "--to", "google", "--unsigned-calls", "sentinel", "a.jsonl")
    said = "--unsigned-calls says how --arguments are written: give both (see turnspec convert --help)"
    assert ran == (2, "", f"turnspec: {said}\n")


@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("command", [["convert", "--to", "openai"], ["flatten"], ["downgrade"]])
def test_max_errors_stops(capsys: Capture, tmp_path: Path, command: list[str], jobs: str) -> None:
    (tmp_path / "b.jsonl").write_text(jsonl(TASK, "{}", TASK, "junk", [TASK, {}, TASK], TASK, "{}"))
    (tmp_path / "c.jsonl").write_text(jsonl(TASK))
    line = call(capsys, *command, "-q", "c.jsonl").out
    for most, written, conversations in ((1, 1, 2), (2, 2, 4), (3, 4, 7)):
        ran = call(capsys, *command, "--jobs", jobs, "--max-errors", str(most), "b.jsonl", "c.jsonl")
        errors = "1 error" if most == 1 else f"{most} errors"
        summary = f"1 file, {conversations} conversations: {written} written, {errors} in 1 file"
        assert (ran.code, ran.out) == (1, line * written)
        assert ran.err.splitlines()[most:] == [f"{summary}; stopped at --max-errors"]
    ran = call(capsys, *command, "--jobs", jobs, "--max-errors", "4", "c.jsonl", "b.jsonl")
    assert ran.err.endswith(": 6 written, 4 errors in 1 file; stopped at --max-errors\n")
    ran = call(capsys, *command, "--jobs", jobs, "--max-errors", "0", "c.jsonl", "b.jsonl")
    assert ran.err.endswith("2 files, 10 conversations: 6 written, 4 errors in 1 file\n")


def test_a_run_that_stops_leaves_the_old_file(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").write_text("old")
    (tmp_path / "b.jsonl").write_text(jsonl(TASK, "{}", TASK))
    ran = call(capsys, "flatten", "--max-errors", "1", "b.jsonl", "-o", "out.jsonl")
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (1, "", 3)
    assert ran.err.endswith(
        "turnspec: out.jsonl is not written, because the run stopped at --max-errors\n"
        "1 file, 2 conversations: 1 written, 1 error in 1 file; stopped at --max-errors\n"
    )
    assert (tmp_path / "out.jsonl").read_text() == "old"


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


NUMBERS = '"n": [1.50, -0.0, 1e3, 12345678901234567890.123456789, %s]' % ("9" * 5000)


def test_downgrade_may_keep_the_task(capsys: Capture, tmp_path: Path) -> None:
    turns = json.dumps([{"role": "assistant", "blocks": [CALL]}])
    task = f'{{\n "id": "a\\n b", {NUMBERS}, "conversation": {turns}, "e": {{ }}, "\\u00e9": [ ]\n}}'
    (tmp_path / "b.json").write_text(f"[{task}, {task}]")
    new = json.dumps(turnspec.downgrade_messages(json.loads(turns), "v1").messages, separators=(",", ":"))
    kept = f'{{"id":"a\\n b",{NUMBERS.replace(" ", "")},"conversation":{new},"e":{{}},"é":[]}}\n'
    ran = call(capsys, "downgrade", "--keep-task", "--on-loss", "ignore", "b.json")
    assert ran == (0, kept * 2, "1 file, 2 conversations: 2 written, no errors\n")
    assert call(capsys, "downgrade", "-q", "--on-loss", "ignore", "b.json").out == f"{new}\n" * 2
    (tmp_path / "c.json").write_text(task)
    assert call(capsys, "downgrade", "-q", "--keep-task", "--on-loss", "ignore", "c.json").out == kept
    (tmp_path / "d.jsonl").write_text(jsonl([HI], HI))
    ran = call(capsys, "downgrade", "-q", "--keep-task", "d.jsonl")
    assert ran.records == [[HI], [HI]]


def test_downgrade_keeps_tasks_with_another_key_and_long_integers(capsys: Capture, tmp_path: Path) -> None:
    block = '{"type":"tool_call","id":"a","name":"f","input":{"n":' + "9" * 5000 + "}}"
    turns = f'[{{"role":"assistant","blocks":[{block}]}}]'
    task = f'{{"x":{{"a/b":{{"k":1.0}},"y":{turns},"z":2}},"conversation":3}}\n'
    (tmp_path / "b.jsonl").write_text(task)
    ran = call(capsys, "downgrade", "-q", "--keep-task", "--key", "x.y", "--to", "v2", "b.jsonl")
    assert ran == (0, task, "")
    ran = call(capsys, "downgrade", "-q", "--key", "x.y", "--to", "v2", "b.jsonl")
    assert ran == (0, f"{turns}\n", "")


def test_what_is_written_can_be_read_again(capsys: Capture) -> None:
    for command in (
        ("downgrade", "--to", "v1"),
        ("downgrade", "--to", "v2"),
        ("downgrade", "--keep-task", "--to", "v1"),
    ):
        assert call(capsys, *command, "-q", "a.jsonl", "-o", "b.jsonl").code == 0
        assert call(capsys, "validate", "--block-set", command[-1], "b.jsonl").code == 0


MEANT = {
    "Google": "google",
    "OpenAI": "openai",
    "OPENROUTER": "openrouter",
    "opnai": "openai",
    "gpt": "openai",
    "claude": "anthropic",
    "Claude": "anthropic",
    "gemini": "google",
}


def test_usage(capsys: Capture) -> None:
    allowed = "allowed: openai, openrouter, anthropic, google"
    for args, said in (
        (("a.jsonl",), "the following arguments are required: --to (see turnspec convert --help)"),
        *(
            (("--to", said, "a.jsonl"), f"--to: {said!r} is not known; did you mean {meant}?; {allowed}")
            for said, meant in MEANT.items()
        ),
        (("--to", "bedrock", "a.jsonl"), f"--to: 'bedrock' is not known; {allowed}"),
        (("--to", "", "a.jsonl"), f"--to: '' is not known; {allowed}"),
        (("--to", "openai"), "the following arguments are required: FILE (see turnspec convert --help)"),
        (
            ("--to", "openai", "--purpose", "x", "a.jsonl"),
            "--purpose: 'x' is not known; allowed: request, training",
        ),
    ):
        assert call(capsys, "convert", *args) == (2, "", f"turnspec: {said}\n")
