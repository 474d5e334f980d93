"""All that can judge a document, and what they must agree on."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import jsonschema_rs
import pydantic

import turnspec
from tests.strategies import ROOT
from turnspec_generated.model_base import codes

BUNDLES = ("types", "validate")
SETS = ("v1", "v2")
DEFINITIONS = {"conversation": "Conversation", "message": "Message", "task": "Task"}

Findings = list[tuple[str, str]]


def disagreements(entry: str, document: Any, block_set: str = "v2", *, slow: bool = False) -> list[str]:
    """Where two of the judges say different things of a document; `slow` asks python's jsonschema too."""
    text = json.dumps(document)
    given = text if isinstance(document, str) else document  # a string would be read as text itself
    errors = found(turnspec.iter_errors(given, entry=entry, block_set=block_set))
    valid = not errors
    told = [
        f"{name} says {'valid' if verdict else 'not valid'}, the explainer {errors or 'valid'}"
        for name, verdict in verdicts(entry, document, text, block_set, slow)
        if verdict != valid
    ]
    again = json.dumps(shuffled(document, random.Random(text)), indent=1, ensure_ascii=False)
    others = {
        "text": found(turnspec.iter_errors(text, entry=entry, block_set=block_set)),
        "shuffled text": found(turnspec.iter_errors(again.encode(), entry=entry, block_set=block_set)),
        "loads": errors_of_loads(text, entry, block_set),
    }
    if block_set == turnspec.CURRENT and entry == "message":
        others["the model"] = errors_of_model(document)
    told += [f"{name} gives {other} for {errors}" for name, other in others.items() if other != errors]
    return told


def verdicts(entry: str, document: Any, text: str, block_set: str, slow: bool) -> Iterator[tuple[str, bool]]:
    for bundle in BUNDLES:
        yield f"jsonschema-rs on {bundle}", rust(bundle, block_set, entry).is_valid(document)
        if slow:
            yield f"jsonschema on {bundle}", python(bundle, block_set, entry).is_valid(document)
    if block_set == turnspec.CURRENT:
        yield "the models", models_take(entry, document)


def models_take(entry: str, document: Any) -> bool:
    if entry == "task":
        if not isinstance(document, dict) or "conversation" not in document:
            return False
        document = document["conversation"]
    if entry == "message":
        document = [document]
    if not isinstance(document, list):
        return False
    return not any(errors_of_model(message) for message in document)


def errors_of_model(message: Any) -> Findings:
    try:
        turnspec.Message.model_validate(message)
    except pydantic.ValidationError as error:
        return codes(error)
    return []


def errors_of_loads(text: str, entry: str, block_set: str) -> Findings:
    try:
        turnspec.loads(text, entry=entry, block_set=block_set)
    except turnspec.ValidationError as error:
        return found(error.errors)
    return []


def load(path: Path) -> Any:
    """A file of vectors. Its longest integers are cut, since Python writes none of more than 4300 digits."""
    return json.loads(path.read_text(encoding="utf-8"), parse_int=lambda digits: int(digits[:4000]))


def found(errors: Any) -> Findings:
    return [(error.code, error.pointer) for error in errors]


def shuffled(value: Any, choose: random.Random) -> Any:
    """The same value with the keys of its objects in another order."""
    if isinstance(value, list):
        return [shuffled(item, choose) for item in value]
    if not isinstance(value, dict):
        return value
    items = [(key, shuffled(item, choose)) for key, item in value.items()]
    choose.shuffle(items)
    return dict(items)


@cache
def schema(bundle: str, block_set: str, entry: str) -> dict[str, Any]:
    path = ROOT / "generated" / "schemas" / block_set / f"{bundle}.schema.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    found["$ref"] = f"#/$defs/{DEFINITIONS[entry]}"
    return found


@cache
def rust(bundle: str, block_set: str, entry: str) -> Any:
    return jsonschema_rs.Draft202012Validator(schema(bundle, block_set, entry))


@cache
def python(bundle: str, block_set: str, entry: str) -> Any:
    return jsonschema.Draft202012Validator(schema(bundle, block_set, entry))


# --- Text --------------------------------------------------------------------------------------------------


def text_disagreements(text: bytes) -> list[str]:
    """Where the findings on a text are not what a plain reading of the rules gives."""
    errors = found(turnspec.iter_errors(text, entry="conversation"))
    try:
        turnspec.loads(text, entry="conversation")
        loaded: Findings = []
    except turnspec.ValidationError as error:
        loaded = found(error.errors)
    told = []
    expected = fault(text)
    if expected is not None:
        if errors[:1] != [(expected, errors[0][1] if expected == "duplicate_key" else "")] or len(errors) != 1:
            told.append(f"{errors} for {expected}")
        if expected == "invalid_json" and not loaded:
            told.append("loads reads what is not JSON")
        return told
    if any(code in ("too_deep", "invalid_json", "duplicate_key") for code, _ in errors):
        return [f"{errors} for sound JSON"]
    if loaded != errors:
        told.append(f"loads gives {loaded} for {errors}")
    value = json.loads(text, parse_int=str if len(text) > 4000 else int)
    if errors != found(turnspec.iter_errors(value, entry="conversation")):
        told.append(f"{errors}, but not for the value")
    return told


def fault(text: bytes) -> str | None:
    """What is wrong with a text before any schema: the first that holds."""
    if deepest(text) > 128:
        return "too_deep"
    repeated = False

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        repeated |= len({key for key, _ in pairs}) != len(pairs)
        return dict(pairs)

    def number(digits: str) -> float:
        value = float(digits)
        if value in (float("inf"), float("-inf")):
            raise ValueError("beyond the range")
        return value

    def constant(name: str) -> Any:
        raise ValueError(name)

    try:
        value = json.loads(
            text.decode("utf-8"), object_pairs_hook=unique, parse_float=number, parse_constant=constant, parse_int=str
        )
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except ValueError:
        return "invalid_json"
    return "duplicate_key" if repeated else None


def deepest(text: bytes) -> int:
    """The levels of arrays and objects, by the brackets outside of strings from the start."""
    level = most = 0
    inside = False
    escaped = False
    for byte in text:
        if inside:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                inside = False
        elif byte == 0x22:
            inside = True
        elif byte in b"[{":
            level += 1
            most = max(most, level)
        elif byte in b"]}":
            level -= 1
    return most
