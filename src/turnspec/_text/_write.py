"""JSON text of Python values, exactly as Python's `json.dumps` writes it, with integers of any length."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from json import encoder
from typing import Any, NoReturn

from ._parse import digits_of_int


def dumps_exact(value: Any, *, ensure_ascii: bool = True, separators: tuple[str, str] = (", ", ": ")) -> str:
    """The text that `json.dumps` gives, also for integers beyond the interpreter's limit of digits.

    Raises `ValueError` for NaN, Infinity, circular values and what is nested too deep, `TypeError` that names the
    type of what is not JSON.
    """
    write = _quick(ensure_ascii, separators)
    try:
        return write(value)
    except RecursionError:
        raise ValueError("nested too deep to be written as JSON") from None
    except ValueError:
        pass
    try:
        return "".join(_pieces(value, write, *separators))
    except RecursionError:
        raise ValueError("nested too deep to be written as JSON") from None


@lru_cache(maxsize=16)
def _quick(ensure_ascii: bool, separators: tuple[str, str]) -> Callable[[Any], str]:
    # json.dumps makes a C encoder for every call; one that is ready takes half the time for a small value.
    make = getattr(encoder, "c_make_encoder", None)
    if make is None:
        return json.JSONEncoder(
            ensure_ascii=ensure_ascii, separators=separators, allow_nan=False, check_circular=False, default=_refuse
        ).encode
    item, key = separators
    string = encoder.encode_basestring_ascii if ensure_ascii else encoder.encode_basestring
    encode = make(None, _refuse, string, None, key, item, False, False, False)
    join = "".join
    return lambda value: join(encode(value, 0))


def _refuse(value: object) -> NoReturn:
    raise TypeError(f"a value of type {type(value).__name__} is not JSON")


def _pieces(value: Any, write: Callable[[Any], str], item: str, colon: str) -> Iterator[str]:
    """The slow way: everything as the quick one writes it, but long integers by their own digits."""
    if isinstance(value, dict):
        yield "{"
        for index, (key, inner) in enumerate(value.items()):
            if index:
                yield item
            yield _key(key, write)
            yield colon
            yield from _pieces(inner, write, item, colon)
        yield "}"
    elif isinstance(value, list | tuple):
        yield "["
        for index, inner in enumerate(value):
            if index:
                yield item
            yield from _pieces(inner, write, item, colon)
        yield "]"
    elif isinstance(value, int) and not isinstance(value, bool):
        yield digits_of_int(value)
    else:
        yield write(value)


def _key(key: Any, write: Callable[[Any], str]) -> str:
    if isinstance(key, str):
        return write(key)
    if isinstance(key, int) and not isinstance(key, bool):
        return f'"{digits_of_int(key)}"'
    # The quick way turns the few other keys that json.dumps takes into strings, and refuses the rest.
    return write({key: 0})[1:].rpartition('"')[0] + '"'
