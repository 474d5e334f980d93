"""An environment class as a server has it: checked when it is registered, its lists made once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any

from ._base import NEITHER, Environment, serves
from ._faults import FaultError
from ._run import run
from ._tools import list_of, tools_of
from ._types import as_split

_NAME = re.compile(r"[^\s/?#%]+")


class Hosted:
    """A class, its tools and its splits. Raises TypeError or ValueError for what no client could use."""

    def __init__(self, cls: Any) -> None:
        if not (inspect.isclass(cls) and issubclass(cls, Environment)):
            raise TypeError(f"{cls!r} is no class that derives from turnspec.environment.Environment")
        self.cls: type[Environment] = cls
        self.name = cls.name().lower()
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} cannot be the name of an environment, since it stands in paths")
        if not (serves(cls, "get_prompt") or serves(cls, "get_messages")):
            raise ValueError(NEITHER.format(name=cls.__name__))
        if missing := sorted(getattr(cls, "__abstractmethods__", ())):
            raise ValueError(f"environment {cls.__name__} does not implement {', '.join(missing)}")
        self.tools = tools_of(cls)
        if not self.tools:
            raise ValueError(f"environment {cls.__name__} has no tools; mark at least one method with @tool")
        self.tool_list = list_of(self.tools)
        splits = cls.list_splits()
        if inspect.isawaitable(splits):
            raise TypeError(f"{cls.__name__}.list_splits must be a plain class method, no coroutine")
        self.splits = [as_split(split) for split in splits]
        if not self.splits:
            raise ValueError(f"environment {cls.__name__} has no splits; list_splits() must name at least one")

    async def tasks(self, split: str) -> Sequence[Any]:
        self._check(split)
        try:
            return list(await run(self.cls.list_tasks, split))
        except NotImplementedError:
            raise FaultError("no_listing") from None

    async def num_tasks(self, split: str) -> int:
        self._check(split)
        return int(await run(self.cls.num_tasks, split))

    async def task(self, split: str, index: int) -> Any:
        self._check(split)
        try:
            return await run(self.cls.get_task, split, index)
        except (IndexError, OverflowError):
            raise FaultError("bad_index") from None

    async def task_range(self, split: str, start: int | None, stop: int | None) -> list[Any]:
        self._check(split)
        try:
            return list(await run(self.cls.get_task_range, split, start, stop))
        except (IndexError, OverflowError):
            raise FaultError("bad_index") from None

    def _check(self, split: str) -> None:
        if all(item.name != split for item in self.splits):
            raise FaultError("unknown_split")
