"""The published JSON Schema bundles of each block set: one for type generators, one for validators.

Both come from the same source and give the same verdict. `types` says unions as `oneOf`; `validate`
dispatches on the tag with if/then, so that a stock validator reports the one real error. No keyword is
used that a strict validator refuses, and every reference stays inside the file.
"""

from __future__ import annotations

import copy
import json
from typing import Any

from ..ir import Block, BlockSet, Role, Spec

DIALECT = "https://json-schema.org/draft/2020-12/schema"
KINDS = ("types", "validate")
Schema = dict[str, Any]


def bundle(spec: Spec, block_set: BlockSet, kind: str) -> Schema:
    """The bundle of `kind` ("types" or "validate") of one block set."""
    definitions: dict[str, Schema] = {}
    for block in block_set.blocks:
        definitions[block.title] = _closed(block.title, block.schema)
    for container in spec.containers:
        if any(item.container == container.name for block in block_set.blocks for item in block.fields):
            definitions[container.union] = _union(kind, block_set.in_container(container.name), container.description)
    for role in spec.roles:
        definitions[role.union] = _union(kind, block_set.in_role(role.name), f"A block of a turn of role {role.name}.")
        definitions[role.title] = _message(spec, role)
    definitions[spec.message["title"]] = _messages(spec, kind)
    conversation, task = spec.message["conversation"], spec.message["task"]
    definitions[conversation["title"]] = {
        "description": conversation["description"],
        "type": "array",
        "items": _ref(spec.message["title"]),
        "examples": conversation["examples"],
    }
    definitions[task["title"]] = {
        "description": task["description"],
        "type": "object",
        "properties": {task["key"]: _ref(conversation["title"])},
        "required": [task["key"]],
        "examples": task["examples"],
    }
    return {
        "$schema": DIALECT,
        "$id": f"urn:turnspec:{block_set.name}:conversation" + (":types" if kind == "types" else ""),
        "title": f"turnspec {block_set.name} conversation",
        "description": f"{block_set.description} Entry points: #/$defs/{spec.message['title']}, "
        f"#/$defs/{conversation['title']} (this document) and #/$defs/{task['title']}.",
        "$ref": f"#/$defs/{conversation['title']}",
        "$defs": definitions,
    }


def text(schema: Schema) -> str:
    """The bytes that are published, and whose sha256 freezes a released set."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def emit(spec: Spec) -> dict[str, str]:
    """path below generated/ -> text, for all sets and both kinds, published and as package data."""
    files = {}
    for block_set in spec.sets:
        for kind in KINDS:
            published = text(bundle(spec, block_set, kind))
            name = f"schemas/{block_set.name}/{kind}.schema.json"
            files[name] = published
            files[f"python/turnspec_generated/{name}"] = published
    return files


def _ref(name: str) -> Schema:
    return {"$ref": f"#/$defs/{name}"}


def _closed(title: str, schema: Schema) -> Schema:
    return {"title": title, **copy.deepcopy(schema)}


def _message(spec: Spec, role: Role) -> Schema:
    schema = _closed(role.title, spec.message_schema)
    schema["description"] = role.description
    schema["properties"]["role"] = {
        "const": role.name,
        **schema["properties"]["role"],
        "examples": [role.name],
    }
    schema["properties"]["blocks"]["items"] = _ref(role.union)
    return schema


def _union(kind: str, blocks: tuple[Block, ...], description: str) -> Schema:
    members = [(block.type, block.title) for block in blocks]
    return _dispatch(kind, "type", members, description)


def _messages(spec: Spec, kind: str) -> Schema:
    members = [(role.name, role.title) for role in spec.roles]
    return _dispatch(kind, "role", members, spec.message_schema["description"])


def _dispatch(kind: str, tag: str, members: list[tuple[str, str]], description: str) -> Schema:
    if kind == "types":
        return {"description": description, "oneOf": [_ref(title) for _, title in members]}
    return {
        "description": description,
        "type": "object",
        "properties": {tag: {"enum": [value for value, _ in members]}},
        "required": [tag],
        "allOf": [
            {
                "if": {"type": "object", "properties": {tag: {"const": value}}, "required": [tag]},
                "then": _ref(title),
            }
            for value, title in members
        ],
    }
