"""The codes of `turnspec check-server`: a Python table, and a page for people."""

from __future__ import annotations

from ..ir import Spec
from .common import HEADER, PACKAGE
from .docs import HEADER as PAGE_HEADER
from .markdown import link, table

PAGE = "server-checks"


def emit(spec: Spec) -> dict[str, str]:
    """python/turnspec_generated/server_checks.py and docs/server-checks.md -> text."""
    return {f"{PACKAGE}/server_checks.py": _python(spec), f"docs/{PAGE}.md": _page(spec)}


def _python(spec: Spec) -> str:
    lines = [
        HEADER + '"""Every code of `turnspec check-server`: how a server can depart from the wire."""\n',
        "from __future__ import annotations\n",
        "from typing import NamedTuple\n\n",
        "class ServerCheck(NamedTuple):",
        '    """An entry of server_checks.json. `example` says what a server does that gives the code."""\n',
        "    title: str",
        "    explanation: str",
        "    fix: str",
        "    severity: str",
        "    since: str",
        "    example: str\n\n",
        "SERVER_CHECKS: dict[str, ServerCheck] = {",
    ]
    for item in spec.server_checks:
        values = (item.title, item.explanation, item.fix, item.severity, item.since, item.example)
        lines.append(f"    {item.code!r}: ServerCheck({', '.join(map(repr, values))}),")
    return "\n".join([*lines, "}"]) + "\n"


def _page(spec: Spec) -> str:
    rows = [[link(item.code, PAGE), item.severity, item.title] for item in spec.server_checks]
    parts = [
        PAGE_HEADER,
        "# What check-server tells",
        "`turnspec check-server URL` asks every route of an environment server as a client would, and tells where it "
        "departs from the wire. Errors give the exit code 1; warnings leave it 0.",
        table(["code", "severity", "what it says"], rows),
    ]
    for item in spec.server_checks:
        parts += [f"## {item.code}", f"{item.title} ({item.severity}, since {item.since})."]
        parts += [item.explanation, f"**To mend it:** {item.fix}", f"**For example:** {item.example}."]
    return "\n\n".join(parts) + "\n"
