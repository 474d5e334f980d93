"""Every client against every server: the reference SDK of 0.1.156 and 0.1.167, and ours, with equal results."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests import interop
from tests.interop import NEW, OLD, OURS, Reference, Visit, bare, serving, visit_with_async, visit_with_ours
from turnspec import ConversionError, convert_messages, flatten_messages

pytestmark = pytest.mark.xdist_group("interop")

VECTORS = Path(__file__).parent / "vectors"
FORMATS = ("openai", "openrouter", "anthropic", "google")
SERVERS = (OURS, NEW, OLD)
CLIENTS = ("blocking", "asyncio", NEW, OLD)
ENVELOPE = len('{"ok":true,"output":{"blocks":[{"text":"')  # what stands before the text of an echo
PIECE = 4096

ODD_TEXTS = {
    "blanks": " " * (3 * PIECE),
    "blank at each border": "".join(" " if (place + ENVELOPE) % PIECE == 0 else "x" for place in range(3 * PIECE)),
    "blank before each border": "".join(
        " " if (place + ENVELOPE) % PIECE == PIECE - 1 else "x" for place in range(3 * PIECE)
    ),
    "no-break space at each border": "".join(
        "\u00a0" if (place + ENVELOPE) % PIECE == 0 else "x" for place in range(3 * PIECE)
    ),
    "line separators": "\u2028\u2029\u0085\u000b\u000c\u001c\u001d\u001e" * PIECE,
    "line ends": "a\r\nb\rc\nd\n\n\r\r" * PIECE,
    "emoji": "🙂👩‍👩‍👧é" * PIECE,
    "ideographic spaces": "\u3000" * (2 * PIECE) + "\u2003" * PIECE,
    "controls": "".join(map(chr, range(1, 32))) * 200 + "\x7f\x00",
    "quotes": '"\\/' * PIECE,
    "looks like a stream": "event: end\ndata: {}\n\n: ping\r\n\r\n",
    "one border exactly": "x" * (PIECE - ENVELOPE),
    "empty": "",
    "large": "Grüße, 世界 " * 100_000,
}


Go = Callable[[str, str, list[Visit]], list[list[Any]]]


@pytest.fixture(scope="module")
def go() -> Iterator[Go]:
    """Visits of a client to a server: what arrived. Servers and clients are started when they are first needed."""
    with ExitStack() as stack:

        @cache
        def address(version: str) -> str:
            return stack.enter_context(serving(version))

        @cache
        def reference(version: str) -> Reference:
            return stack.enter_context(closing(Reference(version)))

        def visit(client: str, server: str, visits: list[Visit]) -> list[list[Any]]:
            if client == "blocking":
                return visit_with_ours(address(server), visits)
            if client == "asyncio":
                return visit_with_async(address(server), visits)
            return reference(client).visit(address(server), visits)

        yield visit


@cache
def conversations() -> list[list[dict[str, Any]]]:
    """Conversations of the vectors, one of each make-up, and some whose texts are hard to carry."""
    builds = {}
    for name in ("flatten", "flatten-conversations", "specification"):
        for case in json.loads((VECTORS / f"{name}.json").read_text("utf-8"))["cases"]:
            if case["op"] == "flatten" and "blocks" in case["expect"]:
                build = json.dumps(
                    sorted({(turn["role"], block["type"]) for turn in case["messages"] for block in turn["blocks"]})
                )
                builds.setdefault(build, case["messages"])
    found = list(builds.values())
    for text in ("\u2028 \u0085", "🙂" * 5000, " leading", "a\r\nb", "\x00"):
        found.append(
            [
                {"role": "system", "blocks": [{"type": "text", "text": text, "detail": {"k": [1, None, {}]}}]},
                {"role": "user", "blocks": [{"type": "text", "text": text}], "detail": {"turn": 1.0}},
                {
                    "role": "assistant",
                    "blocks": [{"type": "tool_call", "id": text, "name": text, "input": {text: text}}],
                },
                {
                    "role": "user",
                    "blocks": [
                        {
                            "type": "tool_result",
                            "tool_call_id": text,
                            "blocks": [{"type": "text", "text": text}],
                            "is_error": True,
                        }
                    ],
                },
            ]
        )
    return found


def of_task(conversation: Any, *steps: list[Any], env: str = "chat") -> Visit:
    return {"env": env, "spec": {"conversation": conversation}, "steps": list(steps)}


# --- conversations and prompts ---


@pytest.mark.parametrize("client", [client for client in CLIENTS if client != OLD])
@pytest.mark.parametrize("server", [OURS, NEW])
def test_a_conversation_arrives_as_it_is(go: Go, server: str, client: str) -> None:
    cases = conversations()
    assert len(cases) > 25
    assert {block["type"] for case in cases for turn in case for block in turn["blocks"]} >= {
        "text",
        "image",
        "reasoning",
        "tool_call",
        "tool_result",
    }
    found = go(client, server, [of_task(case, ["get_messages"], ["get_prompt"]) for case in cases])
    for case, (messages, prompt) in zip(cases, found, strict=True):
        assert bare(messages.get("is")) == bare(case), messages
        assert bare(prompt.get("is")) == bare(flatten_messages(case)), prompt


@pytest.mark.parametrize("server", [OURS, NEW])
def test_an_old_client_gets_the_flattened_conversation(go: Go, server: str) -> None:
    cases = conversations()
    found = go(OLD, server, [of_task(case, ["get_prompt"]) for case in cases])
    for case, (prompt,) in zip(cases, found, strict=True):
        assert bare(prompt.get("is")) == bare(flatten_messages(case)), prompt


@pytest.mark.parametrize("client", ["blocking", "asyncio"])
@pytest.mark.parametrize("server", [OURS, NEW])
def test_our_client_converts_what_any_server_sends(go: Go, server: str, client: str) -> None:
    cases = conversations()
    steps = [["get_messages", format] for format in FORMATS]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = go(client, server, [of_task(case, *steps) for case in cases])
        for case, answers in zip(cases, found, strict=True):
            for format, answer in zip(FORMATS, answers, strict=True):
                assert answer == converted(case, format)


def converted(conversation: Any, format: str) -> dict[str, Any]:
    try:
        return {"is": convert_messages(conversation, format)}
    except ConversionError as problem:
        return {"raises": "ConversionError", "reason": None, "text": str(problem)}


def test_the_reference_client_converts_the_same_from_both_servers(go: Go) -> None:
    steps = [["get_messages", format] for format in FORMATS]
    visits = [of_task(case, *steps) for case in conversations()]
    assert anonymous(go(NEW, OURS, visits)) == anonymous(go(NEW, NEW, visits))


def test_without_the_old_version_the_tests_say_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(interop, "OLD_VENV", tmp_path / "venv")
    with pytest.raises(FileNotFoundError, match=r"needs? the reference SDK 0\.1\.156.*make interop-venv"):
        interop.python.__wrapped__(OLD)


PROMPTS: tuple[list[dict[str, Any]], ...] = (
    [],
    [{"type": "text", "text": "Grüße \u2028"}],
    [
        {"type": "text", "text": " a", "detail": {"k": None}},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "text", "text": ""},
    ],
)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("server", SERVERS)
def test_a_prompt_arrives_and_becomes_one_user_message(go: Go, server: str, client: str) -> None:
    steps = [["get_prompt"], ["get_messages"], ["get_messages", "openai"], ["get_messages"], ["get_prompt"]]
    if client == OLD:
        steps = [["get_prompt"]]
    visits = [{"env": "plain", "spec": {"prompt": prompt}, "steps": steps} for prompt in PROMPTS]
    for prompt, answers in zip(PROMPTS, go(client, server, visits), strict=True):
        wrapped = [{"role": "user", "blocks": prompt}]
        for step, answer in zip(steps, answers, strict=True):
            if step == ["get_prompt"]:
                assert bare(answer.get("is")) == prompt, answer
            elif step == ["get_messages"]:
                assert bare(answer.get("is")) == wrapped, answer
    if client != OLD:
        assert answers[2]["is"][0]["content"][1] == {
            "type": "image_url",
            "image_url": {"url": "data:image/png;base64,aGk="},
        }


@pytest.mark.parametrize("client", ["blocking", "asyncio", NEW])
@pytest.mark.parametrize("server", [OURS, NEW])
def test_a_conversation_and_a_prompt_need_not_agree(go: Go, server: str, client: str) -> None:
    spec = {
        "conversation": [{"role": "system", "blocks": [{"type": "text", "text": "one"}]}],
        "prompt": [{"type": "text", "text": "two"}],
    }
    steps = [["get_messages"], ["get_prompt"]]
    ((messages, prompt),) = go(client, server, [{"env": "both", "spec": spec, "steps": steps}])
    assert bare(messages["is"]) == spec["conversation"]
    assert bare(prompt["is"]) == spec["prompt"]


# --- listings ---


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("server", SERVERS)
def test_tasks_are_listed(go: Go, server: str, client: str) -> None:
    steps: list[list[Any]] = [
        ["list_splits"],
        ["list_tasks", "train"],
        ["num_tasks", "odd"],
        ["get_task", "train", 1],
        ["get_task", "train", -1],
        ["get_task_range", "train", 1],
        ["get_task_range", "train", None, -1],
        ["get_task_range", "train", -2, 99],
    ]
    for env in ("plain", None):
        name = env or ("plain" if server == OLD else "chat")
        (found,) = go(client, server, [{"env": env, "steps": steps}])
        assert all("is" in answer for answer in found), found
        splits, tasks, count, second, last, *ranges = (answer["is"] for answer in found)
        assert (splits, count) == (["train", "odd"], 3)
        specs = [task["task_spec"] for task in tasks]
        assert [spec["id"] for spec in specs] == [0, 1, 2]
        assert specs[0]["prompt"] == [{"type": "text", "text": "train ü\u2028"}]
        assert {task["environment_name"] for task in tasks} == {name}
        assert [second["task_spec"], last["task_spec"]] == [specs[1], specs[2]]
        assert [[task["task_spec"]["id"] for task in part] for part in ranges] == [[1, 2], [0, 1], [1, 2]]


@pytest.mark.parametrize("client", ["blocking", "asyncio"])
@pytest.mark.parametrize("server", SERVERS)
def test_environments_are_listed(go: Go, server: str, client: str) -> None:
    (((answer),),) = go(client, server, [{"steps": [["list_environments"]]}])
    expected = ["chat", "plain", "both", "broken", "graded"]
    assert answer["is"] == (["plain", "graded"] if server == OLD else expected)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("server", SERVERS)
def test_a_session_by_split_and_index(go: Go, server: str, client: str) -> None:
    wanted = {"env": "plain", "split": "odd", "index": -1, "steps": [["get_prompt"]]}
    unnamed = {**wanted, "env": None}
    found = go(client, server, [wanted, unnamed])
    assert [bare(answers[0].get("is")) for answers in found] == [[{"type": "text", "text": "odd ü\u2028"}]] * 2


def test_tool_lists_are_equal_everywhere(go: Go) -> None:
    steps: list[list[Any]] = [["list_tools", *format] for format in ([], *([format] for format in FORMATS))]
    visits: list[Visit] = [
        {"env": "plain", "steps": steps},
        {"env": "plain", "spec": {"prompt": []}, "steps": steps},
        {"env": "graded", "spec": {"prompt": []}, "steps": steps},
    ]
    expected = go(NEW, NEW, visits)
    assert [tool["name"] for tool in expected[0][0]["is"]] == [
        "boom",
        "count",
        "echo",
        "everything",
        "picture",
        "secret",
        "submit",
    ]
    for server in SERVERS:
        for client in CLIENTS:
            assert unfaulty(go(client, server, visits)) == unfaulty(expected), (server, client)


@pytest.mark.parametrize("format", FORMATS)
def test_a_property_may_be_called_title(go: Go, format: str) -> None:
    wanted: Visit = {"env": "plain", "steps": [["list_tools", format]]}
    for client in ("blocking", "asyncio"):
        ((answer,),) = go(client, OURS, [wanted])
        tool = next(tool for tool in answer["is"] if tool.get("function", tool)["name"] == "everything")
        schema = tool["input_schema" if format == "anthropic" else "parameters"]
        assert schema["required"] == ["title"]
        assert schema["properties"]["title"] == {"type": "string"}


def unfaulty(found: Any) -> Any:
    """Tool lists without the one property that the reference's client loses: it is called `title`."""
    if isinstance(found, list):
        return [unfaulty(item) for item in found]
    if not isinstance(found, dict):
        return found
    return {
        key: {name: unfaulty(item) for name, item in value.items() if name != "title"}
        if key == "properties"
        else unfaulty(value)
        for key, value in found.items()
    }


@pytest.mark.parametrize("client", ["blocking", "asyncio"])
def test_the_block_set_that_a_server_speaks(go: Go, client: str) -> None:
    wanted: Visit = {"env": "plain", "spec": {"prompt": []}, "steps": [["message_block_types"], ["block_set"]]}
    for server, types, block_set in (
        (OURS, ["text", "image", "reasoning", "tool_call", "tool_result"], "v2"),
        (NEW, ["text", "image", "reasoning", "tool_call", "tool_result"], "v2"),
        (OLD, None, "v1"),
    ):
        assert go(client, server, [wanted]) == [[{"is": types}, {"is": block_set}]]


# --- calls ---


PAIRS = [(OURS, client) for client in CLIENTS] + [
    (server, client) for server in (NEW, OLD) for client in ("blocking", "asyncio")
]  # the reference's own pair loses blanks: see the next test


@pytest.mark.parametrize(("server", "client"), PAIRS)
def test_texts_come_back_as_they_went(go: Go, server: str, client: str) -> None:
    steps = [["call_tool", "echo", {"text": text}] for text in ODD_TEXTS.values()]
    (found,) = go(client, server, [{"env": "plain", "spec": {"prompt": []}, "steps": steps}])
    for name, answer in zip(ODD_TEXTS, found, strict=True):
        assert "is" in answer, (name, answer)
        output = answer["is"]
        assert [block["text"] for block in output["blocks"]] == [ODD_TEXTS[name]], name
        assert (output["reward"], output["finished"], output["metadata"]) == (None, False, None)


def test_what_the_reference_pair_loses(go: Go) -> None:
    text = ODD_TEXTS["blank at each border"]
    wanted: Visit = {"env": "plain", "spec": {"prompt": []}, "steps": [["call_tool", "echo", {"text": text}]]}
    ((answer,),) = go(NEW, NEW, [wanted])
    assert answer["is"]["blocks"][0]["text"] == text.replace(" ", "")
    assert text.replace(" ", "") != text


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("server", SERVERS)
def test_outputs_of_all_kinds(go: Go, server: str, client: str) -> None:
    steps: list[list[Any]] = [
        ["call_tool", "picture", {}],
        ["call_tool", "everything", {"title": "t", "count": 2, "tags": ["a"], "note": None}],
        ["call_tool", "count", {}],
        ["call_tool", "count"],
        ["call_tool", "submit", {"text": "x"}],
        ["get_prompt"],
    ]
    (found,) = go(client, server, [{"env": "plain", "spec": {"prompt": []}, "steps": steps}])
    assert all("is" in answer for answer in found), found
    picture, everything, first, second, submit, prompt = (answer["is"] for answer in found)
    text, image = picture["blocks"]
    assert (text["text"], text["detail"], image["mimeType"]) == ("see", {"k": [1, None]}, "image/png")
    assert everything["metadata"] == {"input": {"title": "t", "count": 2, "tags": ["a"], "note": None}}
    assert (everything["reward"], everything["finished"]) == (0.5, False)
    assert [first["metadata"], second["metadata"]] == [{"calls": 1}, {"calls": 2}]
    assert (submit["reward"], submit["finished"], submit["metadata"]) == (1.0, True, {"n": 1})
    assert prompt == []


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("server", SERVERS)
def test_refused_and_failed_calls(go: Go, server: str, client: str) -> None:
    ours = client in ("blocking", "asyncio")
    refused, failed, over = (
        ("ToolCallRefused", "ToolFailed", "SessionEnded")
        if ours
        else ("ToolCallError", "ToolFailed", "SessionTerminatedError")
    )
    visits: list[Visit] = [
        {
            "env": "plain",
            "spec": {"prompt": []},
            "steps": [
                ["call_tool", "nix", {}],
                ["call_tool", "echo", {"no": 1}],
                ["call_tool", "echo", ["text"]],
                ["call_tool", "count", {}],
                ["call_tool", "boom", {}],
                ["call_tool", "count", {}],
            ],
        },
        {
            "env": "plain",
            "spec": {"prompt": []},
            "steps": [["call_tool", "submit", {"text": ""}], ["call_tool", "count", {}], ["call_tool", "nix", {}]],
        },
    ]
    first, second = go(client, server, visits)
    assert [answer.get("raises") for answer in first] == [refused, refused, refused, None, failed, over], first
    assert [answer["reason"] for answer in first[:3]] == ["not_found", "input_validation", "bad_input_shape"]
    assert first[3]["is"]["metadata"] == {"calls": 1}
    assert "'nix' is not a valid tool" in first[0]["text"]
    assert first[4]["text"].endswith("kaboom line1\nline2 é")
    assert second[0]["is"]["finished"] is True
    if server == OLD:  # it lets calls go on after the end
        assert second[1]["is"]["metadata"] == {"calls": 1}
    else:
        reason = "not_found" if client == OLD else "episode_finished"  # the old client does not know that reason
        assert (second[1].get("raises"), second[1]["reason"]) == (refused, reason)
        assert "the episode has finished" in second[1]["text"]
    assert (second[2].get("raises"), second[2]["reason"]) == (refused, "not_found")


@pytest.mark.parametrize("client", ["blocking", "asyncio"])
@pytest.mark.parametrize("server", SERVERS)
def test_the_terminal_tool(go: Go, server: str, client: str) -> None:
    steps: list[list[Any]] = [
        ["terminal_tool"],
        ["is_assistant_message_final"],
        ["call_terminal_tool", "four"],
    ]
    wanted: Visit = {"env": "graded", "spec": {"prompt": []}, "steps": steps}
    without: Visit = {**wanted, "env": "plain"}
    (tool, final, output), (none, going_on, refused) = go(client, server, [wanted, without])
    assert tool["is"] == {"name": "answer", "arg": "text", "description": "Grades the message."}
    assert (final["is"], output["is"]["reward"], output["is"]["finished"]) == (True, 4.0, True)
    assert (none["is"], going_on["is"], refused["reason"]) == (None, False, "not_found")


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("server", SERVERS)
def test_secrets_reach_the_environment(go: Go, server: str, client: str) -> None:
    wanted: Visit = {
        "env": "plain",
        "spec": {"prompt": []},
        "secrets": {"mine": ["the value", ["example.org"]]},
        "steps": [["call_tool", "secret", {"text": "mine"}], ["call_tool", "secret", {"text": "other"}]],
    }
    (found,) = go(client, server, [wanted])
    assert [answer["is"]["blocks"][0]["text"] for answer in found] == ["the value", "none"]


@pytest.mark.parametrize("client", ["blocking", "asyncio", NEW])
@pytest.mark.parametrize("server", [OURS, NEW])
def test_an_environment_that_raises(go: Go, server: str, client: str) -> None:
    steps: list[list[Any]] = [["get_messages"], ["get_prompt"], ["call_tool", "count", {}]]
    (found,) = go(client, server, [{"env": "broken", "spec": {}, "steps": steps}])
    messages, prompt, call = found
    name = "SessionResponseError" if client == NEW else "StatusError"
    assert [messages.get("raises"), prompt.get("raises")] == [name, name]
    assert "ValueError: bad messages" in messages["text"]
    assert call["is"]["metadata"] == {"calls": 1}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("server", SERVERS)
def test_wrong_requests(go: Go, server: str, client: str) -> None:
    steps: list[list[Any]] = [["list_tasks", "no such split"], ["get_task", "train", 99]]
    visits: list[Visit] = [{"env": "plain", "steps": steps}, {"env": "nope", "steps": [["list_splits"]]}]
    (split, index), (env,) = go(client, server, visits)
    ours = client in ("blocking", "asyncio")
    assert [answer.get("raises") for answer in (split, index, env)] == (
        ["StatusError", "StatusError", "NotFound"] if ours else ["SessionResponseError"] * 3
    )
    assert "Invalid split" in split["text"]
    assert "Invalid index" in index["text"]
    assert "Not Found" in env["text"]


def anonymous(found: Any) -> Any:
    """Answers without the session ids in their texts."""
    return [
        [
            {**answer, "text": answer["text"].partition(")")[2]} if answer.get("text", "").startswith("(") else answer
            for answer in answers
        ]
        for answers in found
    ]
