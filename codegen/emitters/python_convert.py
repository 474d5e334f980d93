"""The reference converter: one module of straight-line Python for each format.

Each module has two functions. `full` does every step and reports every loss and problem. `fast` is the
same for a conversation that needs no repair, at a fraction of the cost; at anything unusual it answers
None, and `full` takes over. Both come from the same data, and tests hold them against each other.
"""

from __future__ import annotations

import re
from typing import Any

from ..ir import (
    Block,
    BlockRule,
    CallField,
    Const,
    DataUrl,
    FieldRef,
    Format,
    If,
    JsonText,
    Lookup,
    Object,
    Or,
    Parts,
    Slot,
    Spec,
    Template,
    Texts,
    walk,
)
from .common import HEADER, PACKAGE, template


def emit(spec: Spec) -> dict[str, str]:
    kinds = {
        "text": next(block for block in spec.blocks if block.text),
        "call": next(block for block in spec.blocks if block.call),
        "result": next(block for block in spec.blocks if block.result),
        "reasoning": next(block for block in spec.blocks if block.reasoning),
    }
    files = {
        f"{PACKAGE}/json_text.py": template("python/json_text.py.j2", header=HEADER),
        f"{PACKAGE}/steps.py": template("python/steps.py.j2", header=HEADER, **kinds),
        f"{PACKAGE}/formats.py": _registry(spec),
    }
    for fmt in spec.formats:
        view = FormatView(spec, fmt, kinds)
        files[f"{PACKAGE}/convert_{fmt.name}.py"] = template(
            "python/convert.py.j2", header=HEADER, spec=spec, f=fmt, v=view, **kinds
        )
    return files


def _registry(spec: Spec) -> str:
    """Which module converts to a format; modules are imported when they are needed."""
    modules = {name: f"convert_{spec.aliases.get(name, name)}" for name in spec.format_titles}
    requests = {fmt.name: _request(fmt.request) for fmt in spec.formats}
    titles = {name: title for name, (title, _) in spec.format_titles.items()}
    payloads = {fmt.name: _payload(fmt) for fmt in spec.formats}
    exact = {fmt.name: fmt.exact_bytes for fmt in spec.formats if fmt.exact_bytes}
    unsigned = {fmt.name: fmt.unsigned_calls for fmt in spec.formats if fmt.unsigned_calls}
    lines = [
        HEADER + '"""The formats: their modules, what people call them, and how a payload becomes a request."""\n',
        "from __future__ import annotations\n",
        "from typing import Any\n",
        f"MODULES: dict[str, str] = {modules!r}",
        f"TITLES: dict[str, str] = {titles!r}",
        f"SAME_AS: dict[str, str] = {spec.aliases!r}",
        f"PAYLOAD: dict[str, dict[str, str] | None] = {payloads!r}",
        f"REQUEST: dict[str, Any] = {requests!r}",
        f"EXACT_BYTES: dict[str, dict[str, str]] = {exact!r}",
        f"UNSIGNED_CALLS: dict[str, dict[str, str]] = {unsigned!r}",
    ]
    return "\n".join(lines) + "\n"


def _payload(fmt: Format) -> dict[str, str] | None:
    """The payload's key for each part of it; None where the payload is the list of messages."""
    if not isinstance(fmt.payload, Object):
        return None
    return {member.value.name: member.key for member in fmt.payload.members if isinstance(member.value, Slot)}


def _request(item: Template) -> Any:
    """The keyword arguments of a request as plain data: names of payload parts, `?` for absent when null."""
    if isinstance(item, Slot):
        return item.name
    assert isinstance(item, Object)
    return {member.key + "?" * member.optional: _request(member.value) for member in item.members}


class _AnyName(dict[str, str]):
    """Names for an expression that is only counted."""

    def __missing__(self, key: str) -> str:
        return key


class FormatView:
    """A format as the template wants to see it: expressions and lists instead of trees."""

    def __init__(self, spec: Spec, fmt: Format, kinds: dict[str, Block]) -> None:
        self.spec = spec
        self.fmt = fmt
        self.kinds = kinds
        blocks = set(spec.current.types)
        self.rules = [rule for kind, rule in fmt.rules.items() if kind in blocks]
        self.slots = fmt.slots
        self.ranks = {slot.name: rank for rank, slot in enumerate(fmt.slots)}

    # --- what the template asks ---

    def in_role(self, role: str) -> list[BlockRule]:
        """The rules of the blocks that may stand in a role."""
        return [rule for rule in self.rules if role in rule.block.roles]

    def inner(self) -> list[BlockRule]:
        """The rules of the blocks that a tool result may hold."""
        return [rule for rule in self.rules if rule.block.containers]

    def turn_slots(self, role: str) -> list[Any]:
        used = {rule.slot for rule in self.in_role(role)}
        return [slot for slot in self.slots if slot.name in used]

    def located(self, role: str) -> bool:
        """Whether `fast` has to know the place of a block, for a loss that is told."""
        return any(loss.when == "set" for rule in self.in_role(role) for loss in rule.losses)

    def handle_letters(self) -> bytes:
        """The characters of call ids where the pattern is `[…]+`: all ids are then tested at once. b"" elsewhere."""
        found = re.fullmatch(r"\[[^\]]+\]\+", self.fmt.call_ids.pattern or "")
        if not found or self.fmt.call_ids.unique_in != "conversation":
            return b""
        return bytes(code for code in range(128) if re.fullmatch(found[0], chr(code)))

    def by_frequency(self, role: str) -> list[BlockRule]:
        """The rules of a role, those first that most blocks of an agent's conversation need."""
        ranks = ("call", "result", "text", "reasoning")
        return sorted(
            self.in_role(role),
            key=lambda rule: next((rank for rank, mark in enumerate(ranks) if getattr(rule.block, mark)), len(ranks)),
        )

    def places(self, rule: BlockRule) -> tuple[str, ...]:
        """Where the format takes a block, in words."""
        assert rule.refused
        found = [f"a turn of role {role}" for role in rule.block.roles if role not in rule.refused.roles]
        failed = " that did not fail" if rule.refused.failed_results else ""
        found += [f"a {box}{failed}" for box in rule.block.containers if box not in rule.refused.containers]
        return tuple(found)

    def hoisted(self) -> bool:
        return self.fmt.system.place == "hoisted"

    def roles(self) -> list[str]:
        return list(self.fmt.roles)

    def ranked(self) -> bool:
        return self.fmt.order_lost is not None

    def media_rules(self) -> list[BlockRule]:
        return [rule for rule in self.rules if rule.block.media and rule.raises is None]

    def uses(self, kind: type[Template]) -> bool:
        found = [rule.template for rule in self.rules if rule.template is not None]
        return any(isinstance(item, kind) for template in found for item in walk(template))

    def sends(self, rule: BlockRule, name: str) -> bool:
        """Whether a field of the block is part of what is sent."""
        if rule.template is None:
            return False
        for item in walk(rule.template):
            if isinstance(item, FieldRef | JsonText | Lookup | Texts | Parts) and item.name == name:
                return True
            if isinstance(item, DataUrl) and name in (item.type, item.data):
                return True
        return False

    def strings(self, rule: BlockRule) -> list[str]:
        """The string fields that are sent as they are, without media, names and ids, which have checks of their own."""
        own = {rule.block.media.data, rule.block.media.type} if rule.block.media else set()
        own |= {rule.block.call["id"], rule.block.call["name"]} if rule.block.call else set()
        own |= {rule.block.result["call_id"]} if rule.block.result else set()
        return [
            item.name
            for item in rule.block.fields
            if item.type == "string" and item.name not in own and self.sends(rule, item.name)
        ]

    def nullable(self, rule: BlockRule, name: str) -> bool:
        return rule.block.field(name).nullable

    def raw_input(self, rule: BlockRule) -> bool:
        """Whether the input of a call is sent as an object, not as JSON text."""
        assert rule.block.call
        name = rule.block.call["input"]
        assert rule.template is not None
        return any(isinstance(item, FieldRef) and item.name == name for item in walk(rule.template))

    def locals_full(self) -> list[tuple[str, str]]:
        """(name, annotation) of the variables that `full` sets in more than one place."""
        return [
            *([("part", "dict[str, Any]")] if self._optional_parts() else []),
            *([("message", "dict[str, Any]")] if any(map(self.conditional, self.roles())) else []),
            *([("inner_parts", "list[Any]")] if self.uses(Parts) or self.uses(Texts) else []),
        ]

    def locals_fast(self) -> list[tuple[str, str]]:
        return [
            *([("part", "dict[str, Any]")] if self._optional_parts() else []),
            *([("entry", "dict[str, Any]")] if self.conditional("assistant") else []),
            *([("inner_parts", "list[Any]")] if self.uses(Parts) else []),
        ]

    def _optional_parts(self) -> bool:
        return any(self.optional(rule.template, _AnyName()) for rule in self.rules)

    # --- expressions ---

    def required(self, item: Template | None, names: dict[str, str]) -> str:
        """The expression of a template without its optional members."""
        assert item is not None
        if isinstance(item, Object):
            members = (m for m in item.members if not m.optional)
            return "{" + ", ".join(f"{m.key!r}: {self.required(m.value, names)}" for m in members) + "}"
        if isinstance(item, Const):
            return repr(item.value)
        if isinstance(item, FieldRef | JsonText | Texts | Parts):
            prefix = {JsonText: "json:", Texts: "texts:", Parts: "parts:"}.get(type(item), "")
            return names[prefix + item.name]
        if isinstance(item, DataUrl):
            return f'f"data:{{{names[item.type]}}};base64,{{{names[item.data]}}}"'
        if isinstance(item, Lookup):
            return f"{item.values!r}.get({names[item.name]})"  # what is not listed was refused before
        if isinstance(item, CallField):
            return names[f"call:{item.what}"]
        if isinstance(item, If):
            then, otherwise = self.required(item.then, names), self.required(item.otherwise, names)
            return f"({then} if {names[item.name]} else {otherwise})"
        if isinstance(item, Slot):
            return names[item.name]
        assert isinstance(item, Or)
        empty = f"({item.then!r} if {names['has:' + item.other]} else {item.otherwise!r})"
        return f"{names[item.slot]} if {names['has:' + item.slot]} else {empty}"

    def optional(self, item: Template | None, names: dict[str, str]) -> list[tuple[str, str]]:
        """(key, expression) of the optional members, which stand last."""
        if not isinstance(item, Object):
            return []
        return [(m.key, self.required(m.value, names)) for m in item.members if m.optional]

    def texts(self, rule: BlockRule) -> Texts | None:
        """The joined texts that the template asks for, if it does."""
        assert rule.template is not None
        return next((item for item in walk(rule.template) if isinstance(item, Texts)), None)

    def parts(self, rule: BlockRule) -> Parts | None:
        assert rule.template is not None
        return next((item for item in walk(rule.template) if isinstance(item, Parts)), None)

    def role_names(self, role: str) -> dict[str, str]:
        """What slots are called in the code of a role; a slot that the role cannot fill is empty."""
        here = {slot.name for slot in self.turn_slots(role)}
        names = {}
        for slot in self.slots:
            value, has = slot.name, slot.name
            if slot.kind == "text":
                value = f"{slot.join!r}.join({slot.name})"
            elif slot.kind == "parts" and slot.single_text:
                value = f"text if len({slot.name}) == 1 and texts == 1 else {slot.name}"
            names[slot.name] = f"({value})" if slot.name in here else "()"
            names[f"has:{slot.name}"] = has if slot.name in here else "()"
        return names

    def conditional(self, role: str) -> list[tuple[str, str, str]]:
        """(key, condition, expression) of the optional members of a role's message."""
        names = self.role_names(role)
        found = []
        for member in self.fmt.roles[role].members:
            if member.optional:
                assert isinstance(member.value, Slot)
                found.append((member.key, names["has:" + member.value.name], names[member.value.name]))
        return found
