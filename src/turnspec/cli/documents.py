"""Documents of the command line: the conversations in them, and where in the text a pointer lies."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from turnspec._errors import Problem

P = TypeVar("P", bound="Problem")
Key = tuple[str, ...]

_UNUSABLE = frozenset({"too_deep", "invalid_json", "duplicate_key"})
_LIST = re.compile(rb"\s*\[")


class Conversation(Struct, frozen=True):
    """A valid conversation: the pointer of its list of messages in the document, and the messages as structs.

    `single` says that the document is one message, so that a pointer into it has no index in front; `task` is
    the text of the task that the conversation is part of.
    """

    prefix: str
    messages: list[Any]
    single: bool
    task: bytes | None = None


class Reading(Struct, frozen=True):
    """What a document holds: how many conversations, the valid ones, and what is wrong with the others."""

    conversations: int
    valid: list[Conversation]
    problems: list[Problem]


class Reader:
    """Reads documents of one block set, with the conversation of a task at `key`."""

    def __init__(self, block_set: str | None, key: Key) -> None:
        from turnspec import validation
        from turnspec_generated import structs

        self.block_set = block_set
        self.key = key
        self._validation = validation
        self._structs = structs
        self._place = "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in key)

    def read(self, data: bytes) -> Reading:
        """Every valid conversation of a document, also beside tasks that are not valid."""
        problems: list[Problem] = []
        if not self._validation.quick(data, "auto", self.block_set, self.key):
            problems = self._validation.check_text(data, "auto", self.block_set, self.key)
        if problems and problems[0].code in _UNUSABLE:
            return Reading(1, [], problems)
        tasks = tasks_of(data, self.key)
        if tasks is None:
            return Reading(1, [] if problems else [self._load(data)], problems)
        bad = {problem.pointer.split("/", 2)[1] for problem in problems if problem.pointer}
        valid = [
            msgspec.structs.replace(self._load(task), prefix=f"/{index}{self._place}")
            for index, task in enumerate(tasks)
            if str(index) not in bad
        ]
        return Reading(len(tasks), valid, problems)

    def _load(self, data: bytes) -> Conversation:
        """The conversation of a valid document that is no list of tasks."""
        try:
            if _LIST.match(data):
                return Conversation("", self._structs.decode_conversation(data), False)
            members = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
            if self.key[0] not in members and ("role" in members or "blocks" in members):
                return Conversation("", [self._structs.decode_message(data)], True)
            for name in self.key[:-1]:
                members = msgspec.json.decode(members[name], type=dict[str, msgspec.Raw])
            return Conversation(self._place, self._structs.decode_conversation(members[self.key[-1]]), False, data)
        except msgspec.MsgspecError:  # an integer that is too long for the fast reader
            prefix, messages = self._validation.load_document(data, "auto", self.block_set, self.key)[0]
            single = not prefix and not _LIST.match(data)
            return Conversation(prefix, messages, single, data if prefix else None)


def placed(data: bytes, conversation: Conversation, problems: Iterable[P]) -> list[P]:
    """Problems of a conversation as problems of its document, with line and column."""
    from dataclasses import replace

    from turnspec import _text, validation

    found = [
        replace(problem, pointer=validation.rebase(problem.pointer, conversation.prefix, conversation.single))
        for problem in problems
    ]
    if not found:
        return found
    places = _text.locate(data, {problem.pointer for problem in found})
    return [replace(problem, line=places[problem.pointer][0], column=places[problem.pointer][1]) for problem in found]


def with_conversation(task: bytes, key: Key, conversation: bytes) -> bytes:
    """The text of a task on one line, with another conversation at `key`; everything else in it stays as written."""
    members = msgspec.json.decode(task, type=dict[str, msgspec.Raw])
    inner = with_conversation(bytes(members[key[0]]), key[1:], conversation) if len(key) > 1 else conversation
    members[key[0]] = msgspec.Raw(inner)
    return msgspec.json.format(msgspec.json.encode(members), indent=-1)


def tasks_of(data: bytes, key: Key) -> list[bytes] | None:
    """The texts of the tasks in a list of tasks; None for any other document."""
    if not _LIST.match(data) or (key[0].isascii() and b"\\u" not in data and b'"%s"' % key[0].encode() not in data):
        return None
    try:
        items = msgspec.json.decode(data, type=list[msgspec.Raw])
        first = msgspec.json.decode(items[0], type=dict[str, msgspec.Raw]) if items else {}
    except (msgspec.DecodeError, RecursionError):
        return None
    if key[0] not in first:
        return None
    return [bytes(item) for item in items]


def conversations_in(data: bytes, key: Key) -> int:
    """How many conversations a document holds: the tasks of a list of tasks, else one."""
    tasks = tasks_of(data, key)
    return 1 if tasks is None else len(tasks)
