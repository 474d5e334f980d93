"""What no meta-schema can see of a format: that its names lead somewhere, and that no content falls through.

A complaint names the file and what to do. It is for people who add a block or a format.
"""

from __future__ import annotations

from collections.abc import Iterator

from . import ir
from .reader import SchemaError


def check_formats(spec: ir.Spec) -> None:
    """Raise `SchemaError` for the first format that contradicts the blocks, the roles or itself."""
    for item in spec.formats:
        for complaint in _complaints(spec, item):
            raise SchemaError(f"formats/{item.name}.json: {complaint}")


def _complaints(spec: ir.Spec, item: ir.Format) -> Iterator[str]:
    slots = {slot.name for slot in item.slots}
    hoisted = item.system.place == "hoisted"
    for role in spec.roles:
        if role.name not in item.roles and not (hoisted and role.name == "system"):
            yield f"says nothing of turns of role {role.name!r}"
    for name, turn in item.roles.items():
        if name not in {role.name for role in spec.roles}:
            yield f"there is no role {name!r}"
        for slot in _slots(turn) - slots:
            yield f"the turn of role {name!r} names the slot {slot!r}, which there is not"
    for block in spec.blocks:
        rule = item.rules[block.type]
        for complaint in _of_block(item, rule, slots):
            yield f"the block {block.type!r} {complaint}"
        for complaint in _of_places(spec, item, rule):
            yield f"the block {block.type!r} {complaint}"


def _of_block(item: ir.Format, rule: ir.BlockRule, slots: set[str]) -> Iterator[str]:
    """Its slot, its fields, its media."""
    block, fields = rule.block, {field.name for field in rule.block.fields}
    if rule.template is None:
        return
    if rule.slot is not None and rule.slot not in slots:
        yield f"goes to the slot {rule.slot!r}, which there is not"
    used, lost = _fields(rule), {loss.field for loss in rule.losses}
    for name in sorted((used | lost) - fields):
        yield f"has no field {name!r}"
    for name in sorted(fields - used - lost - {"detail"}):
        yield f"would lose its field {name!r} in silence; use it, or name its loss"
    if block.media and not rule.media_types:
        yield "carries media; name the media_types that the provider takes"
    for part in _parts(rule):
        if isinstance(part, ir.Lookup) and block.media and part.name == block.media.type:
            for kind in sorted(set(rule.media_types) - set(part.values)):
                yield f"takes {kind!r}, but $map has no value for it"


def _of_places(spec: ir.Spec, item: ir.Format, rule: ir.BlockRule) -> Iterator[str]:
    """Where it may stand, it is converted or refused."""
    block = rule.block
    roles = rule.refused.roles if rule.refused else ()
    containers = rule.refused.containers if rule.refused else ()
    for name in {*roles, *containers} - {*block.roles, *block.containers}:
        yield f"is refused in {name!r}, where it may not stand anyway"
    if rule.raises or block.text:
        return
    if item.system.place == "hoisted" and "system" in block.roles and "system" not in roles:
        yield "may stand in system turns, which become text; refuse it there with refused_in"
    for outer in spec.blocks:
        held = outer.type in block.containers and outer.type not in containers
        if held and any(isinstance(part, ir.Texts) for part in _parts(item.rules[outer.type])):
            yield f"may stand in {outer.type!r}, which becomes text; refuse it there with refused_in"


def _parts(rule: ir.BlockRule) -> Iterator[ir.Template]:
    """All templates inside that of a block."""
    return ir.walk(rule.template) if rule.template is not None else iter(())


def _fields(rule: ir.BlockRule) -> set[str]:
    """The fields that the template uses."""
    used: set[str] = set()
    for part in _parts(rule):
        match part:
            case ir.FieldRef() | ir.JsonText() | ir.Lookup() | ir.Texts() | ir.Parts() | ir.If():
                used.add(part.name)
            case ir.DataUrl():
                used |= {part.type, part.data}
            case ir.CallField() if rule.block.result:
                used.add(rule.block.result["call_id"])
    return used


def _slots(turn: ir.Template) -> set[str]:
    """The slots that the template of a turn names."""
    named: set[str] = set()
    for part in ir.walk(turn):
        match part:
            case ir.Slot():
                named.add(part.name)
            case ir.Or():
                named |= {part.slot, part.other}
    return named
