"""What is measured is what it claims to be; how fast it is, no test says."""

from __future__ import annotations

import json

import pytest

import turnspec

from .data import conversation, line
from .timing import Row, table


def test_conversations_are_valid_and_of_the_promised_size() -> None:
    sizes = []
    for seed in range(200):
        messages = conversation(seed)
        for compact in (False, True):
            text = line(messages, compact=compact)
            assert json.loads(text) == messages
            assert turnspec.loads(text)
            sizes.append(len(text))
    assert min(sizes) > 2_000
    assert max(sizes) < 80_000


@pytest.mark.parametrize("format", ["openai", "anthropic", "google"])
def test_conversations_convert(format: str) -> None:
    steps = {"turns_joined", "results_moved", "id_rewritten", "blank_text_dropped", "empty_turn_dropped"}
    for seed in range(100):
        losses = turnspec.convert_with_report(conversation(seed, reasoning=format != "google"), format).losses
        assert not steps & {loss.code for loss in losses}


def test_table() -> None:
    rows = [Row("a", "b", 2, [1.0, 3.0, 2.5]), Row("memory", "", 60, [70.0], " MB", at_most=True)]
    assert [row.reached for row in rows] == [True, False]
    assert table(rows).splitlines()[2].split() == ["a", "b", "≥", "2×", "2.50×", "1.00–3.00"]
