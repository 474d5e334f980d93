"""Doing the work of a command: in this process, or in several; the events come in the order of the input."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from itertools import chain
from typing import TypeAlias

from turnspec.cli.pieces import Begin, Item, pieces
from turnspec.cli.sources import Missing, Source
from turnspec.cli.work import Event, Job, Piece, Worker

Happening: TypeAlias = Begin | Event
MOST_JOBS = 64  # more processes only cost memory


def cpus() -> int:
    """How many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def run(sources: list[Source | Missing], job: Job, jobs: int) -> Generator[Happening, None, None]:
    """What happens, in the order of the input, with `jobs` processes (0: one for each processor; 64 at most).

    Closing the iterator ends the work and the processes.
    """
    jobs = min(jobs or cpus(), MOST_JOBS)
    if jobs == 1:
        return _alone(pieces(sources, 1), job)
    return _together(pieces(sources, jobs), job, jobs)


def _alone(items: Iterator[Item], job: Job) -> Generator[Happening, None, None]:
    worker = Worker(job)
    for item in items:
        if isinstance(item, Piece):
            yield from worker.run(item)
        else:
            yield item


def _together(items: Iterator[Item], job: Job, jobs: int) -> Generator[Happening, None, None]:
    """Processes are only worth their start when there are at least two pieces."""
    first: list[Item] = []
    found = 0
    for item in items:
        first.append(item)
        found += isinstance(item, Piece)
        if found == 2:
            break
    items = chain(first, items)
    if found < 2:
        yield from _alone(items, job)
        return
    from turnspec.cli.crew import Crew

    crew = Crew.start(job, jobs)
    if crew is None:
        yield from _alone(items, job)
        return
    try:
        yield from crew.work(items)
    finally:
        crew.dismiss()
