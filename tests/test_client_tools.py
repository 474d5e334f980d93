"""Tools in the shapes of the providers: as the reference SDK has them, save where it drops what is no keyword."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openreward.api.environments.client import convert_tool_response
from pydantic import BaseModel

from turnspec.client._tools import shape_tools
from turnspec_generated.names import FORMATS


class Inner(BaseModel):
    """A model in a model."""

    path: str
    depth: int | None = 3


class Everything(BaseModel):
    text: str
    count: int | str
    note: str | None = None
    files: list[Inner] = []
    by_name: dict[str, Inner] = {}
    pair: tuple[int, str] = (1, "a")
    anything: Any = None
    first: Inner | None = None


def tools(schema: Any) -> list[dict[str, Any]]:
    return [{"name": "n", "description": "d", "input_schema": schema}]


# Keywords with values that hold no schema the reference would take apart by mistake.
LEAVES = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "array", "object", "null", ["array", "null"]]),
        "title": st.text(max_size=3),
        "description": st.text(max_size=3),
        "default": st.one_of(st.none(), st.integers(), st.text(max_size=3)),
        "enum": st.lists(st.integers(), max_size=2),
        "additionalProperties": st.booleans(),
        "$ref": st.just("#/$defs/A"),
        "examples": st.just([1]),
    },
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.builds(
        lambda leaf, more: {**leaf, **more},
        LEAVES,
        st.fixed_dictionaries(
            {},
            optional={
                "properties": st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
                "items": inner,
                "prefixItems": st.lists(inner, max_size=2),
                "anyOf": st.lists(inner, max_size=3),
                "oneOf": st.lists(inner, max_size=2),
                "allOf": st.lists(inner, max_size=2),
                "not": inner,
                "$defs": st.dictionaries(st.just("A"), inner, max_size=1),
                "patternProperties": st.dictionaries(st.just("^x"), inner, max_size=1),
                "additionalProperties": inner,
            },
        ),
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("schema", [None, {}, Inner.model_json_schema(), Everything.model_json_schema()])
def test_equal_to_the_reference(format: Any, schema: Any) -> None:
    assert shape_tools(tools(schema), format) == convert_tool_response({"tools": tools(schema)}, format=format)


@given(SCHEMAS, st.sampled_from(FORMATS))
def test_equal_to_the_reference_on_any_schema(schema: Any, format: Any) -> None:
    before = repr(schema)
    assert shape_tools(tools(schema), format) == convert_tool_response({"tools": tools(schema)}, format=format)
    assert repr(schema) == before


def test_each_shape() -> None:
    schema = {
        "type": "object",
        "title": "Sub",
        "properties": {"x": {"type": "string", "title": "X"}},
        "required": ["x"],
    }
    parameters = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
    about = {"name": "n", "description": "d"}
    assert shape_tools(tools(schema), "openai") == [{"type": "function", **about, "parameters": parameters}]
    assert shape_tools(tools(schema), "openrouter") == [
        {"type": "function", "function": about, "parameters": parameters}
    ]
    assert shape_tools(tools(schema), "anthropic") == [{"type": "custom", **about, "input_schema": parameters}]
    assert shape_tools(tools(schema), "google") == [{**about, "parameters": parameters}]


@pytest.mark.parametrize("format", FORMATS)
def test_names_and_values_are_no_keywords(format: str) -> None:
    """The reference drops these properties and leaves their names in `required`, which providers refuse."""
    names = ["title", "not", "default", "examples", "anyOf", "additionalProperties", "$ref", "$defs"]
    schema = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in names},
        "required": names,
        "const": {"title": "kept", "not": 1, "type": "array"},
        "enum": [{"title": "kept"}],
    }
    (tool,) = shape_tools(tools(schema), format)
    assert tool["input_schema" if format == "anthropic" else "parameters"] == schema


def test_an_unknown_format() -> None:
    with pytest.raises(ValueError, match="format must be one of 'openai'"):
        shape_tools([], "xml")
