"""The meta-schemas: every schema file follows its own, and each refuses what is misspelt, unknown or missing."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from jsonschema import Draft202012Validator
from schematools import FILES, META, METAS, SCHEMA, load, meta, meta_of, walk

from codegen.format_checks import check_formats
from codegen.output import check_frozen
from codegen.reader import SchemaError, read


@pytest.mark.parametrize("name", FILES)
def test_file_follows_its_meta_schema(name: str) -> None:
    schema, value = meta(meta_of(name)), load(SCHEMA / name)
    found = [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(value)]
    assert found == []
    assert jsonschema_rs.validator_for(schema).is_valid(value)


@pytest.mark.parametrize("name", METAS)
def test_meta_schema_is_valid_and_named(name: str) -> None:
    schema = meta(name)
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"urn:turnspec:meta:{name}"
    assert schema["title"]
    assert schema["description"]
    assert name in {meta_of(file) for file in FILES}, f"no file follows {META / name}"


@pytest.mark.parametrize("name", METAS)
def test_meta_schema_describes_every_property(name: str) -> None:
    """Each key of a closed object has a description; `true` stands for a key that is described beside it."""
    for place, value in walk(meta(name)):
        if isinstance(value, dict) and value.get("additionalProperties") is False:
            for key, item in value["properties"].items():
                assert item is True or "description" in item, (place, key)


# What is changed: the file, the place in it as a JSON pointer, and the new value.
Change = tuple[str, str, Any]
GONE = object()
CHANGES: dict[str, Change] = {
    "block: misspelt key": ("blocks/text.json", "/sumary", "x"),
    "block: misspelt placement": ("blocks/text.json", "/placement/role", ["user"]),
    "block: misspelt keyword": ("blocks/text.json", "/schema/properties/text/minlength", 1),
    "block: unhandled keyword": ("blocks/text.json", "/schema/properties/text/minLength", 1),
    "block: misspelt part of media": ("blocks/image.json", "/media/mime", "mimeType"),
    "message: misspelt key": ("message.json", "/role", {}),
    "message: misspelt key of a role": ("message.json", "/roles/user/name", "x"),
    "sets: misspelt key": ("block_sets.json", "/sets/0/block", ["text"]),
    "errors: misspelt key": ("errors.json", "/codes/0/fixes", "x"),
    "errors: misspelt key of an example": ("errors.json", "/codes/0/example/entries", "message"),
    "rules: misspelt key": ("rules.json", "/rules/0/format", ["openai"]),
    "flatten: misspelt key": ("flatten.json", "/blocks/reasoning/details", {}),
    "format: misspelt key": ("formats/openai.json", "/slot", {}),
    "format: misspelt key of a block": ("formats/openai.json", "/blocks/text/loose", {}),
    "format: misspelt key of ids": ("formats/openai.json", "/call_ids/maxlength", 3),
    "format: misspelt key of system": ("formats/google.json", "/system/joins", "x"),
    "format: misspelt key of an operation": (
        "formats/google.json",
        "/blocks/tool_result/as/function_response/response/els",
        "x",
    ),
    "index: misspelt key": ("formats/index.json", "/format", []),
    "checks: misspelt key": ("server_checks.json", "/check", []),
    "checks: misspelt key of a code": ("server_checks.json", "/checks/0/fixes", "x"),
    "checks: no example": ("server_checks.json", "/checks/0/example", GONE),
    "checks: unknown severity": ("server_checks.json", "/checks/0/severity", "info"),
    "wire: misspelt key": ("wire.json", "/route", []),
    "wire: misspelt key of a route": ("wire.json", "/routes/0/respons", None),
    "block: no summary": ("blocks/text.json", "/summary", GONE),
    "block: no description": ("blocks/text.json", "/schema/description", GONE),
    "block: empty description": ("blocks/text.json", "/schema/description", " "),
    "block: field without description": ("blocks/text.json", "/schema/properties/text/description", GONE),
    "block: field without example": ("blocks/text.json", "/schema/properties/text/examples", GONE),
    "block: field with no examples": ("blocks/text.json", "/schema/properties/text/examples", []),
    "block: tag without example": ("blocks/text.json", "/schema/properties/type/examples", GONE),
    "block: without a tag": ("blocks/text.json", "/schema/properties/type", GONE),
    "block: tag not required": ("blocks/text.json", "/schema/required", ["text"]),
    "block: open": ("blocks/text.json", "/schema/additionalProperties", True),
    "block: not closed": ("blocks/text.json", "/schema/additionalProperties", GONE),
    "block: stands nowhere": ("blocks/text.json", "/placement", {"roles": [], "containers": []}),
    "block: unknown type": ("blocks/text.json", "/schema/properties/text/type", "text"),
    "block: three types": ("blocks/text.json", "/schema/properties/text/type", ["string", "null", "object"]),
    "block: array of anything": ("blocks/tool_result.json", "/schema/properties/blocks/items", GONE),
    "block: array of a copy": ("blocks/tool_result.json", "/schema/properties/blocks/items", {"type": "object"}),
    "block: bytes that are no hex": ("blocks/image.json", "/media/magic", {"image/png": [["PNG", 0]]}),
    "message: field without example": ("message.json", "/schema/properties/detail/examples", GONE),
    "message: role without description": ("message.json", "/roles/user/description", GONE),
    "message: task without example": ("message.json", "/task/examples", GONE),
    "sets: no description": ("block_sets.json", "/sets/0/description", GONE),
    "sets: unknown status": ("block_sets.json", "/sets/0/status", "frozen"),
    "sets: released without digest": ("block_sets.json", "/sets/0/sha256", {}),
    "sets: draft with digest": ("block_sets.json", "/sets/1/status", "draft"),
    "sets: digest too short": ("block_sets.json", "/sets/0/sha256/types", "ab"),
    "sets: a block twice": ("block_sets.json", "/sets/0/blocks", ["text", "text"]),
    "sets: a name that is no version": ("block_sets.json", "/sets/0/name", "first"),
    "errors: no title": ("errors.json", "/codes/0/title", GONE),
    "errors: empty fix": ("errors.json", "/codes/0/fix", ""),
    "errors: no example": ("errors.json", "/codes/0/example", GONE),
    "errors: example without pointer": ("errors.json", "/codes/0/example/pointer", GONE),
    "errors: pointer that is none": ("errors.json", "/codes/0/example/pointer", "blocks"),
    "errors: unknown operation": ("errors.json", "/codes/0/example/op", "check"),
    "errors: example of another operation": ("errors.json", "/codes/0/example/op", "rules"),
    "errors: unknown kind": ("errors.json", "/codes/0/kind", "schema"),
    "errors: unknown severity": ("errors.json", "/codes/0/severity", "fatal"),
    "errors: validation that only warns": ("errors.json", "/codes/0/severity", "warning"),
    "rules: unknown severity": ("rules.json", "/rules/0/severity", "hint"),
    "rules: no description": ("rules.json", "/rules/0/description", GONE),
    "rules: no format": ("rules.json", "/rules/0/formats", []),
    "flatten: half a rule": ("flatten.json", "/blocks/reasoning/detail", GONE),
    "flatten: two rules": ("flatten.json", "/blocks/reasoning/as_is", True),
    "flatten: brace": ("flatten.json", "/blocks/reasoning/text", "{text"),
    "format: no description": ("formats/openai.json", "/description", GONE),
    "format: two ways for a block": ("formats/openai.json", "/blocks/text/raise", "order_lost"),
    "format: no way for a block": ("formats/openai.json", "/blocks/text", {}),
    "format: slot without template": ("formats/openai.json", "/blocks/text/as", GONE),
    "format: unknown operation": ("formats/openai.json", "/blocks/text/as/text", {"$upper": "text"}),
    "format: two operations": ("formats/openai.json", "/blocks/text/as/text", {"$json": "text", "$call": "id"}),
    "format: half an operation": ("formats/openai.json", "/blocks/tool_result/message/content", {"$texts": "blocks"}),
    "format: operation of a turn in a block": (
        "formats/openai.json",
        "/blocks/text/as/text",
        {"$or": "a", "with": "b", "then": None, "else": None},
    ),
    "format: operation of a block in a turn": ("formats/openai.json", "/roles/user/content", {"$json": "content"}),
    "format: list in a template": ("formats/openai.json", "/blocks/text/as/text", ["$text"]),
    "format: unknown field of a call": (
        "formats/google.json",
        "/blocks/tool_result/as/function_response/name",
        {"$call": "title"},
    ),
    "format: unknown place of system": ("formats/google.json", "/system/place", "first"),
    "format: hoisted without code": ("formats/google.json", "/system/later", GONE),
    "format: unknown kind of slot": ("formats/google.json", "/slots/content/kind", "bag"),
    "format: unknown way to join turns": ("formats/google.json", "/pairing/join_assistant_turns", "always"),
    "format: unknown order of results": ("formats/google.json", "/pairing/results", "last"),
    "format: ids of no use": ("formats/google.json", "/call_ids/rewrite", "call_{n}"),
    "format: ids without a way out": ("formats/openai.json", "/call_ids/rewrite", GONE),
    "format: ids that do not count": ("formats/openai.json", "/call_ids/rewrite", "call"),
    "format: anchored pattern": ("formats/openai.json", "/tool_names/pattern", "^[a-z]+$"),
    "format: unknown blank": ("formats/openai.json", "/blank_text/turn", "spaces"),
    "format: unknown check": ("formats/openai.json", "/refuses", ["too_long"]),
    "format: unknown time of a loss": ("formats/openai.json", "/blocks/reasoning/lose/signature/when", "never"),
    "format: alias with a life of its own": ("formats/openrouter.json", "/slots", {}),
    "index: no list": ("formats/index.json", "/formats", "openai"),
    "wire: unknown method": ("wire.json", "/routes/0/method", "FETCH"),
    "wire: no summary": ("wire.json", "/routes/0/summary", GONE),
    "wire: neither answer nor stream": ("wire.json", "/routes/0/response", GONE),
    "wire: schema copied into a route": ("wire.json", "/routes/0/response", {"type": "object"}),
    "wire: schema without example": ("wire.json", "/schemas/Health/examples", GONE),
    "wire: property without description": ("wire.json", "/schemas/Health/properties/status/description", GONE),
    "wire: unknown keyword": ("wire.json", "/schemas/Health/nullable", True),
}


def changed(value: Any, pointer: str, new: Any) -> Any:
    """A JSON document with one value set, added or taken away."""
    *way, last = pointer.removeprefix("/").split("/")
    target = value
    for key in way:
        target = target[int(key) if isinstance(target, list) else key]
    place: Any = int(last) if isinstance(target, list) else last
    if new is GONE:
        del target[place]
    else:
        target[place] = new
    return value


@pytest.mark.parametrize("name", CHANGES)
def test_meta_schema_refuses(name: str) -> None:
    file, pointer, new = CHANGES[name]
    value = changed(load(SCHEMA / file), pointer, new)
    schema = meta(meta_of(file))
    assert not Draft202012Validator(schema).is_valid(value)
    assert not jsonschema_rs.validator_for(schema).is_valid(value)


# What no meta-schema can see: one file contradicts another.
REFERENCES: dict[str, Change] = {
    "unknown role": ("blocks/text.json", "/placement/roles", ["tool"]),
    "unknown container": ("blocks/text.json", "/placement/containers", ["image"]),
    "a tag unlike the name of the file": ("blocks/text.json", "/schema/properties/type/const", "txt"),
    "a block in no set": ("block_sets.json", "/sets/1/blocks", ["text", "image", "reasoning", "tool_call"]),
    "a block without a file": ("block_sets.json", "/sets/1/blocks/0", "video"),
    "a format without a block": ("formats/openai.json", "/blocks/image", GONE),
    "an unknown code": ("formats/google.json", "/blocks/reasoning/raise", "no_such_code"),
    "a format that is not listed": ("formats/index.json", "/formats", ["openai", "anthropic", "google"]),
    "flatten without a block": ("flatten.json", "/blocks/image", GONE),
    "a check with the code of something else": ("server_checks.json", "/checks/0/code", "bad_base64"),
    "a rule of an unknown code": ("rules.json", "/rules/0/code", "no_such_code"),
    "a changed released set": ("blocks/text.json", "/schema/description", "Some text."),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_reader_names_the_file_that_contradicts_the_rest(name: str, tmp_path: Path) -> None:
    file, pointer, new = REFERENCES[name]
    shutil.copytree(SCHEMA, tmp_path / "schema")
    path = tmp_path / "schema" / file
    path.write_text(json.dumps(changed(load(path), pointer, new)), encoding="utf-8")
    with pytest.raises(SchemaError, match=r"\.json"):
        check_frozen(read(tmp_path / "schema"))


# What a format would lose, or name in vain.
FORMATS: dict[str, tuple[str, str, Any, str]] = {
    "unknown slot": ("openai", "/blocks/text/slot", "body", "the slot 'body'"),
    "unknown slot in a turn": ("openai", "/roles/user/content", "$body", "the slot 'body'"),
    "unknown slot to fall back on": ("openai", "/roles/assistant/content/with", "body", "the slot 'body'"),
    "unknown role": ("openai", "/roles/tool", {"role": "tool"}, "no role 'tool'"),
    "silent on a role": ("anthropic", "/roles/user", GONE, "role 'user'"),
    "silent on system turns": ("openai", "/roles/system", GONE, "role 'system'"),
    "unknown field": ("openai", "/blocks/text/as/text", "$txt", "no field 'txt'"),
    "unknown field in an operation": ("openai", "/blocks/tool_call/as/function/arguments/$json", "x", "no field 'x'"),
    "unknown field that is lost": (
        "openai",
        "/blocks/reasoning/lose",
        {"sign": {"code": "signature_dropped", "when": "set"}},
        "no field 'sign'",
    ),
    "field that would get lost": ("openai", "/blocks/tool_result/lose", GONE, "'is_error' in silence"),
    "field that is not sent": ("anthropic", "/blocks/reasoning/as/signature?", GONE, "'signature' in silence"),
    "media of any type": ("openai", "/blocks/image/media_types", GONE, "name the media_types"),
    "media without a value": (
        "google",
        "/blocks/image/as/inline_data/mime_type",
        {"$map": "mimeType", "values": {"image/png": "png"}},
        "no value for it",
    ),
    "refused where it may not stand": (
        "openai",
        "/blocks/reasoning/refused_in",
        {"roles": ["user"], "containers": [], "code": "image_placement"},
        "is refused in 'user'",
    ),
    "image in system text": ("google", "/blocks/image/refused_in/roles", [], "system turns, which become text"),
    "image in a text result": (
        "google",
        "/blocks/image/refused_in/containers",
        [],
        "'tool_result', which becomes text",
    ),
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_that_would_lose_something_is_refused(name: str, tmp_path: Path) -> None:
    format, pointer, new, message = FORMATS[name]
    shutil.copytree(SCHEMA, tmp_path / "schema")
    path = tmp_path / "schema" / "formats" / f"{format}.json"
    path.write_text(json.dumps(changed(load(path), pointer, new)), encoding="utf-8")
    with pytest.raises(SchemaError, match=re.escape(message)) as caught:
        check_formats(read(tmp_path / "schema"))
    assert str(caught.value).startswith(f"formats/{format}.json: ")


def test_reader_names_the_place_that_the_meta_schema_refuses(tmp_path: Path) -> None:
    shutil.copytree(SCHEMA, tmp_path / "schema")
    path = tmp_path / "schema" / "blocks" / "text.json"
    path.write_text(json.dumps(changed(load(path), "/schema/properties/text/minLength", 1)), encoding="utf-8")
    with pytest.raises(SchemaError, match=r"blocks/text\.json: at /schema/properties/text: .*minLength"):
        read(tmp_path / "schema")


@pytest.mark.parametrize(("text", "problem"), [('{"a": 1, "a": 2}', "twice"), ("{", "Expecting")])
def test_reader_refuses_what_is_no_plain_json(text: str, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SchemaError, match=problem):
        load(path)
