"""The rules layer: its vectors, what no JSON file can hold, purposes, formats, and its data."""

from __future__ import annotations

import json
import shutil
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import turnspec
from codegen import checks, reader
from codegen.emitters import python_rules
from tests.strategies import seeded
from tests.vectortools import Case, read_cases, write_json
from turnspec import Problem, check_rules
from turnspec.conversion import convert_report
from turnspec_generated import rules as generated
from turnspec_generated.codes import CODES, ORDER
from turnspec_generated.structs import (
    AssistantMessage,
    ImageBlock,
    ReasoningBlock,
    SystemMessage,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    UserMessage,
)

ROOT = Path(__file__).resolve().parents[1]
SPEC = reader.read(ROOT / "schema")
VECTORS = [case for case in read_cases() if case["op"] == "rules"]
KINDS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "dicts": lambda messages: messages,
    "structs": lambda messages: list(turnspec.loads(write_json(messages))),
    "models": lambda messages: [turnspec.Message.model_validate(item) for item in messages],
}
FORMATS = (None, "openai", "openrouter", "anthropic", "google")
PURPOSES = ("request", "training")
Told = tuple[str, str, str]

HALF = "a\ud800"
GO = UserMessage([TextBlock("Go.")])


def told(problems: list[Problem]) -> list[Told]:
    return [(item.code, item.pointer, item.severity) for item in problems]


def call(handle: str = "c1", **fields: Any) -> ToolCallBlock:
    return ToolCallBlock(handle, fields.pop("name", "run"), fields.pop("input", {}), **fields)


def result(handle: str = "c1", *blocks: Any, **fields: Any) -> ToolResultBlock:
    return ToolResultBlock(handle, list(blocks) or [TextBlock("x")], **fields)


# --- Vectors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", VECTORS, ids=[case["id"] for case in VECTORS])
def test_vector(case: Case, kind: str) -> None:
    messages = KINDS[kind](case["messages"])
    before = write_json(case["messages"])
    found = [
        {"code": code, "pointer": pointer, "severity": severity}
        for code, pointer, severity in told(check_rules(messages, case.get("format")))
    ]
    assert found == case["expect"]["findings"]
    assert write_json(case["messages"]) == before


def test_every_rule_has_a_vector_with_and_one_without_it() -> None:
    for rule in SPEC.rules:
        if rule.code == "lone_surrogate":
            continue  # no vector can hold one
        wanted = {"code": rule.code, "severity": rule.severity}
        hits = [
            any(wanted.items() <= finding.items() for finding in case["expect"]["findings"])
            for case in VECTORS
            if not rule.formats or case.get("format") in rule.formats
        ]
        assert any(hits), rule
        assert not all(hits), rule


# --- What no JSON file can hold ----------------------------------------------------------------------------

SURROGATES: dict[str, tuple[list[Any], str]] = {
    "text": ([UserMessage([TextBlock(HALF)])], "/0/blocks/0/text"),
    "system": ([SystemMessage([TextBlock(HALF)]), GO], "/0/blocks/0/text"),
    "reasoning": ([GO, AssistantMessage([ReasoningBlock(HALF), TextBlock("x")]), GO], "/1/blocks/0/text"),
    "signature": ([GO, AssistantMessage([ReasoningBlock("x", HALF), TextBlock("x")]), GO], "/1/blocks/0/signature"),
    "input": ([GO, AssistantMessage([call(input={"a": [{"b": HALF}]})]), UserMessage([result()])],
              "/1/blocks/0/input/a/0/b"),
    "key": ([GO, AssistantMessage([call(input={"a": {HALF: 1}})]), UserMessage([result()])],
            f"/1/blocks/0/input/a/{HALF}"),
    "detail": ([UserMessage([TextBlock("x", {"a": HALF})])], "/0/blocks/0/detail/a"),
    "detail of a turn": ([UserMessage([TextBlock("x")], {"a": [1, HALF]})], "/0/detail/a/1"),
    "detail of an empty turn": ([GO, UserMessage([], {"a": HALF})], "/1/detail/a"),
    "result": ([GO, AssistantMessage([call()]), UserMessage([result("c1", TextBlock(HALF))])],
               "/2/blocks/0/blocks/0/text"),
    "detail of a call": ([GO, AssistantMessage([call(detail={HALF: None})]), UserMessage([result()])],
                         f"/1/blocks/0/detail/{HALF}"),
}  # fmt: skip


@pytest.mark.parametrize("name", SURROGATES)
@pytest.mark.parametrize("format", FORMATS)
def test_lone_surrogate(name: str, format: str | None) -> None:
    messages, pointer = SURROGATES[name]
    found = told(check_rules(messages, format))
    assert ("lone_surrogate", pointer, "error") in found
    assert [item[0] for item in found].count("lone_surrogate") == 1


def test_lone_surrogates_in_ids_names_and_media() -> None:
    messages = [
        UserMessage([TextBlock("Go."), ImageBlock(HALF, HALF)]),
        AssistantMessage([call(HALF, name=HALF)]),
        UserMessage([result(HALF)]),
    ]
    pointers = [item.pointer for item in check_rules(messages) if item.code == "lone_surrogate"]
    assert pointers == [
        "/0/blocks/1/data", "/0/blocks/1/mimeType", "/1/blocks/0/id", "/1/blocks/0/name", "/2/blocks/0/tool_call_id"
    ]  # fmt: skip


def test_whole_pairs_and_other_scripts_are_fine() -> None:
    text = "\U0001f600 é 漢"
    messages = [UserMessage([TextBlock(text, {text: [text]})]), AssistantMessage([call(input={text: text})]),
                UserMessage([result()])]  # fmt: skip
    assert check_rules(messages) == []


def test_lone_surrogate_in_wire_dicts() -> None:
    text = json.loads('[{"role": "user", "blocks": [{"type": "text", "text": "\\ud800"}]}]')
    assert told(check_rules(text)) == [("lone_surrogate", "/0/blocks/0/text", "error")]


def test_deep_input() -> None:
    value: Any = 2**60
    for _ in range(120):
        value = [value]
    messages = [GO, AssistantMessage([call(input={"a": value})]), UserMessage([result()])]
    assert told(check_rules(messages)) == [("unsafe_integer", "/1/blocks/0/input/a" + "/0" * 120, "warning")]


def test_input_that_holds_itself_is_a_clear_error() -> None:
    loop: dict[str, Any] = {}
    loop["again"] = loop
    with pytest.raises(ValueError, match="the messages cannot be"):
        check_rules([GO, AssistantMessage([call(input=loop)]), UserMessage([result()])])


# --- Purposes ----------------------------------------------------------------------------------------------

OPEN = [GO, AssistantMessage([call("c1"), call("c2")]), UserMessage([result("c2")])]
PREFILL = [GO, AssistantMessage([TextBlock("Well, ")])]


@pytest.mark.parametrize("format", FORMATS)
def test_training_may_leave_calls_open(format: str | None) -> None:
    severity = "warning" if format is None else "error"
    assert ("call_without_result", "/1/blocks/0", severity) in told(check_rules(OPEN, format))
    assert check_rules(OPEN, format, purpose="training") == []


@pytest.mark.parametrize("format", FORMATS)
def test_training_may_end_with_the_assistant(format: str | None) -> None:
    assert ("ends_with_assistant", "/1", "warning") in told(check_rules(PREFILL, format))
    assert check_rules(PREFILL, format, purpose="training") == []


@pytest.mark.parametrize("purpose", PURPOSES)
def test_calls_left_open_in_the_middle_are_errors_for_both(purpose: str) -> None:
    messages = [GO, AssistantMessage([call()]), GO]
    assert told(check_rules(messages, purpose=purpose)) == [("call_without_result", "/1/blocks/0", "error")]


def test_training_asks_for_no_signatures_of_calls() -> None:
    messages = [GO, AssistantMessage([call()]), UserMessage([result()])]
    assert told(check_rules(messages, "google")) == [("unsigned_call", "/1/blocks/0", "warning")]
    assert check_rules(messages, "google", purpose="training") == []


# --- General findings, formats, conversions ----------------------------------------------------------------

PAIRING = ("call_without_result", "result_without_call")


@pytest.mark.parametrize("start", range(0, 600, 150))
def test_findings_agree_with_conversions(start: int) -> None:
    """With a format: all that the general rules find, and all that the conversion refuses or loses with a warning."""
    for seed in range(start, start + 150):
        messages = turnspec.loads(write_json(seeded(seed)))
        for purpose in PURPOSES:
            general = check_rules(messages, purpose=purpose)
            for format in ("openai", "anthropic", "google"):
                found = check_rules(messages, format, purpose=purpose)
                places = {(item.code, item.pointer): item.severity for item in found}
                assert len(places) == len(found), seed
                assert places.keys() >= {(item.code, item.pointer) for item in general}, seed
                _, losses, problems = convert_report(messages, format, purpose)
                for problem in problems:
                    assert places[problem.code, problem.pointer] == "error", seed
                for loss in losses:
                    if loss.severity == "warning":
                        assert (loss.code, loss.pointer) in places, seed
                refused = {(item.code, item.pointer) for item in problems}
                for item in general:
                    if item.code in PAIRING and item.severity == "error":
                        assert (item.code, item.pointer) in refused, (seed, format, item)


def test_same_answer_for_every_kind_of_messages() -> None:
    for seed in range(200):
        conversation = seeded(seed)
        answers = [told(check_rules(kind(conversation), "anthropic")) for kind in KINDS.values()]
        assert answers[0] == answers[1] == answers[2], seed


def test_quick_pairing_is_the_slow_one() -> None:
    """The general rules look closely at calls only where the quick look finds something; it must not miss any."""
    codes = {"call_without_result", "result_without_call", "results_out_of_order", "results_split"}
    close = 0
    for seed in range(1500):
        messages = turnspec.loads(write_json(seeded(seed)))
        quick = [path for rule, path, *_ in generated.general(messages) if rule.code in codes]
        slow = [path for _, path, _ in generated.paired(messages)]
        assert sorted(map(str, quick)) == sorted(map(str, slow)), seed
        close += bool(slow)
    assert 200 < close < 1300


def test_canonical_order() -> None:
    """Turns by index, a place before what lies in it, fields in schema order, codes by errors.json, the root last."""
    messages = [
        AssistantMessage([call("a.b", name="", input={"b": 2**60, "a": 2**60}, detail={"x": HALF}), call("a.b")]),
        UserMessage([]),
    ]
    assert [(code, pointer) for code, pointer, _ in told(check_rules(messages, "google"))] == [
        ("starts_with_assistant", "/0"),
        ("call_without_result", "/0/blocks/0"),
        ("starts_with_call", "/0/blocks/0"),
        ("unsigned_call", "/0/blocks/0"),
        ("unportable_id", "/0/blocks/0/id"),
        ("unportable_name", "/0/blocks/0/name"),
        ("unsafe_integer", "/0/blocks/0/input/a"),
        ("unsafe_integer", "/0/blocks/0/input/b"),
        ("lone_surrogate", "/0/blocks/0/detail/x"),
        ("call_without_result", "/0/blocks/1"),
        ("duplicate_call_id", "/0/blocks/1/id"),
        ("unportable_id", "/0/blocks/1/id"),
        ("empty_message", "/1"),
    ]
    found = check_rules([UserMessage([])], "openai")
    assert told(found) == [("empty_message", "/0", "warning"), ("empty_conversation", "", "error")]


# --- For people --------------------------------------------------------------------------------------------


def test_texts_say_what_is_wanted_found_and_to_do() -> None:
    messages = [UserMessage([TextBlock("?"), ImageBlock("iVBORw0KGgo=", "image/gif")]),
                AssistantMessage([call("a.b", name="my tool")]), UserMessage([result("a.b")])]  # fmt: skip
    media, handle, name = check_rules(messages)
    assert str(media) == (
        "mime_mismatch at /0/blocks/1/mimeType: the media type should be that of the bytes: 'image/gif'; "
        f"allowed: image/png; hint: {CODES['mime_mismatch'].fix}"
    )
    assert "'a.b'" in handle.message
    assert handle.allowed == ("[a-zA-Z0-9_-]+",)
    assert name.allowed == tuple(sorted(item.name_pattern for item in SPEC.formats))


def test_texts_stay_short() -> None:
    long = "x" * 10**6
    messages = [
        UserMessage([TextBlock("?"), ImageBlock("!" * 10**6, "image/png")]),
        AssistantMessage([call(long, input={"n": 10**5000})]),
        UserMessage([result(long)]),
    ]
    found = check_rules(messages)
    assert [item.code for item in found] == ["bad_base64", "unportable_id", "unsafe_integer"]
    assert max(len(str(item)) for item in found) < 400


def test_every_rule_has_a_code_and_says_what_is_wanted() -> None:
    for rule in SPEC.rules:
        assert rule.code in ORDER
        assert rule.description[0].isupper()
        assert not rule.description.endswith("."), rule


# --- Arguments ---------------------------------------------------------------------------------------------


def test_invalid_messages() -> None:
    with pytest.raises(turnspec.ValidationError) as raised:
        check_rules([{"role": "user", "blocks": [{"type": "text"}]}])
    assert (raised.value.code, raised.value.pointer) == ("missing_field", "/0/blocks/0")


def test_struct_with_a_wrong_value() -> None:
    with pytest.raises(turnspec.ValidationError) as raised:
        check_rules([UserMessage([TextBlock(5)])])  # type: ignore[arg-type]
    assert (raised.value.code, raised.value.pointer) == ("wrong_type", "/0/blocks/0/text")


@pytest.mark.parametrize(
    ("arguments", "allowed"), [({"format": "gpt"}, "'openai'"), ({"purpose": "eval"}, "'training'")]
)
def test_unknown_values_name_the_allowed_ones(arguments: dict[str, str], allowed: str) -> None:
    with pytest.raises(ValueError, match=allowed):
        check_rules([GO], **arguments)


@pytest.mark.parametrize("messages", ["[]", {"role": "user", "blocks": []}, 5, [5]])
def test_what_is_no_list_of_messages(messages: Any) -> None:
    with pytest.raises((TypeError, turnspec.ValidationError)):
        check_rules(messages)


# --- Rules are data ----------------------------------------------------------------------------------------


def changed(tmp_path: Path, *rules: dict[str, Any]) -> Path:
    """A copy of the schema with more rules."""
    root = tmp_path / "schema"
    shutil.copytree(ROOT / "schema", root)
    path = root / "rules.json"
    data = json.loads(path.read_text())
    data["rules"] += rules
    path.write_text(json.dumps(data))
    return root


def test_a_new_rule_needs_nothing_but_data(tmp_path: Path) -> None:
    rule = {"code": "blank_text", "severity": "info", "check": "blank", "parameters": {"of": "text", "in": "results"},
            "description": "A result should say something"}  # fmt: skip
    text = python_rules.emit(reader.read(changed(tmp_path, rule)))["python/turnspec_generated/rules.py"]
    module = types.ModuleType("turnspec_generated.changed_rules")
    module.__package__ = "turnspec_generated"
    exec(text, module.__dict__)
    messages = [GO, AssistantMessage([call()]), UserMessage([result("c1", TextBlock(""))])]
    assert generated.general(messages) == []
    found = module.general(messages)
    assert [(item.code, item.severity, path) for item, path, *_ in found] == [
        ("blank_text", "info", (2, "blocks", 0, "blocks", 0))
    ]


GOOD = {"code": "blank_text", "severity": "info", "check": "blank", "description": "x",
        "parameters": {"of": "text", "in": "turns"}}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"check": "blnk"}, "no such check; there are"),
        ({"parameters": {"of": "text"}}, "the parameter 'in' is missing"),
        ({"parameters": {"of": "text", "in": "turns", "role": "user"}}, "there is no parameter 'role'"),
        ({"parameters": {"of": "media", "in": "turns"}}, "'of' is text or reasoning"),
        ({"parameters": {"of": "image", "in": "turns"}}, "'of' is one of text, reasoning"),
        ({"parameters": {"of": "text", "in": "system"}}, "'in' is one of turns, results"),
        ({"check": "turn_last", "parameters": {"role": "tool"}}, "'role' is one of system, user, assistant"),
        ({"parameters": {"of": "text", "in": "turns", "purposes": ["eval"]}}, "'purposes' are of request, training"),
        ({"formats": ["gpt"]}, "there is no format 'gpt'"),
        ({"formats": ["openai"]}, "'openai', 'openrouter'] are one format"),
    ],
)
def test_data_that_no_check_understands(tmp_path: Path, change: dict[str, Any], complaint: str) -> None:
    with pytest.raises((reader.SchemaError, ValueError)) as raised:
        python_rules.emit(reader.read(changed(tmp_path, {**GOOD, **change})))
    assert "rules.json" in str(raised.value)
    assert complaint in str(raised.value)


def test_every_check_is_used() -> None:
    assert {rule.check for rule in SPEC.rules} == set(checks.CHECKS)
