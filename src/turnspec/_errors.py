"""The exceptions, warnings and records that tell what is wrong and what was lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and where.

    `code` is a stable code of `schema/errors.json`, `pointer` a JSON pointer (RFC 6901) counted from the
    document that was given. `line` and `column` count from 1 (columns in characters) and are None where
    the document was no text. `severity` is "error", "warning" or "info".
    """

    code: str
    pointer: str
    message: str
    allowed: tuple[str, ...] = ()
    hint: str = ""
    severity: str = "error"
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        text = f"{self.code} at {self.pointer or '(root)'}: {self.message}"
        if self.allowed:
            text += f"; allowed: {', '.join(self.allowed)}"
        if self.hint:
            text += f"; hint: {self.hint}"
        return text

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON object: code, pointer, message, severity and what else is known."""
        record: dict[str, Any] = {"code": self.code, "pointer": self.pointer, "message": self.message}
        if self.line is not None:
            record = {"line": self.line, "column": self.column, **record}
        if self.allowed:
            record["allowed"] = list(self.allowed)
        if self.hint:
            record["hint"] = self.hint
        record["severity"] = self.severity
        return record


@dataclass(frozen=True, slots=True)
class Loss(Problem):
    """One thing that the target has no place for: a code, a pointer, and "info" or "warning"."""


class _Problems(ValueError):
    """A ValueError that carries all its problems; the first gives `code` and `pointer`."""

    def __init__(self, problems: list[Problem], prefix: str = "") -> None:
        self.problems = problems
        first = str(problems[0])
        rest = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        super().__init__(f"{prefix}{first}{rest}")

    @property
    def code(self) -> str:
        """The code of the first problem in canonical order."""
        return self.problems[0].code

    @property
    def pointer(self) -> str:
        """The JSON pointer of the first problem in canonical order."""
        return self.problems[0].pointer


class ValidationError(_Problems):
    """A document is not valid. `errors` holds every `Problem`, in canonical order."""

    @property
    def errors(self) -> list[Problem]:
        return self.problems

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problems,)


class ConversionError(_Problems):
    """A conversation cannot be sent in this format. `problems` holds every reason, in canonical order."""

    def __init__(self, problems: list[Problem], format: str = "") -> None:
        self.format = format
        super().__init__(problems, f"cannot convert to {format}: " if format else "")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problems, self.format)


class ConversionWarning(UserWarning):
    """A conversion lost something that a reader may care about; `loss` is the record."""

    def __init__(self, loss: Loss) -> None:
        self.loss = loss
        super().__init__(str(loss))
