"""Faults: what a client is told, by the names that `schema/wire.json` gives them."""

from __future__ import annotations

import traceback
from typing import Any, Literal

from turnspec_generated import wire

ReturnErrors = Literal["none", "exception", "stacktrace"]
RETURN_ERRORS: tuple[ReturnErrors, ...] = ("none", "exception", "stacktrace")
HIDDEN = "Internal Server Error"


class FaultError(Exception):
    """An answer that is no success: the name of the fault, and what its detail says."""

    def __init__(self, fault_name: str, /, detail: Any = None, **values: object) -> None:
        fault = wire.FAULTS[fault_name]
        self.name = fault_name
        self.status = fault.status
        self.headers = fault.headers
        self.detail = detail if detail is not None else (fault.detail or "").format(**values)
        super().__init__(f"{fault_name}: {self.detail}")


def environment_failed(problem: BaseException, return_errors: ReturnErrors) -> FaultError:
    """The answer for an exception of the environment's code, as far as the server tells it."""
    if return_errors == "none":
        return FaultError("environment_failed", HIDDEN)
    if return_errors == "stacktrace":
        return FaultError("environment_failed", "".join(traceback.format_exception(problem)))
    return FaultError("environment_failed", type=type(problem).__name__, message=problem)


def tool_failed(problem: BaseException, return_errors: ReturnErrors) -> str:
    """The text of the error event for an exception of a tool."""
    if return_errors == "none":
        return HIDDEN
    if return_errors == "stacktrace":
        return "".join(traceback.format_exception(problem))
    return str(problem) or type(problem).__name__
