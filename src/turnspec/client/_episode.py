"""One session of an environment, as flows: what the blocking and the asyncio session have in common."""

from __future__ import annotations

import base64
import json
import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from turnspec_generated.names import MESSAGE_BLOCK_TYPES
from turnspec_generated.wire import HEADERS, RETRY_STATUSES

from .._errors import ValidationError
from .._text import parse
from ..conversion import Read, Skipped, block_set_for, convert_messages, skip_unknown_blocks
from ._errors import (
    CallLost,
    CallTimedOut,
    ClientError,
    ConnectionFailed,
    ConnectionLost,
    InvalidMessages,
    NotFound,
    ProtocolError,
    RequestTimeout,
    SessionEnded,
    SessionGone,
    StatusError,
    ToolCallRefused,
    ToolFailed,
)
from ._exchange import (
    Answer,
    Flow,
    Pause,
    Request,
    body_of,
    can_wait,
    follow,
    json_of,
    postponed,
    refusal,
    send,
    unexpected,
    wait_before,
)
from ._protocol import Server, ToolList, check_header, env_path, read_tools, release, reserve
from ._settings import REFUSAL_REASONS
from ._sse import ResultReader
from ._types import Task, TerminalTool, ToolOutput

if TYPE_CHECKING:
    from turnspec_generated.models import ImageBlock, TextBlock

Secrets: TypeAlias = Mapping[str, str | tuple[str, list[str]]]

# What servers that send no reason say instead.
_GUESSES = {
    "Tool name collision": "name_collision",
    "Tool input validation error": "input_validation",
    "is not a valid tool": "not_found",
}


class Episode:
    """The state of a session, and its requests. `skipped` tells what the last read of the conversation skipped."""

    def __init__(
        self,
        server: Server,
        *,
        task: Task | Mapping[str, Any] | None,
        split: str | None,
        index: int | None,
        env: str | None,
        secrets: Secrets | None,
        toolset: str | None,
    ) -> None:
        self.server = server
        self.sid: str | None = None
        self.ended: str | None = "it was not opened; use it in a `with` statement"
        self.skipped: list[Skipped] = []
        self.task = Task(dict(task)) if isinstance(task, Mapping) else task
        self.env = env or (self.task.environment_name if self.task else None)
        self._body = _create_body(self.task, split, index, self.env, toolset)
        self._headers = _secrets_header(server, secrets)
        self._prompt_only = False
        self._tools_route = "/task_tools"
        self._tools: ToolList | None = None

    # --- the session itself ---

    def open(self) -> Flow[None]:
        """Have an id reserved, and start the task with it."""
        if self.sid is not None:
            raise SessionEnded("a session can be opened only once")
        self.sid = sid = yield from reserve(self.server, self._headers)
        request = self.server.request("POST", "/create", sid=sid, body=self._body, headers=self._headers)
        try:
            yield from send(request, self.server.settings, safe=False)
        except ClientError as problem:
            self.ended = "it could not be created"
            reached = not isinstance(problem, ConnectionFailed)
            if reached:
                yield from release(self.server, sid, created=not isinstance(problem, StatusError))
            raise
        self.ended = None

    def close(self, reason: str = "it was closed") -> Flow[None]:
        """Give the session back; once."""
        if self.ended is None and self.sid is not None:
            self.ended = reason
            yield from release(self.server, self.sid, created=True)

    def _check(self) -> str:
        if self.ended is not None or self.sid is None:
            raise SessionEnded(f"the session is over: {self.ended}")
        return self.sid

    def _request(self, method: str, route: str, *, body: Any = None, streaming: bool = False) -> Request:
        path = env_path(self.env, route)
        return self.server.request(method, path, sid=self._check(), body=body, streaming=streaming)

    def _learn(self, answer: Answer, route: str) -> None:
        """Remember where a redirect to the default environment led, so that the next request goes there at once."""
        path = answer.request.url.removeprefix(self.server.base_url)
        name = path.removesuffix(route).removeprefix("/")
        if self.env is None and path.endswith(route) and name and "/" not in name and "%" not in name:
            self.env = name

    def _get(self, route: str) -> Flow[Answer]:
        answer = yield from send(self._request("GET", route), self.server.settings, safe=True)
        self._learn(answer, route)
        return answer

    # --- the conversation ---

    def messages(self) -> Flow[list[dict[str, Any]]]:
        """The conversation as wire dicts; on a 404 the prompt as one user message."""
        if not self._prompt_only:
            try:
                answer = yield from self._get("/messages")
            except NotFound as problem:
                if problem.status != 404:
                    raise
            else:
                found = self._read(answer, json_of(answer))
                self.skipped = found.skipped
                return found.messages
        blocks = yield from self.prompt()
        self._prompt_only = True
        return [{"role": "user", "blocks": blocks}]

    def prompt(self) -> Flow[list[dict[str, Any]]]:
        """The prompt as wire dicts."""
        answer = yield from self._get("/prompt")
        blocks, self.skipped = _content(answer, json_of(answer))
        return blocks

    def _read(self, answer: Answer, value: Any) -> Read:
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise unexpected(answer, "expected a list of messages")
        try:
            return skip_unknown_blocks(value)
        except ValidationError as problem:
            raise _invalid(answer, "the server sent messages that are not valid", problem.errors) from None

    # --- tools ---

    def tools(self) -> Flow[ToolList]:
        """The tools of the session; where the server has no such list, those of the environment."""
        try:
            answer = yield from self._get(self._tools_route)
        except NotFound as problem:
            if problem.status != 404 or self._tools_route == "/tools":
                raise
            answer = yield from self._get("/tools")
            self._tools_route = "/tools"
        self._tools = ToolList(*read_tools(answer))
        return self._tools

    def known_tools(self) -> Flow[ToolList]:
        """The tool list, asked for only once."""
        if self._tools is None:
            yield from self.tools()
        assert self._tools is not None
        return self._tools

    def block_types(self) -> Flow[tuple[str, ...] | None]:
        return (yield from self.known_tools()).block_types

    def block_set(self) -> Flow[str]:
        return block_set_for((yield from self.known_tools()).block_types)

    def terminal_tool(self) -> Flow[TerminalTool | None]:
        return (yield from self.known_tools()).terminal

    def call_terminal(self, message: str, timeout: float | None) -> Flow[ToolOutput]:
        terminal = yield from self.terminal_tool()
        if terminal is None:
            raise ToolCallRefused("the environment has no terminal tool", tool="", reason="not_found")
        arguments = {} if terminal.arg is None else {terminal.arg: message}
        return (yield from self.call(terminal.name, arguments, timeout))

    def call(self, name: str, input: Mapping[str, Any] | None, timeout: float | None) -> Flow[ToolOutput]:
        """Call a tool once, whatever happens on the way: another try asks for the answer of the same call."""
        self._check()
        body = {"name": name, "input": _tool_input(name, input)}
        deadline = None if timeout is None else time.monotonic() + timeout
        reader = ResultReader()
        request = replace(self._request("POST", "/call", body=body, streaming=True), reader=reader, deadline=deadline)
        answer = yield from self._ask_until_told(name, request, reader, body)
        self._learn(answer, "/call")
        if reader.error is not None:
            if not reader.named and reader.task_id is not None:  # the server has forgotten the call
                text = f"the answer of {name!r} is lost: {reader.error}; the tool may have run"
                raise CallLost(text, tool=name, task_id=reader.task_id, detail=reader.error)
            yield from self.close(f"the tool {name!r} failed")
            raise ToolFailed(f"the tool {name!r} failed: {reader.error}", tool=name, detail=reader.error)
        return _output(name, answer, reader.result or "")

    def _ask_until_told(self, name: str, request: Request, reader: ResultReader, body: dict[str, Any]) -> Flow[Answer]:
        """Post the call; after a failure again, but only with its task_id or where it cannot have run."""
        settings = self.server.settings
        began = time.monotonic()
        tries = 0
        while True:
            sent = time.monotonic()
            if reader.task_id is not None:
                request = replace(request, body=body_of({**body, "task_id": reader.task_id}))
            reader.named = False
            failure: ClientError
            try:
                answer = yield from follow(request, settings)
            except ConnectionFailed as problem:
                failure, harmless = problem, True
            except (ConnectionLost, RequestTimeout) as problem:
                failure, harmless = problem, False
                if reader.named and time.monotonic() - sent >= settings.silence:
                    tries = 0  # the tool was at work all that time: this was waiting, no failure
            else:
                if answer.ok and reader.done:
                    return answer
                if answer.ok:
                    failure, harmless = _endless(answer), False
                else:
                    failure = refusal(answer)
                    harmless = postponed(failure)
                    if isinstance(failure, SessionGone):
                        self.ended = f"the server does not know it any more ({failure.status})"
                    if answer.status not in RETRY_STATUSES:
                        raise failure if reader.task_id is None else _lost(name, failure, reader.task_id, tries + 1)
            tries += 1
            over = request.deadline is not None and time.monotonic() >= request.deadline
            limit = settings if reader.task_id is None else replace(settings, retries=settings.replays)
            wait = wait_before(failure, tries, settings)
            if request.deadline is not None and time.monotonic() + wait >= request.deadline:
                over = True
            if over or not (harmless or reader.task_id) or not can_wait(failure, tries, limit, began):
                if harmless and reader.task_id is None:
                    raise failure  # it never ran
                raise _lost(name, failure, reader.task_id, tries, over)
            yield Pause(wait)


# --- what goes out ---


def _create_body(
    task: Task | None, split: str | None, index: int | None, env: str | None, toolset: str | None
) -> dict[str, Any]:
    if (task is None) == (split is None) or (split is None) != (index is None):
        raise ValueError("give either task, or both split and index")
    body: dict[str, Any] = {"task_spec": task.task_spec} if task is not None else {"split": split, "index": index}
    if env is not None:
        body["env_name"] = env
    if toolset is not None:
        body["toolset_name"] = toolset
    body_of(body)  # what is no JSON shows here, not at the server
    return body


def _secrets_header(server: Server, secrets: Secrets | None) -> dict[str, str]:
    if not secrets:
        return {}
    told = {}
    for name, secret in secrets.items():
        value, domains = (secret, []) if isinstance(secret, str) else secret
        check_header("the name of a secret", name)
        if not isinstance(value, str) or isinstance(domains, str):
            raise TypeError(f"the secret {name!r} must be a text, or a tuple of a text and a list of domains")
        server.keep_secret(value)
        told[name] = {"value": value, "allowed_domains": list(domains)}
    header = base64.b64encode(json.dumps(told).encode()).decode()
    server.keep_secret(header)
    return {HEADERS["secrets"]: header}


def _tool_input(tool: str, input: Mapping[str, Any] | None) -> dict[str, Any]:
    """The input as a JSON object; what is none is refused here, before anything is sent."""
    if input is None:
        return {}
    told = ""
    if not isinstance(input, Mapping):
        told = f"the input must be an object, not {type(input).__name__}"
    elif not all(isinstance(key, str) for key in input):
        told = "the keys of the input must be strings"
    else:
        try:
            body_of(dict(input))
            return dict(input)
        except (TypeError, ValueError, RecursionError) as problem:
            told = f"the input is no JSON: {problem}"
    raise ToolCallRefused(told, tool=tool, reason="bad_input_shape", detail=told)


# --- what comes in ---


def _endless(answer: Answer) -> ProtocolError:
    kind = answer.headers.get("content-type", "").partition(";")[0].strip()
    note = "" if kind == "text/event-stream" else f" (its content type is {kind or 'absent'})"
    return unexpected(answer, f"the event stream ended without its `end` event{note}")


def _lost(name: str, failure: ClientError, task_id: str | None, tries: int, over: bool = False) -> CallLost:
    times = f" after {tries} tries" if tries > 1 else ""
    text = f"no answer of {name!r} arrived{times}: {failure.message}; the tool may have run, so it was not called again"
    kind = CallTimedOut if over or isinstance(failure, RequestTimeout) else CallLost
    where = {"status": failure.status, "detail": failure.detail, "method": failure.method, "url": failure.url}
    return kind(text, tool=name, task_id=task_id, **where)


def _output(tool: str, answer: Answer, text: str) -> ToolOutput:
    try:
        value = parse(text.encode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError) as problem:
        raise unexpected(answer, f"the result of {tool!r} is not JSON: {problem}") from None
    if isinstance(value, dict) and value.get("ok") is False and isinstance(value.get("error"), str):
        raise _refused(tool, value["error"], value.get("reason"))
    output = value.get("output") if isinstance(value, dict) and value.get("ok") is True else None
    if not isinstance(output, dict):
        raise unexpected(answer, f"the result of {tool!r} is neither an output nor a refusal")
    metadata, reward, finished = output.get("metadata"), output.get("reward"), output.get("finished", False)
    if not (isinstance(metadata, dict | None) and _is_reward(reward) and isinstance(finished, bool)):
        raise unexpected(answer, f"the output of {tool!r} has metadata, reward or finished of a wrong type")
    blocks, skipped = _content(answer, output.get("blocks"))
    return ToolOutput(typed_blocks(blocks), metadata, None if reward is None else float(reward), finished, skipped)


def _is_reward(value: Any) -> bool:
    if value is None:
        return True
    try:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(float(value))
    except OverflowError:
        return False


def _refused(tool: str, error: str, reason: Any) -> ToolCallRefused:
    if reason not in REFUSAL_REASONS:
        reason = next((guess for part, guess in _GUESSES.items() if part in error), "not_found")
    return ToolCallRefused(f"{reason}: {error}", tool=tool, reason=reason, detail=error)


def _content(answer: Answer, value: Any) -> tuple[list[dict[str, Any]], list[Skipped]]:
    """Text and image blocks: those of known types, validated, and what was skipped. Pointers count from the list."""
    if not isinstance(value, list):
        raise unexpected(answer, "expected a list of blocks")
    holder = {"role": "user", "blocks": [{"type": "tool_result", "tool_call_id": "", "blocks": value}]}
    prefix = "/0/blocks/0/blocks"
    try:
        found = skip_unknown_blocks([holder], MESSAGE_BLOCK_TYPES)
    except ValidationError as problem:
        errors = [replace(error, pointer=error.pointer.removeprefix(prefix)) for error in problem.errors]
        raise _invalid(answer, "the server sent blocks that are not valid", errors) from None
    skipped = [Skipped(item.pointer.removeprefix(prefix), item.type) for item in found.skipped]
    return found.messages[0]["blocks"][0]["blocks"], skipped


def _invalid(answer: Answer, message: str, errors: list[Any]) -> InvalidMessages:
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    place = unexpected(answer, "")
    text = f"{message}: {errors[0]}{more}"
    return InvalidMessages(text, errors=errors, status=place.status, method=place.method, url=place.url)


def present(messages: list[dict[str, Any]], format: str | None, purpose: str, on_loss: str) -> Any:
    """The conversation as models, or as the payload of a format."""
    if format is not None:
        return convert_messages(messages, format, purpose=purpose, on_loss=on_loss)
    from turnspec_generated import models

    return [models.Message.model_validate(message) for message in messages]


def typed_blocks(blocks: list[dict[str, Any]]) -> list[TextBlock | ImageBlock]:
    """Wire dicts, already validated, as models."""
    from turnspec_generated import models

    kinds: dict[str, type[TextBlock | ImageBlock]] = {"text": models.TextBlock, "image": models.ImageBlock}
    return [kinds[block["type"]].model_validate(block) for block in blocks]
