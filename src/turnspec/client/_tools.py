"""Tool lists in the shapes of the providers, as the reference SDK gives them.

A provider takes less than JSON Schema: `title` goes everywhere, and each format leaves out or joins some keywords.
Only keywords are touched: a property that is called `title` or `not`, and the values of `const`, `enum` and
`default`, stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from turnspec_generated.names import FORMATS

from ..conversion import check_choice

Schema = dict[str, Any]

_UNIONS = ("anyOf", "oneOf", "allOf")
_OPENAI_DROPS = frozenset({"title", "additionalProperties", "patternProperties", "not"})
_GOOGLE_DROPS = frozenset(
    {
        "title",
        "additionalProperties",
        "additional_properties",
        "patternProperties",
        "default",
        "example",
        "examples",
        "not",
        *_UNIONS,
    }
)
_GOOGLE_NAMES = {"$ref": "ref", "$defs": "defs"}
# Keywords whose value is a schema or a list of schemas, and those whose value maps names to schemas. All others hold
# data, which no rule may touch.
_SCHEMA = frozenset(
    {
        *_UNIONS,
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "prefixItems",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_NAMED_SCHEMAS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})


def shape_tools(tools: list[dict[str, Any]], format: str) -> list[dict[str, Any]]:
    """The tools in the shape of a provider. `ValueError` for an unknown format."""
    check_choice("format", format, FORMATS)
    return [_SHAPES[format](tool, tool["input_schema"]) for tool in tools]


def _openai(tool: dict[str, Any], schema: Schema | None) -> dict[str, Any]:
    return {"type": "function", **_about(tool), "parameters": _clean_openai(schema) if schema else None}


def _openrouter(tool: dict[str, Any], schema: Schema | None) -> dict[str, Any]:
    return {"type": "function", "function": _about(tool), "parameters": _clean_openai(schema) if schema else None}


def _anthropic(tool: dict[str, Any], schema: Schema | None) -> dict[str, Any]:
    cleaned = _walk(schema, _untitled) if schema else {"type": "object", "properties": {}}
    return {"type": "custom", **_about(tool), "input_schema": cleaned}


def _google(tool: dict[str, Any], schema: Schema | None) -> dict[str, Any]:
    return {**_about(tool), "parameters": _walk(schema, _clean_google) if schema else None}


_SHAPES: dict[str, Callable[[dict[str, Any], Schema | None], dict[str, Any]]] = {
    "openai": _openai,
    "openrouter": _openrouter,
    "anthropic": _anthropic,
    "google": _google,
}


def _about(tool: dict[str, Any]) -> dict[str, Any]:
    return {"name": tool["name"], "description": tool["description"]}


def _untitled(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key != "title"}


def _clean_google(schema: Schema) -> Schema:
    return {key: value for key, value in schema.items() if key not in _GOOGLE_DROPS}


def _clean_openai(schema: Schema) -> Any:
    return _walk(schema, _join_unions)


def _join_unions(schema: Schema) -> Any:
    """The schema with the first option that is not null in place of a union, and with `items` in every array."""
    for union in _UNIONS:
        options = schema.get(union)
        if isinstance(options, list) and options:
            chosen = options[0]
            if union == "anyOf":
                chosen = next((item for item in options if not _is_null(item)), chosen)
            if not isinstance(chosen, dict):
                return chosen
            return _join_unions({**{key: value for key, value in schema.items() if key != union}, **chosen})
    schema = {key: value for key, value in schema.items() if key not in _OPENAI_DROPS and key not in _UNIONS}
    kinds = schema.get("type")
    if (kinds == "array" or (isinstance(kinds, list) and "array" in kinds)) and "items" not in schema:
        schema["items"] = {}
    return schema


def _is_null(option: Any) -> bool:
    return isinstance(option, dict) and option.get("type") == "null"


def _walk(schema: Any, clean: Callable[[Schema], Any]) -> Any:
    """The schema with every schema in it cleaned, from the outside in."""
    if isinstance(schema, list):
        return [_walk(item, clean) for item in schema]
    if not isinstance(schema, dict):
        return schema
    cleaned = clean(schema)
    if not isinstance(cleaned, dict):
        return cleaned
    names = _GOOGLE_NAMES if clean is _clean_google else {}
    found = {}
    for key, value in cleaned.items():
        if key in _SCHEMA:
            value = _walk(value, clean)
        elif key in _NAMED_SCHEMAS and isinstance(value, dict):
            value = {name: _walk(item, clean) for name, item in value.items()}
        found[names.get(key, key)] = value
    return found
