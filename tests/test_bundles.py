"""The published bundles: self-contained, of safe keywords only, and of one verdict, whoever validates."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from jsonschema import Draft202012Validator
from schematools import ROOT, SPEC, load, walk

from codegen import ir
from codegen.emitters import bundles

NAMES = [(item.name, kind) for item in SPEC.sets for kind in bundles.KINDS]
ENTRIES = {"message": "Message", "conversation": "Conversation", "task": "Task"}
# All that a bundle may say. A validator in its strict mode refuses what it does not know.
KEYWORDS = {
    "$schema", "$id", "$ref", "$defs", "title", "description", "examples", "default", "type", "const", "enum",
    "properties", "required", "additionalProperties", "items", "oneOf", "allOf", "if", "then", "contentEncoding",
}  # fmt: skip
ROOT_ONLY = {"$schema", "$id", "$defs"}
TEXT_FAULTS = {"too_deep", "invalid_json", "duplicate_key"}


def published(block_set: str, kind: str) -> Any:
    return load(ROOT / "generated" / "schemas" / block_set / f"{kind}.schema.json")


def subschemas(schema: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema in a schema, with its place; examples, names and constants are no schemas."""
    assert isinstance(schema, dict), place
    yield place, schema
    for key, value in schema.items():
        if key in ("properties", "$defs"):
            for name, item in value.items():
                yield from subschemas(item, f"{place}/{key}/{name}")
        elif key in ("oneOf", "allOf"):
            for index, item in enumerate(value):
                yield from subschemas(item, f"{place}/{key}/{index}")
        elif key in ("items", "if", "then") or (key == "additionalProperties" and value is not False):
            yield from subschemas(value, f"{place}/{key}")


@pytest.mark.parametrize(("block_set", "kind"), NAMES)
def test_bundle_is_self_contained_and_uses_safe_keywords_only(block_set: str, kind: str) -> None:
    schema = published(block_set, kind)
    Draft202012Validator.check_schema(schema)
    assert jsonschema_rs.meta.is_valid(schema)
    assert schema["$schema"] == bundles.DIALECT
    assert schema["$id"].startswith(f"urn:turnspec:{block_set}:")
    targets = set()
    for place, item in subschemas(schema):
        assert set(item) <= KEYWORDS, place
        assert not place or not ROOT_ONLY & set(item), place
        assert "oneOf" not in item or kind == "types", place
        assert "if" not in item or kind == "validate", place
        if "$ref" in item:
            assert item["$ref"].startswith("#/$defs/"), place
            targets.add(item["$ref"].removeprefix("#/$defs/"))
        if "properties" in item and "if" not in place:
            assert item["type"] == "object", place
            assert set(item.get("required", ())) <= set(item["properties"]), place
    assert targets | {"Task"} == set(schema["$defs"]), "a definition is missing, or nobody uses it"


@pytest.mark.parametrize(("block_set", "kind"), NAMES)
def test_every_object_is_closed_and_described(block_set: str, kind: str) -> None:
    for name, item in published(block_set, kind)["$defs"].items():
        assert item["description"], name
        if item.get("type") == "object" and name not in ("Message", "Task") and "allOf" not in item:
            assert item["additionalProperties"] is False, name
            assert item["title"] == name
            for field in item["properties"].values():
                assert field["description"]
                assert field["examples"]


@pytest.mark.parametrize(("block_set", "kind"), NAMES)
def test_bundle_lies_in_the_package_too(block_set: str, kind: str) -> None:
    inside = ROOT / "generated" / "python" / "turnspec_generated" / "schemas" / block_set / f"{kind}.schema.json"
    assert inside.read_bytes() == (ROOT / "generated" / "schemas" / block_set / inside.name).read_bytes()


def test_ids_differ() -> None:
    ids = [published(*name)["$id"] for name in NAMES]
    assert len(set(ids)) == len(ids)


# --- One verdict -------------------------------------------------------------------------------------------


class Judges:
    """Two validators on two bundles of a set; they must agree."""

    def __init__(self, block_set: str) -> None:
        self.checks: dict[str, list[Any]] = {}
        for entry, name in ENTRIES.items():
            self.checks[entry] = []
            for kind in bundles.KINDS:
                schema = {**published(block_set, kind), "$ref": f"#/$defs/{name}"}
                self.checks[entry] += [Draft202012Validator(schema), jsonschema_rs.validator_for(schema)]

    def verdict(self, entry: str, document: Any) -> bool:
        said = [check.is_valid(document) for check in self.checks[entry]]
        assert len(set(said)) == 1, (said, document)
        return bool(said[0])


JUDGES = {item.name: Judges(item.name) for item in SPEC.sets}
VALUES = {"string": "x", "object": {}, "array": [], "boolean": True, "integer": 1, "number": 1.5, "null": None}


def sample(block: ir.Block) -> dict[str, Any]:
    return {"type": block.type} | {item.name: item.examples[0] for item in block.fields if item.required}


def faults(block: ir.Block) -> Iterator[tuple[str, dict[str, Any]]]:
    """A block with one fault, in every way that the schema knows."""
    whole = sample(block)
    for key in whole:
        yield f"without {key}", {name: value for name, value in whole.items() if name != key}
    for item in block.fields:
        for kind, value in VALUES.items():
            if kind not in item.types and not (kind == "integer" and "number" in item.types):
                yield f"{item.name} is {kind}", {**whole, item.name: value}
    yield "unknown field", {**whole, "extra": None}
    yield "unknown type", {**whole, "type": "no_such_block"}
    for kind, value in VALUES.items():
        if kind != "string":
            yield f"type is {kind}", {**whole, "type": value}


def holders(block_set: ir.BlockSet, inner: Any) -> Iterator[tuple[str, str, Any]]:
    """(role or container, its name, the blocks of a message that holds the inner block there)."""
    for role in SPEC.roles:
        yield "role", role.name, {"role": role.name, "blocks": [inner]}
    for box in SPEC.containers:
        for outer in block_set.blocks:
            field = next((item.name for item in outer.fields if item.container == box.name), None)
            if field:
                yield "container", box.name, {"role": outer.roles[0], "blocks": [{**sample(outer), field: [inner]}]}


@pytest.mark.parametrize("block_set", SPEC.sets, ids=lambda item: str(item.name))
def test_every_block_in_every_place(block_set: ir.BlockSet) -> None:
    judges = JUDGES[block_set.name]
    for block in SPEC.blocks:
        for kind, name, message in holders(block_set, sample(block)):
            allowed = block in (block_set.in_role(name) if kind == "role" else block_set.in_container(name))
            assert judges.verdict("message", message) == allowed, (block.type, name)
            assert judges.verdict("conversation", [message]) == allowed
            assert judges.verdict("task", {"conversation": [message], "id": 1}) == allowed


@pytest.mark.parametrize("block_set", SPEC.sets, ids=lambda item: str(item.name))
def test_every_fault_of_every_block(block_set: ir.BlockSet) -> None:
    judges = JUDGES[block_set.name]
    for block in block_set.blocks:
        for what, broken in faults(block):
            for _, name, message in holders(block_set, broken):
                assert not judges.verdict("message", message), (block.type, what, name)


@pytest.mark.parametrize("block_set", SPEC.sets, ids=lambda item: str(item.name))
@pytest.mark.parametrize(
    "document",
    [
        {}, [], None, 1, "x", {"role": "user"}, {"blocks": []}, {"role": "tool", "blocks": []},
        {"role": None, "blocks": []}, {"role": ["user"], "blocks": []}, {"role": "user", "blocks": {}},
        {"role": "user", "blocks": None}, {"role": "user", "blocks": "hi"}, {"role": "user", "blocks": [None]},
        {"role": "user", "blocks": [[]]}, {"role": "user", "blocks": ["hi"]}, {"role": "user", "blocks": [], "x": 1},
        {"role": "user", "blocks": [], "detail": []}, {"role": "user", "blocks": [{}]}, {"role": "User", "blocks": []},
    ],
    ids=json.dumps,
)  # fmt: skip
def test_what_is_no_message(block_set: ir.BlockSet, document: Any) -> None:
    judges = JUDGES[block_set.name]
    assert not judges.verdict("message", document)
    assert not judges.verdict("conversation", [document])
    assert judges.verdict("conversation", document) == (document == [])
    assert not judges.verdict("task", document)
    assert not judges.verdict("task", {"conversation": [document]})


@pytest.mark.parametrize("block_set", SPEC.sets, ids=lambda item: str(item.name))
def test_validate_bundle_tells_the_one_real_error(block_set: ir.BlockSet) -> None:
    """A stock validator reports one fault once, at its place, without a line for each member of a union."""
    check = Draft202012Validator({**published(block_set.name, "validate"), "$ref": "#/$defs/Message"})
    for block in block_set.blocks:
        for what, broken in faults(block):
            found = list(check.iter_errors({"role": block.roles[0], "blocks": [broken]}))
            assert len(found) == 1, (block.type, what, [error.message for error in found])
            assert list(found[0].absolute_path)[:2] == ["blocks", 0], (block.type, what)


def short_integer(digits: str) -> int:
    """An integer, cut where it is longer than the interpreter reads: only its type matters here."""
    return int(digits[:4000])


def vector_documents() -> Iterator[tuple[str, str, str, Any, bool]]:
    """(id, block set, entry, document, valid) of the vectors of `validate`; faults of the text itself apart."""
    for path in sorted(Path(__file__).with_name("vectors").rglob("*.json")):
        for case in load(path)["cases"]:
            if case["op"] != "validate" or case["entry"] not in ENTRIES:
                continue
            if TEXT_FAULTS & {error["code"] for error in case["expect"]["errors"]}:
                continue
            document = json.loads(case["text"], parse_int=short_integer) if "text" in case else case["document"]
            yield case["id"], case["block_set"], case["entry"], document, case["expect"]["valid"]


def test_vectors() -> None:
    count = 0
    for name, block_set, entry, document, valid in vector_documents():
        assert JUDGES[block_set].verdict(entry, document) == valid, name
        count += 1
    assert count > 300


def test_examples_of_the_bundles_are_valid() -> None:
    for block_set, kind in NAMES:
        schema = published(block_set, kind)
        for name, item in schema["$defs"].items():
            check = jsonschema_rs.validator_for({**schema, "$ref": f"#/$defs/{name}"})
            assert all(check.is_valid(example) for example in item.get("examples", ())), name
        assert not any(value == "" for place, value in walk(schema) if place[-1:] == ("description",))
