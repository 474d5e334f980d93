"""Go through visits with the reference SDK's client, and print what arrived.

Each line of standard input is a JSON object `{"base_url", "visits": [{"env", "spec" or "split" and "index",
"secrets", "steps"}]}`; a step is the name of a method and its arguments. The answer, a line as well, has one list per
visit, of `{"is": value}` or `{"raises": class, "reason": …, "text": …}`.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from typing import Any

from openreward.api.environments import EnvironmentsAPI
from openreward.api.environments.types import Task


def plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain(dataclasses.asdict(value))
    if isinstance(value, list):
        return [plain(item) for item in value]
    return value


def attempt(target: Any, step: list[Any]) -> dict[str, Any]:
    name, *arguments = step
    try:
        return {"is": plain(getattr(target, name)(*arguments))}
    except Exception as problem:
        return {"raises": type(problem).__name__, "reason": getattr(problem, "reason", None), "text": str(problem)}


def visit(api: Any, wanted: dict[str, Any]) -> list[dict[str, Any]]:
    env = wanted.get("env")
    environment = api.get("interop", variant=env)
    if "spec" in wanted:
        source = {"task": Task("interop", env, wanted["spec"], None)}
    elif "split" in wanted:
        source = {"split": wanted["split"], "index": wanted["index"]}
    else:
        return [attempt(environment, step) for step in wanted["steps"]]
    secrets = {name: tuple(value) for name, value in wanted.get("secrets", {}).items()}
    with environment.session(secrets=secrets or None, **source) as session:
        return [attempt(session, step) for step in wanted["steps"]]


apis: dict[str, Any] = {}
for line in sys.stdin:
    request = json.loads(line)
    url = request["base_url"]
    if url not in apis:
        apis[url] = EnvironmentsAPI(url, request.get("api_key"))
    try:
        found: Any = [visit(apis[url], wanted) for wanted in request["visits"]]
    except Exception as problem:
        found = {"failed": f"{type(problem).__name__}: {problem}"}
    print(json.dumps(found), flush=True)
for api in apis.values():
    api.close()
