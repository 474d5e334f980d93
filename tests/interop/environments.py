"""The environments of the interop tests, written once for whichever SDK `INTEROP_SDK` names.

Runs in the reference SDK's own Python as well, so it imports nothing but that SDK.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from pydantic import BaseModel

sdk: Any = importlib.import_module(os.environ["INTEROP_SDK"])
Environment, Split, ToolOutput, tool = sdk.Environment, sdk.Split, sdk.ToolOutput, sdk.tool
TextBlock, ImageBlock = sdk.TextBlock, sdk.ImageBlock
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


class Text(BaseModel):
    text: str


class Everything(BaseModel):
    title: str
    count: int = 1
    tags: list[str] = []
    note: str | None = None


class Base(Environment):
    """Tasks, splits and tools; the subclasses say what is asked."""

    def __init__(self, task_spec: Any = {}, secrets: dict[str, str] = {}) -> None:  # noqa: B006
        super().__init__(task_spec)
        self.secrets = secrets
        self.calls = 0

    @classmethod
    def list_splits(cls) -> list[Any]:
        return ["train", Split(name="odd", type="test")]

    @classmethod
    def list_tasks(cls, split: str) -> list[Any]:
        conversation = [{"role": "user", "blocks": [{"type": "text", "text": f"{split} ü\u2028"}]}]
        prompt = [{"type": "text", "text": f"{split} ü\u2028"}]
        return [{"id": index, "conversation": conversation, "prompt": prompt} for index in range(3)]

    @tool
    async def echo(self, params: Text) -> ToolOutput:
        """Gives the text back."""
        return ToolOutput(blocks=[TextBlock(text=params.text)])

    @tool
    async def everything(self, params: Everything) -> ToolOutput:
        """Takes inputs of several kinds."""
        return ToolOutput(blocks=[TextBlock(text=params.title)], metadata={"input": params.model_dump()}, reward=0.5)

    @tool
    def picture(self) -> ToolOutput:
        """A picture."""
        return ToolOutput(
            blocks=[TextBlock(text="see", detail={"k": [1, None]}), ImageBlock(data=PIXEL, mimeType="image/png")]
        )

    @tool
    async def count(self) -> ToolOutput:
        """How often it was called."""
        self.calls += 1
        return ToolOutput(blocks=[], metadata={"calls": self.calls})

    @tool
    async def secret(self, params: Text) -> ToolOutput:
        """A secret of the session."""
        return ToolOutput(blocks=[TextBlock(text=self.secrets.get(params.text, "none"))])

    @tool
    async def boom(self) -> ToolOutput:
        """Raises."""
        raise ValueError("kaboom line1\nline2 é")

    @tool
    async def submit(self, params: Text) -> ToolOutput:
        """Ends the episode."""
        return ToolOutput(blocks=[TextBlock(text="ok: " + params.text)], metadata={"n": 1}, reward=1.0, finished=True)


class Plain(Base):
    """Asks with a prompt."""

    def get_prompt(self) -> list[Any]:
        kinds = {"text": TextBlock, "image": ImageBlock}
        return [kinds[block["type"]](**block) for block in self.task_spec["prompt"]]


ENVIRONMENTS: list[Any] = [Plain]

if hasattr(sdk, "Message"):

    class Chat(Base):
        """Asks with a conversation."""

        def get_messages(self) -> list[Any]:
            return [sdk.Message.model_validate(message) for message in self.task_spec["conversation"]]

    class Both(Plain):
        """Asks with a conversation and with a prompt, which do not agree."""

        async def get_messages(self) -> list[Any]:
            return [sdk.Message.model_validate(message) for message in self.task_spec["conversation"]]

    class Broken(Base):
        """Cannot say what it asks."""

        def get_messages(self) -> list[Any]:
            raise ValueError("bad messages")

    ENVIRONMENTS = [Chat, Plain, Both, Broken]

if hasattr(sdk, "terminal"):

    class Graded(Plain):
        """Ends with the model's text."""

        @sdk.terminal
        @tool
        async def answer(self, params: Text) -> ToolOutput:
            """Grades the message."""
            return ToolOutput(blocks=[], reward=float(len(params.text)), finished=True)

    ENVIRONMENTS.append(Graded)
