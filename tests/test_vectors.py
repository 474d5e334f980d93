"""Every vector through the public API: as wire dicts, as the structs of `loads`, as pydantic models, as JSON text."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import turnspec
from tests.vectortools import (
    Case,
    any_digits,
    differences,
    read_cases,
    read_json,
    request_of,
    same,
    vector_files,
    write_json,
)

CASES = list(read_cases())
SCHEMA = Path(__file__).parent / "conformance" / "vector.schema.json"
KINDS: dict[str, Callable[[list[Any]], list[Any]]] = {
    "dicts": lambda messages: messages,
    "structs": lambda messages: list(turnspec.loads(write_json(messages))),
    "models": lambda messages: [turnspec.Message.model_validate(item) for item in messages],
}


def of(*operations: str) -> pytest.MarkDecorator:
    """One test for each case of these operations."""
    chosen = [case for case in CASES if case["op"] in operations]
    return pytest.mark.parametrize("case", chosen, ids=[case["id"] for case in chosen])


@of("validate")
def test_validate(case: Case) -> None:
    documents = [case["text"]] if "text" in case else [case["document"], write_json(case["document"])]
    if isinstance(documents[0], str) and "document" in case:
        del documents[0]  # a str is JSON text
    for document in documents:
        errors = list(turnspec.iter_errors(document, entry=case["entry"], block_set=case["block_set"]))
        assert {"valid": not errors, "errors": places(errors)} == case["expect"]
        if errors:
            with pytest.raises(turnspec.ValidationError) as raised:
                turnspec.validate(document, entry=case["entry"], block_set=case["block_set"])
            assert places(raised.value.errors) == case["expect"]["errors"]
        else:
            turnspec.validate(document, entry=case["entry"], block_set=case["block_set"])


@of("convert")
def test_convert(case: Case) -> None:
    def convert(messages: list[Any]) -> dict[str, Any]:
        done = turnspec.convert_with_report(messages, case["format"], purpose=case["purpose"])
        return {"payload": done.payload, "losses": places(done.losses)}

    def convert_quickly(messages: list[Any]) -> dict[str, Any]:
        payload = turnspec.convert_messages(messages, case["format"], purpose=case["purpose"], on_loss="ignore")
        return {"payload": payload, "losses": case["expect"].get("losses")}

    check(case, convert)
    check(case, convert_quickly)


@of("flatten")
def test_flatten(case: Case) -> None:
    check(case, lambda messages: {"blocks": wire_blocks(turnspec.flatten_messages(messages))})


@of("downgrade")
def test_downgrade(case: Case) -> None:
    def downgrade(messages: list[Any]) -> dict[str, Any]:
        done = turnspec.downgrade_messages(messages, case["to"])
        return {"messages": read_json(turnspec.dumps(done.messages)), "losses": places(done.losses)}

    check(case, downgrade)


@of("read")
def test_read(case: Case) -> None:
    def read(messages: list[Any]) -> dict[str, Any]:
        done = turnspec.skip_unknown_blocks(messages, case.get("known"))
        skipped = [{"pointer": item.pointer, "type": item.type} for item in done.skipped]
        return {"messages": done.messages, "skipped": skipped}

    check(case, read, kinds=["dicts"])


@of("rules")
def test_rules(case: Case) -> None:
    def rules(messages: list[Any]) -> dict[str, Any]:
        found = turnspec.check_rules(messages, case.get("format"))
        return {"findings": [{"code": item.code, "pointer": item.pointer, "severity": item.severity} for item in found]}

    check(case, rules)


@of("negotiate")
def test_negotiate(case: Case) -> None:
    assert turnspec.block_set_for(case.get("message_block_types")) == case["expect"]["block_set"]


def check(case: Case, perform: Callable[[list[Any]], Any], kinds: Sequence[str] = tuple(KINDS)) -> None:
    """The result for the messages as dicts, structs and models; the input must not change."""
    wanted = case["expect"]
    invalid = "raises" in wanted and not valid(case["messages"])
    for kind in ["dicts"] if invalid else kinds:
        messages = KINDS[kind](case["messages"])
        before = write_json(case["messages"])
        problems: list[turnspec.Problem] = []
        try:
            got = perform(messages)
        except (turnspec.ConversionError, turnspec.ValidationError) as problem:
            got = {"raises": {"code": problem.code, "pointer": problem.pointer}}
            problems = problem.problems
        assert differences(wanted, got) == [], kind
        if "problems" in case:
            assert places(problems) == case["problems"], kind
        assert write_json(case["messages"]) == before, f"{kind}: the input changed"


def valid(messages: list[Any]) -> bool:
    return not list(turnspec.iter_errors(messages, entry="conversation"))


def places(problems: Iterable[turnspec.Problem]) -> list[dict[str, str]]:
    return [{"code": problem.code, "pointer": problem.pointer} for problem in problems]


def wire_blocks(blocks: list[Any]) -> list[Any]:
    """Text and image blocks of any kind as wire dicts."""
    return [block if isinstance(block, dict) else json.loads(as_json(block)) for block in blocks]


def as_json(block: Any) -> str:
    if hasattr(block, "model_dump_json"):
        return str(block.model_dump_json(exclude_none=True))
    return write_json(block.to_wire())


# --- the corpus itself ---


def test_files_fit_the_schema() -> None:
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    with any_digits():  # jsonschema prints values
        found = {
            path.name: [error.json_path for error in validator.iter_errors(read_json(path.read_bytes()))]
            for path in vector_files()
        }
    assert {name: errors for name, errors in found.items() if errors} == {}


def test_ids_are_unique_and_begin_with_the_file_name() -> None:
    counted = Counter(case["id"] for case in CASES)
    assert [name for name, count in counted.items() if count > 1] == []
    for path in vector_files():
        for case in read_json(path.read_bytes())["cases"]:
            assert case["id"].startswith(f"{path.stem}/")


def test_no_case_stands_twice() -> None:
    """In one file no two cases have the same request."""
    seen: dict[str, str] = {}
    for case in CASES:
        text = f"{case['id'].split('/')[0]} {write_json({**request_of(case), 'id': ''})}"
        assert text not in seen, f"{case['id']} and {seen.get(text)}"
        seen[text] = case["id"]


def test_every_code_has_vectors() -> None:
    """Every code of errors.json has at least two."""
    told: Counter[str] = Counter()
    for case in CASES:
        expect = case["expect"]
        places = [
            *expect.get("errors", []),
            *expect.get("losses", []),
            *expect.get("findings", []),
            *case.get("problems", []),
        ]
        if "raises" in expect and not case.get("problems"):
            places.append(expect["raises"])
        told.update(place["code"] for place in places)
    codes = json.loads((Path(__file__).parents[1] / "schema" / "errors.json").read_text())["codes"]
    wanted = {code["code"] for code in codes}
    # no request of the protocol holds half a surrogate pair outside `text`
    assert {code for code in wanted if told[code] < 2} - {"lone_surrogate"} == set()


def test_openrouter_is_openai() -> None:
    wanted = {
        case["id"].split("/")[1]: case["expect"]
        for case in CASES
        if case["id"].startswith("convert-steps/") and case["format"] == "openai"
    }
    for case in CASES:
        if case["id"].startswith("convert-openrouter/"):
            assert same(case["expect"], wanted[case["id"].split("/")[1]])
