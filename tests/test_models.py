"""The pydantic models: the same verdict and the same codes as the schema, and constructors that types agree with."""

from __future__ import annotations

import copy
import inspect
import json
import pickle
import random
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import jsonschema_rs
import openreward.environments.types as reference
import pytest
from pydantic import TypeAdapter, ValidationError

from tests import strategies
from turnspec import MESSAGE_BLOCK_TYPES, iter_errors
from turnspec_generated import models, names
from turnspec_generated.model_base import codes
from turnspec_generated.models import Message, TextBlock, ToolCallBlock, ToolResultBlock

ROOT = Path(__file__).resolve().parent.parent
BLOCKS = {tag: getattr(models, title) for title, tag in names.MODELS.items()}
Wire = dict[str, Any]


def found(document: Any, model: Any = Message) -> list[tuple[str, str]]:
    """The codes and pointers of a document; none where it is valid."""
    try:
        model.model_validate(document)
    except ValidationError as error:
        return codes(error)
    return []


def cases() -> Iterator[Any]:
    for path in sorted((ROOT / "tests" / "vectors").glob("validate-*.json")):
        for case in json.loads(path.read_text(encoding="utf-8"))["cases"]:
            if case["block_set"] == names.CURRENT and case["entry"] == "message" and "document" in case:
                yield pytest.param(case["document"], case["expect"]["errors"], id=case["id"])


# --- Verdict and codes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("document", "errors"), list(cases()))
def test_vectors(document: Any, errors: list[dict[str, str]]) -> None:
    assert found(document) == [(item["code"], item["pointer"]) for item in errors]


def mutant(rng: random.Random) -> Any:
    """A message with a few random changes anywhere in it."""
    document: Any = copy.deepcopy(rng.choice(strategies.seeded(rng.randrange(10_000)) or [{}]))
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        document = _changed(document, rng)
    return document


def _changed(document: Any, rng: random.Random) -> Any:
    nodes = list(_nodes(document))
    if not nodes:
        return copy.deepcopy(rng.choice(JUNK))
    holder, key = rng.choice(nodes)
    match rng.randrange(6):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, dict):
            holder[rng.choice(("type", "role", "blocks", "text", "detail", "x", "a/b~c", ""))] = copy.deepcopy(
                rng.choice(JUNK)
            )
        case 2 if isinstance(holder, list):
            holder.insert(key, copy.deepcopy(rng.choice((*JUNK, *holder))))
        case 3 | 4:
            tagged = [node for node in nodes if node[1] in ("type", "role")]
            holder, key = rng.choice(tagged or nodes)
            holder[key] = rng.choice((*MESSAGE_BLOCK_TYPES, *names.ROLES))
        case _:
            holder[key] = copy.deepcopy(rng.choice(JUNK))
    return document


def _nodes(value: Any) -> Iterator[tuple[Any, Any]]:
    keys: Any = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _nodes(value[key])


JUNK: tuple[Any, ...] = (
    *(None, True, False, 0, 1, 1.5, 10**30, "", "text", "user", "tool", "Text", [], {}, [[]], [None]),
    {"a": {"b": None}},
    {"type": "text", "text": "x"},
    {"type": "text"},
    {"type": None, "text": "x"},
    {"text": "x"},
)  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_verdict_and_codes_are_those_of_the_schema_and_the_explainer(seed: int) -> None:
    bundle = json.loads((ROOT / f"generated/schemas/{names.CURRENT}/validate.schema.json").read_text("utf-8"))
    schema = jsonschema_rs.validator_for({**bundle, "$ref": "#/$defs/Message"})
    rng = random.Random(seed)
    seen: set[str] = set()
    for _ in range(500):
        document = mutant(rng)
        given = found(document)
        assert bool(given) is not schema.is_valid(document), document
        errors = iter_errors([document], entry="conversation")
        assert given == [(item.code, item.pointer.removeprefix("/0")) for item in errors], document
        assert not given or not _json_valid(document), document
        seen.update(code for code, _ in given)
    assert seen == {
        *("block_placement", "unknown_block_type", "unknown_role", "wrong_type"),
        *("missing_type", "missing_field", "unknown_field"),
    }


def _json_valid(document: Any) -> bool:
    try:
        Message.model_validate_json(json.dumps(document))
    except ValidationError:
        return False
    return True


@pytest.mark.parametrize("seed", range(20))
def test_what_is_valid_is_read_and_written_unchanged(seed: int) -> None:
    for wire in strategies.seeded(seed):
        message = Message.model_validate(wire)
        assert found(wire) == []
        dumped = message.model_dump(exclude_none=True)
        assert _without_defaults(dumped) == _without_defaults(wire)
        assert Message.model_validate(dumped) == message
        assert Message.model_validate_json(message.model_dump_json()) == message
        assert Message.model_validate_json(json.dumps(wire)) == message


def _without_defaults(wire: Wire) -> Wire:
    """A message or block without the fields that mean the same when they are absent."""
    absent = {"is_error": False, "detail": None, "signature": None}
    kept = {key: value for key, value in wire.items() if key not in absent or value is not absent[key]}
    if "blocks" in kept:
        kept["blocks"] = [_without_defaults(block) for block in kept["blocks"]]
    return kept


@pytest.mark.parametrize(
    "document",
    [
        {"role": "user", "blocks": [{"type": "text", "text": b"x"}]},
        {"role": "user", "blocks": ({"type": "text", "text": "x"},)},
        {"role": "user", "blocks": [], "detail": {1: 2}},
        {"role": "user", "blocks": iter([])},
    ],
)
def test_nothing_is_coerced(document: Any) -> None:
    assert found(document)


# --- Placement ---------------------------------------------------------------------------------------------


def instances(tag: str) -> Any:
    """A block of the type, made from the examples in the schema."""
    block = next(block for block in strategies.spec().current.blocks if block.type == tag)
    return BLOCKS[tag](**{field.name: field.examples[0] for field in block.fields if field.required})


@pytest.mark.parametrize("role", names.ROLES)
@pytest.mark.parametrize("tag", MESSAGE_BLOCK_TYPES)
def test_placement_in_roles(role: str, tag: str) -> None:
    block_set = strategies.spec().current
    allowed = [block.type for block in block_set.in_role(role)]
    blocks = [instances(allowed[0]), instances(tag)]
    if tag in allowed:
        assert Message(role=cast(Any, role), blocks=blocks).blocks == blocks
        return
    with pytest.raises(ValidationError) as caught:
        Message(role=cast(Any, role), blocks=blocks)
    _is_placement_error(caught.value, ("blocks", 1), allowed)
    homes = [role.name for role in strategies.spec().roles if tag in [b.type for b in block_set.in_role(role.name)]]
    assert all(home in str(caught.value) for home in homes)


@pytest.mark.parametrize("tag", MESSAGE_BLOCK_TYPES)
def test_placement_in_tool_results(tag: str) -> None:
    allowed = [block.type for block in strategies.spec().current.in_container("tool_result")]
    if tag in allowed:
        assert ToolResultBlock(tool_call_id="1", blocks=[instances(tag)]).blocks == [instances(tag)]
        return
    with pytest.raises(ValidationError) as caught:
        ToolResultBlock(tool_call_id="1", blocks=[instances(tag)])
    _is_placement_error(caught.value, ("blocks", 0), allowed)
    with pytest.raises(ValidationError) as caught:
        Message.model_validate(
            {"role": "user", "blocks": [{"type": "tool_result", "tool_call_id": "1", "blocks": [{"type": tag}]}]}
        )
    _is_placement_error(caught.value, ("blocks", 0, "blocks", 0), allowed)


def _is_placement_error(error: ValidationError, path: tuple[int | str, ...], allowed: list[str]) -> None:
    assert isinstance(error, ValueError)
    (item,) = error.errors()
    assert (item["type"], item["loc"]) == ("block_placement", path)
    assert f"allowed: {', '.join(allowed)}; hint: " in item["msg"]
    assert item["ctx"]["allowed"] == allowed
    assert item["ctx"]["hint"]


def test_all_errors_are_told_and_their_locations_are_json_paths() -> None:
    document = {
        "role": "user",
        "blocks": [{"type": "text"}, {"type": "reasoning"}, {"type": "image", "data": 1}],
        "x": 1,
    }
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(list[Message]).validate_python([document])
    assert {(item["type"], item["loc"]) for item in caught.value.errors()} == {
        ("missing", (0, "blocks", 0, "text")),
        ("block_placement", (0, "blocks", 1)),
        ("string_type", (0, "blocks", 2, "data")),
        ("missing", (0, "blocks", 2, "mimeType")),
        ("extra_forbidden", (0, "x")),
    }


# --- The tag -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tag", MESSAGE_BLOCK_TYPES)
def test_a_call_may_leave_the_type_out_and_data_may_not(tag: str) -> None:
    block = instances(tag)
    cls = type(block)
    wire = block.model_dump(exclude_none=True)
    assert next(iter(wire.items())) == ("type", tag)
    assert cls.model_validate(wire) == cls(**wire) == block
    del wire["type"]
    assert cls(**wire) == block
    assert found(wire, cls)[-1] == ("missing_type", "")
    with pytest.raises(ValidationError):
        cls.model_validate_json(json.dumps(wire))
    assert found({**wire, "type": "audible"}, cls) == [("unknown_block_type", "/type")]
    role = strategies.spec().current.blocks[MESSAGE_BLOCK_TYPES.index(tag)].roles[0]
    assert found({"role": role, "blocks": [wire]}) == [("missing_type", "/blocks/0")]


@pytest.mark.parametrize("options", [{}, {"exclude_none": True}, {"exclude_unset": True}, {"exclude_defaults": True}])
def test_dumps_keep_the_type(options: dict[str, Any]) -> None:
    message = Message(role="user", blocks=[ToolResultBlock(tool_call_id="1", blocks=[TextBlock(text="x")])])
    for dumped in (message.model_dump(**options), json.loads(message.model_dump_json(**options))):
        assert list(dumped)[:2] == ["role", "blocks"]
        result = dumped["blocks"][0]
        assert next(iter(result)) == next(iter(result["blocks"][0])) == "type"
        assert found(dumped) == []


def test_dumps_keep_nulls_inside_of_free_objects() -> None:
    call = ToolCallBlock(id="1", name="f", input={"a": None, "b": 10**400})
    assert call.model_dump(exclude_none=True)["input"] == {"a": None, "b": 10**400}
    assert '"a":null' in call.model_dump_json(exclude_none=True)


# --- Objects -----------------------------------------------------------------------------------------------


def test_copies_pickles_and_subclasses() -> None:
    message = Message(role="assistant", blocks=[ToolCallBlock(id="1", name="f", input={"a": [1]})], detail={"k": 1})
    assert message == message.model_copy(deep=True) == copy.deepcopy(message) == pickle.loads(pickle.dumps(message))
    assert message != message.model_copy(update={"detail": None})
    assert Message.model_validate(message) is message
    assert TextBlock.model_construct(text="x") == TextBlock(text="x")

    class Stamped(Message):
        at: float = 0.0

    class Loud(TextBlock):
        """Still a text block."""

    assert Stamped(role="user", blocks=[Loud(text="x")], at=1.5).model_dump()["blocks"][0]["type"] == "text"
    late = {"role": "user", "blocks": [{"type": "reasoning"}], "at": "late"}
    assert found(late, Stamped) == [("block_placement", "/blocks/0"), ("wrong_type", "/at")]


def test_json_schema_and_docstrings_come_from_the_schema() -> None:
    assert set(Message.model_json_schema()["required"]) == {"role", "blocks"}
    for block in strategies.spec().current.blocks:
        schema = BLOCKS[block.type].model_json_schema()
        assert schema["required"] == block.schema["required"]
        assert schema["additionalProperties"] is False
        assert inspect.getdoc(BLOCKS[block.type]) == schema["description"] == block.description
        for name, item in block.schema["properties"].items():
            assert schema["properties"][name]["description"] == item["description"]


def test_fields_are_those_of_the_reference() -> None:
    for name in ("Message", *names.MODELS):
        ours, theirs = getattr(models, name).model_fields, getattr(reference, name, None)
        if theirs is not None:  # a block that the reference does not know
            assert {key: ours[key].is_required() for key in ours} == {
                key: item.is_required() for key, item in theirs.model_fields.items()
            }
            assert {key: ours[key].default for key in ours} == {
                key: item.default for key, item in theirs.model_fields.items()
            }
    for cls in (TextBlock, reference.TextBlock):
        with pytest.raises(TypeError):
            cast(Any, cls)("positional")


# --- Type checkers -----------------------------------------------------------------------------------------

FINE = """
    from typing import Literal

    from turnspec import ImageBlock, Message, ReasoningBlock, TextBlock, ToolCallBlock, ToolResultBlock

    text = TextBlock(text="hi")
    tag: Literal["text"] = text.type
    texts = [text]
    prompt: list[TextBlock | ImageBlock] = [text, ImageBlock(data="", mimeType="image/png")]
    user = Message(role="user", blocks=[TextBlock(text="hi")])
    Message(role="user", blocks=texts)
    Message(role="user", blocks=prompt, detail={"a": 1})
    Message(role="user", blocks=[ToolResultBlock(tool_call_id="1", blocks=texts, is_error=True)])
    Message(role="assistant", blocks=[ReasoningBlock(text="t"), ToolCallBlock(id="1", name="f", input={"a": 1})])
    for block in user.blocks:
        if block.type == "tool_result":
            print(block.tool_call_id, block.blocks[0].type)
        elif isinstance(block, TextBlock):
            print(block.text.upper())
"""
WRONG = """
    from turnspec import Message, TextBlock, ToolCallBlock, ToolResultBlock

    TextBlock()
    TextBlock(text=1)
    TextBlock("hi")
    TextBlock(text="hi", typ="text")
    TextBlock(text="hi", type="image")
    Message(role="tool", blocks=[])
    Message(role="user", blocks=["x"])
    Message(role="user", blocks=[], detail=[])
    ToolResultBlock(tool_call_id="1", blocks=[ToolCallBlock(id="1", name="f", input={})])
"""


def test_type_checkers_agree(tmp_path: Path) -> None:
    for name, program in (("fine", FINE), ("wrong", WRONG)):
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(program), encoding="utf-8")
    (tmp_path / "mypy.ini").write_text("[mypy]\n", encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-pretty", "--hide-error-context", "fine.py", "wrong.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False)
    told = {tuple(line.split(":")[:2]) for line in done.stdout.splitlines() if ": error: " in line}
    lines = WRONG.strip("\n").splitlines()
    assert told == {("wrong.py", str(number)) for number, line in enumerate(lines, 2) if "(" in line}, done.stdout
    assert subprocess.run([sys.executable, "fine.py"], cwd=tmp_path, check=False).returncode == 0
