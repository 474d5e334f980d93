"""Bodies of requests: read within limits of size and time, and held against `schema/wire.json`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from starlette.types import Message, Receive, Scope

from turnspec_generated import wire

from .. import _text
from .._text._grammar import MAX_DEPTH
from ._faults import FaultError
from ._json import encode

Error = dict[str, Any]
Step = str | int
READ_WAIT = 30.0  # seconds from one piece of a body to the next
DRAIN = 256 * 2**20  # bytes of a too large body that are read, so that the client gets to read the answer
_JSON = re.compile(r"application/(?:[^;\s]+\+)?json\s*(?:;|$)", re.IGNORECASE)
_ECHOED = 200  # bytes of a wrong value that an error repeats
_NAMES = {
    "string": ("string_type", "Input should be a valid string"),
    "integer": ("int_type", "Input should be a valid integer"),
    "object": ("dict_type", "Input should be a valid dictionary"),
    "array": ("list_type", "Input should be a valid list"),
}


async def read(receive: Receive, headers: Mapping[str, str], limit: int, wait: float = READ_WAIT) -> bytes:
    """The whole body. Faults: too_large, slow_body."""
    length = headers.get("content-length", "")
    size, large = 0, length.isdigit() and int(length) > limit
    pieces: list[bytes] = []
    while True:
        try:
            async with asyncio.timeout(wait):
                message: Message = await receive()
        except TimeoutError:
            raise FaultError("slow_body") from None
        if message["type"] == "http.disconnect":
            raise FaultError("slow_body")
        piece = message.get("body", b"")
        size += len(piece)
        if size > limit:
            large, pieces = True, []
        elif not large:
            pieces.append(piece)
        if not message.get("more_body", False) or (large and size > DRAIN):
            break
    if large:
        raise FaultError("too_large", limit=limit)
    return b"".join(pieces)


def header(scope: Scope) -> dict[str, str]:
    """The headers by name; where one comes twice, the first counts."""
    found: dict[str, str] = {}
    for name, value in scope["headers"]:
        found.setdefault(name.decode("latin-1"), value.decode("latin-1"))
    return found


def parse(data: bytes, headers: Mapping[str, str], name: str) -> dict[str, Any]:
    """The body as the schema `name` has it. Fault: bad_body, with all errors."""
    if not data:
        raise bad([_error("missing", (), "Field required", None)])
    if not _JSON.match(headers.get("content-type", "")):
        kind = headers.get("content-type", "")[:_ECHOED]
        raise bad([_error("dict_type", (), "The content type must be application/json", kind)])
    value = _value(data)
    errors = list(check(value, wire.REQUESTS[name], ("body",)))
    if errors:
        raise bad(errors)
    found: dict[str, Any] = value
    return found


def bad(errors: list[Error]) -> FaultError:
    return FaultError("bad_body", errors)


def check(value: Any, schema: Mapping[str, Any], path: tuple[Step, ...]) -> Iterator[Error]:
    """All errors of a value. Null is as good as absent where an optional key is concerned."""
    if "$ref" in schema:
        name = schema["$ref"]
        if name in wire.REQUESTS:
            yield from check(value, wire.REQUESTS[name], path)
        else:
            yield from _check_messages(value, path)
        return
    if not _fits(value, schema["type"]):
        kind, text = _NAMES[schema["type"][0]]
        yield _error(kind, path, text, value)
    elif isinstance(value, dict) and "properties" in schema:
        yield from _check_object(value, schema, path)
    elif isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from check(item, schema["items"], (*path, index))


def _check_object(value: dict[str, Any], schema: Mapping[str, Any], path: tuple[Step, ...]) -> Iterator[Error]:
    required = schema.get("required", ())
    for key in required:
        if key not in value:
            yield _error("missing", (*path, key), "Field required", value)
    for key, item in value.items():
        if key in schema["properties"]:
            if item is not None or key in required:
                yield from check(item, schema["properties"][key], (*path, key))
        elif schema.get("additionalProperties") is False:
            yield _error("extra_forbidden", (*path, key), "Extra inputs are not permitted", item)
    if "oneOf" in schema:
        ways = [way["required"] for way in schema["oneOf"]]
        whole = [way for way in ways if all(value.get(key) is not None for key in way)]
        begun = [way for way in ways if any(value.get(key) is not None for key in way)]
        if len(whole) != 1 or len(begun) != 1:
            words = ", or ".join(" and ".join(way) for way in ways)
            yield _error("value_error", path, f"Give either {words}: not both, not neither, not in part", value)


def _check_messages(value: Any, path: tuple[Step, ...]) -> Iterator[Error]:
    from ..validation import iter_errors

    for problem in iter_errors(value, entry="conversation"):
        steps = [int(step) if step.isdigit() else step for step in problem.pointer.split("/")[1:]]
        yield {"type": problem.code, "loc": [*path, *steps], "msg": problem.message}


def _fits(value: Any, types: list[str]) -> bool:
    for kind in types:
        match kind:
            case "null":
                fits = value is None
            case "string":
                fits = isinstance(value, str)
            case "integer":
                # A string of digits is taken too, as the reference server does.
                fits = not isinstance(value, bool) and as_integer(value) is not None
            case "object":
                fits = isinstance(value, dict)
            case _:
                fits = isinstance(value, list)
        if fits:
            return True
    return False


def as_integer(value: Any) -> int | None:
    """The integer that a number or a short string of digits is; None for others, and for null."""
    if isinstance(value, int):
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and re.fullmatch(r"[+-]?[0-9]{1,18}", value):
        return int(value)
    return None


def _error(kind: str, path: tuple[Step, ...], text: str, value: Any) -> Error:
    error: Error = {"type": kind, "loc": list(path or ("body",)), "msg": text}
    try:
        if len(encode(value)) <= _ECHOED:
            error["input"] = value
    except ValueError:
        pass
    return error


def _value(data: bytes) -> Any:
    try:
        value = msgspec.json.decode(data)
        deep = data.count(b"[") + data.count(b"{") > MAX_DEPTH and not _text.max_depth_at_most(value, MAX_DEPTH)
        if not deep:
            return value
    except (msgspec.MsgspecError, RecursionError, UnicodeError):
        pass
    fault = _text.fault(data)
    if fault is None or fault.code == "duplicate_key":
        return _text.parse(data)
    raise bad([{"type": "json_invalid", "loc": ["body"], "msg": f"{fault.code}: {fault.message}"}])
