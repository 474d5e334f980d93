"""Would the provider take this payload? The refusals that a payload of ours could meet.

Two layers: the shape of the request (a JSON Schema in `shapes/`), then what relates one part of it to
another (`openai.py`, `anthropic.py`, `google.py`). Thinking without a signature counts as accepted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs

from tests.provider import anthropic, google, openai

_RELATIONS: dict[str, Callable[[Any, bool], Iterator[str]]] = {
    "openai": openai.relations,
    "openrouter": openai.relations,
    "anthropic": anthropic.relations,
    "google": google.relations,
}
_ENVELOPE_NULLS = {"anthropic": "system", "google": "system_instruction"}


def refusals(format: str, payload: Any, purpose: str = "request") -> list[str]:
    """Every reason that the provider has to refuse the payload; nothing when it takes it.

    The null of an envelope is no reason, since `request_arguments` leaves it out.
    """
    if isinstance(payload, dict) and payload.get(_ENVELOPE_NULLS.get(format, ""), 0) is None:
        payload = {key: value for key, value in payload.items() if value is not None}
    unsendable = list(_unsendable(payload))
    if unsendable:
        return unsendable
    misshapen = [
        f"shape: /{'/'.join(map(str, error.instance_path))}: {error.message[:200]}"
        for error in _shape(format).iter_errors(payload)
    ]
    return misshapen or list(_RELATIONS[format](payload, purpose == "training"))


@cache
def _shape(format: str) -> Any:
    name = "openai" if format == "openrouter" else format
    path = Path(__file__).parent / "shapes" / f"{name}.json"
    return jsonschema_rs.Draft202012Validator(json.loads(path.read_text(encoding="utf-8")))


def _unsendable(value: Any) -> Iterator[str]:
    """What no JSON body in UTF-8 can hold."""
    if isinstance(value, float) and not math.isfinite(value):
        yield f"json: {value} is no JSON number"
    elif isinstance(value, str):
        if any("\ud800" <= letter <= "\udfff" for letter in value):
            yield f"utf-8: lone surrogate in {value!r}"
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _unsendable(key)
            yield from _unsendable(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _unsendable(item)
