"""The intermediate representation: what the schema says, resolved, typed and free of any language.

Emitters are pure functions of a `Spec`. Nothing here knows how JSON files are laid out (that is
`reader.py`) or what a language looks like (that is `emitters/`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

JsonType = Literal["string", "object", "array", "boolean", "number", "integer", "null"]


@dataclass(frozen=True)
class Field:
    """One field of an object: its JSON types, and the container whose blocks it holds, if any."""

    name: str
    types: tuple[JsonType, ...]
    required: bool
    description: str
    examples: tuple[Any, ...]
    default: Any = None
    container: str | None = None
    schema: dict[str, Any] = field(default_factory=dict)

    @property
    def nullable(self) -> bool:
        return "null" in self.types

    @property
    def type(self) -> JsonType:
        """The type beside null."""
        return next(kind for kind in self.types if kind != "null")


@dataclass(frozen=True)
class Media:
    """Which fields of a block hold media, names that mean another media type, and first bytes."""

    data: str
    type: str
    aliases: dict[str, str]
    magic: dict[str, tuple[tuple[str, int], ...]]  # media type -> (hex bytes, offset) that all must match


@dataclass(frozen=True)
class Block:
    """A block type. `fields` leaves out the tag; `roles` and `containers` say where it may stand."""

    type: str
    title: str
    summary: str
    description: str
    fields: tuple[Field, ...]
    roles: tuple[str, ...]
    containers: tuple[str, ...]
    schema: dict[str, Any]
    text: dict[str, str] | None = None  # the field that holds the text, for plain text
    reasoning: dict[str, str] | None = None  # the fields text and signature, for reasoning
    media: Media | None = None
    call: dict[str, str] | None = None  # the fields that hold id, name and input, for a tool call
    result: dict[str, str] | None = None  # the fields call_id, failed, content, for a tool result

    def field(self, name: str) -> Field:
        return next(item for item in self.fields if item.name == name)


@dataclass(frozen=True)
class Role:
    name: str
    title: str
    union: str
    description: str


@dataclass(frozen=True)
class Container:
    """A field of a block that holds blocks of its own."""

    name: str
    union: str
    description: str


@dataclass(frozen=True)
class BlockSet:
    name: str
    status: str
    description: str
    since: str
    blocks: tuple[Block, ...]
    sha256: dict[str, str]

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(block.type for block in self.blocks)

    def in_role(self, role: str) -> tuple[Block, ...]:
        return tuple(block for block in self.blocks if role in block.roles)

    def in_container(self, container: str) -> tuple[Block, ...]:
        return tuple(block for block in self.blocks if container in block.containers)


@dataclass(frozen=True)
class ErrorCode:
    code: str
    kind: str
    severity: str
    title: str
    explanation: str
    fix: str
    since: str
    example: dict[str, Any]


# --- Templates: what a block or a turn becomes -------------------------------------------------------------


@dataclass(frozen=True)
class Const:
    value: Any


@dataclass(frozen=True)
class FieldRef:
    """The value of a field, as it is."""

    name: str


@dataclass(frozen=True)
class Slot:
    """What a slot has gathered (in a role's template), or a named part of the payload."""

    name: str


@dataclass(frozen=True)
class Or:
    """A slot; where it is empty, `then` when the slot `other` has something, else `otherwise`."""

    slot: str
    other: str
    then: Any
    otherwise: Any


@dataclass(frozen=True)
class JsonText:
    """The JSON text of a field, in the one fixed style."""

    name: str


@dataclass(frozen=True)
class DataUrl:
    type: str
    data: str


@dataclass(frozen=True)
class Lookup:
    """A field's value looked up in a table."""

    name: str
    values: dict[str, Any]


@dataclass(frozen=True)
class CallField:
    """A field of the call that a result answers: `id` or `name`."""

    what: str


@dataclass(frozen=True)
class Texts:
    """The texts of the blocks in a field, joined; each behind the first is a loss `joined`."""

    name: str
    join: str
    joined: str


@dataclass(frozen=True)
class Parts:
    """The blocks in a field, each as this format represents it."""

    name: str


@dataclass(frozen=True)
class If:
    """`then` where the boolean field is true, else `otherwise`."""

    name: str
    then: Template
    otherwise: Template


@dataclass(frozen=True)
class Member:
    key: str
    value: Template
    optional: bool  # left out where the value is empty: null, false, "" or nothing gathered


@dataclass(frozen=True)
class Object:
    members: tuple[Member, ...]


Template = Const | FieldRef | Slot | Or | JsonText | DataUrl | Lookup | CallField | Texts | Parts | If | Object


def walk(template: Template) -> Iterator[Template]:
    """The template and all templates inside it."""
    yield template
    if isinstance(template, Object):
        for member in template.members:
            yield from walk(member.value)
    elif isinstance(template, If):
        yield from walk(template.then)
        yield from walk(template.otherwise)


# --- Formats -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Refusal:
    """Where a format takes a block not, and the code that says so."""

    roles: tuple[str, ...]
    containers: tuple[str, ...]
    failed_results: bool
    code: str


@dataclass(frozen=True)
class FieldLoss:
    field: str
    code: str
    when: Literal["set", "always"]


@dataclass(frozen=True)
class BlockRule:
    """How a format represents one block type: in a slot, as a message of its own, or not at all."""

    block: Block
    slot: str | None = None
    message: Object | None = None
    raises: str | None = None
    template: Template | None = None
    losses: tuple[FieldLoss, ...] = ()
    media_types: tuple[str, ...] = ()
    sniff: bool = False
    refused: Refusal | None = None


@dataclass(frozen=True)
class SlotRule:
    """`parts` gathers objects, `text` joins texts, `list` gathers objects that stand beside the content."""

    name: str
    kind: Literal["parts", "text", "list"]
    join: str = ""
    joined: str = ""
    single_text: bool = False


@dataclass(frozen=True)
class System:
    """`turn`: system turns stay turns. `hoisted`: the leading ones become one text beside the turns."""

    place: Literal["turn", "hoisted"]
    join: str = ""
    joined: str = ""
    later: str = ""
    blank: str = ""


@dataclass(frozen=True)
class CallIds:
    pattern: str | None
    max_length: int | None
    unique_in: Literal["nothing", "turn", "conversation"]
    rewrite: str | None

    @property
    def kept(self) -> bool:
        return self.rewrite is not None


@dataclass(frozen=True)
class Format:
    name: str
    title: str
    description: str
    payload: Template
    request: Template
    system: System
    join_turns: Literal["never", "behind_a_call", "run_with_a_call"]
    results: Literal["first", "in_call_order"]
    call_ids: CallIds
    name_pattern: str
    blank_turn: Literal["never", "empty", "white_space"]
    blank_result: Literal["never", "empty"]
    refuses: tuple[str, ...]
    slots: tuple[SlotRule, ...]
    order_lost: str | None
    roles: dict[str, Object]
    rules: dict[str, BlockRule]
    unsigned_calls: dict[str, str] | None = None
    exact_bytes: dict[str, str] | None = None

    def slot(self, name: str) -> SlotRule:
        return next(slot for slot in self.slots if slot.name == name)


@dataclass(frozen=True)
class FlattenRule:
    """How flatten renders a block: as it is, or as one text block, followed by the blocks in `then`."""

    block: Block
    as_is: bool
    text: str = ""
    text_if: tuple[str, str] | None = None  # (boolean field, the text where it is true)
    detail: dict[str, str] | None = None
    then: str | None = None


@dataclass(frozen=True)
class Flatten:
    description: str
    verbatim_role: str
    header_text: str
    header_detail: dict[str, str]
    rules: dict[str, FlattenRule]


@dataclass(frozen=True)
class Rule:
    """A named rule about whole conversations."""

    code: str
    severity: str
    check: str
    description: str
    parameters: dict[str, Any]
    formats: tuple[str, ...]  # empty: always; else only under these formats


@dataclass(frozen=True)
class ServerCheck:
    """How a server can depart from the wire, as a stable code."""

    code: str
    severity: str
    title: str
    explanation: str
    fix: str
    since: str
    example: str


@dataclass(frozen=True)
class Spec:
    """Everything that the schema says."""

    blocks: tuple[Block, ...]  # the block types of all released sets, in the order of the sets
    roles: tuple[Role, ...]
    containers: tuple[Container, ...]
    message: dict[str, Any]
    message_fields: tuple[Field, ...]  # blocks, detail: without the role
    sets: tuple[BlockSet, ...]
    unadvertised: str
    errors: tuple[ErrorCode, ...]
    rules: tuple[Rule, ...]
    formats: tuple[Format, ...]
    aliases: dict[str, str]  # a format that is another one under its own name
    format_titles: dict[str, tuple[str, str]]  # every format: title, description
    flatten: Flatten
    wire: dict[str, Any]
    server_checks: tuple[ServerCheck, ...]

    @property
    def released(self) -> tuple[BlockSet, ...]:
        """The released sets. A draft gets bundles only: nothing else may look at it."""
        return tuple(item for item in self.sets if item.status == "released")

    @property
    def current(self) -> BlockSet:
        """The newest released set; models, converters and defaults follow it."""
        return self.released[-1]

    def set(self, name: str) -> BlockSet:
        return next(item for item in self.sets if item.name == name)

    @property
    def message_schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = self.message["schema"]
        return schema

    @property
    def field_order(self) -> tuple[str, ...]:
        """One order of all field names that agrees with the order in every object (canonical order)."""
        orders = [["type", *(f.name for f in block.fields)] for block in self.blocks]
        orders.append(["role", *(f.name for f in self.message_fields)])
        return _merge(orders)


def _merge(orders: list[list[str]]) -> tuple[str, ...]:
    """Merge orders that agree into one; `ValueError` names the fields that stand in both orders."""
    rest = [list(order) for order in orders]
    merged: list[str] = []
    while any(rest):
        heads = [order[0] for order in rest if order]
        free = next((head for head in heads if all(head not in order[1:] for order in rest)), None)
        if free is None:
            raise ValueError(f"the fields {sorted(set(heads))} stand in different orders in different objects")
        merged.append(free)
        rest = [[name for name in order if name != free] for order in rest]
    return tuple(merged)
