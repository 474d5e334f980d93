"""Faults: what a client is told, by the names that `schema/wire.json` gives them."""

from __future__ import annotations

import traceback
from collections.abc import Iterable
from typing import Any, Literal

from turnspec_generated import wire

ReturnErrors = Literal["none", "exception", "stacktrace"]
RETURN_ERRORS: tuple[ReturnErrors, ...] = ("none", "exception", "stacktrace")
HIDDEN = "Internal Server Error"
SHORTEST = 4  # characters of a secret that is blotted out; shorter ones are no secrets


class FaultError(Exception):
    """An answer that is no success: the name of the fault, and what its detail says."""

    def __init__(self, fault_name: str, /, detail: Any = None, **values: object) -> None:
        fault = wire.FAULTS[fault_name]
        self.name = fault_name
        self.status = fault.status
        self.headers = fault.headers
        self.detail = detail if detail is not None else (fault.detail or "").format(**values)
        super().__init__(f"{fault_name}: {self.detail}")


def environment_failed(problem: BaseException, return_errors: ReturnErrors, secrets: Iterable[str] = ()) -> FaultError:
    """The answer for an exception of the environment's code, as far as the server tells it."""
    if return_errors == "none":
        return FaultError("environment_failed", HIDDEN)
    if return_errors == "stacktrace":
        return FaultError("environment_failed", traced(problem, secrets))
    return FaultError("environment_failed", type=type(problem).__name__, message=without(str(problem), secrets))


def tool_failed(problem: BaseException, return_errors: ReturnErrors, secrets: Iterable[str] = ()) -> str:
    """The text of the error event for an exception of a tool."""
    if return_errors == "none":
        return HIDDEN
    if return_errors == "stacktrace":
        return traced(problem, secrets)
    return without(str(problem), secrets) or type(problem).__name__


def traced(problem: BaseException, secrets: Iterable[str] = ()) -> str:
    """The stack trace, for the log."""
    return without("".join(traceback.format_exception(problem)).rstrip(), secrets)


def without(text: str, secrets: Iterable[str]) -> str:
    """The text with every secret blotted out; exceptions like to repeat what they choked on."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= SHORTEST:
            text = text.replace(secret, "***")
    return text
