"""What the client gives: tasks, splits, tools and the output of a call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from turnspec_generated.models import ImageBlock, TextBlock

    from ..conversion import Skipped


class Split(str):
    """The name of a split; `type` says what its tasks are for: "train", "validation" or "test"."""

    __slots__ = ("type",)
    type: str

    def __new__(cls, name: str, type: str) -> Split:
        split = super().__new__(cls, name)
        split.type = type
        return split

    def __reduce__(self) -> tuple[Any, ...]:
        return Split, (str(self), self.type)


@dataclass(frozen=True, slots=True)
class Task:
    """A task as the server lists it: any JSON object, and the environment that it belongs to."""

    task_spec: dict[str, Any]
    environment_name: str | None = None


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool: `input_schema` is the JSON Schema of its input, None when it takes none."""

    name: str
    description: str
    input_schema: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class TerminalTool:
    """The tool that ends the episode with the model's text; `arg` takes it, None when it takes none."""

    name: str
    arg: str | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool returned. `skipped` tells the blocks of types that this client does not know."""

    blocks: list[TextBlock | ImageBlock]
    metadata: dict[str, Any] | None = None
    reward: float | None = None
    finished: bool = False
    skipped: list[Skipped] = field(default_factory=list)
