"""The examples of the specification work as printed, with only the import changed.

Each constant holds one code block of the specification. The environment of the first two is run on a plain
base class, which has what the examples use of `Environment`: an `__init__` that keeps the task.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

import turnspec
from turnspec import (
    ConversionError,
    Message,
    ReasoningBlock,
    TextBlock,
    ToolCallBlock,
    ToolResultBlock,
    ValidationError,
    block_set_for,
    convert_messages,
    flatten_messages,
    validate,
)

JSONObject = dict[str, Any]

SERVING = """
class DialogueEnv(Environment):
    def __init__(self, task_spec: JSONObject = {}, secrets: dict[str, str] = {}):
        super().__init__(task_spec)
        self.conversation = task_spec["conversation"]

    def get_messages(self) -> list[Message]:
        return [
            Message(role=turn["role"], blocks=[TextBlock(text=turn["text"])])
            for turn in self.conversation
        ]

    @classmethod
    def list_tasks(cls, split: str) -> list[JSONObject]:
        return [
            {
                "id": "support-1",
                "conversation": [
                    {"role": "system", "text": "You are a support agent for Acme."},
                    {"role": "user", "text": "My order hasn't arrived."},
                    {"role": "assistant", "text": "Sorry to hear that — what's the order number?"},
                    {"role": "user", "text": "It's #4411, ordered two weeks ago."},
                ],
            }
        ]
"""

RICH_IMPORT = """
from turnspec import (Message, ReasoningBlock, TextBlock,
                      ToolCallBlock, ToolResultBlock)
"""

RICH = """
def get_messages(self) -> list[Message]:
    return [
        Message(role="user", blocks=[TextBlock(text="My order #4411 hasn't arrived.")]),
        Message(role="assistant", blocks=[
            ReasoningBlock(text="Two weeks late — check the carrier first."),
            ToolCallBlock(id="tc_1", name="lookup_order", input={"id": "4411"}),
        ]),
        Message(role="user", blocks=[
            ToolResultBlock(tool_call_id="tc_1",
                            blocks=[TextBlock(text='{"status": "stalled_at_hub"}')]),
        ]),
    ]
"""

FROM_TASK = """
def get_messages(self) -> list[Message]:
    return [Message.model_validate(m) for m in self.task_spec["conversation"]]
"""

WIRE = r"""
{
  "conversation": [
    {"role": "user", "blocks": [{"type": "text", "text": "My order #4411 hasn't arrived."}]},
    {"role": "assistant", "blocks": [
      {"type": "reasoning", "text": "Two weeks late — check the carrier first."},
      {"type": "tool_call", "id": "tc_1", "name": "lookup_order", "input": {"id": "4411"}}
    ]},
    {"role": "user", "blocks": [
      {"type": "tool_result", "tool_call_id": "tc_1",
       "blocks": [{"type": "text", "text": "{\"status\": \"stalled_at_hub\"}"}]}
    ]}
  ]
}
"""


class Environment:
    """What the examples use of the real base class."""

    def __init__(self, task_spec: JSONObject) -> None:
        self.task_spec = task_spec


def run(*sources: str) -> dict[str, Any]:
    """The names that the code defines, when only these imports stand above it."""
    names: dict[str, Any] = {
        "Environment": Environment,
        "JSONObject": JSONObject,
        "Message": Message,
        "TextBlock": TextBlock,
    }
    for source in sources:
        exec(source, names)
    return names


@pytest.fixture
def support() -> list[Message]:
    """The conversation that the first example serves."""
    environment = run(SERVING)["DialogueEnv"]
    (task,) = environment.list_tasks("train")
    served: list[Message] = environment(task).get_messages()
    return served


@pytest.fixture
def rich() -> list[Message]:
    """The conversation of the second example."""
    messages: list[Message] = run(RICH_IMPORT, RICH)["get_messages"](None)
    return messages


def test_serving_a_conversation(support: list[Message]) -> None:
    assert [(m.role, [b.text for b in m.blocks]) for m in support] == [
        ("system", ["You are a support agent for Acme."]),
        ("user", ["My order hasn't arrived."]),
        ("assistant", ["Sorry to hear that — what's the order number?"]),
        ("user", ["It's #4411, ordered two weeks ago."]),
    ]
    assert all(isinstance(message, Message) for message in support)


def test_the_formats_of_the_table(support: list[Message]) -> None:
    assert convert_messages(support, format=None) == support
    chat = [
        {"role": "system", "content": "You are a support agent for Acme."},
        {"role": "user", "content": "My order hasn't arrived."},
        {"role": "assistant", "content": "Sorry to hear that — what's the order number?"},
        {"role": "user", "content": "It's #4411, ordered two weeks ago."},
    ]
    assert convert_messages(support, format="openai") == chat
    assert convert_messages(support, format="openrouter") == chat

    anthropic = convert_messages(support, format="anthropic")
    assert anthropic["system"] == "You are a support agent for Acme."
    assert [m["role"] for m in anthropic["messages"]] == ["user", "assistant", "user"]

    google = convert_messages(support, format="google")
    assert google["system_instruction"] == "You are a support agent for Acme."
    assert [c["role"] for c in google["contents"]] == ["user", "model", "user"]


def test_the_envelopes_without_a_system_turn(support: list[Message]) -> None:
    assert convert_messages(support[1:], format="anthropic")["system"] is None
    assert convert_messages(support[1:], format="google")["system_instruction"] is None


def test_blocks_built_by_hand_and_the_wire_shape_are_the_same(rich: list[Message]) -> None:
    environment = Environment(json.loads(WIRE))
    parsed = run(FROM_TASK)["get_messages"](environment)
    assert parsed == rich
    assert turnspec.loads(WIRE) == turnspec.loads(turnspec.dumps(rich))
    validate(WIRE)
    validate(json.loads(WIRE))


def test_rich_blocks_on_anthropic(rich: list[Message]) -> None:
    assert convert_messages(rich, format="anthropic") == {
        "system": None,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "My order #4411 hasn't arrived."}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Two weeks late — check the carrier first."},
                    {"type": "tool_use", "id": "tc_1", "name": "lookup_order", "input": {"id": "4411"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "tc_1",
                        "content": [{"type": "text", "text": '{"status": "stalled_at_hub"}'}],
                    }
                ],
            },
        ],
    }


def test_a_signature_is_included_only_when_set() -> None:
    def thinking(**signature: str | None) -> dict[str, Any]:
        turns = [
            Message(role="user", blocks=[TextBlock(text="Hi")]),
            Message(
                role="assistant",
                blocks=[ReasoningBlock(text="Greet.", **signature), TextBlock(text="Hi!")],
            ),
            Message(role="user", blocks=[TextBlock(text="Bye")]),
        ]
        block: dict[str, Any] = convert_messages(turns, format="anthropic")["messages"][1]["content"][0]
        return block

    assert thinking() == {"type": "thinking", "thinking": "Greet."}
    assert thinking(signature=None) == {"type": "thinking", "thinking": "Greet."}
    assert thinking(signature="c2ln") == {
        "type": "thinking",
        "thinking": "Greet.",
        "signature": "c2ln",
    }


@pytest.mark.parametrize("format", ["openai", "openrouter"])
def test_rich_blocks_on_openai(rich: list[Message], format: str) -> None:
    _, assistant, tool = convert_messages(rich, format=format)
    assert assistant["reasoning_content"] == "Two weeks late — check the carrier first."
    assert assistant["tool_calls"] == [
        {
            "id": "tc_1",
            "type": "function",
            "function": {"name": "lookup_order", "arguments": '{"id": "4411"}'},
        }
    ]
    assert tool == {"role": "tool", "tool_call_id": "tc_1", "content": '{"status": "stalled_at_hub"}'}


def test_google_raises_on_reasoning_and_has_native_calls(rich: list[Message]) -> None:
    with pytest.raises(ValueError, match="reasoning") as raised:
        convert_messages(rich, format="google")
    assert isinstance(raised.value, ConversionError)
    assert (raised.value.code, raised.value.pointer) == ("reasoning_unsupported", "/1/blocks/0")

    without = [rich[0], Message(role="assistant", blocks=rich[1].blocks[1:]), rich[2]]
    _, model, user = convert_messages(without, format="google", on_loss="ignore")["contents"]
    assert model["parts"] == [{"function_call": {"name": "lookup_order", "args": {"id": "4411"}}}]
    assert user["parts"] == [
        {
            "function_response": {
                "name": "lookup_order",
                "response": {"output": '{"status": "stalled_at_hub"}'},
            }
        }
    ]


def test_images_inside_tool_results_raise_on_openai(rich: list[Message]) -> None:
    picture = turnspec.ImageBlock(data="iVBORw0KGgo=", mimeType="image/png")
    rich[2] = Message(role="user", blocks=[ToolResultBlock(tool_call_id="tc_1", blocks=[picture])])
    with pytest.raises(ValueError, match="image_placement at /2/blocks/0/blocks/0"):
        convert_messages(rich, format="openai")
    content = convert_messages(rich, format="anthropic")["messages"][2]["content"][0]["content"]
    assert [part["type"] for part in content] == ["image"]


def test_placement_fails_at_construction() -> None:
    result = ToolResultBlock(tool_call_id="tc_1", blocks=[TextBlock(text="done")])
    with pytest.raises(ValueError, match="block_placement"):
        Message(role="assistant", blocks=[result])
    with pytest.raises(ValueError, match="block_placement"):
        Message(role="user", blocks=[ToolCallBlock(id="tc_1", name="f", input={})])
    with pytest.raises(ValidationError, match="block_placement at /0/blocks/0"):
        validate([{"role": "user", "blocks": [{"type": "reasoning", "text": "hm"}]}])


def test_no_role_tool_exists() -> None:
    with pytest.raises(ValidationError, match="unknown_role"):
        validate({"role": "tool", "blocks": []})


def test_a_conversation_flattens_to_tagged_text(rich: list[Message]) -> None:
    texts = [block.text for block in flatten_messages(rich)]
    assert "[user]" in texts
    assert "<think>Two weeks late — check the carrier first.</think>" in texts
    assert '[tool_call lookup_order] {"id": "4411"}' in texts


def test_one_plain_user_message_flattens_to_its_blocks_verbatim(support: list[Message]) -> None:
    assert flatten_messages(support[1:2]) == support[1].blocks


def test_absent_message_block_types_mean_text_and_images_only() -> None:
    assert block_set_for(None) == "v1"
    assert block_set_for(list(turnspec.MESSAGE_BLOCK_TYPES)) == "v2"
