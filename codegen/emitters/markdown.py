"""Markdown: tables, inline code, links, and JSON laid out for reading."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any


def table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table; cells are Markdown already, save that a bar is escaped here."""
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *map(list, rows)]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def code(value: Any) -> str:
    """The JSON text of a value as inline code; a long one is cut."""
    text = json.dumps(value, ensure_ascii=False)
    return f"`{text if len(text) <= 60 else text[:57] + '…'}`"


def codes(names: Iterable[str]) -> str:
    """Names as inline code, separated by commas; a dash for none."""
    return ", ".join(f"`{name}`" for name in names) or "–"


def link(name: str, page: str = "errors") -> str:
    """A code (or block, or format) that links to its entry."""
    return f"[`{name}`]({page}.md#{name})"


def links(names: Iterable[str], page: str = "errors") -> str:
    """Links separated by commas; a dash for none."""
    return ", ".join(link(name, page) for name in names) or "–"


def pretty(value: Any, width: int = 100) -> str:
    """A fenced block of JSON; what fits on a line stands on a line."""
    return f"```json\n{_lay_out(value, width)}\n```"


def _lay_out(value: Any, width: int, indent: str = "", before: str = "") -> str:
    """`before` is what stands before the value on its line."""
    flat = before + json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or not value or len(indent) + len(flat) <= width:
        return flat
    inner = indent + "  "
    if isinstance(value, dict):
        items = [(f"{json.dumps(key, ensure_ascii=False)}: ", item) for key, item in value.items()]
    else:
        items = [("", item) for item in value]
    lines = ",\n".join(inner + _lay_out(item, width, inner, key) for key, item in items)
    opening, closing = ("{", "}") if isinstance(value, dict) else ("[", "]")
    return f"{before}{opening}\n{lines}\n{indent}{closing}"
