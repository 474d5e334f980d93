"""Tool lists, and inputs that follow the schema of a tool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from turnspec.check_server.exchange import Answer
from turnspec.check_server.reading import Desk
from turnspec.check_server.shape import differences
from turnspec.conversion import block_set_for
from turnspec_generated.names import BLOCK_SETS, UNADVERTISED

KEYS = ("name", "description", "input_schema")
WORDS = "turnspec check-server"
DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Tools:
    """A tool list: the tools with their schemas, and the block types that it advertises (None: it does not)."""

    tools: dict[str, dict[str, Any] | None]
    terminal: dict[str, Any] | None
    advertised: tuple[str, ...] | None
    scores: bool

    @property
    def block_types(self) -> tuple[str, ...]:
        """The block types that messages may hold."""
        return BLOCK_SETS[UNADVERTISED] if self.advertised is None else self.advertised

    @property
    def callable(self) -> list[tuple[str, dict[str, Any]]]:
        """Every tool with an input that it should take."""
        found = [(name, sample(schema or {}, schema or {})) for name, schema in self.tools.items()]
        if self.terminal is not None:
            arg = self.terminal["arg"]
            found.append((self.terminal["name"], {} if arg is None else {arg: WORDS}))
        return [(name, value if isinstance(value, dict) else {}) for name, value in found]

    @property
    def demanding(self) -> str | None:
        """A tool that wants an input."""
        return next((name for name, schema in self.tools.items() if schema and schema.get("required")), None)


def read_tools(desk: Desk, answer: Answer) -> Tools | None:
    """Check a tool list; None where it cannot be used."""
    value = desk.value(answer, None)
    listed = value.get("tools") if isinstance(value, dict) else None
    if isinstance(listed, list):
        for tool in listed:
            if isinstance(tool, dict) and set(tool) != set(KEYS):
                name = tool.get("name")
                desk.tell(
                    "tool_keys", answer, f"the tool {name!r} has the keys {', '.join(tool)}; not {', '.join(KEYS)}"
                )
                for key in set(tool) - set(KEYS):
                    del tool[key]
                for key in set(KEYS) - set(tool):
                    tool[key] = {} if key == "input_schema" else ""
    found = [] if value is None else differences(value, "ToolList")
    for difference in found:
        desk.tell("bad_shape", answer, difference)
    if value is None or found:
        return None
    tools = {tool["name"]: tool["input_schema"] for tool in value["tools"]}
    if not tools and value["terminal_tool"] is None:
        desk.tell("no_tool", answer, "lists neither a tool nor a terminal tool")
    advertised = value.get("message_block_types")
    if advertised is not None:
        _advertised(desk, answer, advertised)
    types = None if advertised is None else tuple(advertised)
    return Tools(tools, value["terminal_tool"], types, bool(value.get("supports_score_group")))


def _advertised(desk: Desk, answer: Answer, types: list[str]) -> None:
    if tuple(types) not in BLOCK_SETS.values():
        known = "; ".join(f"{name}: {', '.join(found)}" for name, found in BLOCK_SETS.items())
        nearest = block_set_for(types)
        desk.tell("unknown_block_set", answer, f"{', '.join(types)} is none of {known}; clients take it as {nearest}")


def sample(schema: dict[str, Any], root: dict[str, Any], depth: int = 0) -> Any:
    """A small value that follows a JSON Schema, as far as its usual keywords tell."""
    if not isinstance(schema, dict) or depth > DEEPEST:
        return None
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        target: Any = root
        for part in reference[2:].split("/"):
            target = target.get(part, {}) if isinstance(target, dict) else {}
        return sample(target, root, depth + 1)
    if "const" in schema:
        return schema["const"]
    for key in ("enum", "examples"):
        if isinstance(schema.get(key), list) and schema[key]:
            return schema[key][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(key), list) and schema[key]:
            return sample(schema[key][0], root, depth + 1)
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    match kind:
        case "string":
            least = schema.get("minLength", 0)
            return WORDS.ljust(least if isinstance(least, int) else 0, ".")[: schema.get("maxLength")]
        case "integer" | "number":
            return schema.get("minimum", min(1, schema.get("maximum", 1)))
        case "boolean":
            return True
        case "array":
            return [sample(schema.get("items", {}), root, depth + 1) for _ in range(min(schema.get("minItems", 0), 5))]
        case "null":
            return None
    properties = schema.get("properties", {})
    return {name: sample(properties.get(name, {}), root, depth + 1) for name in schema.get("required", ())}
