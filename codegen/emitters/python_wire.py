"""The HTTP surface as Python tables: routes, faults, request bodies, framing and times of `schema/wire.json`."""

from __future__ import annotations

from typing import Any

from ..ir import Spec
from ..reader import REF
from .common import HEADER, PACKAGE, template


def emit(spec: Spec) -> dict[str, str]:
    """python/turnspec_generated/wire.py -> text."""
    wire = spec.wire
    return {
        f"{PACKAGE}/wire.py": template(
            "python/wire.py.j2",
            header=HEADER,
            wire=wire,
            headers={name: item["name"] for name, item in wire["parameters"].items() if item["in"] == "header"},
            requests=_requests(wire),
            name_of=lambda reference: reference and reference["$ref"].removeprefix(REF),
        )
    }


def _requests(wire: dict[str, Any]) -> dict[str, Any]:
    """The request bodies and the schemas of this file that they refer to, without words and examples."""
    found: dict[str, Any] = {}
    todo = [route["request"]["$ref"] for route in wire["routes"] if route["request"]]
    while todo:
        name = todo.pop(0).removeprefix(REF)
        if name not in found and name in wire["schemas"]:
            found[name] = _bare(wire["schemas"][name])
            todo += _references(found[name])
    return found


def _bare(schema: dict[str, Any]) -> dict[str, Any]:
    bare: dict[str, Any] = {}
    for key, value in schema.items():
        match key:
            case "description" | "examples":
                continue
            case "properties":
                bare[key] = {name: _bare(item) for name, item in value.items()}
            case "items":
                bare[key] = _bare(value)
            case "type":
                bare[key] = value if isinstance(value, list) else [value]
            case "$ref":
                bare[key] = value.removeprefix(REF)
            case _:
                bare[key] = value
    return bare


def _references(schema: Any) -> list[str]:
    if isinstance(schema, dict):
        own = [schema["$ref"]] if isinstance(schema.get("$ref"), str) else []
        return own + [name for value in schema.values() for name in _references(value)]
    if isinstance(schema, list):
        return [name for value in schema for name in _references(value)]
    return []
