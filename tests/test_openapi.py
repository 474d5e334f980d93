"""The OpenAPI document is whole, says what `schema/wire.json` says, and the server keeps to it."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from jsonschema import Draft202012Validator
from schemathesis.specs.openapi import checks

from tests.servertools import Running, events, running
from tests.test_server_routes import CONVERSATION, environments
from turnspec import environment as ours
from turnspec_generated import wire
from turnspec_generated.names import CURRENT

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = json.loads((ROOT / "schema/wire.json").read_text())
DOCUMENT = json.loads((ROOT / "generated/openapi.json").read_text())
COMPONENTS = DOCUMENT["components"]["schemas"]


def test_package_data_is_the_published_document() -> None:
    data = resources.files("turnspec_generated").joinpath("openapi.json").read_text()
    assert json.loads(data) == DOCUMENT
    assert DOCUMENT["openapi"].startswith("3.1.")


def test_every_route_and_fault_is_there() -> None:
    found = {(method.upper(), path) for path, item in DOCUMENT["paths"].items() for method in item}
    assert found == {(route["method"], route["path"]) for route in SCHEMA["routes"]}
    everywhere = {name for name, fault in SCHEMA["errors"].items() if fault.get("everywhere")}
    for route in SCHEMA["routes"]:
        operation = DOCUMENT["paths"][route["path"]][route["method"].lower()]
        statuses = {str(SCHEMA["errors"][name]["status"]) for name in {*route["errors"], *everywhere}}
        redirect = {str(SCHEMA["redirect"]["status"])} if "{env}" in route["path"] else set()
        assert set(operation["responses"]) == {"200", *statuses, *redirect}
        assert operation["operationId"] == route["name"]


def test_faults_that_routes_name_are_used_and_known() -> None:
    named = {name for route in SCHEMA["routes"] for name in route["errors"]}
    assert named <= set(SCHEMA["errors"])
    unnamed = set(SCHEMA["errors"]) - named
    assert unnamed - {"wrong_method"} == {name for name in unnamed if SCHEMA["errors"][name].get("everywhere")}


def test_references_resolve_and_messages_are_the_bundle() -> None:
    targets = set(re.findall(r'"#/components/schemas/([A-Za-z0-9]+)"', json.dumps(DOCUMENT)))
    assert targets <= set(COMPONENTS)
    bundle = json.loads((ROOT / f"generated/schemas/{CURRENT}/types.schema.json").read_text())["$defs"]
    moved = json.loads(json.dumps(bundle).replace("#/$defs/", "#/components/schemas/"))
    assert {name: COMPONENTS[name] for name in moved} == moved


def test_examples_are_valid() -> None:
    for name, schema in COMPONENTS.items():
        validator = Draft202012Validator({"$ref": f"#/components/schemas/{name}", **DOCUMENT})
        for example in schema.get("examples", []):
            assert not list(validator.iter_errors(example)), (name, example)


def test_python_tables_say_the_same() -> None:
    assert [route.name for route in wire.ROUTES] == [route["name"] for route in SCHEMA["routes"]]
    faults = {
        name: (item["status"], item["detail"], item.get("headers", {})) for name, item in SCHEMA["errors"].items()
    }
    assert {name: tuple(fault) for name, fault in wire.FAULTS.items()} == faults


# --- the server, driven on the document ---

api = schemathesis.openapi.from_dict(DOCUMENT)
CHECKS = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
turns = itertools.count()


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(ours.Server(environments(ours))) as here:
        yield here


@api.parametrize()
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_server_keeps_to_the_document(case: Any, server: Running) -> None:
    """Half of the requests name an environment and a session that are there, so that more than faults is seen."""
    turn = next(turns)
    name = case.operation.definition.raw["operationId"]
    if case.path_parameters and turn % 4:
        case.path_parameters["env"] = "chat"
    if turn % 2 and name != "create" and case.headers is not None and "X-Session-ID" in case.headers:
        case.headers["X-Session-ID"] = server.create({"conversation": CONVERSATION})
    response = case.call(base_url=server.url, timeout=20)
    case.validate_response(response, checks=CHECKS)
    if response.status_code == 200 and response.headers["content-type"][0].startswith("text/event-stream"):
        told = events(response.content)
        assert [kind for kind, _ in told][-1] in ("end", "error")
        if name == "call" and told[-1][0] == "end":
            result = json.loads("".join(data for kind, data in told if kind in ("chunk", "end")))
            validator = Draft202012Validator({"$ref": "#/components/schemas/CallResult", **DOCUMENT})
            assert not list(validator.iter_errors(result))
