"""The classes that authors derive from."""

from __future__ import annotations

import asyncio
import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import WeakKeyDictionary

from ._run import run
from ._types import JSONObject, ListToolsOutput, Split, TerminalToolSpec

if TYPE_CHECKING:
    from turnspec_generated.models import ImageBlock, Message, TextBlock

_PROMPTS = ("get_prompt", "get_messages")


class Environment(ABC):
    """Tasks, their prompts and the tools to work on them. The server makes one instance for each session.

    A subclass gives `list_splits`, `list_tasks`, at least one `@tool`, and `get_prompt` or `get_messages`: each of
    these two is derived from the other. Every method may be a coroutine; others run in a thread.
    """

    toolsets: ClassVar[Sequence[type]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in _PROMPTS:
            if name in cls.__dict__ and not callable(inspect.getattr_static(cls, name)):
                raise TypeError(f"{cls.__name__}.{name} must be a method")

    def __init__(self, task_spec: JSONObject = {}, secrets: Mapping[str, str] = {}) -> None:  # noqa: B006
        self.task_spec = task_spec
        self.secrets = secrets

    @classmethod
    def name(cls) -> str:
        """The name under which the server has the class; in paths it is lower case."""
        return cls.__name__

    def setup(self) -> Awaitable[None] | None:
        """Prepare the session; runs in the background after it was created. Prompts and tools wait for it."""
        return None

    def teardown(self) -> Awaitable[None] | None:
        """Clean up; runs when the session is deleted or expires."""
        return None

    def get_prompt(self) -> Sequence[TextBlock | ImageBlock] | Awaitable[Sequence[TextBlock | ImageBlock]]:
        """The prompt as plain blocks. By default the flattened conversation of `get_messages`."""
        return self._flattened()

    def get_messages(self) -> Sequence[Message] | Awaitable[Sequence[Message]]:
        """The conversation of the task. By default one user message that holds the blocks of `get_prompt`."""
        return self._wrapped()

    async def _flattened(self) -> Sequence[TextBlock | ImageBlock]:
        from turnspec import flatten_messages

        if not serves(type(self), "get_messages"):
            raise NotImplementedError(NEITHER.format(name=type(self).__name__))
        return flatten_messages(await run(self.get_messages))

    async def _wrapped(self) -> Sequence[Message]:
        from turnspec_generated.models import Message

        if not serves(type(self), "get_prompt"):
            raise NotImplementedError(NEITHER.format(name=type(self).__name__))
        return [Message(role="user", blocks=list(await run(self.get_prompt)))]

    @classmethod
    @abstractmethod
    def list_splits(cls) -> Sequence[str | Split]:
        """The splits. A bare name that is no type of split counts as validation."""

    @classmethod
    @abstractmethod
    def list_tasks(cls, split: str) -> Sequence[JSONObject] | Awaitable[Sequence[JSONObject]]:
        """The tasks of a split. Too many to list: raise NotImplementedError and give `num_tasks` and `get_task`."""

    @classmethod
    async def num_tasks(cls, split: str) -> int:
        """How many tasks a split has."""
        return len(await _listed(cls, split))

    @classmethod
    async def get_task(cls, split: str, index: int) -> JSONObject:
        """One task; negative counts from the end. Raises IndexError where there is none."""
        return (await _listed(cls, split))[index]

    @classmethod
    async def get_task_range(cls, split: str, start: int | None = None, stop: int | None = None) -> list[JSONObject]:
        """Some tasks, as a slice: what lies outside is left out."""
        try:
            return list((await _listed(cls, split))[start:stop])
        except NotImplementedError:
            # Classes of other signatures: whatever they return, coroutine or not.
            count = await run(cls.num_tasks, split)
            return [await run(cls.get_task, split, index) for index in range(*slice(start, stop).indices(count))]

    @classmethod
    def list_tools(cls) -> ListToolsOutput:
        """The tools of the class. Raises ValueError where one cannot be a tool."""
        from ._tools import list_of, tools_of

        return list_of(tools_of(cls))

    @classmethod
    def terminal_tool(cls) -> TerminalToolSpec | None:
        """The terminal tool, None without one."""
        return cls.list_tools().terminal_tool

    @classmethod
    def is_assistant_message_final(cls) -> bool:
        """Whether a plain assistant message ends the episode, because a terminal tool takes it."""
        return cls.terminal_tool() is not None

    def list_task_tools(self) -> ListToolsOutput | Awaitable[ListToolsOutput]:
        """Tools that this task has beside those of the class."""
        return ListToolsOutput(tools=[])


class Toolset:
    """Tools that several environments share: name the class in `toolsets`; an instance gets the environment."""

    def __init__(self, env: Any) -> None:
        self.env = env


NEITHER = (
    "environment {name} implements neither get_prompt() nor get_messages(); implement get_prompt() for a prompt of "
    "plain blocks, or get_messages() for a conversation"
)


def serves(cls: type[Environment], name: str) -> bool:
    """Whether the class has its own `get_prompt` or `get_messages`."""
    return getattr(cls, name) is not getattr(Environment, name)


# By class: an attribute would be found in subclasses too, and give them the tasks of their parent.
_tasks: WeakKeyDictionary[type, dict[str, asyncio.Future[Sequence[JSONObject]] | Sequence[JSONObject]]] = (
    WeakKeyDictionary()
)


async def _listed(cls: type[Environment], split: str) -> Sequence[JSONObject]:
    """The tasks of a split, listed once."""
    known = _tasks.setdefault(cls, {})
    found = known.get(split)
    if found is None:
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[Sequence[JSONObject]] = loop.create_future()
        known[split] = waiting
        try:
            tasks = await run(cls.list_tasks, split)
            found = tasks if isinstance(tasks, Sequence) else list(tasks)
        except BaseException as problem:
            known.pop(split, None)
            waiting.set_exception(problem if isinstance(problem, Exception) else RuntimeError("interrupted"))
            waiting.exception()  # read, so that nobody complains where nobody waits
            raise
        known[split] = found
        waiting.set_result(found)
    elif isinstance(found, asyncio.Future):
        if found.get_loop() is not asyncio.get_running_loop():
            return list(await run(cls.list_tasks, split))
        found = await asyncio.shield(found)
    return found
