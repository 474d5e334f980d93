"""What convert, flatten and downgrade share: one line of JSON for each conversation, losses beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from msgspec import Struct

from turnspec._errors import ConversionError, Loss, Problem
from turnspec.cli.documents import Conversation, Key, Reader, placed
from turnspec.cli.report import json_line
from turnspec.cli.work import Outcome


class Made(Struct, frozen=True):
    """What a conversation became, and what was lost on the way."""

    value: Any
    losses: Sequence[Loss]


class Transformation:
    """The job: what `maker` gives is called for every valid conversation, and may raise ConversionError.

    `on_loss` is warn, raise or ignore, for losses of severity warning; those of severity info never raise,
    and are listed only when `verbose`.
    """

    def __init__(self, key: Key, on_loss: str, verbose: bool) -> None:
        self.key = key
        self.on_loss = on_loss
        self.verbose = verbose

    def maker(self) -> Callable[[list[Any]], Made]:
        """The function that makes one line from the messages of a conversation; imports what it needs."""
        raise NotImplementedError

    def line(self, value: Any, conversation: Conversation) -> str:
        """The line, its end included, that is written for what a conversation became."""
        return json_line(value)

    def prepare(self) -> None:
        self._reader = Reader(None, self.key)
        self._make = self.maker()

    def document(self, data: bytes) -> Outcome:
        reading = self._reader.read(data)
        lines: list[str] = []
        problems: list[Problem] = list(reading.problems)
        unlisted: dict[str, int] = {}
        for conversation in reading.valid:
            problems += self._one(data, conversation, lines, unlisted)
        return Outcome(reading.conversations, "".join(lines).encode(), problems, unlisted)

    def _one(
        self, data: bytes, conversation: Conversation, lines: list[str], unlisted: dict[str, int]
    ) -> list[Problem]:
        try:
            made = self._make(conversation.messages)
        except ConversionError as error:
            return placed(data, conversation, error.problems)
        if self.on_loss == "raise":
            serious = [loss for loss in made.losses if loss.severity != "info"]
            if serious:
                return placed(data, conversation, [replace(loss, severity="error") for loss in serious])
        lines.append(self.line(made.value, conversation))
        if self.on_loss == "ignore" or not made.losses:
            return []
        listed: list[Problem] = []
        for loss in made.losses:
            if self.verbose or loss.severity != "info":
                listed.append(loss)
            else:
                unlisted[loss.code] = unlisted.get(loss.code, 0) + 1
        return placed(data, conversation, listed)
