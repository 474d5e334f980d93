"""JSON as the server writes it: compact UTF-8, exact, and never something that is no JSON."""

from __future__ import annotations

from typing import Any

from .._text import dumps_exact


def encode(value: Any) -> bytes:
    """Compact UTF-8. Raises ValueError for NaN, Infinity, broken text and what is nested too deep, else TypeError."""
    text = dumps_exact(value, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError("a string holds half of a surrogate pair, which has no UTF-8 encoding") from None


def encode_anyway(value: Any) -> bytes:
    """The same for texts of ours, where half of a surrogate pair becomes an escape."""
    return dumps_exact(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
