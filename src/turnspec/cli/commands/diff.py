"""`turnspec diff v1 v2`: what one block set has that another has not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnspec.cli import OK
from turnspec.cli.failures import choose
from turnspec.cli.output import emit
from turnspec.cli.report import json_line

if TYPE_CHECKING:
    from turnspec_generated.tables import Set


def run(args: Any) -> int:
    """Print the difference of two block sets, as text or as one JSON object."""
    from turnspec_generated.tables import SETS

    old, new = (choose(name, SETS, "block set") for name in (args.old, args.new))
    found = difference(SETS[old], SETS[new])
    if args.output == "json":
        emit(json_line({"from": old, "to": new, **found}))
    else:
        emit(as_text(old, new, found))
    return OK


def difference(old: Set, new: Set) -> dict[str, list[dict[str, Any]]]:
    """The blocks that are added, removed, changed and the same: their fields, and what holds them."""
    before = {name: _describe(old, name) for name in old.blocks}
    after = {name: _describe(new, name) for name in new.blocks}
    both = [name for name in after if name in before]
    return {
        "added": [after[name] for name in after if name not in before],
        "removed": [before[name] for name in before if name not in after],
        "changed": [after[name] for name in both if after[name] != before[name]],
        "same": [after[name] for name in both if after[name] == before[name]],
    }


def _describe(block_set: Set, name: str) -> dict[str, Any]:
    fields = {
        field: {"types": list(info.types), "required": info.required} for field, info in block_set.blocks[name].items()
    }
    places = [place for place, types in block_set.places.items() if name in types]
    return {"type": name, "fields": fields, "in": places}


def as_text(old: str, new: str, found: dict[str, list[dict[str, Any]]]) -> str:
    """The difference as lines: `+` added, `-` removed, `~` changed, and the rest by name."""
    lines = [f"{old} -> {new}"]
    for sign, kind in (("+", "added"), ("-", "removed"), ("~", "changed")):
        for block in found[kind]:
            fields = ", ".join(
                f"{name}{'' if info['required'] else '?'}: {' or '.join(info['types'])}"
                for name, info in block["fields"].items()
            )
            lines.append(f"{sign} {block['type']} (in {', '.join(block['in'])}): {fields}")
    if not any(found[kind] for kind in ("added", "removed", "changed")):
        lines.append("  no difference")
    same = ", ".join(block["type"] for block in found["same"])
    lines.append(f"= {same or 'nothing'}")
    return "\n".join(lines) + "\n"
