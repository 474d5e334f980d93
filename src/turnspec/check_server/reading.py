"""What every check does with an answer: expect a status, read JSON, hold it against its schema."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from turnspec.check_server.exchange import Answer, Exchange
from turnspec.check_server.findings import Findings
from turnspec.check_server.shape import differences


class Desk:
    """Asks, and judges the answers: the hands of all checks."""

    def __init__(self, exchange: Exchange, findings: Findings) -> None:
        self.exchange = exchange
        self.findings = findings

    def get(self, path: str, **options: Any) -> Answer:
        return self.exchange.ask("GET", path, **options)

    def post(self, path: str, body: Any = None, **options: Any) -> Answer:
        return self.exchange.ask("POST", path, body, **options)

    def tell(self, code: str, answer: Answer | str, message: str) -> None:
        self.findings.add(code, answer if isinstance(answer, str) else answer.request, message)

    def value(self, answer: Answer, schema: str | None, code: str = "wrong_status") -> Any:
        """The JSON of a good answer that follows `schema`; None, and a finding, where it is anything else.

        `code` is what another status than 200 means.
        """
        if not answer.status:
            return None
        if answer.status != 200:
            self.tell(code, answer, f"answers {said(answer)}, not 200")
            return None
        if not answer.whole:
            return None
        value = self.json(answer)
        if value is None or schema is None:
            return value
        found = differences(value, schema)
        for difference in found:
            self.tell("bad_shape", answer, difference)
        return None if found else value

    def json(self, answer: Answer) -> Any:
        """The JSON of an answer, whatever its status; None, and a finding, where there is none."""
        kind = answer.content_type
        if not (kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))):
            self.tell("wrong_content_type", answer, f"the content type is {kind or 'missing'!r}")
            return None
        try:
            return json.loads(answer.body.decode(), parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            self.tell("bad_json_answer", answer, str(error)[:200])
            return None

    def refused(self, answer: Answer, statuses: int | tuple[int, ...], code: str, what: str) -> None:
        """The answer must be one of `statuses`; a good one is a finding `code`. `what` says what was wrong."""
        wanted = (statuses,) if isinstance(statuses, int) else statuses
        if not answer.status or not answer.whole:
            return
        if answer.ok:
            self.tell(code, answer, f"{what}: answers {answer.status}, not {wanted[0]}")
        elif answer.status not in wanted:
            self.tell("wrong_status", answer, f"{what}: answers {said(answer)}, not {wanted[0]}")
        else:
            self.error(answer)

    def error(self, answer: Answer) -> None:
        """The body of an error must be `{"detail": ...}`."""
        try:
            value = json.loads(answer.body.decode())
        except (ValueError, RecursionError):
            value = None
        found = differences(value, "Error")
        if found:
            shown = answer.body[:80].decode("utf-8", "replace")
            self.tell("error_shape", answer, f"the body of the {answer.status} is {shown!r}: {found[0]}")


def no_route(answer: Answer) -> bool:
    """Whether the server has no such route at all, as far as its words tell."""
    return answer.status == 404 and said(answer) == "404 (Not Found)"


def said(answer: Answer) -> str:
    """The status of an answer, and the detail of an error: `500 (ValueError: no such task)`."""
    try:
        detail = json.loads(answer.body.decode())["detail"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return str(answer.status)
    text = detail if isinstance(detail, str) else json.dumps(detail)
    return f"{answer.status} ({text[:160]})"


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"holds {name}")
