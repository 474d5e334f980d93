"""`turnspec check-server`: where a server departs from the wire."""

from __future__ import annotations

import sys
from typing import Any

from turnspec.cli import FINDINGS, OK
from turnspec.cli.extras import needs, token_of
from turnspec.cli.failures import CommandError
from turnspec.cli.output import emit
from turnspec.cli.text import colour_wanted, plural, printable, say

_COLOURS = {"error": "\x1b[31m", "warning": "\x1b[33m"}


def run(args: Any) -> int:
    """Walk the server; findings are the result."""
    needs("client", "httpx")
    token = token_of(args.token_env)
    from turnspec.check_server import Unusable, check

    try:
        checked = check(args.url, environment=args.env, timeout=args.timeout, token=token)
    except Unusable as problem:
        raise CommandError(f"{printable(args.url)}: {problem}") from None
    colour = colour_wanted(args.color, sys.stdout)
    if args.output == "json":
        from turnspec.cli.report import json_line

        lines = [json_line({"url": checked.url, **item.to_json()}) for item in checked.findings]
    else:
        lines = [_line(checked.url, item, colour) for item in checked.findings]
    emit("".join(lines))
    if args.output == "text" and not args.quiet:
        say(_summary(checked))
    return FINDINGS if checked.count("error") else OK


def _line(url: str, item: Any, colour: bool) -> str:
    from turnspec_generated.server_checks import SERVER_CHECKS

    code = f"{_COLOURS[item.severity]}{item.code}\x1b[0m" if colour else item.code
    severity = "" if item.severity == "error" else f"{item.severity}: "
    hint = SERVER_CHECKS[item.code].fix
    return f"{url}: {code} at {printable(f'{item.request}: {severity}{item.message}; hint: {hint}')}\n"


def _summary(checked: Any) -> str:
    """`http://127.0.0.1:8080: 1 environment, 74 requests: no errors, 1 warning`."""
    errors, warnings = checked.count("error"), checked.count("warning")
    parts = [plural(errors, "error") if errors else "no errors"]
    if warnings:
        parts.append(plural(warnings, "warning"))
    text = f"{checked.url}: {plural(len(checked.environments), 'environment')}, {plural(checked.requests, 'request')}: "
    text += ", ".join(parts)
    if checked.left_out:
        text += f"; not checked: {printable(', '.join(checked.left_out))} (--env NAME does)"
    if checked.stopped:
        text += "; stopped before the end"
    if checked.findings:
        text += " (turnspec explain CODE tells more)"
    return text
