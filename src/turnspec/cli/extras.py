"""What commands need that a plain installation has not, and secrets that come through the environment."""

from __future__ import annotations

import os
from importlib.util import find_spec

from turnspec.cli.failures import CommandError, UsageError


def needs(extra: str, *modules: str) -> None:
    """CommandError that names the extra, unless all `modules` are installed."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise CommandError(f"needs {' and '.join(missing)}: pip install 'turnspec[{extra}]'")


def token_of(variable: str | None) -> str | None:
    """The token in an environment variable. UsageError: it is not set, or no header can carry it."""
    if variable is None:
        return None
    token = os.environ.get(variable, "")
    if not token:
        raise UsageError(f"--token-env: the environment variable {variable!r} is not set")
    if not (token.isascii() and token.isprintable()) or token != token.strip():
        raise UsageError(f"--token-env: {variable!r} holds what no HTTP header can carry")
    return token
