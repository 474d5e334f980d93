"""The schema: no fact stands twice, every name leads somewhere, every example is what it says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from schematools import FILES, SCHEMA, SPEC, load, walk

import turnspec
from codegen import ir
from codegen.checks import checked
from codegen.emitters import bundles
from codegen.emitters.docs_formats import source
from codegen.format_checks import check_formats

CODES = {item.code: item for item in SPEC.errors}

# --- Blocks and messages -----------------------------------------------------------------------------------


def validator(definition: str, block_set: ir.BlockSet | None = None) -> Draft202012Validator:
    """A validator of one definition of the newest bundle."""
    bundle = bundles.bundle(SPEC, block_set or SPEC.current, "validate")
    return Draft202012Validator({**bundle, "$ref": f"#/$defs/{definition}"})


@pytest.mark.parametrize("block", SPEC.blocks, ids=lambda block: str(block.type))
def test_every_property_has_a_description_and_valid_examples(block: ir.Block) -> None:
    check = validator(block.title)
    whole = {"type": block.type} | {item.name: item.examples[0] for item in block.fields if item.required}
    assert check.is_valid(whole)
    for name, item in block.schema["properties"].items():
        assert item["description"].endswith(".")
        assert item["examples"]
        for example in item["examples"]:
            assert check.is_valid({**whole, name: example}), (name, example)


@pytest.mark.parametrize("block", SPEC.blocks, ids=lambda block: str(block.type))
def test_absence_of_an_optional_field_means_something(block: ir.Block) -> None:
    for item in block.fields:
        if not item.required:
            assert item.nullable or item.default is not None, f"{item.name} needs a default, or may be null"
        else:
            assert item.default is None


@pytest.mark.parametrize("block", SPEC.blocks, ids=lambda block: str(block.type))
def test_what_a_block_says_of_its_fields_is_there(block: ir.Block) -> None:
    fields = {item.name for item in block.fields}
    named = [part for part in (block.text, block.reasoning, block.call, block.result) if part]
    names = {name for part in named for name in part.values()}
    names |= {block.media.data, block.media.type} if block.media else set()
    assert names <= fields


def test_examples_of_messages_validate() -> None:
    fields = {"role": "user", "blocks": []}
    for name, item in SPEC.message_schema["properties"].items():
        for example in item["examples"]:
            assert validator(SPEC.message["title"]).is_valid({**fields, name: example})
    for entry in ("conversation", "task"):
        for example in SPEC.message[entry]["examples"]:
            assert validator(SPEC.message[entry]["title"]).is_valid(example)


def test_names_of_types_are_unique() -> None:
    names = [block.title for block in SPEC.blocks]
    names += [name for role in SPEC.roles for name in (role.title, role.union)]
    names += [box.union for box in SPEC.containers]
    names += [SPEC.message["title"], *(SPEC.message[entry]["title"] for entry in ("conversation", "task"))]
    assert len(set(names)) == len(names)


def test_sets_grow() -> None:
    """A newer set keeps the blocks of the one before, in their order: what was valid stays valid."""
    for older, newer in zip(SPEC.sets, SPEC.sets[1:], strict=False):
        assert newer.types[: len(older.types)] == older.types
    assert SPEC.unadvertised in {item.name for item in SPEC.sets}


# --- No fact twice -----------------------------------------------------------------------------------------


def test_lists_of_blocks_stand_in_one_place() -> None:
    """Which blocks there are stands in block_sets.json, what becomes of each in formats and flatten."""
    kinds = {block.type for block in SPEC.blocks}
    for name in FILES:
        for place, value in walk(load(SCHEMA / name)):
            listed = isinstance(value, list) and len(kinds & {item for item in value if isinstance(item, str)}) > 1
            if listed:
                assert name == "block_sets.json", (name, place)
            if isinstance(value, dict) and len(kinds & set(value)) > 1 and not {"type", "role"} & set(value):
                assert name.startswith("formats/") or name == "flatten.json", (name, place)


def test_lists_of_roles_stand_in_one_place() -> None:
    roles = {role.name for role in SPEC.roles}
    for name in FILES:
        for place, value in walk(load(SCHEMA / name)):
            if isinstance(value, list) and roles <= {item for item in value if isinstance(item, str)}:
                assert name.startswith("blocks/"), (name, place)
                assert place == ("placement", "roles"), (name, place)


@pytest.mark.parametrize("what", ["code", "title", "explanation"])
def test_codes_say_different_things(what: str) -> None:
    said = [getattr(item, what) for item in (*SPEC.errors, *SPEC.server_checks)]
    assert sorted(said) == sorted(set(said))


def test_titles_of_codes_stand_nowhere_else() -> None:
    titles = {item.title for item in SPEC.errors}
    for name in FILES:
        if name != "errors.json":
            assert not titles & {value for _, value in walk(load(SCHEMA / name)) if isinstance(value, str)}, name


def test_long_texts_stand_once() -> None:
    """No description is written twice, that of `detail` apart: it is one field of many objects."""
    seen: dict[str, str] = {}
    for name in FILES:
        for place, value in walk(load(SCHEMA / name)):
            described = place[-1:] in {("description",), ("explanation",), ("fix",), ("summary",)}
            if described and isinstance(value, str) and len(value) > 60 and place[-2:-1] != ("detail",):
                where = f"{name}: {'/'.join(map(str, place))}"
                assert value not in seen, (where, seen[value])
                seen[value] = where


# --- Codes -------------------------------------------------------------------------------------------------


def test_codes_are_sorted() -> None:
    """Kinds one after another; those of the validator in the order in which they are found, others by name."""
    kinds = [item.kind for item in SPEC.errors]
    order = ["validation", "conversion", "loss", "rule"]
    assert kinds == sorted(kinds, key=order.index)
    for kind in order[1:]:
        names = [item.code for item in SPEC.errors if item.kind == kind]
        assert names == sorted(names)


def test_texts_of_codes_are_sentences() -> None:
    for item in (*SPEC.errors, *SPEC.server_checks):
        assert not item.title.endswith("."), item.code
        assert item.explanation.endswith("."), item.code
        assert item.fix.endswith("."), item.code


def test_rules_and_codes_agree() -> None:
    rules = checked(SPEC)
    assert {item.code for item in SPEC.errors if item.kind == "rule"} <= {rule.code for rule in rules}
    for rule in rules:
        item = CODES[rule.code]
        assert item.kind in ("rule", "conversion"), rule.code
        assert item.kind == "conversion" or item.severity == rule.severity, rule.code


def run_example(example: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What the operation of an example tells: (code, pointer, severity)."""
    messages: Any = example.get("messages")
    if "messages_text" in example:
        messages = json.loads(example["messages_text"])
    found: list[Any]
    match example["op"]:
        case "validate":
            document = example["text"] if "text" in example else example["document"]
            found = list(turnspec.iter_errors(document, entry=example["entry"], block_set=example.get("block_set")))
        case "convert":
            try:
                found = list(
                    turnspec.convert_with_report(messages, example["format"], purpose=example["purpose"]).losses
                )
            except turnspec.ConversionError as problem:
                found = list(problem.problems)
        case "downgrade":
            found = list(turnspec.downgrade_messages(messages, example["to"]).losses)
        case _:
            found = list(turnspec.check_rules(messages, example.get("format")))
    return [(item.code, item.pointer, item.severity) for item in found]


@pytest.mark.parametrize("code", CODES)
def test_example_of_a_code_gives_exactly_this_code(code: str) -> None:
    item = CODES[code]
    assert run_example(item.example) == [(code, item.example["pointer"], item.severity)]


# --- Formats -----------------------------------------------------------------------------------------------


def test_formats_account_for_every_block_and_field() -> None:
    check_formats(SPEC)


@pytest.mark.parametrize("item", SPEC.formats, ids=lambda item: str(item.name))
def test_codes_of_a_format_are_of_the_right_kind(item: ir.Format) -> None:
    raised: list[str | None] = [item.system.later, item.system.blank, *item.refuses]
    lost: list[str | None] = [item.system.joined, item.order_lost, *(slot.joined for slot in item.slots)]
    for rule in item.rules.values():
        raised += [rule.raises, rule.refused.code if rule.refused else None]
        lost += [loss.code for loss in rule.losses]
        lost += [
            part.joined for part in (ir.walk(rule.template) if rule.template else ()) if isinstance(part, ir.Texts)
        ]
    assert {CODES[code].kind for code in raised if code} <= {"conversion"}
    assert {CODES[code].kind for code in lost if code} <= {"loss"}


@pytest.mark.parametrize("item", SPEC.formats, ids=lambda item: str(item.name))
def test_templates_are_read_as_they_are_written(item: ir.Format) -> None:
    """The IR holds all that a template says: written back, it is the file."""
    data = load(SCHEMA / "formats" / f"{item.name}.json")
    assert data["format"] == item.name
    assert source(item.payload) == data["payload"]
    assert source(item.request) == data["request"]
    assert {role: source(turn) for role, turn in item.roles.items()} == data["roles"]
    for kind, rule in item.rules.items():
        written = data["blocks"][kind]
        assert (source(rule.template) if rule.template else None) == written.get("as", written.get("message"))


def test_aliases_are_of_formats() -> None:
    assert set(SPEC.aliases.values()) <= {item.name for item in SPEC.formats}
    for alias in SPEC.aliases:
        assert load(SCHEMA / "formats" / f"{alias}.json")["format"] == alias


# --- Wire --------------------------------------------------------------------------------------------------

WIRE = SPEC.wire


def wire_definitions() -> dict[str, Any]:
    """The schemas of the wire beside those of the newest bundle, and the unions that follow from flatten."""
    bundle = bundles.bundle(SPEC, SPEC.current, "validate")["$defs"]
    kept = [block.title for block in SPEC.current.blocks if SPEC.flatten.rules[block.type].as_is]
    unions = {name: {"oneOf": [{"$ref": f"#/$defs/{title}"} for title in kept]} for name in WIRE["unions"]}
    assert not set(bundle) & (set(WIRE["schemas"]) | set(unions)), "a name of the bundle is taken again"
    return {**bundle, **unions, **WIRE["schemas"]}


def test_references_of_the_wire_lead_somewhere() -> None:
    definitions = wire_definitions()
    named = {value["$ref"] for _, value in walk(WIRE) if isinstance(value, dict) and "$ref" in value}
    assert {name.removeprefix("#/$defs/") for name in named} <= set(definitions)
    used = json.dumps(WIRE)
    for name in (*WIRE["schemas"], *WIRE["unions"]):
        assert f'"#/$defs/{name}"' in used or name == "Error", f"{name} is not used"


@pytest.mark.parametrize("name", WIRE["schemas"])
def test_examples_of_the_wire_validate(name: str) -> None:
    check = Draft202012Validator({"$defs": wire_definitions(), "$ref": f"#/$defs/{name}"})
    for example in WIRE["schemas"][name]["examples"]:
        check.validate(example)


def test_routes_name_what_there_is() -> None:
    routes = WIRE["routes"]
    assert len({route["name"] for route in routes}) == len(routes)
    assert len({(route["method"], route["path"]) for route in routes}) == len(routes)
    for route in routes:
        assert set(route["errors"]) <= set(WIRE["errors"]), route["name"]
        assert set(route["parameters"]) <= set(WIRE["parameters"]), route["name"]
        assert ("{env}" in route["path"]) == ("env" in route["parameters"]), route["name"]
        assert route["session"] == ("session" in route["parameters"]), route["name"]
        assert route["session"] == ("no_session_header" in route["errors"]), route["name"]
        assert not (route["method"] == "GET" and route["request"]), route["name"]
        statuses = [WIRE["errors"][name]["status"] for name in route["errors"]]
        assert statuses == sorted(statuses), route["name"]
    assert {"messages", "prompt", "tools", "task_tools", "splits", "tasks", "call", "ping", "delete"} <= {
        route["name"] for route in routes
    }


def test_error_answers_of_the_wire_validate() -> None:
    check = Draft202012Validator({"$defs": wire_definitions(), "$ref": "#/$defs/Error"})
    for item in WIRE["errors"].values():
        check.validate({"detail": [] if item["detail"] is None else item["detail"]})
