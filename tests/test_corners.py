"""Corners that attacks on the package found: each with the right answer, so that none comes back."""

from __future__ import annotations

import enum
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import turnspec
from turnspec_generated import structs

HI = {"role": "user", "blocks": [{"type": "text", "text": "hi"}]}


def calling(value: Any) -> list[dict[str, Any]]:
    call = {"type": "tool_call", "id": "c", "name": "f", "input": value}
    result = {"type": "tool_result", "tool_call_id": "c", "blocks": []}
    return [HI, {"role": "assistant", "blocks": [call]}, {"role": "user", "blocks": [result]}]


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels - 1):
        value = [value]
    return value


def test_every_task_of_a_list_is_converted(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.json"
    tasks.write_text(json.dumps([{"type": "qa", "conversation": [HI]}, {"type": "qa", "conversation": [HI]}]))
    command = [sys.executable, "-m", "turnspec", "convert", "--to", "openai", str(tasks)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == '[{"role":"user","content":"hi"}]\n' * 2


@pytest.mark.parametrize("as_text", [False, True])
def test_an_object_with_a_conversation_is_a_task_whatever_else_it_has(as_text: bool) -> None:
    document: Any = [{"conversation": [], "role": "user", "blocks": []}]
    assert list(turnspec.iter_errors(json.dumps(document) if as_text else document)) == []


@pytest.mark.parametrize("format", turnspec.FORMATS)
def test_a_block_put_where_it_may_not_stand_is_never_dropped(format: str) -> None:
    conversation = turnspec.loads(json.dumps([HI]))
    conversation[0].blocks.append(structs.ToolCallBlock("a", "f", {}))  # type: ignore[arg-type]
    with pytest.raises(turnspec.ValidationError) as caught:
        turnspec.convert_messages(conversation, format)
    assert (caught.value.code, caught.value.pointer) == ("block_placement", "/0/blocks/1")


def test_reading_refuses_what_is_no_json() -> None:
    with pytest.raises(turnspec.ValidationError) as caught:
        turnspec.skip_unknown_blocks(calling({"x": float("nan")}))
    assert (caught.value.code, caught.value.pointer) == ("wrong_type", "/1/blocks/0/input/x")


@pytest.mark.parametrize(("levels", "codes"), [(123, []), (124, ["too_deep"])])
def test_depth_is_the_same_for_text_and_values(levels: int, codes: list[str]) -> None:
    document = calling({"x": nested(levels)})  # five levels lie around the list
    assert [error.code for error in turnspec.iter_errors(json.dumps(document))] == codes
    assert [error.code for error in turnspec.iter_errors(document)] == codes


def test_tuples_are_arrays() -> None:
    payload = turnspec.convert_messages(calling({"x": (1,)}), "anthropic")
    assert turnspec.convert_with_report(calling({"x": (1,)}), "anthropic").payload == payload
    assert json.loads(json.dumps(payload))["messages"][1]["content"][0]["input"] == {"x": [1]}


def test_a_long_conversation_is_converted_in_linear_time() -> None:
    turns = calling({})[1:] * 20_000
    conversation = turnspec.loads(json.dumps([HI, *turns]))
    started = time.process_time()
    report = turnspec.convert_with_report(conversation, "anthropic")
    # Quadratic time took more than half a minute; this bound only tells the two apart.
    assert time.process_time() - started < 20
    assert len(report.losses) == 2 * (20_000 - 1)


def test_bytes_that_are_no_utf8_beside_a_conversation() -> None:
    with pytest.raises(turnspec.ValidationError) as caught:
        turnspec.loads(b'{"conversation":[],"x":"\xff"}')
    assert caught.value.code == "invalid_json"


def test_subclasses_of_str_are_strings() -> None:
    class Role(enum.StrEnum):
        USER = "user"

    message = {**HI, "role": Role.USER}
    assert turnspec.convert_messages([message], "openai") == [{"role": "user", "content": "hi"}]


def test_a_model_that_holds_dicts() -> None:
    message = turnspec.Message.model_construct(role="user", blocks=HI["blocks"])
    assert [block.text for block in turnspec.flatten_messages([message])] == ["hi"]
    assert turnspec.downgrade_messages([message]).messages[0].blocks[0].text == "hi"


def test_keys_that_become_one_are_not_written() -> None:
    with pytest.raises(ValueError, match="a key of an object must be a string"):
        turnspec.dumps([{"role": "user", "blocks": [], "detail": {1: 2, "1": 3}}])


def test_an_empty_name_is_no_block_set() -> None:
    with pytest.raises(ValueError, match="block_set must be one of 'v1', 'v2', not ''"):
        turnspec.validate([], block_set="")


def test_the_runner_survives_an_id_that_no_text_can_hold() -> None:
    command = [sys.executable, "-m", "turnspec.conformance"]
    lines = '{"id":1e400,"op":"negotiate"}\n{"id":2,"op":"negotiate"}\n'
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [None, 2]
