"""`python -m codegen generate | check`: write generated/, or tell where it differs from the schema."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from . import output
from .reader import SchemaError


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m codegen", description=__doc__)
    parser.add_argument("command", choices=("generate", "check"))
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent, help="the repository")
    options = parser.parse_args(argv)
    try:
        files = output.render(options.root / "schema")
        target = options.root / "generated"
        if options.command == "generate":
            changed = output.write(files, target)
            print(f"generated/: {len(files)} files, {len(changed)} changed")
            return 0
        differing = output.differences(files, target)
    except SchemaError as problem:
        print(f"codegen: {problem}", file=sys.stderr)
        return 2
    for line in differing:
        print(f"generated/{line}", file=sys.stderr)
    if differing:
        print("generated/ differs from the schema; run `make generate` and commit", file=sys.stderr)
        return 1
    print(f"generated/: {len(files)} files, all as the schema says")
    return 0


if __name__ == "__main__":
    sys.exit(main())
