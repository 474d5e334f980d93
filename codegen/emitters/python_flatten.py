"""Conversations as plain prompt blocks: the text that flatten and downgrade give each block."""

from __future__ import annotations

import re

from ..ir import FlattenRule, Spec
from .common import HEADER, PACKAGE, template

PLACEHOLDER = re.compile(r"\{(\w+)(:json)?\}")


def emit(spec: Spec) -> dict[str, str]:
    rules = [rule for rule in spec.flatten.rules.values() if rule.block in spec.current.blocks]
    flatten = spec.flatten
    return {
        f"{PACKAGE}/flatten.py": template(
            "python/flatten.py.j2",
            header=HEADER,
            rules=[rule for rule in rules if not rule.as_is],
            as_is=tuple(rule.block.type for rule in rules if rule.as_is),
            verbatim_role=flatten.verbatim_role,
            header_text=_text(flatten.header_text, "message"),
            header_detail=_detail(flatten.header_detail, "message"),
            text=_rule_text,
            detail=lambda rule: _detail(rule.detail, "block") if rule.detail else "None",
        )
    }


def _rule_text(rule: FlattenRule) -> str:
    text = _text(rule.text, "block")
    if rule.text_if:
        text = f"{_text(rule.text_if[1], 'block')} if block.{rule.text_if[0]} else {text}"
    return text


def _text(text: str, owner: str) -> str:
    """`[tool_call {name}] {input:json}` as the Python expression that fills it."""
    if not PLACEHOLDER.search(text):
        return repr(text)
    filled = PLACEHOLDER.sub(
        lambda found: f"{{json_text({owner}.{found[1]})}}" if found[2] else f"{{{owner}.{found[1]}}}", text
    )
    return f'f"{filled}"'


def _detail(detail: dict[str, str], owner: str) -> str:
    members = (f"{key!r}: {_value(value, owner)}" for key, value in detail.items())
    return "{" + ", ".join(members) + "}"


def _value(value: str, owner: str) -> str:
    found = PLACEHOLDER.fullmatch(value)
    return f"{owner}.{found[1]}" if found else repr(value)
