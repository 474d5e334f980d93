"""Print the table of speed and memory. `--quick` takes less data and fewer rounds, for a first look.

Every figure is a ratio of two runs that took turns on this machine, as a median and its range; a `!` marks
what misses its target. Nothing fails: on a busy machine the figures say little.
"""

from __future__ import annotations

import argparse
import platform
import sys

from . import inside, outside
from .timing import table


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the data, three rounds")
    parser.add_argument("--only", choices=("inside", "outside"), help="one half of the table")
    options = parser.parse_args(argv)
    count, rounds, megabytes = (60, 3, 30) if options.quick else (400, 9, 300)
    found = []
    print(
        f"Python {platform.python_version()}, {outside.processors()} processors, {count} conversations, {rounds} rounds"
    )
    if options.only != "outside":
        found += list(inside.rows(count, rounds))
    if options.only != "inside":
        found += list(outside.rows(megabytes, 3 if options.quick else 5))
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
