"""`turnspec explain`: what a code means and how to mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnspec.cli import OK
from turnspec.cli.failures import choose
from turnspec.cli.output import emit

if TYPE_CHECKING:
    from turnspec_generated.codes import CodeInfo

WIDTH = 88


def run(args: Any) -> int:
    """Print the entry of a code, or the list of all codes."""
    from turnspec_generated.codes import CODES

    if args.code is None:
        text = overview(CODES)
    else:
        code = choose(args.code, CODES, "code", "turnspec explain lists all codes")
        text = entry(code, CODES[code])
    emit(text)
    return OK


def overview(codes: dict[str, CodeInfo]) -> str:
    """All codes with their titles, by kind."""
    width = max(map(len, codes))
    kinds: dict[str, list[str]] = {}
    for code, info in codes.items():
        kinds.setdefault(info.kind, []).append(f"  {code:{width}}  {info.severity:7}  {info.title}")
    return "\n".join(f"{kind}\n" + "\n".join(lines) + "\n" for kind, lines in kinds.items())


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
