"""The conformance runner: `python -m turnspec.conformance`.

One JSON request a line on standard input, one JSON answer a line on standard output, in order, each flushed.
An answer is `{"id", "result"}`, or `{"id", "error"}` where the request was no request of the protocol, which
`tests/conformance/README.md` describes. Nothing that a line holds ends the runner.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO

from ._errors import ConversionError, Problem, ValidationError
from ._text import dumps_exact, parse

Request = dict[str, Any]
Result = dict[str, Any]


def main(source: BinaryIO | None = None, target: BinaryIO | None = None) -> int:
    """Answer every line of `source` (standard input) on `target` (standard output)."""
    source, target = source or sys.stdin.buffer, target or sys.stdout.buffer
    try:
        for line in source:
            if line.strip():
                target.write(answer(line))
                target.flush()
    except (BrokenPipeError, KeyboardInterrupt):
        if target is sys.stdout.buffer:  # or Python complains when it flushes at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def answer(line: bytes) -> bytes:
    """The answer to one line, with its line break."""
    request: Any = None
    try:
        request = parse(line)
        reply = _reply(request)
        return _line(reply)
    except Exception as problem:
        return _line(_refused(request, problem))


def _reply(request: Any) -> Result:
    if not isinstance(request, dict):
        raise _BadRequest("a request is an object")
    operation = request.get("op")
    if not isinstance(operation, str):
        raise _BadRequest("`op` is missing or no string")
    perform = OPERATIONS.get(operation)
    if perform is None:
        return {"id": request.get("id"), "error": "unsupported"}
    try:
        result = perform(request)
    except (ValidationError, ConversionError) as problem:
        result = {"raises": {"code": problem.code, "pointer": problem.pointer}}
    return {"id": request.get("id"), "result": result}


def _refused(request: Any, problem: Exception) -> Result:
    expected = isinstance(problem, ValueError | TypeError | RecursionError)
    kind = "bad request" if expected else f"internal error: {type(problem).__name__}"
    return {"id": request.get("id") if isinstance(request, dict) else None, "error": f"{kind}: {problem}"}


def _line(reply: Result) -> bytes:
    try:
        return dumps_exact(reply, separators=(",", ":")).encode() + b"\n"
    except ValueError:  # an id that no JSON text can hold
        return dumps_exact({**reply, "id": None}, separators=(",", ":")).encode() + b"\n"


class _BadRequest(ValueError):
    """The line is no request of the protocol."""


def _need(request: Request, field: str) -> Any:
    if field not in request:
        raise _BadRequest(f"`{field}` is missing")
    return request[field]


def _messages(request: Request) -> list[Any]:
    """The messages of a request; `ValidationError` where one of them is no object."""
    messages = _need(request, "messages")
    if not isinstance(messages, list):
        raise _BadRequest("`messages` is no array")
    if not all(isinstance(item, dict) for item in messages):
        from .validation import validate

        validate(messages, entry="conversation")
    return messages


def _strings(request: Request, field: str) -> list[str] | None:
    """A list of strings, or None where the field is absent."""
    values = request.get(field)
    if values is None or (isinstance(values, list) and all(isinstance(value, str) for value in values)):
        return values
    raise _BadRequest(f"`{field}` is no array of strings")


def _places(problems: Iterable[Problem]) -> list[Result]:
    return [{"code": item.code, "pointer": item.pointer} for item in problems]


def _validate(request: Request) -> Result:
    from .validation import iter_errors

    document: Any
    if "text" in request:
        document = request["text"]
        if not isinstance(document, str):
            raise _BadRequest("`text` is no string")
        document = document.encode("utf-8", "surrogatepass")
    else:
        document = _need(request, "document")
        if isinstance(document, str):  # a string given as a value is no JSON text
            document = dumps_exact(document).encode()
    entry = request.get("entry", "auto")
    errors = list(iter_errors(document, entry=entry, block_set=request.get("block_set")))
    return {"valid": not errors, "errors": _places(errors)}


def _rules(request: Request) -> Result:
    from .rules import check_rules

    found = check_rules(_messages(request), request.get("format"))
    return {"findings": [{"code": item.code, "pointer": item.pointer, "severity": item.severity} for item in found]}


def _convert(request: Request) -> Result:
    from .conversion import convert_with_report

    format, purpose = _need(request, "format"), request.get("purpose", "request")
    if not isinstance(format, str):
        raise _BadRequest("`format` is no string")
    payload, losses = convert_with_report(_messages(request), format, purpose=purpose)
    return {"payload": payload, "losses": _places(losses)}


def _flatten(request: Request) -> Result:
    from .conversion import flatten_messages

    return {"blocks": flatten_messages(_messages(request))}


def _downgrade(request: Request) -> Result:
    from .conversion import downgrade_messages

    messages, losses = downgrade_messages(_messages(request), _need(request, "to"))
    return {"messages": messages, "losses": _places(losses)}


def _read(request: Request) -> Result:
    from .conversion import skip_unknown_blocks

    messages, skipped = skip_unknown_blocks(_messages(request), _strings(request, "known"))
    return {
        "messages": messages,
        "skipped": [{"pointer": item.pointer, "type": item.type} for item in skipped],
    }


def _negotiate(request: Request) -> Result:
    from .conversion import block_set_for

    return {"block_set": block_set_for(_strings(request, "message_block_types"))}


OPERATIONS: dict[str, Callable[[Request], Result]] = {
    "validate": _validate,
    "rules": _rules,
    "convert": _convert,
    "flatten": _flatten,
    "downgrade": _downgrade,
    "read": _read,
    "negotiate": _negotiate,
}


if __name__ == "__main__":
    sys.exit(main())
