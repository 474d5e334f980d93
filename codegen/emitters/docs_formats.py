"""The words of the page about formats: what each makes of each block, in a few words and as its template."""

from __future__ import annotations

from typing import Any

from .. import ir
from .markdown import code, codes, link, links, table

PLACES = {"parts": "a part of", "text": "text of", "list": "an entry of"}
TURN_JOINS = {
    "never": "Assistant turns are never joined.",
    "behind_a_call": "Where another assistant turn stands between a call and the user turns, the assistant "
    "turns from the first with a call on are joined into one.",
    "run_with_a_call": "A run of several assistant turns that holds a call is joined into one turn.",
}
RESULTS = {
    "first": "Tool results come before the other content of their turn and keep their order.",
    "in_call_order": "Tool results come in the order of their calls, at the places that results had.",
}
BLANK = {
    "empty": "Empty text is refused",
    "white_space": "Text of nothing but white space is refused",
}


def source(item: ir.Template) -> Any:
    """A template as the format file writes it: JSON with "$name" and {"$operation": …}."""
    match item:
        case ir.Const(value):
            return value
        case ir.FieldRef(name) | ir.Slot(name):
            return f"${name}"
        case ir.Or(slot, other, then, otherwise):
            return {"$or": slot, "with": other, "then": then, "else": otherwise}
        case ir.JsonText(name):
            return {"$json": name}
        case ir.DataUrl(kind, data):
            return {"$data_url": [kind, data]}
        case ir.Lookup(name, values):
            return {"$map": name, "values": values}
        case ir.CallField(what):
            return {"$call": what}
        case ir.Texts(name, join, joined):
            return {"$texts": name, "join": join, "joined": joined}
        case ir.Parts(name):
            return {"$parts": name}
        case ir.If(name, then, otherwise):
            return {"$if": name, "then": source(then), "else": source(otherwise)}
        case ir.Object(members):
            return {member.key + "?" * member.optional: source(member.value) for member in members}


def becomes(item: ir.Format, kind: str) -> str:
    """What a block becomes, in a few words."""
    rule = item.rules[kind]
    if rule.raises:
        return f"raises {link(rule.raises)}"
    if rule.message:
        return "a message of its own"
    slot = item.slot(rule.slot or "")
    return f"{PLACES[slot.kind]} {_keys(item, slot.name)}"


def _keys(item: ir.Format, slot: str) -> str:
    """The keys of the output messages that hold a slot."""
    found: dict[str, None] = {}
    for turn in item.roles.values():
        for member in turn.members:
            if any(_holds(part, slot) for part in ir.walk(member.value)):
                found[member.key] = None
    return codes(found)


def _holds(part: ir.Template, slot: str) -> bool:
    return part == ir.Slot(slot) or (isinstance(part, ir.Or) and part.slot == slot)


def refused(item: ir.Format, kind: str) -> list[str]:
    """Where the format refuses a block that it takes elsewhere."""
    place = item.rules[kind].refused
    if place is None:
        return []
    places = [f"turns of {codes(place.roles)}"] if place.roles else []
    places += [f"the content of {codes(place.containers)}"] if place.containers else []
    places += ["results that failed"] if place.failed_results else []
    return [f"raises {link(place.code)} in {' and in '.join(places)}"]


def limits(item: ir.Format, kind: str) -> list[str]:
    """Which media the format takes."""
    rule = item.rules[kind]
    found = []
    if rule.media_types:
        other = link("unsupported_media_type")
        found.append(f"takes {codes(rule.media_types)}, and raises {other} for others")
    if rule.sniff:
        found.append(f"raises {link('mime_mismatch')} where the first bytes are those of another type")
    return found


def losses(item: ir.Format, kind: str) -> list[str]:
    """What gets lost, each with its code."""
    rule = item.rules[kind]
    when = {"set": " where it is set", "always": ""}
    found = [f"`{loss.field}`{when[loss.when]} ({link(loss.code)})" for loss in rule.losses]
    if rule.slot and (joined := item.slot(rule.slot).joined):
        found.append(f"the border to the one before ({link(joined)})")
    if rule.template:
        joins = {part.joined for part in ir.walk(rule.template) if isinstance(part, ir.Texts)}
        found += [f"the borders between its texts ({link(name)})" for name in sorted(joins)]
    return found


def notes(item: ir.Format) -> list[str]:
    """What holds for the whole format, a sentence or two a point."""
    found = [_system(item.system), TURN_JOINS[item.join_turns], RESULTS[item.results], _ids(item.call_ids)]
    name = link("unportable_name")
    found.append(f"A tool name that does not match `{item.name_pattern}` as a whole raises {name}.")
    if item.blank_turn != "never":
        told = f"{link('blank_text_dropped')}, or {link('blank_text')} where the turn has nothing else"
        found.append(f"{BLANK[item.blank_turn]} in a turn: {told}.")
    if item.blank_result != "never":
        found.append(f"{BLANK[item.blank_result]} in a tool result: {link('blank_text_dropped')}.")
    if item.order_lost:
        found.append(f"A block behind one of a later slot loses its place ({link(item.order_lost)}).")
    if item.refuses:
        found.append(f"It also raises {links(item.refuses)}.")
    if unsigned := item.unsigned_calls:
        found.append(
            'With `unsigned_calls="sentinel"`, `request_arguments` gives the first '
            f"`{unsigned['part']}` of each message of the current turn the `{unsigned['field']}` "
            f"`{unsigned['sentinel']}`. The current turn is what stands behind the user's last message with "
            f"any part but `{unsigned['response']}`."
        )
    return found


def _system(system: ir.System) -> str:
    if system.place == "turn":
        return "System turns stay turns, wherever they stand."
    return (
        f"Leading system turns become one text, joined by {code(system.join)} ({link(system.joined)}). "
        f"A later one raises {link(system.later)}, blank system text {link(system.blank)}."
    )


def _ids(ids: ir.CallIds) -> str:
    if ids.unique_in == "nothing":
        return "Calls have no ids."
    wants = [f"has 1 to {ids.max_length} characters"] if ids.max_length else []
    wants += [f"matches `{ids.pattern}` as a whole"] if ids.pattern else []
    return (
        f"A call keeps an id that {' and '.join(wants)} and was not used before in its {ids.unique_in}. "
        f"Otherwise it gets `{ids.rewrite}`, n counting all calls from 0 ({link('id_rewritten')})."
    )


def formats_table(spec: ir.Spec) -> str:
    rows = [[link(name, "formats"), *words] for name, words in spec.format_titles.items()]
    return table(["format", "the provider's name", "what it is"], rows)


def glance_table(spec: ir.Spec) -> str:
    """Block by format. A format and its aliases share a column."""
    heads = []
    for item in spec.formats:
        names = [item.name, *(alias for alias, name in spec.aliases.items() if name == item.name)]
        heads.append(links(names, "formats"))
    rows = []
    for block in spec.current.blocks:
        cells = []
        for item in spec.formats:
            lost = [f"loses {line}" for line in losses(item, block.type)]
            cells.append("; ".join([becomes(item, block.type), *refused(item, block.type), *lost]))
        rows.append([link(block.type, "blocks"), *cells])
    return table(["block", *heads], rows)


def slots_table(spec: ir.Spec, item: ir.Format) -> str:
    rows = []
    for slot in item.slots:
        what = {
            "parts": "parts, one after another",
            "list": "entries beside the content",
            "text": f"one text, joined by {code(slot.join)}",
        }[slot.kind]
        what += "; a single text becomes a plain string" if slot.single_text else ""
        rows.append([f"`{slot.name}`", what])
    return table(["slot", "what it gathers"], rows)
