"""What can go wrong between a client and a server, each as its own class."""

from __future__ import annotations

from typing import Any

from .._errors import Problem

HIDDEN = "***"


class ClientError(Exception):
    """Base of all errors of the client.

    `status` is the HTTP status where the server answered with one, `detail` what it said about it (a text, or for a
    refused body a list), `method` and `url` the request. No key and no secret stands in any of them.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        detail: Any = None,
        method: str | None = None,
        url: str | None = None,
    ) -> None:
        self.message = message
        self.status = status
        self.detail = detail
        self.method = method
        self.url = url
        super().__init__(message)

    def __str__(self) -> str:
        return f"{self.method} {self.url}: {self.message}" if self.url else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), dict(vars(self)))

    def hide(self, secrets: frozenset[str]) -> None:
        """Overwrite every secret that the server's words or the address repeat."""
        if secrets:
            for name, value in vars(self).items():
                setattr(self, name, _hide(value, secrets))
            self.args = (self.message,)


class ConnectionFailed(ClientError):
    """No connection to the server came about: the request never reached it."""


class ConnectionLost(ClientError):
    """The connection broke after the request was sent: the server may or may not have handled it."""


class RequestTimeout(ClientError, TimeoutError):
    """The server was silent for longer than the client waits, or an operation took longer than it was given."""


class ProtocolError(ClientError):
    """The server answered what no environment server answers: no JSON, a wrong shape, a stream without its end."""


class InvalidMessages(ProtocolError):
    """The server sent messages or blocks that are not valid; `errors` says what is wrong with them, and where."""

    errors: list[Problem]

    def __init__(self, message: str, *, errors: list[Problem], **where: Any) -> None:
        super().__init__(message, **where)
        self.errors = errors


class RedirectRefused(ProtocolError):
    """The server sends the client elsewhere: to another origin, in a circle, or by a redirect that loses the body."""


class StatusError(ClientError):
    """The server answered with an error status; `retry_after` holds the seconds that it asked to wait."""

    def __init__(self, message: str, *, retry_after: float | None = None, starting: bool = False, **where: Any) -> None:
        super().__init__(message, **where)
        self.retry_after = retry_after
        self.starting = starting


class AuthenticationFailed(StatusError):
    """401 or 403: the key is missing, wrong, or not allowed to do this."""


class NotFound(StatusError):
    """404: no such environment or route."""


class SessionGone(NotFound):
    """404 or 410 of a session's request: the server does not know the session, it expired, or it was deleted."""


class SessionEnded(ClientError):
    """The session is over on the client's side: it was closed, never opened, or a tool failed in it."""


class ToolError(ClientError):
    """Base of what a call can come to; `tool` is the name that was called."""

    def __init__(self, message: str, *, tool: str, **where: Any) -> None:
        super().__init__(message, **where)
        self.tool = tool


class ToolCallRefused(ToolError):
    """The tool did not run, and the session goes on.

    `reason` is "not_found", "input_validation", "episode_finished", "name_collision", or "bad_input_shape" where the
    client refused to send the input; `detail` is the server's text.
    """

    def __init__(self, message: str, *, tool: str, reason: str, **where: Any) -> None:
        super().__init__(message, tool=tool, **where)
        self.reason = reason


class ToolFailed(ToolError):
    """The tool raised; `detail` is its text. The session is over."""


class CallLost(ToolError):
    """No answer of a call arrived. The tool may have run, so the client did not call it again.

    `task_id` is the server's name of the call, None where it never came.
    """

    def __init__(self, message: str, *, tool: str, task_id: str | None = None, **where: Any) -> None:
        super().__init__(message, tool=tool, **where)
        self.task_id = task_id


class CallTimedOut(CallLost, RequestTimeout):
    """A call took longer than it was given, or the server fell silent before it named the call."""


def _rebuild(kind: type[ClientError], state: dict[str, Any]) -> ClientError:
    problem = kind.__new__(kind)
    vars(problem).update(state)
    problem.args = (problem.message,)
    return problem


def _hide(value: Any, secrets: frozenset[str]) -> Any:
    if isinstance(value, str):
        for secret in sorted(secrets, key=len, reverse=True):
            value = value.replace(secret, HIDDEN)
        return value
    if isinstance(value, dict):
        return {_hide(key, secrets): _hide(item, secrets) for key, item in value.items()}
    if isinstance(value, list):
        return [_hide(item, secrets) for item in value]
    return value
