"""What an environment says its conversation or prompt is, checked and written as the wire has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pydantic

from turnspec_generated.flatten import AS_IS
from turnspec_generated.model_base import codes
from turnspec_generated.names import CURRENT
from turnspec_generated.tables import MESSAGE, SETS

from .._errors import Problem, ValidationError
from .._read import as_list, block_to_wire, to_structs, to_wire
from .._values import json_fault
from ..conversion import flatten_messages
from ._base import Environment, serves
from ._json import encode
from ._run import run

_BLOCKS = SETS[CURRENT].blocks
_FIRST = "/0/blocks"


async def messages_of(environment: Environment) -> bytes:
    """The body of /messages. Raises what the environment raises, and ValidationError for what is no conversation."""
    if not serves(type(environment), "get_messages") and serves(type(environment), "get_prompt"):
        return b'[{"role":"user","blocks":' + await prompt_of(environment) + b',"detail":null}]'
    return conversation(await run(environment.get_messages))


async def prompt_of(environment: Environment) -> bytes:
    """The body of /prompt, likewise."""
    if serves(type(environment), "get_messages") and not serves(type(environment), "get_prompt"):
        messages: Any = await run(environment.get_messages)
        if isinstance(messages, Iterator):
            messages = list(messages)
        conversation(messages)  # for the pointers
        return prompt(flatten_messages(messages))
    return prompt(await run(environment.get_prompt))


def conversation(messages: Any) -> bytes:
    """JSON of a list of messages of any kind, every optional field written out."""
    wire = _list(messages, "get_messages() must return a list of messages", to_wire)
    read = to_structs(wire)
    fault = json_fault(wire)
    if fault:
        raise ValidationError([fault])
    return encode([_message(message) for message in read])


def prompt(blocks: Any) -> bytes:
    """JSON of a list of plain blocks of any kind. Pointers of errors count from the list."""
    wire = _list(blocks, "get_prompt() must return a list of blocks", block_to_wire)
    message = {"role": "user", "blocks": wire}
    try:
        read = to_structs([message])
    except ValidationError as problem:
        raise ValidationError([_moved(item) for item in problem.errors]) from None
    fault = json_fault([message])
    if fault:
        raise ValidationError([_moved(fault)])
    for index, block in enumerate(read[0].blocks):
        if block.type not in AS_IS:
            raise ValidationError(
                [Problem("block_placement", f"/{index}", f"a prompt may not hold a {block.type} block", tuple(AS_IS))]
            )
    return encode([_block(block) for block in read[0].blocks])


def found_in(problem: Exception) -> tuple[str, str] | None:
    """Code and pointer of an exception that tells of an invalid message; None for any other."""
    if isinstance(problem, ValidationError):
        return problem.code, problem.pointer
    if isinstance(problem, pydantic.ValidationError) and problem.title == "Message":
        found = codes(problem)
        return found[0] if found else None
    return None


def told(problem: Exception) -> Exception:
    """The exception, with code and pointer in its text where it is pydantic's about a message."""
    if isinstance(problem, pydantic.ValidationError) and (found := found_in(problem)):
        first = next(iter(problem.errors(include_url=False)))["msg"]
        return ValidationError([Problem(*found, f"{first} (in a Message that the environment made)")])
    return problem


def _list(value: Any, expected: str, read: Any) -> list[Any]:
    if value is None or isinstance(value, str | bytes | bytearray | memoryview):
        raise ValidationError([Problem("wrong_type", "", f"{expected}, not {type(value).__name__}")])
    try:
        items = as_list(value)
    except TypeError as problem:
        raise ValidationError([Problem("wrong_type", "", f"{expected}: {problem}")]) from None
    wire = []
    for index, item in enumerate(items):
        try:
            wire.append(read(item))
        except TypeError as problem:
            raise ValidationError([Problem("wrong_type", f"/{index}", str(problem))]) from None
        if not isinstance(wire[-1], dict):
            kind = type(item).__name__
            raise ValidationError([Problem("wrong_type", f"/{index}", f"{expected}; this item is a {kind}")])
    return wire


def _moved(problem: Problem) -> Problem:
    from dataclasses import replace

    return replace(problem, pointer=problem.pointer.removeprefix(_FIRST))


def _message(message: Any) -> dict[str, Any]:
    wire = {"role": message.role}
    for name in MESSAGE:
        value = getattr(message, name)
        wire[name] = [_block(block) for block in value] if name == "blocks" else value
    return wire


def _block(block: Any) -> dict[str, Any]:
    wire = {}
    for name, field in _BLOCKS[block.type].items():
        value = getattr(block, name)
        wire[name] = [_block(inner) for inner in value] if field.container else value
    wire["type"] = block.type
    return wire
