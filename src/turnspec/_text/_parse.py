"""Exact Python values of JSON text, and integers of any length from and to decimal digits."""

from __future__ import annotations

import json
from typing import Any, NoReturn

_PIECE = 600  # digits that int() takes under every limit that can be set for it
_SMALL = 1 << 10  # bits that str() writes under every such limit


def parse(data: bytes, *, exact: bool = True) -> Any:
    """The value of JSON text, as `json.loads` gives it, also with integers beyond the interpreter's limit of digits.

    Meant for text in which `fault` found nothing, or a duplicate key (the last one wins). Reading an integer of
    millions of digits takes more than linear time; with `exact=False` such a long one is cut to its first digits,
    for those who only ask for its type. Raises `ValueError` for what is not JSON, `RecursionError` where its depth
    is too much for the interpreter.
    """
    text = data.decode()
    try:
        return json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError:
        raise
    except ValueError:
        return json.loads(text, parse_constant=_refuse, parse_int=int_from_digits if exact else _cut_int)


def _cut_int(text: str) -> int:
    return int(text[:_PIECE])


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def int_from_digits(text: str) -> int:
    """The integer of a JSON number without fraction and exponent, of any length."""
    if len(text) <= _PIECE:
        return int(text)
    digits = text.removeprefix("-")
    first = len(digits) % _PIECE
    digits = digits.rjust(len(digits) + (_PIECE - first) % _PIECE, "0")
    pieces = [int(digits[start : start + _PIECE]) for start in range(0, len(digits), _PIECE)]
    # Join neighbours, from the right, until one is left: few large products instead of many.
    weight: int = 10**_PIECE
    while len(pieces) > 1:
        if len(pieces) % 2:
            pieces.insert(0, 0)
        pieces = [high * weight + low for high, low in zip(pieces[::2], pieces[1::2], strict=True)]
        if len(pieces) > 1:
            weight *= weight
    return -pieces[0] if text.startswith("-") else pieces[0]


def digits_of_int(value: int) -> str:
    """The decimal digits of an integer of any length."""
    if value.bit_length() <= _SMALL:
        return int.__repr__(value)
    import decimal

    # decimal multiplies large numbers in nearly linear time, and writes them in linear time.
    with decimal.localcontext() as context:
        context.prec = decimal.MAX_PREC
        context.Emax, context.Emin = decimal.MAX_EMAX, decimal.MIN_EMIN
        context.traps[decimal.Inexact] = True
        powers: dict[int, decimal.Decimal] = {}
        text = str(_decimal(abs(value), value.bit_length(), powers))
    return "-" + text if value < 0 else text


def _decimal(value: int, bits: int, powers: dict[int, Any]) -> Any:
    from decimal import Decimal

    if bits <= _SMALL:
        return Decimal(value)
    # Halves are rounded up to a power of two, so that few powers are needed.
    half = 1 << ((bits - 1).bit_length() - 1)
    high = value >> half
    low = value & ((1 << half) - 1)
    if half not in powers:
        powers[half] = _power_of_two(half, powers)
    return _decimal(high, bits - half, powers) * powers[half] + _decimal(low, half, powers)


def _power_of_two(exponent: int, powers: dict[int, Any]) -> Any:
    from decimal import Decimal

    if exponent <= _SMALL:
        return Decimal(1 << exponent)
    half = exponent >> 1
    if half not in powers:
        powers[half] = _power_of_two(half, powers)
    return powers[half] * powers[half]
