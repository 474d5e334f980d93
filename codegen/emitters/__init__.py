"""The emitters: pure functions from the IR to `{path below generated/: text}`, one file per kind of output."""

from __future__ import annotations

from collections.abc import Callable

from ..ir import Spec
from . import (
    bundles,
    docs,
    openapi,
    python_convert,
    python_flatten,
    python_models,
    python_rules,
    python_structs,
    python_tables,
    python_wire,
    server_checks,
)
from .common import format_python

Emitter = Callable[[Spec], dict[str, str]]

ALL: tuple[Emitter, ...] = (
    bundles.emit,
    docs.emit,
    openapi.emit,
    python_convert.emit,
    python_flatten.emit,
    python_models.emit,
    python_rules.emit,
    python_structs.emit,
    python_tables.emit,
    python_wire.emit,
    server_checks.emit,
)

__all__ = ["ALL", "Emitter", "format_python"]
