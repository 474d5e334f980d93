"""`turnspec schema`: print a bundle, as it is published."""

from __future__ import annotations

from importlib import resources
from typing import Any

from turnspec.cli import OK
from turnspec.cli.failures import choose
from turnspec.cli.output import open_output


def bundle(block_set: str, kind: str) -> bytes:
    """The text of a bundle; UsageError for a set that does not exist."""
    from turnspec_generated.names import BLOCK_SETS

    choose(block_set, BLOCK_SETS, "block set")
    path = resources.files("turnspec_generated") / "schemas" / block_set / f"{kind}.schema.json"
    return path.read_bytes()


def run(args: Any) -> int:
    """Print the bundle `args.bundle` of a block set, of the newest released one by default."""
    from turnspec_generated.names import CURRENT

    data = bundle(args.block_set or CURRENT, args.bundle)
    output = open_output(None if args.o == "-" else args.o)
    output.write(data)
    output.commit()
    return OK
