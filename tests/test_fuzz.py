"""All judges say the same of every mutant: two schema validators on both bundles, structs, models, explainer."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import turnspec
from tests.fuzz.judges import DEFINITIONS, SETS, disagreements, found, load, python, text_disagreements
from tests.fuzz.mutate import document, garbled, mutant
from tests.strategies import spec

SEEDS = 2000
SLICE = 500
VECTORS = Path(__file__).parent / "vectors"


@pytest.mark.parametrize("start", range(0, SEEDS, SLICE))
def test_mutants(start: int) -> None:
    told = {}
    for seed in range(start, start + SLICE):
        for block_set in SETS if seed % 4 == 0 else SETS[-1:]:
            entry, value = mutant(seed, block_set)
            problems = disagreements(entry, value, block_set, slow=seed % 10 == 0)
            if problems:
                told[seed, block_set] = problems
    assert told == {}


@pytest.mark.parametrize("start", range(0, SEEDS, SLICE))
def test_garbled_texts(start: int) -> None:
    told = {seed: problems for seed in range(start, start + SLICE) if (problems := text_disagreements(garbled(seed)))}
    assert told == {}


def test_documents_before_their_mutation() -> None:
    """Valid in the eyes of all."""
    for seed in range(300):
        for block_set in SETS:
            entry, value = document(seed, block_set)
            assert disagreements(entry, value, block_set, slow=seed % 20 == 0) == []
            assert python("validate", block_set, entry).is_valid(value)


def test_mutants_reach_every_code() -> None:
    """The fuzz would prove little if it never met some of the errors."""
    codes: Counter[str] = Counter()
    for seed in range(SEEDS // 2):
        entry, value = mutant(seed)
        if not isinstance(value, str):  # that would be read as text
            codes.update(code for code, _ in found(turnspec.iter_errors(value, entry=entry)))
        codes.update(code for code, _ in found(turnspec.iter_errors(garbled(seed), entry="conversation")))
    assert set(codes) == {info.code for info in spec().errors if info.kind == "validation"}
    assert min(codes.values()) > 10, codes


def documents_in(value: Any) -> list[tuple[str, Any, str]]:
    """Every (entry, document, block set) in a file of vectors that asks to validate."""
    found = []
    if isinstance(value, dict):
        if "document" in value and value.get("entry", "conversation") in DEFINITIONS:
            block_set = value.get("block_set", SETS[-1])
            found.append((value.get("entry", "conversation"), value["document"], block_set))
        for item in value.values():
            found += documents_in(item)
    elif isinstance(value, list):
        for item in value:
            found += documents_in(item)
    return found


def test_vectors() -> None:
    told = []
    for path in sorted(VECTORS.rglob("*.json")):
        for entry, value, block_set in documents_in(load(path)):
            if block_set in SETS:
                told += disagreements(entry, value, block_set, slow=True)
    assert told == []
