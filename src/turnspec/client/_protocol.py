"""The routes of an environment server, as flows."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlsplit

from turnspec_generated.names import FORMATS, PURPOSES
from turnspec_generated.wire import HEADERS

from .._text import parse
from ..conversion import ON_LOSS, check_choice
from ._errors import ClientError, ProtocolError
from ._exchange import Answer, Flow, Request, body_of, json_of, send, stream, unexpected, where
from ._settings import KEY_VARIABLE, Settings
from ._tools import shape_tools
from ._types import Split, Task, TerminalTool, ToolSpec

_SPLIT_TYPES = ("train", "validation", "test")
_SHORTEST_SECRET = 4  # what is shorter stands in too many texts by chance to be struck out


@dataclass(slots=True)
class Server:
    """Where a server is, how it is spoken to, and what must never be told."""

    base_url: str
    api_key: str | None
    deployment: str | None
    settings: Settings
    secrets: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.base_url = check_base_url(self.base_url)
        if self.api_key is None:
            self.api_key = os.environ.get(KEY_VARIABLE)
        self.api_key = self.api_key or None
        check_header("api_key", self.api_key)
        check_header("deployment", self.deployment)
        self.keep_secret(self.api_key)

    def keep_secret(self, *values: str | None) -> None:
        """Strike the values out of every error from now on."""
        self.secrets.update(value for value in values if value and len(value) >= _SHORTEST_SECRET)

    def request(
        self,
        method: str,
        path: str,
        *,
        sid: str | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        streaming: bool = False,
    ) -> Request:
        """The request of a route. `body` becomes JSON."""
        sent = {"Accept": "text/event-stream" if streaming else "application/json", "User-Agent": _agent()}
        if streaming:
            sent["Accept-Encoding"] = "identity"  # compressing would hold events back
        if self.api_key is not None:
            sent[HEADERS["api_key"]] = self.api_key
        if self.deployment is not None:
            sent[HEADERS["deployment"]] = self.deployment
        if sid is not None:
            sent[HEADERS["session"]] = sid
        content = None
        if body is not None:
            sent["Content-Type"] = "application/json"
            content = body_of(body)
        settings = self.settings
        silence = settings.timeout
        if streaming and silence is not None:
            silence = max(silence, settings.silence)
        return Request(
            method,
            self.base_url + path,
            {**sent, **(headers or {})},
            content,
            silence,
            largest_body=settings.largest_body,
        )


def check_base_url(url: str) -> str:
    """The address without a slash at its end. `ValueError` for what is no address of a server."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (ValueError, AttributeError, TypeError):
        usable = False
    if not usable:
        raise ValueError("base_url must be an address such as http://127.0.0.1:8080")
    if parts.username is not None or parts.password is not None:
        raise ValueError("base_url must not hold a user or password; give the key as api_key")
    if parts.query or parts.fragment:
        raise ValueError("base_url must not have a query or fragment")
    return url.strip().rstrip("/")


def check_header(name: str, value: str | None) -> None:
    """`ValueError` for what cannot stand in a header; the value itself is not told."""
    if value is not None and not (isinstance(value, str) and value.isascii() and value.isprintable()):
        raise ValueError(f"{name} must be printable ASCII, without line breaks")


def _agent() -> str:
    from .. import __version__

    return f"turnspec/{__version__}"


def env_path(env: str | None, path: str) -> str:
    """The path of an environment's route; without a name the server takes its first environment, by a redirect."""
    return f"/{quote(env, safe='')}{path}" if env else path


def bounds(start: int | None, stop: int | None) -> dict[str, int]:
    """The ends of a slice, as far as they are given."""
    return {name: value for name, value in (("start", start), ("stop", stop)) if value is not None}


def check_format(format: str | None, purpose: str = "request", on_loss: str = "warn") -> None:
    """`ValueError` for an unknown choice, before anything is sent."""
    if format is not None:
        check_choice("format", format, FORMATS)
    check_choice("purpose", purpose, PURPOSES)
    check_choice("on_loss", on_loss, ON_LOSS)


# --- flows ---


def reserve(server: Server, headers: Mapping[str, str] | None = None) -> Flow[str]:
    """Have the server name a session."""
    request = server.request("POST", "/create_session", body={}, headers=headers, streaming=True)
    told = yield from stream(request, server.settings, what="/create_session")
    place = where(request)
    if told.error is not None:
        raise ProtocolError(f"the server reserves no session: {told.error}", detail=told.error, **place)
    sid = _sid_in(told.result or "") or told.task_id
    if sid is None:
        raise ProtocolError("the event stream of /create_session names no session", **place)
    if not (sid.isascii() and sid.isprintable()):
        raise ProtocolError("the server's session id cannot stand in a header", **place)
    return sid


def _sid_in(text: str) -> str | None:
    try:
        value = parse(text.encode())
    except (ValueError, RecursionError):
        return None
    sid = value.get("sid") if isinstance(value, dict) else None
    return sid.strip() or None if isinstance(sid, str) else None


def release(server: Server, sid: str, *, created: bool) -> Flow[None]:
    """Give a session back. What goes wrong is of no use to anyone: the server forgets idle sessions itself."""
    for path in ("/delete", "/delete_session") if created else ("/delete_session",):
        try:
            yield from send(closing(server, server.request("POST", path, sid=sid)), server.settings, safe=True)
        except ClientError:
            return


def closing(server: Server, request: Request) -> Request:
    """The request with the shorter patience of what ends a session, or keeps it alive."""
    limit = server.settings.closing
    return replace(request, silence=limit if request.silence is None else min(limit, request.silence))


def ask(server: Server, method: str, path: str, body: Any = None) -> Flow[Answer]:
    """Ask a route that belongs to no session and changes nothing."""
    if server.deployment is None:
        return (yield from send(server.request(method, path, body=body), server.settings, safe=True))
    sid = yield from reserve(server)  # behind a name, servers are found by session
    try:
        answer = yield from send(server.request(method, path, body=body, sid=sid), server.settings, safe=True)
    except ClientError:
        yield from release(server, sid, created=False)
        raise
    yield from release(server, sid, created=False)
    return answer


def environments(server: Server) -> Flow[list[str]]:
    answer = yield from ask(server, "GET", "/list_environments")
    names = json_of(answer)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise unexpected(answer, "expected a list of names")
    return names


def splits(server: Server, env: str | None) -> Flow[list[Split]]:
    answer = yield from ask(server, "GET", env_path(env, "/splits"))
    found = json_of(answer)
    if not isinstance(found, list):
        raise unexpected(answer, "expected a list of splits")
    for item in found:
        if not (isinstance(item, dict) and isinstance(item.get("name"), str) and item.get("type") in _SPLIT_TYPES):
            raise unexpected(answer, f"expected splits with a name and a type of {', '.join(_SPLIT_TYPES)}")
    return [Split(item["name"], item["type"]) for item in found]


def tasks(server: Server, env: str | None, route: str, body: dict[str, Any]) -> Flow[list[Task]]:
    answer = yield from ask(server, "POST", env_path(env, route), body)
    found = _object(answer)
    items, name = found.get("tasks"), found.get("env_name")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise unexpected(answer, "expected `tasks`, a list of objects")
    return [Task(item, name if isinstance(name, str) else None) for item in items]


def count(server: Server, env: str | None, split: str) -> Flow[int]:
    answer = yield from ask(server, "POST", env_path(env, "/num_tasks"), {"split": split})
    number = _object(answer).get("num_tasks")
    if not isinstance(number, int) or isinstance(number, bool):
        raise unexpected(answer, "expected `num_tasks`, a number")
    return number


def task(server: Server, env: str | None, split: str, index: int) -> Flow[Task]:
    answer = yield from ask(server, "POST", env_path(env, "/task"), {"split": split, "index": index})
    found = _object(answer)
    spec, name = found.get("task"), found.get("env_name")
    if not isinstance(spec, dict):
        raise unexpected(answer, "expected `task`, an object")
    return Task(spec, name if isinstance(name, str) else None)


def tools(server: Server, env: str | None) -> Flow[ToolList]:
    return ToolList(*read_tools((yield from ask(server, "GET", env_path(env, "/tools")))))


@dataclass(frozen=True, slots=True)
class ToolList:
    """A tool list: the tools as they came, the terminal one, and the block types that the server advertises."""

    tools: list[dict[str, Any]]
    terminal: TerminalTool | None
    block_types: tuple[str, ...] | None

    def shaped(self, format: str | None) -> list[Any]:
        """The tools as `ToolSpec`s, or in the shape of a provider."""
        if format is None:
            return [ToolSpec(tool["name"], tool["description"], tool["input_schema"]) for tool in self.tools]
        return shape_tools(self.tools, format)


def read_tools(answer: Answer) -> tuple[list[dict[str, Any]], TerminalTool | None, tuple[str, ...] | None]:
    """The parts of a tool list. `ProtocolError` where it is none."""
    found = _object(answer)
    listed = found.get("tools")
    if not isinstance(listed, list):
        raise unexpected(answer, "expected `tools`, a list")
    for tool in listed:
        if not (
            isinstance(tool, dict)
            and isinstance(tool.get("name"), str)
            and isinstance(tool.get("description"), str)
            and isinstance(tool.get("input_schema", ""), dict | None)
        ):
            raise unexpected(answer, "expected tools with name, description and input_schema (an object or null)")
    terminal = found.get("terminal_tool")
    if terminal is not None and not (
        isinstance(terminal, dict)
        and isinstance(terminal.get("name"), str)
        and isinstance(terminal.get("arg"), str | None)
    ):
        raise unexpected(answer, "expected a terminal_tool with name and arg")
    types = found.get("message_block_types")
    if types is not None and not (isinstance(types, list) and all(isinstance(item, str) for item in types)):
        raise unexpected(answer, "expected message_block_types, a list of names")
    last = terminal and TerminalTool(terminal["name"], terminal.get("arg"), str(terminal.get("description") or ""))
    return listed, last or None, None if types is None else tuple(types)


def _object(answer: Answer) -> dict[str, Any]:
    value = json_of(answer)
    if not isinstance(value, dict):
        raise unexpected(answer, "expected an object")
    return value
