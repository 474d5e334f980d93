"""Documents of the command line: the conversations in them, and where in the text a pointer lies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from turnspec._errors import Problem

P = TypeVar("P", bound=Problem)
Key = tuple[str, ...]

_UNUSABLE = frozenset({"too_deep", "invalid_json", "duplicate_key"})
_LIST_OF_MESSAGES = re.compile(rb'\s*\[\s*\{\s*"(?:role|blocks|type)"')
_LIST = re.compile(rb"\s*\[")
_OBJECT = re.compile(rb"\s*\{")


class Conversation(NamedTuple):
    """A valid conversation: the pointer of its list of messages in the document, and the messages as structs.

    `single` says that the document is one message, so that a pointer into it has no index in front.
    """

    prefix: str
    messages: list[Any]
    single: bool


class Reading(NamedTuple):
    """What a document holds: how many conversations, the valid ones, and what is wrong with the others."""

    conversations: int
    valid: list[Conversation]
    problems: list[Problem]


class Reader:
    """Reads documents of one block set, with the conversation of a task at `key`."""

    def __init__(self, block_set: str | None, key: Key) -> None:
        from turnspec import validation

        self.block_set = block_set
        self.key = key
        self._validation = validation

    def read(self, data: bytes) -> Reading:
        """Every valid conversation of a document, also beside tasks that are not valid."""
        if self._validation.quick(data, "auto", self.block_set, self.key):
            valid = list(self._load(data, "auto", ""))
            return Reading(len(valid), valid, [])
        problems = self._validation.check_text(data, "auto", self.block_set, self.key)
        if not problems:
            valid = list(self._load(data, "auto", ""))
            return Reading(len(valid), valid, [])
        tasks = None if problems[0].code in _UNUSABLE else tasks_of(data, self.key)
        if tasks is None:
            return Reading(1, [], problems)
        bad = {problem.pointer.split("/", 2)[1] for problem in problems if problem.pointer}
        valid = []
        for index, task in enumerate(tasks):
            if str(index) not in bad:
                valid.extend(self._load(task, "task", f"/{index}"))
        return Reading(len(tasks), valid, problems)

    def _load(self, data: bytes, entry: str, before: str) -> Iterator[Conversation]:
        an_object = _OBJECT.match(data) is not None
        for prefix, messages in self._validation.load_document(data, entry, self.block_set, self.key):
            yield Conversation(before + prefix, messages, an_object and not before + prefix)


def placed(data: bytes, conversation: Conversation, problems: Iterable[P]) -> list[P]:
    """Problems of a conversation as problems of its document, with line and column."""
    from turnspec import _text, validation

    found = [
        replace(problem, pointer=validation.rebase(problem.pointer, conversation.prefix, conversation.single))
        for problem in problems
    ]
    if not found:
        return found
    places = _text.locate(data, {problem.pointer for problem in found})
    return [
        replace(problem, line=places[problem.pointer][0], column=places[problem.pointer][1])
        for problem in found
    ]


def tasks_of(data: bytes, key: Key) -> list[bytes] | None:
    """The texts of the tasks in a list of tasks; None for any other document."""
    if not _LIST.match(data) or _LIST_OF_MESSAGES.match(data):
        return None
    import msgspec

    try:
        items = msgspec.json.decode(data, type=list[msgspec.Raw])
        first = msgspec.json.decode(items[0], type=dict[str, msgspec.Raw]) if items else {}
    except (msgspec.DecodeError, RecursionError):
        return None
    if key[0] not in first or "role" in first or "blocks" in first:
        return None
    return [bytes(item) for item in items]


def conversations_in(data: bytes, key: Key) -> int:
    """How many conversations a document holds: the tasks of a list of tasks, else one."""
    tasks = tasks_of(data, key)
    return 1 if tasks is None else len(tasks)
