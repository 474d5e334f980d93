"""What environments take and give, beside messages and blocks: splits, tool outputs, tool lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from turnspec_generated.models import ToolResultContent

JSONValue: TypeAlias = Mapping[str, Any] | Sequence[Any] | str | int | float | bool | None
JSONObject: TypeAlias = Mapping[str, Any]
Blocks: TypeAlias = Sequence[ToolResultContent]
SplitType = Literal["train", "validation", "test"]
SPLIT_TYPES: tuple[SplitType, ...] = ("train", "validation", "test")


class _Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Split(_Closed):
    """A named part of the tasks, and what they are for."""

    name: str
    type: SplitType


class ToolOutput(_Closed):
    """What a tool returns: its content, and what the step is worth. `finished` ends the episode."""

    blocks: Blocks
    metadata: dict[str, Any] | None = None
    reward: float | None = Field(default=None, allow_inf_nan=False)
    finished: bool = False


class ToolSpec(_Closed):
    """A tool as a client lists it; `input_schema` is None for a tool without input."""

    name: str
    description: str
    input_schema: JSONObject | None


class TerminalToolSpec(_Closed):
    """The tool that takes the assistant's last text; `arg` is the input that it goes to, None when it takes none."""

    name: str
    arg: str | None = None
    description: str = ""


class ListToolsOutput(_Closed):
    """The tools of an environment. `list_task_tools` fills in `tools` alone."""

    tools: list[ToolSpec]
    terminal_tool: TerminalToolSpec | None = None
    supports_score_group: bool | None = None
    message_block_types: list[str] | None = None


def as_split(split: str | Split) -> Split:
    """A bare name becomes the type that it names, else validation."""
    if isinstance(split, Split):
        return split
    kinds: dict[str, SplitType] = {kind: kind for kind in SPLIT_TYPES}
    return Split(name=split, type=kinds.get(split, "validation"))
