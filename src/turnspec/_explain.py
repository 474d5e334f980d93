"""The explainer: every error of a document that is not valid, in canonical order, with what would be right.

It walks the tables that codegen makes from the schema. It only runs on documents that the fast validator
refused (or that are no text), so it is built for completeness; it never recurses deeper than the schema.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

from turnspec_generated.codes import CODES
from turnspec_generated.names import BLOCK_SETS, CONVERSATION_KEY
from turnspec_generated.tables import (
    BLOCK_TITLES,
    FOREIGN,
    FOREIGN_BLOCK_FIELDS,
    FOREIGN_FIELDS,
    MESSAGE,
    ROLES,
    SETS,
    Field,
    Set,
)

from ._errors import Problem

Path = tuple[str | int, ...]


def pointer(path: Path) -> str:
    """The JSON pointer (RFC 6901) of a path of keys and indexes."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def json_type(value: object) -> str:
    """What people call the JSON type of a Python value; the Python type where it has none."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    if isinstance(value, str):
        return "string"
    if isinstance(value, int | float):
        return "number"
    return f"Python {type(value).__name__}"


def entry_of(document: object, key: tuple[str, ...] = (CONVERSATION_KEY,)) -> str:
    """The entry that `auto` stands for: message, conversation, task or tasks."""
    if isinstance(document, dict):
        if key[0] in document:
            return "task"
        return "message" if "role" in document or "blocks" in document else "task"
    if isinstance(document, list) and document and isinstance(document[0], dict):
        return "tasks" if key[0] in document[0] else "conversation"
    return "conversation"


def explain(document: Any, entry: str, block_set: str, key: tuple[str, ...] = (CONVERSATION_KEY,)) -> Iterator[Problem]:
    """All problems of a document, in canonical order. `entry` is one of message, conversation, task, tasks."""
    walk = _Walk(SETS[block_set], block_set)
    if entry == "message":
        yield from walk.message(document, ())
    elif entry == "conversation":
        yield from walk.conversation(document, ())
    elif entry == "task":
        yield from walk.task(document, (), key)
    elif not isinstance(document, list):
        yield wrong_type(document, (), ("array",), "a list of tasks")
    else:
        for index, task in enumerate(document):
            yield from walk.task(task, (index,), key)


def make(code: str, path: Path, message: str, allowed: tuple[str, ...] = (), hint: str = "") -> Problem:
    return Problem(code, pointer(path), message, allowed, hint or CODES[code].fix)


def wrong_type(value: object, path: Path, types: tuple[str, ...], what: str = "", hint: str = "") -> Problem:
    wanted = " or ".join(_article(kind) for kind in types)
    subject = what or (f"`{path[-1]}`" if path and isinstance(path[-1], str) else "this value")
    return make("wrong_type", path, f"{subject} must be {wanted}, not {json_type(value)}", types, hint)


def _article(kind: str) -> str:
    return kind if kind == "null" else f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


class _Walk:
    def __init__(self, table: Set, name: str) -> None:
        self.table = table
        self.name = name

    def task(self, value: Any, path: Path, key: tuple[str, ...]) -> Iterator[Problem]:
        for depth, name in enumerate(key):
            here = (*path, *key[:depth])
            if not isinstance(value, dict):
                yield wrong_type(value, here, ("object",), "a task" if depth == 0 else "")
                return
            if name not in value:
                hint = _task_hint(value, name) if depth == 0 else ""
                yield make("missing_field", here, f"a task must have `{'.'.join(key)}`, a list of messages", (), hint)
                return
            value = value[name]
        yield from self.conversation(value, (*path, *key))

    def conversation(self, value: Any, path: Path) -> Iterator[Problem]:
        if not isinstance(value, list):
            yield wrong_type(value, path, ("array",), "a conversation")
            return
        for index, message in enumerate(value):
            yield from self.message(message, (*path, index))

    def message(self, value: Any, path: Path) -> Iterator[Problem]:
        if not isinstance(value, dict):
            yield wrong_type(value, path, ("object",), "a message")
            return
        role = value.get("role")
        if "role" in value and not isinstance(role, str):
            yield wrong_type(role, (*path, "role"), ("string",))
        elif isinstance(role, str) and role not in ROLES:
            yield make("unknown_role", (*path, "role"), f"there is no role {_quote(role)}", ROLES, _role_hint(role))
        place = role if isinstance(role, str) and role in ROLES else None
        yield from self.fields(value, path, MESSAGE, "role", "a message", place)

    def block(self, value: Any, path: Path, place: str | None) -> Iterator[Problem]:
        """`place` is the role or container that holds the block; None where that is not known."""
        if not isinstance(value, dict):
            yield wrong_type(value, path, ("object",), "a block")
            return
        if "type" not in value:
            guess = self.guess(value)
            hint = f'Add `"type": "{guess}"`.' if guess else ""
            yield make("missing_type", path, "the block has no `type`", self.allowed(place), hint)
            return
        kind = value["type"]
        if not isinstance(kind, str):
            yield wrong_type(kind, (*path, "type"), ("string",))
        elif kind not in self.table.blocks:
            yield self.unknown_block(kind, path, place)
        elif place is not None and kind not in self.table.places[place]:
            yield self.misplaced(kind, path, place)
        else:
            yield from self.fields(value, path, self.table.blocks[kind], "type", f"{_article(kind)} block", None, kind)

    def fields(
        self,
        value: dict[Any, Any],
        path: Path,
        fields: dict[str, Field],
        tag: str,
        what: str,
        place: str | None,
        kind: str = "",
    ) -> Iterator[Problem]:
        for name, field in fields.items():
            if name not in value:
                continue
            item = value[name]
            here = (*path, name)
            if not _has_type(item, field.types):
                yield wrong_type(item, here, field.types, hint=_type_hint(item, field, tag))
            elif isinstance(item, list):
                for index, block in enumerate(item):
                    yield from self.block(block, (*here, index), field.container or place)
        for name in sorted((name for name in value if name not in fields and name != tag), key=str):
            yield _unknown_field(name, (*path, name), tuple(fields), tag, what, kind)
        missing = [tag] if tag not in value else []
        missing += [name for name, field in fields.items() if field.required and name not in value]
        for name in missing:
            yield make("missing_field", path, f"{what} must have `{name}`", (), f"Add `{name}`.")

    def allowed(self, place: str | None) -> tuple[str, ...]:
        return self.table.places[place] if place is not None else tuple(self.table.blocks)

    def guess(self, value: dict[Any, Any]) -> str:
        """The one block type whose fields a block without a type has, if there is one."""
        fits = [
            kind
            for kind, fields in self.table.blocks.items()
            if set(value) <= set(fields) and all(name in value for name, field in fields.items() if field.required)
        ]
        return fits[0] if len(fits) == 1 else ""

    def unknown_block(self, kind: str, path: Path, place: str | None) -> Problem:
        newer = next((name for name, types in BLOCK_SETS.items() if kind in types), None)
        hint = f"The block set {newer} has it; this document is judged by {self.name}." if newer else _block_hint(kind)
        message = f"there is no block type {_quote(kind)} in block set {self.name}"
        return make("unknown_block_type", (*path, "type"), message, self.allowed(place), hint)

    def misplaced(self, kind: str, path: Path, place: str) -> Problem:
        homes = [place for place, kinds in self.table.places.items() if kind in kinds]
        message = f"{_owner(place)} may not hold {_article(kind)} block"
        hint = f"{_article(kind).capitalize()} block belongs into {' or '.join(map(_owner, homes))}."
        return make("block_placement", path, message, self.table.places[place], hint)


def _owner(place: str) -> str:
    return f"a turn of role {place}" if place in ROLES else _article(place)


def _has_type(value: object, types: tuple[str, ...]) -> bool:
    if value is None:
        return "null" in types
    if isinstance(value, bool):
        return "boolean" in types
    if isinstance(value, str):
        return "string" in types
    if isinstance(value, dict):
        return "object" in types
    return isinstance(value, list) and "array" in types


def _type_hint(value: object, field: Field, tag: str) -> str:
    """What to write instead of text where another type is wanted."""
    if not isinstance(value, str):
        return ""
    if field.types[0] == "array" and (field.container or tag == "role"):
        return 'Write a list of blocks: [{"type": "text", "text": …}].'
    return "Write the object itself, not its JSON text." if field.types[0] == "object" else ""


def _task_hint(task: dict[Any, Any], wanted: str) -> str:
    """Where the conversation may stand in a task that has none at its place."""
    lists = [
        name
        for name, value in task.items()
        if isinstance(name, str) and isinstance(value, list) and value and isinstance(value[0], dict)
    ]
    if len(lists) != 1:
        return f"Add `{wanted}`, or name another place with --key."
    return (
        f"Is it the list under {_quote(lists[0])}? Rename that to `{wanted}`, or say --key {lists[0]} to the command."
    )


def _unknown_field(name: Any, path: Path, known: tuple[str, ...], tag: str, what: str, kind: str) -> Problem:
    names = (tag, *known)
    close = difflib.get_close_matches(str(name), names, 1, 0.75)
    hint = f"Did you mean `{close[0]}`?" if close else ""
    if tag == "role" and name in FOREIGN_FIELDS:
        kind = FOREIGN_FIELDS[name]
        hint = (
            f"Make it a {kind} block in `blocks`."
            if kind
            else "The content belongs into `blocks`, as a list of blocks."
        )
    elif name in FOREIGN_BLOCK_FIELDS.get(kind, {}):
        hint = f"That is `{FOREIGN_BLOCK_FIELDS[kind][name]}` here."
    return make("unknown_field", path, f"{what} has no field {_quote(name)}", names, hint)


def _block_hint(kind: str) -> str:
    meant = FOREIGN.get(kind)
    if meant is None:
        close = difflib.get_close_matches(kind, BLOCK_TITLES, 1, 0.75)
        meant = close[0] if close else None
    return f"Did you mean {meant}?" if meant else ""


def _role_hint(role: str) -> str:
    if role in ("tool", "function"):
        return "Put the result into a tool_result block of a user turn."
    if role == "developer":
        return "Use the role system."
    if role in ("model", "ai", "bot"):
        return "Use the role assistant."
    if role == "human":
        return "Use the role user."
    close = difflib.get_close_matches(role.lower(), ROLES, 1, 0.75)
    return f"Did you mean {close[0]}?" if close else ""


def _quote(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    text = text if len(text) <= 60 else text[:57] + "..."
    return '"' + text.encode("unicode_escape").decode("ascii") + '"'
