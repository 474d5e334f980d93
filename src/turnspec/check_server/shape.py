"""Whether JSON follows a schema of the OpenAPI document: the few keywords that it uses, and words for what differs."""

from __future__ import annotations

import json
from functools import lru_cache
from importlib import resources
from typing import Any

REF = "#/components/schemas/"
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


@lru_cache(maxsize=1)
def schemas() -> dict[str, Any]:
    """The schemas of the wire, by name."""
    text = (resources.files("turnspec_generated") / "openapi.json").read_text("utf-8")
    found: dict[str, Any] = json.loads(text)["components"]["schemas"]
    return found


def differences(value: Any, name: str) -> list[str]:
    """What keeps `value` from being a `name`, each as "/pointer: words"; [] where it is one."""
    found: list[str] = []
    _check(value, schemas()[name], "", found)
    return found


def _check(value: Any, schema: dict[str, Any], place: str, found: list[str]) -> None:
    if "$ref" in schema:
        _check(value, schemas()[schema["$ref"].removeprefix(REF)], place, found)
        return
    types = schema.get("type")
    names = [types] if isinstance(types, str) else types or []
    if names and not any(_is(value, name) for name in names):
        found.append(f"{place or '(root)'}: is {kind_of(value)}, not {' or '.join(names)}")
        return
    if "const" in schema and value != schema["const"]:
        found.append(f"{place or '(root)'}: is not {json.dumps(schema['const'])}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{place or '(root)'}: is none of {', '.join(map(json.dumps, schema['enum']))}")
    if "oneOf" in schema:
        _check_one(value, schema["oneOf"], place, found)
    if isinstance(value, dict):
        _check_object(value, schema, place, found)
    if isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            _check(item, schema["items"], f"{place}/{index}", found)


def _check_object(value: dict[str, Any], schema: dict[str, Any], place: str, found: list[str]) -> None:
    properties = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            found.append(f"{place or '(root)'}: lacks {name}")
    for name, item in value.items():
        if name in properties:
            _check(item, properties[name], f"{place}/{name}", found)
        elif schema.get("additionalProperties") is False:
            found.append(f"{place or '(root)'}: has the unknown key {name!r}")


def _check_one(value: Any, choices: list[dict[str, Any]], place: str, found: list[str]) -> None:
    """One of the choices must fit; else what is told is what differs least."""
    attempts: list[list[str]] = []
    for choice in choices:
        attempt: list[str] = []
        _check(value, choice, place, attempt)
        if not attempt:
            return
        attempts.append(attempt)
    found += sorted(attempts, key=len)[0]


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES[name]) or (name == "integer" and isinstance(value, float) and value.is_integer())


def kind_of(value: Any) -> str:
    """The JSON type of a value."""
    if isinstance(value, bool):
        return "boolean"
    return next(name for name, types in _TYPES.items() if isinstance(value, types) and name != "integer")
