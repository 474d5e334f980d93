"""The asyncio client."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, overload

from ..conversion import Skipped
from . import _protocol as protocol
from ._drive import AsyncDriver
from ._episode import Episode, Secrets, present, typed_blocks
from ._ping import AsyncPinger
from ._ready import DEFAULT_PATIENCE, until_ready
from ._settings import Settings
from ._types import Split, Task, TerminalTool, ToolOutput, ToolSpec

if TYPE_CHECKING:
    from turnspec_generated.models import ImageBlock, Message, TextBlock

    Content = TextBlock | ImageBlock


class AsyncEnvironmentClient:
    """A client of one environment server, for asyncio. One event loop may use it.

    `api_key` goes out as `X-API-Key`; without one the variable `OPENREWARD_API_KEY` is taken ("" for none at all).
    `timeout` is the longest silence of the server in seconds, `retries` how often a request is sent again where that
    is safe, `deployment` the name by which a host of many servers finds this one. Wherever `env` is asked for, None
    means the server's first environment. All errors are `ClientError`s.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        *,
        timeout: float | None = 30.0,
        retries: int = 3,
        deployment: str | None = None,
    ) -> None:
        settings = Settings(timeout=timeout, retries=retries)
        self._server = protocol.Server(base_url, api_key, deployment, settings)
        self._driver = AsyncDriver(self._server)
        self._pinger = AsyncPinger(self._server)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._server.base_url!r})"

    @property
    def base_url(self) -> str:
        return self._server.base_url

    async def list_environments(self) -> list[str]:
        """The names of the server's environments; the first is the default."""
        return await self._driver.run(protocol.environments(self._server))

    async def list_splits(self, env: str | None = None) -> list[Split]:
        """The names of the splits, each with its `type`."""
        return await self._driver.run(protocol.splits(self._server, env))

    async def list_tasks(self, split: str, env: str | None = None) -> list[Task]:
        """All tasks of a split."""
        return await self._driver.run(protocol.tasks(self._server, env, "/tasks", {"split": split}))

    async def num_tasks(self, split: str, env: str | None = None) -> int:
        """How many tasks a split has."""
        return await self._driver.run(protocol.count(self._server, env, split))

    async def get_task(self, split: str, index: int, env: str | None = None) -> Task:
        """One task; a negative index counts from the end."""
        return await self._driver.run(protocol.task(self._server, env, split, index))

    async def get_task_range(
        self, split: str, start: int | None = None, stop: int | None = None, env: str | None = None
    ) -> list[Task]:
        """The tasks of a slice; what lies outside is left out."""
        body = {"split": split} | protocol.bounds(start, stop)
        return await self._driver.run(protocol.tasks(self._server, env, "/task_range", body))

    @overload
    async def list_tools(self, format: None = None, env: str | None = None) -> list[ToolSpec]: ...
    @overload
    async def list_tools(self, format: str, env: str | None = None) -> list[dict[str, Any]]: ...
    async def list_tools(self, format: str | None = None, env: str | None = None) -> list[Any]:
        """The environment's tools, as `ToolSpec`s or in the shape of a provider."""
        protocol.check_format(format)
        return (await self._driver.run(protocol.tools(self._server, env))).shaped(format)

    def session(
        self,
        task: Task | Mapping[str, Any] | None = None,
        *,
        split: str | None = None,
        index: int | None = None,
        env: str | None = None,
        secrets: Secrets | None = None,
        toolset: str | None = None,
    ) -> AsyncSession:
        """A session of one task, named by itself or by split and index; to be used in an `async with` statement.

        `secrets` maps names to texts, or to tuples of a text and the domains that it may be sent to.
        """
        episode = Episode(self._server, task=task, split=split, index=index, env=env, secrets=secrets, toolset=toolset)
        return AsyncSession(episode, self._driver, self._pinger)

    async def wait_until_ready(self, timeout: float = DEFAULT_PATIENCE) -> None:
        """Return when the server says that it is up; `RequestTimeout` when it does not in that time."""
        await self._driver.run(until_ready(self._server, timeout))

    async def close(self) -> None:
        """Close all connections. Sessions should be closed before."""
        await self._driver.close()

    async def __aenter__(self) -> AsyncEnvironmentClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncSession:
    """One task being worked on: opened by `async with`, kept alive by pings, given back at the end."""

    def __init__(self, episode: Episode, driver: AsyncDriver, pinger: AsyncPinger) -> None:
        self._episode = episode
        self._driver = driver
        self._pinger = pinger

    @property
    def sid(self) -> str | None:
        """The server's id of the session, None before it is opened."""
        return self._episode.sid

    @property
    def task(self) -> Task | None:
        """The task, where it was given as such."""
        return self._episode.task

    @property
    def skipped(self) -> list[Skipped]:
        """Where the last conversation or prompt had blocks of types that this client does not know."""
        return self._episode.skipped

    async def __aenter__(self) -> AsyncSession:
        await self._driver.run(self._episode.open())
        assert self.sid is not None
        self._pinger.add(self.sid)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.sid is not None:
            await self._pinger.remove(self.sid)
        await self._driver.run(self._episode.close())

    @overload
    async def get_messages(self, format: None = None, *, purpose: str = ..., on_loss: str = ...) -> list[Message]: ...
    @overload
    async def get_messages(
        self, format: Literal["openai", "openrouter"], *, purpose: str = ..., on_loss: str = ...
    ) -> list[dict[str, Any]]: ...
    @overload
    async def get_messages(self, format: str, *, purpose: str = ..., on_loss: str = ...) -> Any: ...
    async def get_messages(self, format: str | None = None, *, purpose: str = "request", on_loss: str = "warn") -> Any:
        """The conversation so far: as `Message`s, or as the payload of a provider format (see `convert_messages`).

        Where the server has no conversation, the prompt as one user message. Blocks of unknown types are left out,
        and told in `skipped`.
        """
        protocol.check_format(format, purpose, on_loss)
        messages = await self._driver.run(self._episode.messages())
        return present(messages, format, purpose, on_loss)

    async def get_prompt(self) -> list[Content]:
        """The prompt as text and image blocks; a conversation is flattened to them by the server."""
        return typed_blocks(await self._driver.run(self._episode.prompt()))

    @overload
    async def list_tools(self, format: None = None) -> list[ToolSpec]: ...
    @overload
    async def list_tools(self, format: str) -> list[dict[str, Any]]: ...
    async def list_tools(self, format: str | None = None) -> list[Any]:
        """The session's tools, as `ToolSpec`s or in the shape of a provider."""
        protocol.check_format(format)
        return (await self._driver.run(self._episode.tools())).shaped(format)

    async def call_tool(
        self, name: str, input: Mapping[str, Any] | None = None, *, timeout: float | None = None
    ) -> ToolOutput:
        """Call a tool, and wait for its output, at most `timeout` seconds.

        Raises `ToolCallRefused` where it did not run, `ToolFailed` where it raised (the session is over then), and
        `CallLost` where no answer came: the tool may have run, and is not called a second time.
        """
        return await self._driver.run(self._episode.call(name, input, timeout))

    async def message_block_types(self) -> tuple[str, ...] | None:
        """The block types that the server advertises; None from a server that advertises none."""
        return await self._driver.run(self._episode.block_types())

    async def block_set(self) -> str:
        """The newest block set that the server speaks: "v1", "v2"."""
        return await self._driver.run(self._episode.block_set())

    async def terminal_tool(self) -> TerminalTool | None:
        """The tool that takes the model's last text, where the environment has one."""
        return await self._driver.run(self._episode.terminal_tool())

    async def is_assistant_message_final(self) -> bool:
        """Whether a turn of the model without tool calls ends the episode."""
        return await self.terminal_tool() is not None

    async def call_terminal_tool(self, message: str = "", *, timeout: float | None = None) -> ToolOutput:
        """Hand the model's last text to the terminal tool."""
        return await self._driver.run(self._episode.call_terminal(message, timeout))
