"""The environment that a dataset is served as.

On the wire a task is its name, `{"id"?, "split", "index"}`: what a session is made from, and nothing to carry about.
Its conversation is what /messages and /prompt are for; it is read from its file when a session asks. A client may
also bring a task of its own, with a conversation in it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

import msgspec
from pydantic import BaseModel, Field
from starlette.types import ASGIApp, Receive, Scope, Send

from turnspec import validation
from turnspec._text import dumps_exact
from turnspec.cli.documents import Key
from turnspec.environment import Environment, JSONObject, TextBlock, ToolOutput, tool
from turnspec.serve.dataset import Dataset, Split
from turnspec.serve.recording import Recorder

SESSION: ContextVar[str | None] = ContextVar("session", default=None)  # of the request that is answered
MOST_LISTED = 200_000  # of one answer; task_range and task reach all


class Answer(BaseModel, extra="forbid"):
    """What the tool takes."""

    text: str = Field(description="The text of the next assistant turn.")


class _Id(msgspec.Struct):
    id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class TaskName(msgspec.Struct, omit_defaults=True):
    """A task as the wire names it."""

    split: str
    index: int
    id: str | int | None = None

    def to_wire(self) -> dict[str, Any]:
        name: dict[str, Any] = {} if self.id is None else {"id": self.id}
        return {**name, "split": self.split, "index": self.index}


def task_name(split: Split, index: int) -> dict[str, Any]:
    """The name of a task, with its own id where that is a string or an integer."""
    name = TaskName(split.name, index)
    try:
        raw = _ID.decode(split.read(index)).id
        if raw is not msgspec.UNSET:
            name.id = msgspec.json.decode(raw, type=str | int)
    except msgspec.MsgspecError:
        pass
    return name.to_wire()


_ID = msgspec.json.Decoder(_Id)


def environment_of(dataset: Dataset, key: Key, recorder: Recorder | None) -> type[Environment]:
    """The class of the environment that serves `dataset`; answers go to `recorder`."""

    class Conversations(Environment):
        """Each task is a conversation; the answer is its next assistant turn."""

        def __init__(self, task_spec: Mapping[str, Any] = {}, secrets: dict[str, str] = {}) -> None:  # noqa: B006
            super().__init__(dict(task_spec), secrets)
            self.name_of_task, self.text = find(dataset, task_spec, key)

        def get_messages(self) -> list[Any]:
            return messages_of(self.text, key)

        @tool
        async def submit(self, params: Answer) -> ToolOutput:
            """Hand in the text of the next assistant turn. This ends the episode."""
            if recorder is not None:
                record = {
                    "task": self.name_of_task,
                    "conversation_sha256": await asyncio.to_thread(digest, self.text, key),
                    "answer": params.text,
                    "time": datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z"),
                    "session": SESSION.get(),
                }
                await asyncio.wrap_future(recorder.add(record))
            said = "The answer is received." if recorder is None else "The answer is recorded."
            return ToolOutput(blocks=[TextBlock(text=said)], finished=True)

        @classmethod
        def list_splits(cls) -> list[Any]:
            return list(dataset.splits)

        @classmethod
        async def list_tasks(cls, split: str) -> list[JSONObject]:
            if len(dataset.splits[split]) > MOST_LISTED:
                raise NotImplementedError(f"the split has over {MOST_LISTED} tasks: use num_tasks, task and task_range")
            return await cls.get_task_range(split)

        @classmethod
        async def num_tasks(cls, split: str) -> int:
            return len(dataset.splits[split])

        @classmethod
        async def get_task(cls, split: str, index: int) -> JSONObject:
            tasks = dataset.splits[split]
            if not -len(tasks) <= index < len(tasks):
                raise IndexError("no such task")
            return await asyncio.to_thread(task_name, tasks, index % len(tasks))

        @classmethod
        async def get_task_range(
            cls, split: str, start: int | None = None, stop: int | None = None
        ) -> list[JSONObject]:
            tasks = dataset.splits[split]
            places = range(len(tasks))[start:stop]
            if len(places) > MOST_LISTED:
                raise IndexError(f"over {MOST_LISTED} tasks at once")
            return await asyncio.to_thread(lambda: [task_name(tasks, index) for index in places])

    return Conversations


def find(dataset: Dataset, task_spec: Mapping[str, Any], key: Key) -> tuple[dict[str, Any], bytes]:
    """The name and the text of the task that a client means. ValueError: there is none."""
    split, index = task_spec.get("split"), task_spec.get("index")
    if isinstance(split, str) and isinstance(index, int) and key[0] not in task_spec:
        if split not in dataset.splits:
            raise ValueError(f"there is no split {split!r}; splits: {', '.join(dataset.splits)}")
        tasks = dataset.splits[split]
        if not 0 <= index < len(tasks):
            raise ValueError(f"the split {split!r} has the tasks 0 to {len(tasks) - 1}, not {index}")
        return task_name(tasks, index), tasks.read(index)
    if key[0] not in task_spec:
        raise ValueError('the task is none of this server: give its split and index, as {"split": "train", "index": 0}')
    text = dumps_exact(task_spec, ensure_ascii=False).encode("utf-8", "surrogatepass")
    problems = validation.check_text(text, "task", None, key)
    if problems:
        raise ValueError(f"the task is not valid: {problems[0]}")
    own = task_spec.get("id")
    return ({} if own is None else {"id": own}), text


def messages_of(text: bytes, key: Key) -> list[Any]:
    """The conversation of a valid task, as structs."""
    from turnspec_generated import structs

    try:
        raw = msgspec.Raw(text)
        for name in key:
            raw = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])[name]
        return structs.decode_conversation(raw)
    except msgspec.MsgspecError:  # an integer that is too long for the fast reader
        return validation.load_document(text, "task", None, key)[0][1]


def digest(text: bytes, key: Key) -> str:
    """SHA-256 of a conversation as `turnspec.dumps` writes it, in hexadecimal."""
    return hashlib.sha256(validation.dumps(messages_of(text, key)).encode()).hexdigest()


class TellingSession:
    """An application around another one, which tells it the session of each request."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            found = next((value for name, value in scope["headers"] if name == b"x-session-id"), None)
            SESSION.set(None if found is None else found.decode("latin-1").strip())
        await self._app(scope, receive, send)
