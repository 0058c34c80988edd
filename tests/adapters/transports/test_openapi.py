"""The OpenAPI document is valid, complete and true."""

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
from tests.adapters.memory_service import run
from tests.adapters.transports.event_reader import read_events
from tests.adapters.transports.loopback import serving
from tests.adapters.transports.test_task_endpoints import DETAILED_TASK, tasks_of_every_status
from tests.adapters.transports.visits import House, Visit, virtually
from tests.oracle import REPOSITORY

SEED = 20260728
WRONG: list[Any] = [None, True, -1, 0.5, [], {}]


def schema_in(whole: dict[str, Any], schema: Any) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for({**schema, "components": whole["components"]})


@pytest.mark.parametrize("needs_token", [True, False])
def test_the_document_is_valid(needs_token: bool) -> None:
    """By the JSON Schema of OpenAPI 3.1, and by the rules that it cannot express."""
    errors = list(OpenAPIV31SpecValidator(document(needs_token=needs_token)).iter_errors())
    assert errors == []


def test_the_document_is_served_as_it_is() -> None:
    async def main() -> None:
        visit = await House(needs_token=True).visit("/openapi.json")
        assert (visit.status, visit.json) == (200, document(needs_token=True))

    virtually(main())


def test_it_describes_all_that_exists_and_nothing_else() -> None:
    async def main() -> None:
        described = document(needs_token=False)["paths"]
        routes = House().app.routes
        assert {path: set(item) for path, item in described.items()} == {
            route.path: {"get"}  # type: ignore[attr-defined]
            for route in routes
        }

    virtually(main())


def test_a_token_is_asked_for_where_tasks_are_and_only_if_it_is_needed() -> None:
    operations = {path: item["get"] for path, item in document(needs_token=True)["paths"].items()}
    for path, operation in operations.items():
        is_asked = path.startswith("/tasks")
        assert operation.get("security") == ([{"bearer": []}] if is_asked else None)
        assert ("401" in operation["responses"]) == is_asked
    without = document(needs_token=False)
    assert "securitySchemes" not in without["components"]
    assert all("security" not in item["get"] for item in without["paths"].values())


def test_every_example_is_one() -> None:
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


def test_the_example_of_a_stream_is_one() -> None:
    whole = document(needs_token=False)
    stream = whole["paths"]["/tasks/{taskId}/events"]["get"]["responses"]["200"]["content"]
    events = read_events(stream["text/event-stream"]["example"].encode())
    assert [event.id for event in events] == ["3", "4"]
    assert all(is_task(whole, json.loads(event.data)) for event in events)


def test_the_page_for_people_says_the_same() -> None:
    page = (REPOSITORY / "docs" / "endpoints.md").read_text()
    said = {
        path: set(re.findall(r"^\| (\d+) \|", section, re.MULTILINE))
        for path, section in re.findall(r"^## GET (\S+)\n(.*?)(?=^## )", page, re.DOTALL | re.M)
    }
    paths = document(needs_token=False)["paths"]
    assert said == {path: set(item["get"]["responses"]) for path, item in paths.items()}
    problems = {problem.code: problem for endpoint in ENDPOINTS for problem in endpoint.problems}
    codes = re.findall(r"`(\w+_\w+)`", page.rpartition("The codes are")[2])
    assert set(codes) == set(problems)
    [example] = re.findall(r"```json\n(.*?)```", page, re.DOTALL)
    assert json.loads(example) == problems["bad_timeout"].body


def is_task(whole: dict[str, Any], body: Any) -> bool:
    """By the document; and by the schema of the protocol, which was written down without it."""
    said = schema_in(whole, whole["components"]["schemas"]["DetailedTask"]).is_valid(body)
    assert said == DETAILED_TASK.is_valid(body), body
    return said


def without(body: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key != name}


def test_it_describes_a_task_as_the_protocol_does() -> None:
    """In every status; and it refuses what the protocol refuses."""

    async def main() -> None:
        whole, house = document(needs_token=False), House()
        tasks = await tasks_of_every_status(house)
        bodies = [(await house.visit(f"/tasks/{task.id}")).json for task in tasks.values()]
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

    run(main())


def check(whole: dict[str, Any], path: str, visit: Visit) -> None:
    """An answer is what the document promises for its status."""
    described = whole["paths"][path]["get"]["responses"][str(visit.status)]
    for name, header in described.get("headers", {}).items():
        value: Any = visit.headers[name.lower()]
        is_number = header["schema"]["type"] == "integer"
        schema_in(whole, header["schema"]).validate(int(value) if is_number else value)
    if "content" not in described:
        assert visit.body == b""
        return
    [[media_type, content]] = described["content"].items()
    assert visit.headers["content-type"] == media_type
    body = visit.json if media_type == "application/json" else visit.body.decode()
    schema_in(whole, content.get("schema", {})).validate(body)
    if "taskId" in path and visit.status == 200:
        for shown in [body] if isinstance(body, dict) else read_events(visit.body):
            DETAILED_TASK.validate(shown if isinstance(shown, dict) else json.loads(shown.data))


def test_every_answer_that_is_described_can_be_had() -> None:
    async def main() -> None:
        whole = document(needs_token=False)
        had: dict[str, set[int]] = {endpoint.path: set() for endpoint in ENDPOINTS}
        house = House(Limits(subscriptions=1), waiters_per_task=1)
        task, live = await house.ended(), await house.create()
        occupied = [house.visit(f"/tasks/{live.id}/{what}") for what in ("poll", "events")]
        await quiet()

        async def note(path: str, task_id: str, query: str = "", **more: str) -> None:
            method = more.pop("method", "GET")
            visit = await house.visit(path.format(taskId=task_id) + query, method, **more)
            check(whole, path, visit)
            had[path].add(visit.status)

        for path in had:
            await note(path, task.id)
            await note(path, task.id, if_none_match='"3"', last_event_id="3")
            await note(path, "nobody", if_none_match="3")
            await note(path, "nobody", method="POST")
            await note(path, "nobody")
            await note(path, live.id)
        for visit in occupied:
            visit.leave()
            await visit
        await note("/tasks/{taskId}/events", task.id)
        await note("/tasks/{taskId}/poll", live.id, "?timeout=0")
        await note("/tasks/{taskId}/poll", live.id, "?timeout=x")
        await house.store.close()
        for path in had:
            await note(path, task.id)

        house = House(on_lookup=_refuse)
        await note("/tasks/{taskId}", "nobody")
        assert had == {
            path: {int(status) for status in item["get"]["responses"]}
            for path, item in whole["paths"].items()
        }

    virtually(main())


def _refuse(owner: str, is_found: bool) -> None:
    raise LimitExceeded("no lookups", 1_000)


def test_no_request_of_a_fuzzer_gets_an_answer_that_is_not_described(tmp_path: Path) -> None:
    """Schemathesis, with all its checks, on a real socket.  The same seed, the same requests."""

    async def identify(request: Request) -> str:
        if request.headers.get("authorization") != "Bearer secret":
            raise HTTPException(401, headers={"WWW-Authenticate": "Bearer"})
        return "alice"

    async def main() -> None:
        house = House(identify=identify, needs_token=True)
        # The id of the examples exists, so that not everything ends at "not found"; it has
        # ended, so that nobody waits.
        task = await house.ended()
        await house.store.adopt(task.with_changes(id=EXAMPLE["taskId"]), [])
        config = tmp_path / "schemathesis.toml"
        config.write_text(f'[parameters]\n"path.taskId" = "{EXAMPLE["taskId"]}"\n')
        report = tmp_path / "report.json"
        async with serving(house.app) as port:
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

    run(main())
