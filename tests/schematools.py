"""What the tests of the schema share: its files, their meta-schemas, and a walk through JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from codegen.reader import load, read

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = ROOT / "schema"
META = SCHEMA / "meta"
SPEC = read(SCHEMA)
FILES = sorted(path.relative_to(SCHEMA).as_posix() for path in SCHEMA.rglob("*.json") if META not in path.parents)
METAS = sorted(path.name.removesuffix(".schema.json") for path in META.glob("*.json"))

__all__ = ["FILES", "META", "METAS", "ROOT", "SCHEMA", "SPEC", "load", "meta", "meta_of", "walk"]


def meta_of(name: str) -> str:
    """The meta-schema of a schema file."""
    special = {"formats/index.json": "formats_index"}
    folders = {"blocks": "block", "formats": "format"}
    return special.get(name) or folders.get(name.partition("/")[0]) or name.removesuffix(".json")


def meta(name: str) -> Any:
    return load(META / f"{name}.schema.json")


def walk(value: Any, place: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Every value in a JSON document, with the keys that lead to it."""
    yield place, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from walk(item, (*place, key))
