"""The HTTP surface as an OpenAPI 3.1 document: `schema/wire.json`, with the messages of the newest released set.

The bodies keep their names and lie under `components`; what the bundle of the set defines is referred to, not copied.
"""

from __future__ import annotations

import copy
import json
from collections import defaultdict
from typing import Any

from ..ir import Spec
from ..reader import REF, SchemaError
from . import bundles
from .common import PACKAGE

VERSION = "3.1.1"
SCHEMAS = "#/components/schemas/"
EVENT = "StreamEvent"
Object = dict[str, Any]


def emit(spec: Spec) -> dict[str, str]:
    """openapi.json below generated/, and as package data."""
    text = json.dumps(document(spec), indent=2, ensure_ascii=False) + "\n"
    return {"openapi.json": text, f"{PACKAGE}/openapi.json": text}


def document(spec: Spec) -> Object:
    wire = spec.wire
    return {
        "openapi": VERSION,
        "jsonSchemaDialect": bundles.DIALECT,
        "info": {"title": wire["title"], "description": wire["description"], "version": spec.current.name},
        # A key is asked for only where the server was started with one.
        "security": [{}, {"key": []}, {"bearer": []}],
        "paths": _paths(wire),
        "components": {
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": wire["parameters"]["api_key"]["name"]},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
            "parameters": {name: _parameter(item) for name, item in wire["parameters"].items()},
            "schemas": _schemas(spec),
        },
    }


def _paths(wire: Object) -> Object:
    paths: Object = defaultdict(dict)
    for route in wire["routes"]:
        operation: Object = {"operationId": route["name"], "summary": route["summary"]}
        # The key has its own place in OpenAPI.
        names = [name for name in route["parameters"] if name != "api_key"]
        if names:
            operation["parameters"] = [{"$ref": f"#/components/parameters/{name}"} for name in names]
        if route["request"]:
            closed = wire["schemas"][route["request"]["$ref"].removeprefix(REF)].get("additionalProperties") is False
            operation["requestBody"] = {"required": closed, "content": _json(route["request"])}
        operation["responses"] = {"200": _answer(wire, route), **_faults(wire, route)}
        paths[route["path"]][route["method"].lower()] = operation
    return dict(paths)


def _answer(wire: Object, route: Object) -> Object:
    if "response" in route:
        return {"description": "The answer.", "content": _json(route["response"])}
    kind = wire["stream"]["content_type"].partition(";")[0]
    result = route["stream"] and route["stream"]["$ref"].removeprefix(REF)
    about = f"An event stream; its result is a {result}." if result else "An event stream that ends without a result."
    # OpenAPI 3.1 has no word for the items of a stream; tools that read streams take the schema for that of an event.
    return {"description": about, "content": {kind: {"schema": {"$ref": f"{SCHEMAS}{EVENT}"}}}}


def _faults(wire: Object, route: Object) -> Object:
    by_status: dict[int, list[Object]] = defaultdict(list)
    for name, fault in wire["errors"].items():
        if name in route["errors"] or fault.get("everywhere"):
            by_status[fault["status"]].append(fault)
    found: Object = {}
    if "env" in route["parameters"]:
        found[str(wire["redirect"]["status"])] = {"description": wire["redirect"]["when"]}
    for status, faults in sorted(by_status.items()):
        headers = {key for fault in faults for key in fault.get("headers", {})}
        answer: Object = {"description": " ".join(fault["when"] for fault in faults)}
        if headers:
            answer["headers"] = {key: {"schema": {"type": "string"}} for key in sorted(headers)}
        found[str(status)] = {**answer, "content": _json({"$ref": f"{REF}Error"})}
    return found


def _json(schema: Object) -> Object:
    return {"application/json": {"schema": _moved(schema)}}


def _parameter(item: Object) -> Object:
    return {
        "name": item["name"],
        "in": item["in"],
        "required": item["required"],
        "description": item["description"],
        "schema": {"type": item["type"], "minLength": 1, "examples": item["examples"]},
        "example": item["examples"][0],
    }


def _schemas(spec: Spec) -> Object:
    wire = spec.wire
    known = bundles.bundle(spec, spec.current, "types")["$defs"]
    as_is = [rule.block.title for rule in spec.flatten.rules.values() if rule.as_is]
    unions = {
        name: {"description": item["description"], "oneOf": [{"$ref": f"{REF}{title}"} for title in as_is]}
        for name, item in wire["unions"].items()
    }
    own = {EVENT: _event(wire["stream"]["events"]), **unions, **wire["schemas"]}
    if twice := sorted(set(own) & set(known)):
        raise SchemaError(f"wire.json: {twice[0]} is a definition of the bundle; messages and blocks are never copied")
    schemas = {name: _moved(schema) for name, schema in {**own, **known}.items()}
    for target in sorted(_targets(schemas)):
        if target not in schemas:
            raise SchemaError(f"wire.json: nothing defines {REF}{target}")
    return schemas


def _event(events: dict[str, str]) -> Object:
    words = " ".join(f"`{name}`: {text}" for name, text in events.items())
    return {
        "description": f"One event of a stream. {words}",
        "type": "object",
        "properties": {"event": {"enum": list(events)}, "data": {"type": "string"}},
        "required": ["event", "data"],
        "examples": [{"event": "end", "data": ""}],
    }


def _moved(value: Any) -> Any:
    """The same with every reference into `components`."""
    if isinstance(value, dict):
        return {
            key: item.replace(REF, SCHEMAS) if key == "$ref" and isinstance(item, str) else _moved(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_moved(item) for item in value]
    return copy.copy(value)


def _targets(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"].removeprefix(SCHEMAS)} if isinstance(value.get("$ref"), str) else set()
        return own.union(*map(_targets, value.values()))
    if isinstance(value, list):
        return set().union(*map(_targets, value))
    return set()
