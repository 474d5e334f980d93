"""Interleaved runs, and the ratios between them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median
from typing import Any

Job = Callable[[], object]


@dataclass(frozen=True)
class Row:
    """What was measured, against what, what it should at least (or at most) be, and what it was in each round."""

    what: str
    against: str
    target: float
    ratios: list[float]
    unit: str = "×"
    at_most: bool = False
    note: str = ""

    @property
    def reached(self) -> bool:
        middle = median(self.ratios)
        return middle <= self.target if self.at_most else middle >= self.target

    def cells(self) -> tuple[str, ...]:
        bound = f"{'≤' if self.at_most else '≥'} {self.target:g}{self.unit}"
        low, high = min(self.ratios), max(self.ratios)
        middle = f"{median(self.ratios):.2f}{self.unit}"
        return self.what, self.against, bound, middle, f"{low:.2f}–{high:.2f}", "" if self.reached else "!", self.note


HEADS = ("what", "against", "target", "median", "min–max", "", "")


def sweep(function: Callable[..., object], items: Iterable[Any], *rest: Any, **options: Any) -> Job:
    """Call the function with each item, and keep none of the answers, as a loop over lines would."""
    items = list(items)

    def job() -> None:
        for item in items:
            function(item, *rest, **options)

    return job


def seconds(job: Job) -> float:
    """Seconds of this process alone: others that are busy do not count."""
    gc.collect()
    job()  # the collector has just walked some of the objects and not others: bring all of them near again
    started = time.process_time()
    job()
    return time.process_time() - started


def ratios(ours: Job, theirs: Job, rounds: int) -> tuple[list[float], float]:
    """(how many times as fast as theirs ours is, in each round; our best time). The two take turns."""
    found, best = [], float("inf")
    ours()
    theirs()
    for turn in range(rounds):
        if turn % 2:
            mine, other = seconds(ours), seconds(theirs)
        else:
            other, mine = seconds(theirs), seconds(ours)
        found.append(other / mine)
        best = min(best, mine)
    return found, best


def table(rows: list[Row]) -> str:
    cells = [HEADS, *(row.cells() for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]
    return "\n".join([lines[0], "-" * len(lines[0]), *lines[1:]])
