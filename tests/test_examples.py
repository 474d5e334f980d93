"""The example tasks answer what `docs/examples/expected.toml` says: in the library, the command, the demo."""

from __future__ import annotations

import base64
import gzip
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import turnspec

EXAMPLES = Path(__file__).resolve().parent.parent / "docs" / "examples"


def load(name: str) -> ModuleType:
    """A script of the examples folder as a module."""
    spec = importlib.util.spec_from_file_location(f"examples_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


demo = load("demo")
GOOD: list[str] = demo.GOOD
BROKEN: list[str] = demo.BROKEN
EXPECTED: dict[str, Any] = demo.EXPECTED


def documents(name: str) -> list[tuple[int, bytes]]:
    """The documents of a file as bytes, each with the number of the lines before it."""
    raw = (EXAMPLES / name).read_bytes()
    if name.endswith(".gz"):
        raw = gzip.decompress(raw)
    return list(enumerate(raw.splitlines())) if ".jsonl" in name else [(0, raw)]


def blocks(value: Any) -> Iterator[dict[str, Any]]:
    """Every object with a `type` inside a value."""
    if isinstance(value, dict):
        if "type" in value:
            yield value
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from blocks(item)


def point(value: Any, pointer: str) -> Any:
    """What a JSON pointer points to."""
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        value = value[int(key)] if isinstance(value, list) else value[key]
    return value


def test_every_file_has_an_expectation_and_a_line_in_the_readme() -> None:
    data = {".json", ".jsonl", ".gz"}
    there = {p.relative_to(EXAMPLES).as_posix() for p in EXAMPLES.rglob("*") if p.suffix in data}
    assert there == set(EXPECTED)
    assert len(GOOD) >= 12
    assert len(BROKEN) >= 6
    readme = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert [name for name in EXPECTED if f"`{name}`" not in readme] == []


@pytest.mark.parametrize("name", GOOD)
def test_good_ones_are_valid(name: str) -> None:
    for _, text in documents(name):
        turnspec.validate(text)
        turnspec.validate(json.loads(text))


@pytest.mark.parametrize("name", BROKEN)
def test_broken_ones_tell_every_error_with_its_place(name: str) -> None:
    found = []
    for above, text in documents(name):
        by_place = sorted(turnspec.iter_errors(text), key=lambda error: (error.line, error.column))
        found += [f"{above + e.line}:{e.column} {e.code} {e.pointer}" for e in by_place]
    assert found == EXPECTED[name]["errors"]


@pytest.mark.parametrize("name", BROKEN)
def test_each_error_of_a_broken_one_helps(name: str) -> None:
    """What a person needs: words, and what is allowed or what to do, where there is something to say."""
    for _, text in documents(name):
        for error in turnspec.iter_errors(text):
            assert error.message
            if error.code in ("block_placement", "unknown_role", "unknown_block_type"):
                assert error.allowed
            if error.code not in ("invalid_json", "too_deep", "duplicate_key"):
                assert error.allowed or error.hint, error


@pytest.mark.parametrize("format", demo.FORMATS)
@pytest.mark.parametrize("name", GOOD)
def test_conversions(name: str, format: str) -> None:
    answer = demo.answer(name, format)
    wanted = EXPECTED[name].get("openai" if format == "openrouter" else format, {})
    assert answer.summary() == wanted
    conversations = demo.conversations(EXAMPLES / name)
    assert len(conversations) == EXPECTED[name]["conversations"]
    for number, problem in answer.lost + answer.refused:
        assert point(conversations[number], problem.pointer) is not None


@pytest.mark.parametrize(
    ("name", "format", "code", "pointer"),
    [
        ("agentic-coding.json", "openai", "error_flag_dropped", "/7/blocks/0/is_error"),
        ("screenshot-in-tool-result.json", "openai", "image_placement", "/3/blocks/0/blocks/1"),
        ("screenshot-in-tool-result.json", "google", "image_placement", "/3/blocks/0/blocks/1"),
        ("signed-thinking.json", "openai", "signature_dropped", "/1/blocks/0/signature"),
        ("signed-thinking.json", "google", "reasoning_unsupported", "/1/blocks/0"),
        ("tasks.json", "anthropic", "system_joined", "/0/blocks/1"),
        ("split-results.json", "anthropic", "id_rewritten", "/6/blocks/1/id"),
        ("training-transcript.json", "anthropic", "call_without_result", "/4/blocks/1"),
        ("late-system-turn.json", "google", "system_after_start", "/3"),
    ],
)
def test_where_a_loss_or_refusal_is(name: str, format: str, code: str, pointer: str) -> None:
    answer = demo.answer(name, format)
    first = next(problem for _, problem in answer.lost + answer.refused if problem.code == code)
    assert first.pointer == pointer


def test_split_results_are_gathered_and_their_ids_unique() -> None:
    (messages,) = demo.conversations(EXAMPLES / "split-results.json")
    sent = turnspec.convert_messages(messages, "anthropic", on_loss="ignore")["messages"]
    calls = [[b["id"] for b in m["content"] if b["type"] == "tool_use"] for m in sent]
    answers = [[b["tool_use_id"] for b in m["content"] if b["type"] == "tool_result"] for m in sent]
    assert [ids for ids in calls if ids] == [["call_0", "call_1", "call_2"], ["call_3", "call_4"]]
    assert [ids for ids in answers if ids] == [["call_0", "call_1", "call_2"], ["call_3", "call_4"]]


@pytest.mark.parametrize("format", demo.FORMATS)
def test_the_training_transcript_converts_for_training(format: str) -> None:
    answer = demo.answer("training-transcript.json", format, "training")
    assert answer.refused == []


@pytest.mark.parametrize("name", GOOD)
def test_every_good_one_flattens_and_goes_down_to_v1(name: str) -> None:
    for messages in demo.conversations(EXAMPLES / name):
        assert {block["type"] for block in turnspec.flatten_messages(messages)} <= {"text", "image"}
        lower = turnspec.downgrade_messages(messages, to="v1").messages
        turnspec.validate(lower, entry="conversation", block_set="v1")


@pytest.mark.parametrize("key", ["conversation", "chosen", "rejected"])
def test_both_answers_of_the_preference_pair_continue_the_conversation(key: str) -> None:
    pair = json.loads((EXAMPLES / "preference-pair.json").read_text(encoding="utf-8"))
    turnspec.validate(pair[key])
    turnspec.convert_messages(pair["conversation"] + pair["chosen"], "openai", purpose="training")
    assert demo.turnspec("validate", "--key", key, "docs/examples/preference-pair.json").returncode == 0


@pytest.mark.parametrize(
    ("name", "mime", "begins"),
    [
        ("screenshot-in-tool-result.json", "image/png", b"\x89PNG\r\n\x1a\n"),
        ("chart-question.json", "image/jpeg", b"\xff\xd8\xff"),
        ("chart-question.json", "image/png", b"\x89PNG\r\n\x1a\n"),
    ],
)
def test_the_pictures_are_real(name: str, mime: str, begins: bytes) -> None:
    task = json.loads((EXAMPLES / name).read_text(encoding="utf-8"))
    (image,) = (b for b in blocks(task) if b["type"] == "image" and b["mimeType"] == mime)
    content = base64.b64decode(image["data"], validate=True)
    assert content.startswith(begins)
    assert len(content) > 1000


def test_the_samples_are_what_their_script_writes(tmp_path: Path) -> None:
    load("make_samples").main(tmp_path)
    sample = (EXAMPLES / "sample-200.jsonl").read_bytes()
    assert sample == (tmp_path / "sample-200.jsonl").read_bytes()
    assert len(sample) < 1_500_000
    # The compressed bytes depend on the zlib in use, the content does not.
    night_shift = [folder / "night-shift.jsonl.gz" for folder in (EXAMPLES, tmp_path)]
    assert len({gzip.decompress(path.read_bytes()) for path in night_shift}) == 1


def test_the_demo_tells_its_story_on_one_page() -> None:
    env = {**os.environ, "PYTHONUTF8": "1"}
    done = subprocess.run(
        [sys.executable, EXAMPLES / "demo.py"], env=env, capture_output=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) <= 130
    assert max(map(len, lines)) <= 100
    for word in (*demo.FORMATS, "block_placement", "image_placement", "error_flag_dropped", *GOOD):
        assert word in done.stdout


def test_the_demo_fails_when_an_answer_is_another_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = {**EXPECTED, "late-system-turn.json": {"conversations": 2}}
    monkeypatch.setattr(demo, "EXPECTED", wrong)
    assert demo.main() == 1
    out = capsys.readouterr().out
    assert out.count("UNEXPECTED") == 3  # the count, and the refusals of anthropic and google
