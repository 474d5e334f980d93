"""`python -m tests.fuzz [COUNT] [--start SEED] [--slow N]`: all judges on COUNT mutants and as many texts.

Every N-th mutant goes to python's jsonschema too, which is two hundred times as slow as the others.
Exit 1 when any two judges disagree; the first disagreements are printed with the seed that shows them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

import turnspec
from tests.fuzz.judges import SETS, disagreements, found, text_disagreements
from tests.fuzz.mutate import garbled, mutant


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("count", type=int, nargs="?", default=10_000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--slow", type=int, default=1, help="ask python's jsonschema about every N-th")
    options = parser.parse_args()
    started = time.perf_counter()
    codes: Counter[str] = Counter()
    bad = 0
    for seed in range(options.start, options.start + options.count):
        told = []
        for block_set in SETS if seed % 4 == 0 else SETS[-1:]:
            entry, document = mutant(seed, block_set)
            told += disagreements(entry, document, block_set, slow=seed % options.slow == 0)
            first = next(iter(found(turnspec.iter_errors(document, entry=entry, block_set=block_set))), ("valid", ""))
            codes[first[0]] += 1
        text = garbled(seed)
        told += text_disagreements(text)
        first = next(iter(found(turnspec.iter_errors(text, entry="conversation"))), ("valid", ""))
        codes[f"text: {first[0]}"] += 1
        if told:
            bad += 1
            if bad <= 20:
                print(f"seed {seed}: " + "\n  ".join(told), flush=True)
    for code, count in sorted(codes.items()):
        print(f"{count:9,}  {code}")
    print(f"{options.count:,} seeds, {bad} with disagreements, {time.perf_counter() - started:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
