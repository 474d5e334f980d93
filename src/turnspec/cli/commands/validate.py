"""`turnspec validate`: the schema, and with --rules or --for the rules about whole conversations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from turnspec.cli.choices import block_set_of, format_of, key_of, purpose_of
from turnspec.cli.documents import Key, Reader, conversations_in, placed
from turnspec.cli.session import carry_out
from turnspec.cli.work import Outcome


class Validation:
    """The job: schema errors of each document, from the quick test or from the explainer."""

    def __init__(self, block_set: str | None, key: Key) -> None:
        self.block_set = block_set
        self.key = key

    def prepare(self) -> Callable[[bytes], bool] | None:
        from turnspec.validation import check_text, quick

        block_set, key = self.block_set, self.key
        self._check = check_text
        return lambda data: quick(data, "auto", block_set, key)

    def document(self, data: bytes) -> Outcome:
        problems = self._check(data, "auto", self.block_set, self.key)
        return Outcome(conversations_in(data, self.key), b"", problems)


class Rules:
    """The job: schema errors, and the findings of the rules about every conversation that has none."""

    def __init__(self, block_set: str | None, key: Key, format: str | None, purpose: str) -> None:
        self.block_set = block_set
        self.key = key
        self.format = format
        self.purpose = purpose

    def prepare(self) -> None:
        from turnspec.rules import check_rules

        self._reader = Reader(self.block_set, self.key)
        self._check = check_rules

    def document(self, data: bytes) -> Outcome:
        reading = self._reader.read(data)
        problems = list(reading.problems)
        for conversation in reading.valid:
            found = self._check(conversation.messages, self.format, purpose=self.purpose)
            problems += placed(data, conversation, found)
        return Outcome(reading.conversations, b"", problems)


def run(args: Any) -> int:
    """Validate the inputs: findings are the result."""
    block_set, key = block_set_of(args.block_set), key_of(args.key)
    format = None if args.for_ is None else format_of(args.for_, "--for")
    if args.rules or format:
        return carry_out(args, Rules(block_set, key, format, purpose_of(args.purpose)), writes=False)
    return carry_out(args, Validation(block_set, key), writes=False)
