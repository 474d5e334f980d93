"""msgspec structs: the immutable messages that `loads` gives, and the exact twins that only decide."""

from __future__ import annotations

from ..ir import Block, BlockSet, Field, Spec
from .common import HEADER, PACKAGE, template

PYTHON = {"string": "str", "object": "dict[str, Any]", "boolean": "bool", "integer": "int", "number": "float"}


def emit(spec: Spec) -> dict[str, str]:
    containers = {item.name: item.union for item in spec.containers}
    about = '"""The generated half of turnspec: data and straight-line code, made from its schema."""\n'
    pairs = [(item, _order(item)) for item in spec.released]
    current = {"set": spec.current, "ordered": _order(spec.current)}
    common = {"header": HEADER, "spec": spec, "python_type": python_type, "containers": containers}
    return {
        f"{PACKAGE}/__init__.py": HEADER + about,
        f"{PACKAGE}/py.typed": "",
        f"{PACKAGE}/structs.py": template("python/structs.py.j2", **common, **current),
        f"{PACKAGE}/exact.py": template("python/exact.py.j2", **common, sets=pairs, prefix=_prefix),
    }


def python_type(item: Field, unions: dict[str, str], prefix: str = "", absent: bool = False) -> str:
    """The annotation of a field, null included."""
    if item.container:
        kind = f"list[{prefix}{unions[item.container]}]"
    else:
        kind = PYTHON[item.type]
    if absent:
        kind += " | UnsetType"
    return f"{kind} | None" if item.nullable else kind


def _order(block_set: BlockSet) -> list[Block]:
    """The blocks, those that hold blocks of their own last, so that every name stands before its use."""
    return sorted(block_set.blocks, key=lambda block: any(item.container for item in block.fields))


def _prefix(block_set: BlockSet) -> str:
    return block_set.name.upper()
