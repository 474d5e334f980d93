"""`--jobs` beyond all reason starts no more processes than it is worth."""

from __future__ import annotations

from unittest import mock

from turnspec.cli import engine


def test_an_endless_number_of_jobs_is_bounded() -> None:
    with mock.patch.object(engine, "_together") as together:
        engine.run([], mock.Mock(), 10**20)
    assert together.call_args.args[2] == engine.MOST_JOBS == 64
