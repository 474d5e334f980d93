"""`turnspec explain`: what a code means and how to mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnspec.cli import OK
from turnspec.cli.failures import choose
from turnspec.cli.output import emit

if TYPE_CHECKING:
    from collections.abc import Mapping

    from turnspec_generated.codes import CodeInfo
    from turnspec_generated.server_checks import ServerCheck

WIDTH = 88
WIDEST = 28  # characters of a code in the list of all


def run(args: Any) -> int:
    """Print the entry of a code, or the list of all codes."""
    from turnspec_generated.codes import CODES
    from turnspec_generated.server_checks import SERVER_CHECKS

    if args.code is None:
        text = overview(CODES) + "server\n" + "".join(titles(SERVER_CHECKS))
    else:
        code = choose(args.code, [*CODES, *SERVER_CHECKS], "code", "turnspec explain lists all codes")
        text = entry(code, CODES[code]) if code in CODES else server_entry(code, SERVER_CHECKS[code])
    emit(text)
    return OK


def overview(codes: dict[str, CodeInfo]) -> str:
    """All codes with their titles, by kind."""
    kinds: dict[str, dict[str, CodeInfo]] = {}
    for code, info in codes.items():
        kinds.setdefault(info.kind, {})[code] = info
    return "".join(f"{kind}\n{''.join(titles(found))}\n" for kind, found in kinds.items())


def titles(codes: Mapping[str, CodeInfo | ServerCheck]) -> list[str]:
    """A line for each code: its severity and its title."""
    return [f"  {code:{WIDEST}}  {info.severity:7}  {info.title}\n" for code, info in codes.items()]


def server_entry(code: str, info: ServerCheck) -> str:
    """Everything that is known of a code of check-server."""
    import textwrap

    parts = [
        f"{code} (server, {info.severity}, since {info.since})",
        f"{info.title}.",
        textwrap.fill(info.explanation, WIDTH),
        textwrap.fill(f"To mend it: {info.fix}", WIDTH),
        textwrap.fill(f"For example: {info.example}.", WIDTH),
    ]
    return "\n\n".join(parts) + "\n"


def entry(code: str, info: CodeInfo) -> str:
    """Everything that is known of a code, wrapped for a terminal."""
    import textwrap

    parts = [
        f"{code} ({info.kind}, {info.severity}, since {info.since})",
        f"{info.title}.",
        textwrap.fill(info.explanation, WIDTH),
        textwrap.fill(f"To mend it: {info.fix}", WIDTH),
        example(code, info.example),
    ]
    return "\n\n".join(parts) + "\n"


def example(code: str, data: dict[str, Any]) -> str:
    """The example of a code: what is given to which operation, and where the code points."""
    import json

    lines = ["Example:"]
    for name, value in data.items():
        if name == "pointer":
            continue
        if name in ("text", "op") or isinstance(value, str):
            shown = str(value)
        else:
            shown = json.dumps(value, ensure_ascii=False)
        lines.append(f"  {name}: {_shortened(shown)}")
    lines.append(f"  gives: {code} at {data.get('pointer') or '(root)'}")
    return "\n".join(lines)


def _shortened(text: str, most: int = 400) -> str:
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"
