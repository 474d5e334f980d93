"""Reading vectors, and comparing JSON values exactly: 1 is not 1.0, -0.0 is not 0.0, true is not 1."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

VECTORS = Path(__file__).parent / "vectors"
NOT_SENT = ("expect", "problems", "why", "source")  # what a case says about itself

Case = dict[str, Any]


@contextmanager
def any_digits() -> Iterator[None]:
    """Integers of any length as text, beyond the interpreter's limit of 4300 digits."""
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        yield
    finally:
        sys.set_int_max_str_digits(limit)


def read_json(text: str | bytes) -> Any:
    """The value of JSON text, integers of any length included."""
    with any_digits():
        return json.loads(text)


def write_json(value: Any) -> str:
    """One line of JSON, ASCII only, integers of any length included."""
    with any_digits():
        return json.dumps(value, separators=(",", ":"), allow_nan=False)


def vector_files(folder: Path = VECTORS) -> list[Path]:
    """All vector files, in a stable order."""
    return sorted(folder.rglob("*.json"))


def read_cases(folder: Path = VECTORS) -> Iterator[Case]:
    """All cases of all files."""
    for path in vector_files(folder):
        yield from read_json(path.read_bytes())["cases"]


def request_of(case: Case) -> Case:
    """The request of the protocol: the case without what it says about itself."""
    return {key: value for key, value in case.items() if key not in NOT_SENT}


def same(left: Any, right: Any) -> bool:
    """Whether two JSON values are equal, types included; the order of keys does not matter."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return bool(left == right)


def differences(wanted: Any, got: Any, pointer: str = "") -> list[str]:
    """What differs between two JSON values, one line each: `pointer: wanted …, got …`."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        lines = []
        for key in [*wanted, *(key for key in got if key not in wanted)]:
            here = f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}"
            if key not in got:
                lines.append(f"{here}: missing, wanted {_short(wanted[key])}")
            elif key not in wanted:
                lines.append(f"{here}: not wanted, got {_short(got[key])}")
            else:
                lines += differences(wanted[key], got[key], here)
        return lines
    if isinstance(wanted, list) and isinstance(got, list) and len(wanted) == len(got):
        return [
            line
            for index, pair in enumerate(zip(wanted, got, strict=True))
            for line in differences(*pair, f"{pointer}/{index}")
        ]
    if same(wanted, got):
        return []
    return [f"{pointer or '(root)'}: wanted {_short(wanted)}, got {_short(got)}"]


def _short(value: Any, length: int = 200) -> str:
    text = write_json(value)
    return text if len(text) <= length else f"{text[:length]}… ({len(text)} characters)"
