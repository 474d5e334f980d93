"""Writing environments: what a class must have, how tools are read, and that moving over is an import change."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from abc import abstractmethod
from collections.abc import Awaitable
from typing import Any, Literal

import pytest
from openreward import environments as sdk
from pydantic import BaseModel, Field

from turnspec import environment as ours
from turnspec.environment import (
    Environment,
    ListToolsOutput,
    Message,
    Server,
    Split,
    TextBlock,
    ToolOutput,
    Toolset,
    ToolSpec,
    terminal,
    tool,
)
from turnspec.environment._calls import Caller
from turnspec.environment._hosted import Hosted
from turnspec.environment._tools import tools_of
from turnspec_generated.names import MESSAGE_BLOCK_TYPES


class Sub(BaseModel):
    text: str


class Sub2(Sub):
    more: int = 0


class Base(Environment):
    """All that a server needs, but for the prompt: an intermediate class like others have."""

    @classmethod
    def list_splits(cls) -> list[str | Split]:
        return ["train", Split(name="odd", type="test")]

    @classmethod
    def list_tasks(cls, split: str) -> list[dict[str, Any]]:
        return [{"id": index} for index in range(5)]

    @tool
    async def submit(self, params: Sub) -> ToolOutput:
        """Hand in the answer."""
        return ToolOutput(blocks=[TextBlock(text=params.text)])


class Prompted(Base):
    def get_prompt(self) -> list[TextBlock]:
        return [TextBlock(text="What?")]


class Talking(Base):
    async def get_messages(self) -> list[Message]:
        return [Message(role="system", blocks=[TextBlock(text="Be brief.")])]


def do(awaitable: Any) -> Any:
    async def wait() -> Any:
        return await awaitable

    return asyncio.run(wait())


# --- names ---


def test_names_of_the_reference_are_here() -> None:
    """But for what an environment author does not write: sandboxes, and the models of the protocol."""
    inner = {
        "CreateSession",
        "RunToolError",
        "RunToolOutput",
        "RunToolSuccess",
        "ToolCall",
        "SUPPORTED_MESSAGE_BLOCK_TYPES",
    }
    absent = {"GroupCandidate", "GroupScore", "MessageBlocks", "Role", "download_text", "upload_text"}
    assert set(sdk.__all__) - set(ours.__all__) == inner | absent


def test_everything_but_the_server_loads_without_it() -> None:
    program = (
        "import sys; sys.modules['starlette'] = None\n"
        "from turnspec.environment import Environment, Message, TextBlock, ToolOutput, tool\n"
        "import turnspec.environment\n"
        "assert 'Server' in dir(turnspec.environment)\n"
        "try:\n    from turnspec.environment import Server\n"
        "except ImportError as problem:\n    print(problem)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "Server needs starlette: pip install 'turnspec[server]'\n"
    with pytest.raises(AttributeError, match="nix"):
        _ = ours.nix


# --- prompts ---


def test_prompt_and_messages_delegate_to_each_other() -> None:
    assert do(Prompted().get_messages()) == [Message(role="user", blocks=[TextBlock(text="What?")])]
    assert [block.text for block in do(Talking().get_prompt())] == ["[system]", "Be brief."]
    with pytest.raises(NotImplementedError, match="Base implements neither"):
        do(Base().get_prompt())
    with pytest.raises(NotImplementedError, match="Base implements neither"):
        do(Base().get_messages())


@pytest.mark.parametrize("name", ["get_prompt", "get_messages"])
def test_a_prompt_that_is_no_method_is_refused_with_the_class(name: str) -> None:
    with pytest.raises(TypeError, match=f"Wrong.{name} must be a method"):
        type("Wrong", (Base,), {name: [TextBlock(text="x")]})


def test_neither_is_refused_when_the_class_is_registered() -> None:
    with pytest.raises(ValueError, match=r"Base implements neither get_prompt\(\) nor get_messages\(\)"):
        Server([Base])

    class Explicit(Base):
        get_prompt = Environment.get_prompt

    with pytest.raises(ValueError, match="Explicit implements neither"):
        Server([Explicit])


def test_intermediate_classes_may_be_abstract() -> None:
    class Middle(Base):
        @abstractmethod
        def question(self) -> str: ...

        def get_prompt(self) -> list[TextBlock]:
            return [TextBlock(text=self.question())]

    with pytest.raises(ValueError, match="Middle does not implement question"):
        Server([Middle])

    class Whole(Middle):
        def question(self) -> str:
            return "?"

    assert Server([Whole]).environments.keys() == {"whole"}


# --- registration ---


def test_what_cannot_be_served_is_refused() -> None:
    class NoTools(Environment):
        @classmethod
        def list_splits(cls) -> list[str]:
            return ["train"]

        @classmethod
        def list_tasks(cls, split: str) -> list[dict[str, Any]]:
            return []

        def get_prompt(self) -> list[TextBlock]:
            return []

    class NoSplits(Prompted):
        @classmethod
        def list_splits(cls) -> list[Any]:
            return []

    class Odd(Prompted):
        @classmethod
        def name(cls) -> str:
            return "a/b"

    class Other(Prompted):
        @classmethod
        def name(cls) -> str:
            return "PROMPTED"

    for environments, text in (
        ([], "at least one environment"),
        ([NoTools], "NoTools has no tools"),
        ([NoSplits], "NoSplits has no splits"),
        ([Odd], "'a/b' cannot be the name"),
        ([Prompted, Other], "two environments have the name 'prompted'"),
    ):
        with pytest.raises(ValueError, match=text):
            Server(environments)
    for wrong in (sdk.Environment, Prompted(), "Prompted"):
        with pytest.raises(TypeError, match="no class that derives"):
            Server([wrong])  # type: ignore[list-item]


# --- tasks ---


def test_tasks_are_listed_once_for_each_class() -> None:
    """The reference keeps them in an attribute, which a subclass finds: it gets its parent's tasks."""
    calls: list[str] = []

    class Counted(Prompted):
        @classmethod
        async def list_tasks(cls, split: str) -> list[dict[str, Any]]:  # type: ignore[override]
            calls.append(cls.__name__)
            return [{"of": cls.__name__}] * 4

    class Child(Counted):
        pass

    async def ask() -> None:
        counts = await asyncio.gather(*(Counted.num_tasks("train") for _ in range(5)))
        assert counts == [4] * 5
        assert await Counted.get_task("train", -1) == {"of": "Counted"}
        assert await Child.get_task("train", 0) == {"of": "Child"}
        assert len(await Counted.get_task_range("train", -3, 99)) == 3

    asyncio.run(ask())
    assert calls == ["Counted", "Child"]


def test_too_many_tasks_to_list() -> None:
    class Large(Prompted):
        @classmethod
        def list_tasks(cls, split: str) -> list[dict[str, Any]]:
            raise NotImplementedError

        @classmethod
        def num_tasks(cls, split: str) -> int:  # type: ignore[override]
            return 10**9

        @classmethod
        def get_task(cls, split: str, index: int) -> dict[str, Any]:  # type: ignore[override]
            return {"id": index}

    hosted = Hosted(Large)
    assert do(hosted.num_tasks("odd")) == 10**9
    assert do(hosted.task_range("train", -2, None)) == [{"id": 10**9 - 2}, {"id": 10**9 - 1}]
    with pytest.raises(Exception, match="no_listing"):
        do(hosted.tasks("train"))


# --- tools ---


class Kit(Toolset):
    @tool
    async def look(self, where: str) -> ToolOutput:
        return ToolOutput(blocks=[TextBlock(text=f"{type(self.env).__name__}: {where}")])


class Tools(Prompted):
    toolsets = (Kit,)

    @tool
    def nothing(self) -> ToolOutput:
        """Takes nothing."""
        return ToolOutput(blocks=[])

    @tool
    async def plain(
        self,
        count: int,
        kind: Literal["a", "b"] = "a",
        *,
        schema: list[Sub] = [],  # noqa: B006
        note: str | None = None,
    ) -> ToolOutput:
        """Plain parameters.

        With a second paragraph.
        """
        return ToolOutput(blocks=[TextBlock(text=repr((count, kind, schema, note)))])

    @tool(shared=False)
    def hidden(self, params: Sub) -> ToolOutput:
        return ToolOutput(blocks=[TextBlock(text="found")])

    @tool
    def later(self) -> Awaitable[ToolOutput]:
        async def wait() -> ToolOutput:
            return ToolOutput(blocks=[])

        return wait()

    @terminal
    @tool
    async def answer(self, params: Sub) -> ToolOutput:
        """Grades the message."""
        return ToolOutput(blocks=[], reward=1.0, finished=True)

    def list_task_tools(self) -> ListToolsOutput:
        return ListToolsOutput(tools=[ToolSpec(name="hidden", description="", input_schema=None)])


def test_tool_list() -> None:
    listed = Tools.list_tools()
    assert [item.name for item in listed.tools] == ["later", "nothing", "plain", "submit", "look"]
    assert listed.terminal_tool is not None
    assert listed.terminal_tool.model_dump() == {"name": "answer", "arg": "text", "description": "Grades the message."}
    assert (listed.supports_score_group, listed.message_block_types) == (False, list(MESSAGE_BLOCK_TYPES))
    specs = {item.name: item for item in listed.tools}
    assert (specs["nothing"].description, specs["nothing"].input_schema) == ("Takes nothing.", None)
    assert specs["submit"].input_schema == Sub.model_json_schema()
    assert specs["plain"].description == "Plain parameters.\n\nWith a second paragraph."
    schema = specs["plain"].input_schema
    assert schema is not None
    assert list(schema["properties"]) == ["count", "kind", "schema", "note"]
    assert (schema["required"], schema["additionalProperties"]) == (["count"], False)
    assert schema["properties"]["kind"] == {"default": "a", "enum": ["a", "b"], "title": "Kind", "type": "string"}
    assert Tools.is_assistant_message_final()
    assert not Prompted.is_assistant_message_final()


def call(name: str, input: dict[str, Any]) -> Any:
    result = do(Caller(Tools(), tools_of(Tools)).call(name, input))
    return result["output"]["blocks"][0]["text"] if result["ok"] else (result["reason"], result["error"])


def test_calls() -> None:
    assert call("submit", {"text": "x"}) == "x"
    assert call("look", {"where": "here"}) == "Tools: here"
    assert call("hidden", {"text": ""}) == "found"
    assert call("plain", {"count": 3, "schema": [{"text": "t"}]}) == "(3, 'a', [Sub(text='t')], None)"
    assert call("plain", {"count": "x", "kind": "c", "new": 1})[0] == "input_validation"
    assert call("nix", {}) == ("not_found", "'nix' is not a valid tool")
    for name in ("get_prompt", "setup", "__init__", "task_spec", "env"):
        assert call(name, {})[0] == "not_found"


def bad(**methods: Any) -> type[Environment]:
    return type("Bad", (Prompted,), methods)


def untyped(self, x):  # type: ignore[no-untyped-def]
    ...


def unknown(self: Any, x: Nowhere) -> ToolOutput: ...  # type: ignore[name-defined]  # noqa: F821


def several(self: Any, *texts: str) -> ToolOutput: ...


def text(self: Any) -> str: ...


def odd(self: Any, x: asyncio.Lock) -> ToolOutput: ...


def two(self: Any, params: Sub2) -> ToolOutput: ...


def fine(self: Any) -> ToolOutput: ...


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: bad(a=tool(untyped)), "Bad.a: the parameter 'x' has no type hint"),
        (lambda: bad(a=tool(unknown)), "Bad.a: its type hints cannot be read: name 'Nowhere' is not defined"),
        (lambda: bad(a=tool(several)), "Bad.a: the parameter 'texts' cannot be given by name"),
        (lambda: bad(a=tool(text)), "Bad.a returns str; a tool returns ToolOutput"),
        (lambda: bad(a=tool(odd)), "Bad.a: its parameters make no input model"),
        (lambda: bad(a=terminal(tool(two))), "Bad.a is terminal, so it takes at most one input, not 2"),
    ],
)
def test_what_cannot_be_a_tool_is_named(made: Any, message: str) -> None:
    """The reference leaves such a method out of the list without a word."""
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        Server([made()])


def test_marks_that_contradict_each_other() -> None:
    def copy() -> Any:
        return lambda self: ToolOutput(blocks=[])

    for methods, message in (
        ({"a": terminal(copy())}, "marked @terminal alone; add @tool"),
        ({"a": terminal(tool(concurrent=True)(copy()))}, "terminal, so it cannot be concurrent"),
        ({"a": terminal(tool(copy())), "b": tool(terminal(copy()))}, "at most one terminal tool, not 'a', 'b'"),
        ({"look": tool(copy()), "toolsets": (Kit,)}, "'look' is defined by both Bad and Kit"),
    ):
        with pytest.raises(ValueError, match=message):
            Server([bad(**methods)])


def test_terminal_alone_is_enough() -> None:
    class Last(Prompted):
        submit = None  # type: ignore[assignment]

        @tool
        @terminal
        def answer(self) -> ToolOutput:
            return ToolOutput(blocks=[])

    listed = Server([Last]).environments["last"].tool_list
    assert listed.tools == []
    assert listed.terminal_tool is not None
    assert listed.terminal_tool.arg is None


def test_tool_output_is_strict() -> None:
    assert ToolOutput(blocks=[{"type": "text", "text": "x"}]).blocks[0].text == "x"  # type: ignore[list-item,union-attr]
    for wrong in ({"blocks": [{"text": "x"}]}, {"blocks": "x"}, {"blocks": [], "reward": float("nan")}, {"block": []}):
        with pytest.raises(ValueError, match="ToolOutput"):
            ToolOutput(**wrong)


def test_input_models_with_aliases() -> None:
    class Aliased(BaseModel):
        inner: str = Field(alias="outer-name")

    def aliased(self: Any, params: Any) -> Any:
        return ToolOutput(blocks=[TextBlock(text=params.inner)])

    aliased.__annotations__ = {"params": Aliased, "return": ToolOutput}
    made = bad(a=terminal(tool(aliased)))
    assert made.terminal_tool().arg == "outer-name"  # type: ignore[union-attr]
    result = do(Caller(made(), tools_of(made)).call("a", {"outer-name": "x"}))
    assert result["output"]["blocks"][0]["text"] == "x"
