"""The walk through a server: what belongs to the whole of it, then one environment after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from turnspec.check_server.calls import check_calls
from turnspec.check_server.exchange import Exchange, GivenUp, Unusable
from turnspec.check_server.findings import Finding, Findings
from turnspec.check_server.reading import Desk, said
from turnspec.check_server.sessions import Place, Sessions, check_sessions
from turnspec.check_server.tasks import check_tasks
from turnspec.check_server.tools import Tools, read_tools

MOST_ENVIRONMENTS = 4


@dataclass(frozen=True, slots=True)
class Checked:
    """The outcome: the findings in the order of the walk, what was walked, and how many requests that took."""

    url: str
    findings: list[Finding]
    environments: list[str]
    left_out: list[str]
    requests: int
    stopped: bool

    def count(self, severity: str) -> int:
        return sum(item.severity == severity for item in self.findings)


def check(url: str, *, environment: str | None = None, timeout: float = 10.0, token: str | None = None) -> Checked:
    """Walk all routes of the server at `url`, of one environment or of the first few.

    Unusable: nobody answers there, a key is wanted, or there is no such environment.
    """
    findings = Findings()
    exchange = Exchange(url, timeout, token, findings)
    desk = Desk(exchange, findings)
    walked: list[str] = []
    names: list[str] = []
    stopped = False
    try:
        names = _server(desk)
        if environment is not None:
            if environment.lower() not in names:
                raise Unusable(f"there is no environment {environment!r}; environments: {', '.join(names) or 'none'}")
            names = [environment.lower()]
        for name in names[:MOST_ENVIRONMENTS]:
            walked.append(name)
            _environment(desk, name, is_default=not walked[1:] and environment is None)
    except GivenUp:
        stopped = True
    except Unusable as problem:
        if not exchange.answered or not str(problem).startswith("cannot connect"):
            raise
        findings.add("no_answer", "any request", f"the server is gone: {problem}")
        stopped = True
    finally:
        exchange.close()
    left_out = names[MOST_ENVIRONMENTS:]
    return Checked(exchange.url, findings.items, walked, left_out, exchange.requests, stopped)


def _server(desk: Desk) -> list[str]:
    """The routes that belong to no environment; the names of the environments."""
    desk.value(desk.get("/health"), "Health")
    desk.value(desk.get("/version"), "Version")
    desk.refused(desk.exchange.ask("DELETE", "/health"), 405, "wrong_status", "a method that the route does not have")
    answer = desk.get("/list_environments")
    found = desk.value(answer, "EnvironmentNames")
    if found is None:
        return []
    if not found:
        desk.tell("no_environment", answer, "the list is empty")
    good: list[str] = []
    for name in found:
        if name in good:
            desk.tell("no_environment", answer, f"{name!r} is listed twice")
        elif not name or name != name.lower() or any(char in name for char in "/?#% "):
            desk.tell("no_environment", answer, f"{name!r} is no name that a path can hold in lower case")
        else:
            good.append(name)
    return good


def _environment(desk: Desk, name: str, *, is_default: bool) -> None:
    splits = _splits(desk, name)
    tools = read_tools(desk, desk.get(f"/{name}/tools"))
    if is_default:
        _bare_paths(desk, splits)
    places = [place for split in splits[:4] for place in check_tasks(desk, name, split)]
    sessions = Sessions(desk, name)
    try:
        check_sessions(desk, sessions, places, tools)
        if places and tools is not None:
            check_calls(desk, sessions, places[0], tools)
    finally:
        sessions.end_all()


def _splits(desk: Desk, name: str) -> list[str]:
    answer = desk.get(f"/{name}/splits")
    found: list[dict[str, Any]] | None = desk.value(answer, "Splits")
    if found is None:
        return []
    names = [item["name"] for item in found]
    if not names:
        desk.tell("no_split", answer, "the list is empty")
    if len(set(names)) != len(names):
        desk.tell("no_split", answer, f"a name comes twice: {', '.join(names)}")
    if name != name.upper():
        other = desk.get(f"/{name.upper()}/splits")
        if other.status and other.status != 200:
            desk.tell("wrong_status", other, f"answers {said(other)}: the name counts without case")
    return list(dict.fromkeys(names))


def _bare_paths(desk: Desk, splits: list[str]) -> None:
    """Paths without an environment are those of the first one."""
    asked = [desk.get("/tools")]
    if splits:
        asked.append(desk.post("/num_tasks", {"split": splits[0]}))
    for answer in asked:
        if answer.status and answer.status != 200 and not _told(desk, answer.request):
            desk.tell("bare_path_lost", answer, f"answers {said(answer)}, not what the first environment does")


def _told(desk: Desk, request: str) -> bool:
    return any(item.request == request and item.code.endswith("redirect") for item in desk.findings.items)


__all__ = ["Checked", "Place", "Tools", "check"]
