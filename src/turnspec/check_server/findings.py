"""What a check finds: where a server departs, as codes of `server_checks.json`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from turnspec_generated.server_checks import SERVER_CHECKS

MOST_OF_ONE = 5  # findings of one code at one request


@dataclass(frozen=True, slots=True)
class Finding:
    """One departure: its code, the request that showed it, and what was seen there."""

    code: str
    severity: str
    request: str
    message: str

    def to_json(self) -> dict[str, Any]:
        return {"code": self.code, "severity": self.severity, "request": self.request, "message": self.message}


@dataclass(slots=True)
class Findings:
    """The findings so far, in the order in which they were made. The same thing is told once."""

    items: list[Finding] = field(default_factory=list)
    _counts: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, code: str, request: str, message: str) -> None:
        finding = Finding(code, SERVER_CHECKS[code].severity, request, message)
        if finding in self.items:
            return
        self._counts[code, request] += 1
        if self._counts[code, request] <= MOST_OF_ONE:
            self.items.append(finding)

    def count(self, severity: str) -> int:
        return sum(item.severity == severity for item in self.items)
