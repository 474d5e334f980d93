"""A client of environment servers: their tasks, conversations and tools, over HTTP.

    with EnvironmentClient("http://127.0.0.1:8080") as client, client.session(split="train", index=0) as session:
        payload = session.get_messages("openai")
        output = session.call_tool("submit", {"text": "…"})

Needs httpx: `pip install 'turnspec[client]'`.
"""

from __future__ import annotations

try:
    import httpx as _httpx  # noqa: F401
except ImportError as _problem:
    raise ImportError("turnspec.client needs httpx: pip install 'turnspec[client]'") from _problem

from ._async import AsyncEnvironmentClient, AsyncSession
from ._errors import (
    AuthenticationFailed,
    CallLost,
    CallTimedOut,
    ClientError,
    ConnectionFailed,
    ConnectionLost,
    InvalidMessages,
    NotFound,
    ProtocolError,
    RedirectRefused,
    RequestTimeout,
    SessionEnded,
    SessionGone,
    StatusError,
    ToolCallRefused,
    ToolError,
    ToolFailed,
)
from ._ready import wait_until_ready
from ._sync import EnvironmentClient, Session
from ._types import Split, Task, TerminalTool, ToolOutput, ToolSpec

__all__ = [
    "AsyncEnvironmentClient",
    "AsyncSession",
    "AuthenticationFailed",
    "CallLost",
    "CallTimedOut",
    "ClientError",
    "ConnectionFailed",
    "ConnectionLost",
    "EnvironmentClient",
    "InvalidMessages",
    "NotFound",
    "ProtocolError",
    "RedirectRefused",
    "RequestTimeout",
    "Session",
    "SessionEnded",
    "SessionGone",
    "Split",
    "StatusError",
    "Task",
    "TerminalTool",
    "ToolCallRefused",
    "ToolError",
    "ToolFailed",
    "ToolOutput",
    "ToolSpec",
    "wait_until_ready",
]
