"""Render every file, write them, or compare them byte by byte with what lies on disk."""

from __future__ import annotations

import hashlib
from pathlib import Path

from . import emitters, ir
from .emitters import bundles
from .format_checks import check_formats
from .reader import SchemaError, read

Files = dict[str, str]  # path below generated/ -> text


def render(schema: Path) -> Files:
    """All generated files of the schema below `schema`."""
    spec = read(schema)
    check_frozen(spec)
    check_formats(spec)
    files: Files = {}
    for emit in emitters.ALL:
        for name, text in emit(spec).items():
            if name in files:
                raise ValueError(f"two emitters write {name}")
            files[name] = text
    return emitters.format_python(files)


def check_frozen(spec: ir.Spec) -> None:
    """A released block set never changes: its bundles must have the recorded sha256."""
    for block_set in spec.sets:
        if block_set.status != "released":
            continue
        for kind in bundles.KINDS:
            digest = sha256(bundles.text(bundles.bundle(spec, block_set, kind)))
            if block_set.sha256.get(kind) != digest:
                raise SchemaError(
                    f"block_sets.json: the released set {block_set.name} is frozen, but its {kind} bundle has the "
                    f"sha256 {digest}. A fix is a new version: undo the change, or add a set. "
                    "To release a draft, record its sha256 with its status."
                )


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def write(files: Files, target: Path) -> list[str]:
    """Write what differs and remove stray files; the names of both."""
    changed = []
    for name in strays(files, target):
        (target / name).unlink()
        changed.append(name)
    for name, text in files.items():
        path = target / name
        if not path.is_file() or path.read_bytes() != text.encode():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
            changed.append(name)
    return changed


def differences(files: Files, target: Path) -> list[str]:
    """One line for each file that differs, is missing or does not belong there."""
    found = [f"{name}: stray file" for name in strays(files, target)]
    for name, text in files.items():
        path = target / name
        if not path.is_file():
            found.append(f"{name}: missing")
        elif path.read_bytes() != text.encode():
            found.append(f"{name}: differs")
    return sorted(found)


def strays(files: Files, target: Path) -> list[str]:
    """Files below `target` that no emitter writes; caches of tools do not count."""
    present = (path for path in target.rglob("*") if path.is_file())
    names = (path.relative_to(target).as_posix() for path in present)
    ignored = ("__pycache__/", ".mypy_cache/", ".ruff_cache/", "/node_modules/", "/target/")
    return sorted(name for name in names if name not in files and not any(part in f"/{name}" for part in ignored))
