"""The OpenAPI document is valid, complete and correct."""

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator
from starlette.exceptions import HTTPException
from starlette.requests import Request

from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.transports.rest.openapi import ENDPOINTS, EXAMPLE, document
from taskmachine.statemachine import LimitExceeded
from tests.adapters.connections import quiet
from tests.adapters.transports.asgi_requests import AsgiRequest, Endpoints, virtually
from tests.adapters.transports.event_reader import read_events
from tests.adapters.transports.loopback import serving
from tests.adapters.transports.test_task_endpoints import DETAILED_TASK, tasks_of_every_status
from tests.oracle import REPOSITORY

SEED = 20260728
WRONG: list[Any] = [None, True, -1, 0.5, [], {}]


def schema_in(whole: dict[str, Any], schema: Any) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for({**schema, "components": whole["components"]})


@pytest.mark.parametrize("needs_token", [True, False])
def test_the_document_is_valid(needs_token: bool) -> None:
    """It follows the JSON Schema of OpenAPI 3.1, and the rules that this cannot express."""
    errors = list(OpenAPIV31SpecValidator(document(needs_token=needs_token)).iter_errors())
    assert errors == []


@virtually
async def test_openapi_endpoint_serves_the_unchanged_document() -> None:
    request = await Endpoints(needs_token=True).request("/openapi.json")
    assert (request.status, request.json) == (200, document(needs_token=True))


@virtually
async def test_openapi_describes_exactly_the_existing_routes() -> None:
    described = document(needs_token=False)["paths"]
    routes = Endpoints().app.routes
    assert {path: set(item) for path, item in described.items()} == {
        route.path: {"get"}  # type: ignore[attr-defined]
        for route in routes
    }


def test_openapi_requires_a_configured_token_only_on_task_paths() -> None:
    operations = {path: item["get"] for path, item in document(needs_token=True)["paths"].items()}
    for path, operation in operations.items():
        is_asked = path.startswith("/tasks")
        assert operation.get("security") == ([{"bearer": []}] if is_asked else None)
        assert ("401" in operation["responses"]) == is_asked
    without = document(needs_token=False)
    assert "securitySchemes" not in without["components"]
    assert all("security" not in item["get"] for item in without["paths"].values())


def test_every_example_matches_its_schema() -> None:
    whole = document(needs_token=True)
    examined = 0
    for path, item in whole["paths"].items():
        operation = item["get"]
        for parameter in operation.get("parameters", ()):
            assert schema_in(whole, parameter["schema"]).is_valid(parameter["example"]), path
        for response in operation["responses"].values():
            for content in response.get("content", {}).values():
                examples = [example["value"] for example in content.get("examples", {}).values()]
                for example in examples or [content["example"]]:
                    schema_in(whole, content.get("schema", {})).validate(example)
                    examined += 1
    assert examined > 20


def test_the_example_of_a_stream_can_be_parsed() -> None:
    whole = document(needs_token=False)
    stream = whole["paths"]["/tasks/{taskId}/events"]["get"]["responses"]["200"]["content"]
    events = read_events(stream["text/event-stream"]["example"].encode())
    assert [event.id for event in events] == ["3", "4"]
    assert all(is_task(whole, json.loads(event.data)) for event in events)


def test_the_page_for_people_says_the_same() -> None:
    page = (REPOSITORY / "docs" / "reference" / "http.md").read_text()
    listed = {
        path: set(re.findall(r"^\| (\d+) \|", section, re.MULTILINE))
        for path, section in re.findall(r"^### GET (\S+)\n(.*?)(?=^###? )", page, re.DOTALL | re.M)
    }
    paths = document(needs_token=False)["paths"]
    assert listed == {path: set(item["get"]["responses"]) for path, item in paths.items()}
    problems = {problem.code: problem for endpoint in ENDPOINTS for problem in endpoint.problems}
    codes = re.findall(r"`(\w+_\w+)`", page.rpartition("The codes are")[2])
    assert set(codes) == set(problems)
    [example] = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    assert json.loads(example) == problems["bad_timeout"].body


def is_task(whole: dict[str, Any], body: Any) -> bool:
    """Return whether the schemas of the document and of the protocol accept a task."""
    is_valid = schema_in(whole, whole["components"]["schemas"]["DetailedTask"]).is_valid(body)
    assert is_valid == DETAILED_TASK.is_valid(body), body
    return is_valid


def without(body: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key != name}


async def test_openapi_task_schema_agrees_with_the_protocol_schema() -> None:
    """Both schemas accept tasks of every status and refuse the same changes."""
    whole, server = document(needs_token=False), Endpoints()
    tasks = await tasks_of_every_status(server)
    bodies = [(await server.request(f"/tasks/{task.id}")).json for task in tasks.values()]
    every = {name: value for body in bodies for name, value in body.items()}
    assert {"inputRequests", "result", "error", "statusMessage"} < every.keys()
    changed: list[dict[str, Any]] = [{}]
    for body in bodies:
        assert is_task(whole, body)
        changed += [{**body, "status": status} for status in (*tasks, "submitted", "removed")]
        changed += [{**body, name: value} for name, value in every.items()]
        changed += [without(body, name) for name in body]
        changed += [{**body, name: wrong} for name in body for wrong in WRONG]
        for payload in body.keys() & {"result", "error"}:
            inner = body[payload]
            changed += [{**body, payload: without(inner, name)} for name in inner]
    accepted = sum(is_task(whole, body) for body in changed)
    assert 20 < accepted < len(changed) / 2


def check(whole: dict[str, Any], path: str, request: AsgiRequest) -> None:
    described = whole["paths"][path]["get"]["responses"][str(request.status)]
    for name, header in described.get("headers", {}).items():
        value: Any = request.headers[name.lower()]
        is_number = header["schema"]["type"] == "integer"
        schema_in(whole, header["schema"]).validate(int(value) if is_number else value)
    if "content" not in described:
        assert request.body == b""
        return
    [[media_type, content]] = described["content"].items()
    assert request.headers["content-type"] == media_type
    body = request.json if media_type == "application/json" else request.body.decode()
    schema_in(whole, content.get("schema", {})).validate(body)
    if "taskId" in path and request.status == 200:
        for shown in [body] if isinstance(body, dict) else read_events(request.body):
            DETAILED_TASK.validate(shown if isinstance(shown, dict) else json.loads(shown.data))


@virtually
async def test_every_described_response_occurs() -> None:
    whole = document(needs_token=False)
    had: dict[str, set[int]] = {endpoint.path: set() for endpoint in ENDPOINTS}
    server = Endpoints(Limits(subscriptions=1), waiters_per_task=1)
    task, live = await server.ended(), await server.create()
    occupied = [server.request(f"/tasks/{live.id}/{what}") for what in ("poll", "events")]
    await quiet()

    async def note(path: str, task_id: str, query: str = "", **more: str) -> None:
        method = more.pop("method", "GET")
        request = await server.request(path.format(taskId=task_id) + query, method, **more)
        check(whole, path, request)
        had[path].add(request.status)

    for path in had:
        await note(path, task.id)
        await note(path, task.id, if_none_match='"3"', last_event_id="3")
        await note(path, "nobody", if_none_match="3")
        await note(path, "nobody", method="POST")
        await note(path, "nobody")
        await note(path, live.id)
    for request in occupied:
        request.disconnect()
        await request
    await note("/tasks/{taskId}/events", task.id)
    await note("/tasks/{taskId}/poll", live.id, "?timeout=0")
    await note("/tasks/{taskId}/poll", live.id, "?timeout=x")
    await server.store.close()
    for path in had:
        await note(path, task.id)

    server = Endpoints(on_lookup=_refuse)
    await note("/tasks/{taskId}", "nobody")
    assert had == {
        path: {int(status) for status in item["get"]["responses"]}
        for path, item in whole["paths"].items()
    }


def _refuse(owner: str, is_found: bool) -> None:
    raise LimitExceeded("no lookups", 1_000)


async def test_fuzzed_requests_get_described_responses_only(tmp_path: Path) -> None:
    """Schemathesis with all its checks, a fixed seed, and a real socket."""

    async def identify(request: Request) -> str:
        if request.headers.get("authorization") != "Bearer secret":
            raise HTTPException(401, headers={"WWW-Authenticate": "Bearer"})
        return "alice"

    server = Endpoints(identify=identify, needs_token=True)
    # The task of the examples exists, or most responses would be "not found"; it has
    # ended, so that no request waits.
    task = await server.ended()
    await server.store.adopt(task.with_changes(id=EXAMPLE["taskId"]), [])
    config = tmp_path / "schemathesis.toml"
    config.write_text(f'[parameters]\n"path.taskId" = "{EXAMPLE["taskId"]}"\n')
    report = tmp_path / "report.json"
    async with serving(server.app) as port:
        fuzzer = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("schemathesis"),
            *("--config-file", config, "run", f"http://127.0.0.1:{port}/openapi.json"),
            *("--header", "Authorization: Bearer secret", "--checks", "all"),
            *("--phases", "examples,coverage,fuzzing", "--max-examples", "10"),
            *("--seed", str(SEED), "--request-timeout", "10", "--no-color"),
            *("--report-json-path", report),
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            async with asyncio.timeout(120):
                output, _ = await fuzzer.communicate()
        finally:
            if fuzzer.returncode is None:
                fuzzer.kill()
                await fuzzer.wait()
    assert fuzzer.returncode == 0, f"seed {SEED}\n{output.decode()}"
    rates = json.loads(report.read_text())["valid_rates"]
    for path in ("/tasks/{taskId}", "/tasks/{taskId}/poll", "/tasks/{taskId}/events"):
        fuzzed = rates[f"GET {path}"]["fuzzing"]
        assert fuzzed["accepted"], f"only {fuzzed} of {path}"
