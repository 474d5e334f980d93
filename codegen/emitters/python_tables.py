"""The tables of the explainer, of the error codes, of the block sets and of the formats."""

from __future__ import annotations

from typing import Any

from ..ir import (
    BlockSet,
    Const,
    DataUrl,
    Field,
    FieldRef,
    JsonText,
    Lookup,
    Object,
    Parts,
    Slot,
    Spec,
    Template,
    Texts,
    walk,
)
from .common import HEADER, PACKAGE


def emit(spec: Spec) -> dict[str, str]:
    return {
        f"{PACKAGE}/names.py": _names(spec),
        f"{PACKAGE}/tables.py": _tables(spec),
        f"{PACKAGE}/codes.py": _codes(spec),
    }


def _names(spec: Spec) -> str:
    """Names that a light import needs: nothing but tuples and dicts of strings."""
    sets = {item.name: item.types for item in spec.released}
    texts = {item.name: (item.status, item.description) for item in spec.released}
    lines = [
        HEADER + '"""The names of block types, block sets, roles and formats."""\n',
        f"MESSAGE_BLOCK_TYPES: tuple[str, ...] = {spec.current.types!r}",
        f"BLOCK_SETS: dict[str, tuple[str, ...]] = {sets!r}",
        f"RELEASED: tuple[str, ...] = {tuple(item.name for item in spec.released)!r}",
        f"CURRENT = {spec.current.name!r}",
        f"UNADVERTISED = {spec.unadvertised!r}",
        f"ROLES: tuple[str, ...] = {tuple(role.name for role in spec.roles)!r}",
        f"FORMATS: tuple[str, ...] = {tuple(spec.format_titles)!r}",
        "PURPOSES: tuple[str, ...] = ('request', 'training')",
        f"CONVERSATION_KEY = {spec.message['task']['key']!r}",
        f"MODELS: dict[str, str] = { ({block.title: block.type for block in spec.current.blocks})!r}",
        f"SET_TEXTS: dict[str, tuple[str, str]] = {texts!r}",
    ]
    return "\n".join(lines) + "\n"


def _tables(spec: Spec) -> str:
    lines = [
        HEADER + '"""What the explainer walks: the fields of every object, and where each block may stand."""\n',
        "from __future__ import annotations\n",
        "from typing import NamedTuple\n\n",
        "class Field(NamedTuple):",
        '    """A field: its JSON types, whether it is required, and the container whose blocks it holds."""\n',
        "    types: tuple[str, ...]",
        "    required: bool",
        "    container: str | None\n\n",
        "class Set(NamedTuple):",
        '    """A block set: the fields of each block type, and the types that a role or container may hold."""\n',
        "    blocks: dict[str, dict[str, Field]]",
        "    places: dict[str, tuple[str, ...]]\n\n",
        f"ROLES: tuple[str, ...] = {tuple(role.name for role in spec.roles)!r}",
        f"FIELD_ORDER: dict[str, int] = { ({name: rank for rank, name in enumerate(spec.field_order)})!r}",
        f"FREE_FIELDS: frozenset[str] = frozenset({sorted(_free(spec))!r})",
        f"MESSAGE: dict[str, Field] = {_fields(spec.message_fields)}",
        f"FOREIGN: dict[str, str] = {_foreign(spec)!r}  # what provider formats call the blocks",
        f"FOREIGN_FIELDS: dict[str, str] = {_foreign_fields(spec)!r}  # their message fields -> our block, or blocks",
        f"FOREIGN_BLOCK_FIELDS: dict[str, dict[str, str]] = {_foreign_block_fields(spec)!r}  # the same in blocks",
        f"BLOCK_TITLES: dict[str, str] = { ({block.type: block.title for block in spec.blocks})!r}",
        "SETS: dict[str, Set] = {",
        *(f"    {item.name!r}: {_set(spec, item)}," for item in spec.released),
        "}",
    ]
    return "\n".join(lines) + "\n"


def _free(spec: Spec) -> set[str]:
    """The names of fields that hold any JSON object."""
    fields = [item for block in spec.blocks for item in block.fields] + list(spec.message_fields)
    return {item.name for item in fields if item.type == "object"}


def _foreign(spec: Spec) -> dict[str, str]:
    """The tags, or only keys, by which provider formats know each block, where these name no block of ours."""
    found: dict[str, str] = {}
    for fmt in spec.formats:
        for rule in fmt.rules.values():
            if not isinstance(rule.template, Object):
                continue
            members = {item.key: item.value for item in rule.template.members}
            tag = members.get("type")
            name = tag.value if isinstance(tag, Const) else next(iter(members))
            if name not in fmt.rules and rule.message is None:
                found.setdefault(name, rule.block.type)
    return found


def _foreign_fields(spec: Spec) -> dict[str, str]:
    """The message fields of provider formats: the block type that belongs there, or "" for any content."""
    found: dict[str, str] = {}
    for fmt in spec.formats:
        for member in (item for role in fmt.roles.values() for item in role.members):
            slot = member.value.name if isinstance(member.value, Slot) else getattr(member.value, "slot", None)
            blocks = [rule.block.type for rule in fmt.rules.values() if slot and rule.slot == slot]
            if blocks:
                found.setdefault(member.key, blocks[0] if len(blocks) == 1 else "")
    return found


def _foreign_block_fields(spec: Spec) -> dict[str, dict[str, str]]:
    """For each block type the keys by which provider formats know its fields, and the fields."""
    found: dict[str, dict[str, str]] = {block.type: {} for block in spec.blocks}
    for rule in (rule for fmt in spec.formats for rule in fmt.rules.values() if rule.template):
        names = {"type", *(item.name for item in rule.block.fields)}
        for item in walk(rule.template or Const(None)):
            for member in item.members if isinstance(item, Object) else ():
                fields = list(dict.fromkeys(name for inner in walk(member.value) for name in _named(inner)))
                if fields and member.key not in names:
                    found[rule.block.type].setdefault(member.key, "` and `".join(fields))
    return {kind: keys for kind, keys in found.items() if keys}


def _named(item: Template) -> list[str]:
    """The fields that a template reads, without those inside it."""
    if isinstance(item, DataUrl):
        return [item.data, item.type]
    return [item.name] if isinstance(item, FieldRef | JsonText | Lookup | Texts | Parts) else []


def _fields(fields: tuple[Field, ...]) -> str:
    items = (f"{item.name!r}: Field({item.types!r}, {item.required}, {item.container!r})" for item in fields)
    return "{" + ", ".join(items) + "}"


def _set(spec: Spec, item: BlockSet) -> str:
    blocks = ", ".join(f"{block.type!r}: {_fields(block.fields)}" for block in item.blocks)
    places: dict[str, Any] = {role.name: tuple(b.type for b in item.in_role(role.name)) for role in spec.roles}
    places |= {box.name: tuple(b.type for b in item.in_container(box.name)) for box in spec.containers}
    return f"Set({{{blocks}}}, {places!r})"


def _codes(spec: Spec) -> str:
    lines = [
        HEADER + '"""Every stable code: what it means, how to mend it, and a small example of it."""\n',
        "from __future__ import annotations\n",
        "from typing import Any, NamedTuple\n\n",
        "class CodeInfo(NamedTuple):",
        '    """An entry of errors.json. `kind` is validation, conversion, loss or rule."""\n',
        "    title: str",
        "    explanation: str",
        "    fix: str",
        "    kind: str",
        "    severity: str",
        "    since: str",
        "    example: dict[str, Any]\n\n",
        "CODES: dict[str, CodeInfo] = {",
    ]
    for item in spec.errors:
        values = (item.title, item.explanation, item.fix, item.kind, item.severity, item.since, item.example)
        lines.append(f"    {item.code!r}: CodeInfo({', '.join(map(repr, values))}),")
    lines += ["}", "ORDER: dict[str, int] = {code: rank for rank, code in enumerate(CODES)}"]
    return "\n".join(lines) + "\n"
