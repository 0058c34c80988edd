"""The task endpoint, and common properties of all helper endpoints."""

import asyncio
import json

import jsonschema_rs
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.adapters.tools.retries import Again
from taskmachine.adapters.transports.rest.openapi import ENDPOINTS
from taskmachine.specs import load_schema
from taskmachine.statemachine import LimitExceeded, Outcome, Question, Task
from tests.adapters.connections import Connection
from tests.adapters.transports.asgi_requests import Endpoints, virtually
from tests.adapters.transports.loopback import serving

DETAILED_TASK = jsonschema_rs.validator_for(
    {**load_schema("2026-07-28"), "$ref": "#/$defs/DetailedTask"}
)
NAME = Question(
    "name",
    "elicitation/create",
    b'{"mode":"form","message":"Name?","requestedSchema":{"type":"object","properties":{}}}',
)
TASK_PATHS = ("/tasks/{}", "/tasks/{}/poll", "/tasks/{}/events")


async def tasks_of_every_status(server: Endpoints) -> dict[str, Task]:
    working, asking, failed, cancelled = [await server.create() for _ in range(4)]
    await (await server.claim(working)).report(message="on it")
    await (await server.claim(asking)).ask([NAME])
    await (await server.claim(failed)).settle(Outcome.of_error(-32000, "no", b'{"why":"so"}'))
    await server.service.cancel("alice", cancelled.id)
    return {
        "working": working,
        "input_required": asking,
        "completed": await server.ended(),
        "failed": failed,
        "cancelled": cancelled,
    }


async def test_a_task_is_shown_as_tasks_get_shows_it() -> None:
    """In every status, without resultType, and valid by the schema of the protocol."""
    server = Endpoints()
    line = Connection(server.runtime, "2026-07-28", "alice")
    for status, task in (await tasks_of_every_status(server)).items():
        request = await server.request(f"/tasks/{task.id}")
        assert request.status == 200
        assert request.json["status"] == status
        DETAILED_TASK.validate(request.json)
        result = (await line.call("tasks/get", {"taskId": task.id}))["result"]
        del result["resultType"]
        result.pop("_meta", None)  # the server's name, for messages of the protocol only
        assert request.json == result
    await line.conversation.close()


@virtually
async def test_the_tag_is_the_version_and_responses_are_not_cached() -> None:
    server = Endpoints()
    task = await server.create()
    request = await server.request(f"/tasks/{task.id}")
    assert request.headers["etag"] == '"1"'
    assert request.headers["cache-control"] == "no-store"
    await server.claim(task)
    assert (await server.request(f"/tasks/{task.id}")).headers["etag"] == '"2"'


@pytest.mark.parametrize(
    ("tags", "status"),
    [
        ('"3"', 304),
        ('W/"3"', 304),
        ("*", 304),
        ('"1", "3"', 304),
        ('"1",W/"3"', 304),
        (', "1" ,, "3" ,', 304),
        ('"a,b", "3"', 304),
        ('"2"', 200),
        ('"33"', 200),
        ('"*"', 200),
        ('""', 200),
        ('"a, "3", b"', 400),  # two tags with a number between them
        ("3", 400),
        ('"3', 400),
        ('w/"3"', 400),
        ('"3" "4"', 400),
        ('*, "3"', 400),
        ("", 400),
        (",", 400),
    ],
)
@virtually
async def test_a_caller_with_the_current_version_gets_no_body(tags: str, status: int) -> None:
    server = Endpoints()
    task = await server.ended()
    assert task.version == 3
    request = await server.request(f"/tasks/{task.id}", if_none_match=tags)
    assert request.status == status
    if status == 304:
        assert (request.body, request.headers["etag"]) == (b"", '"3"')
    if status == 400:
        assert request.json["error"]["code"] == "bad_if_none_match"


@virtually
async def test_reading_changes_nothing() -> None:

    server = Endpoints()
    task = await server.create()
    for path in TASK_PATHS:
        request = server.request(path.format(task.id) + "?timeout=0")
        request.disconnect()
        await request
    assert await server.service.get("alice", task.id) == task


async def test_a_task_that_waits_says_until_when() -> None:
    """A retry sets a status message; a sleep keeps that of the tool, if there is one."""
    server = Endpoints()
    silent, loud, failed = [await server.create() for _ in range(3)]
    until = server.clock.now + 60_000
    await (await server.claim(silent)).park(until)
    held = await server.claim(loud)
    await held.report(message="on it")
    await held.park(until)
    await (await server.claim(failed)).try_again(Again(60, "RuntimeError('secret')", ""), 6)
    retried = "Attempt 1 of 6 failed; the next one begins at 2023-11-14T22:14:20.000Z."
    for task, message in (
        (silent, "The task sleeps until 2023-11-14T22:14:20.000Z."),
        (loud, "on it"),
        (failed, retried),
    ):
        request = await server.request(f"/tasks/{task.id}")
        DETAILED_TASK.validate(request.json)
        assert (request.json["status"], request.json["statusMessage"]) == ("working", message)
        assert "secret" not in str(request.json)
    server.clock.now = until
    await server.claim(silent)
    assert "statusMessage" not in (await server.request(f"/tasks/{silent.id}")).json


@pytest.mark.parametrize("path", TASK_PATHS)
@pytest.mark.parametrize("task_id", ["nobody", "x" * 257, "\n", "ünknown", "%00"])
@virtually
async def test_an_unknown_task_is_not_found(path: str, task_id: str) -> None:
    request = await Endpoints().request(path.format(task_id))
    assert request.status == 404
    assert request.json["error"]["code"] == "task_not_found"
    assert "Check the id" in request.json["error"]["message"]


@pytest.mark.parametrize("path", [endpoint.path for endpoint in ENDPOINTS])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
@virtually
async def test_helper_endpoints_refuse_methods_other_than_get_and_head(
    path: str, method: str
) -> None:
    server = Endpoints()
    task = await server.create()
    request = await server.request(path.format(taskId=task.id), method)
    assert (request.status, request.headers["allow"]) == (405, "GET, HEAD")
    assert request.json["error"]["code"] == "method_not_allowed"


@pytest.mark.parametrize("path", TASK_PATHS)
async def test_a_foreign_task_answers_byte_for_byte_as_one_that_does_not_exist(path: str) -> None:
    """Including headers, for every path and method, on a real socket."""
    server = Endpoints()
    live, ended = await server.create(), await server.ended()
    async with serving(server.app) as port:

        async def raw(method: str, target: str, *headers: str) -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            lines = [f"{method} {target} HTTP/1.1", "Host: localhost", "X-Owner: bob"]
            lines += ["Connection: close", *headers, "", ""]
            writer.write("\r\n".join(lines).encode())
            async with asyncio.timeout(10):
                answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            return answer

        for method in ("GET", "HEAD", "POST"):
            for more in ([], ['If-None-Match: "1"'], ["If-None-Match: *"], ["Last-Event-ID: 3"]):
                for query in ("", "?timeout=60000", "?timeout=x"):
                    [none, one, other] = [
                        await raw(method, path.format(task_id) + query, *more)
                        for task_id in ("task-0", live.id, ended.id)
                    ]
                    assert none.startswith(b"HTTP/1.1 4")
                    assert none == one == other


async def test_head_is_get_without_a_body() -> None:
    server = Endpoints()
    task = await server.ended()
    async with serving(server.app) as port:

        async def heads(method: str, target: str) -> tuple[list[bytes], bytes]:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"{method} {target} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
            async with asyncio.timeout(10):
                head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            writer.close()
            await writer.wait_closed()
            return [line for line in head.split(b"\r\n") if b"chunked" not in line], body

        for endpoint in ENDPOINTS:
            target = endpoint.path.format(taskId=task.id)
            asked, body = await heads("GET", target)
            assert await heads("HEAD", target) == (asked, b"")
            assert body


@virtually
async def test_every_lookup_calls_the_hook_which_may_refuse_it() -> None:

    lookups: list[tuple[str, bool]] = []

    def on_lookup(owner: str, is_found: bool) -> None:
        lookups.append((owner, is_found))
        if len(lookups) > 6:
            raise LimitExceeded("2.5 lookups per second", 2_001)

    server = Endpoints(on_lookup=on_lookup)
    task = await server.ended()
    for path in TASK_PATHS:
        assert (await server.request(path.format(task.id))).status == 200
        assert (await server.request(path.format(task.id), x_owner="bob")).status == 404
    assert lookups == [("alice", True), ("bob", False)] * 3
    for path in TASK_PATHS:
        for owner in ("alice", "bob"):
            request = await server.request(path.format(task.id), x_owner=owner)
            assert (request.status, request.headers["retry-after"]) == (429, "3")
            assert request.json["error"]["code"] == "limit_reached"
            assert request.json["error"]["retryAfterMs"] == 2_001
            assert "2.5 lookups per second" in request.json["error"]["message"]


@pytest.mark.parametrize("path", TASK_PATHS)
@virtually
async def test_an_unidentified_caller_gets_no_information(path: str) -> None:
    """The transport gets the error before anything is read or checked."""

    async def nobody(_: Request) -> str:
        raise HTTPException(401)

    server = Endpoints(identify=nobody)
    task = await server.create()
    for target in (path.format(task.id), path.format("nobody"), path.format("x") + "?timeout=x"):
        request = await server.request(target)
        assert (request.status, request.body) == (401, b"Unauthorized")
    for public in ("/healthz", "/openapi.json"):
        assert (await server.request(public)).status == 200


@pytest.mark.parametrize("path", TASK_PATHS)
@virtually
async def test_a_rate_limited_caller_gets_a_retry_time(path: str) -> None:
    async def impatient(_: Request) -> str:
        raise LimitExceeded("1 lookup per second", 1)

    request = await Endpoints(identify=impatient).request(path.format("x"))
    assert (request.status, request.headers["retry-after"]) == (429, "1")


@virtually
async def test_a_failing_store_gives_503() -> None:
    server = Endpoints()
    task = await server.create()
    await server.store.close()
    for path in (*TASK_PATHS, "/healthz"):
        request = await server.request(path.format(task.id))
        assert request.status == 503
        assert request.json["error"]["code"] == "store_unavailable"


@virtually
async def test_the_health_check_reads_the_store() -> None:
    request = await Endpoints().request("/healthz", x_owner="a stranger")
    assert (request.status, request.json) == (200, {"status": "ok"})
    assert request.headers["cache-control"] == "no-store"


class SlowStore(MemoryStore):
    def __init__(self, seconds: float) -> None:
        super().__init__(b"s" * 32)
        self.seconds = seconds

    async def load(self, task_id: str) -> Task | None:
        await asyncio.sleep(self.seconds)
        return await super().load(task_id)


@pytest.mark.parametrize(("seconds", "status", "after"), [(0.9, 200, 0.9), (3_600, 503, 1.0)])
@virtually
async def test_a_store_has_a_second_to_answer(seconds: float, status: int, after: float) -> None:
    request = await Endpoints(store=SlowStore(seconds)).request("/healthz")
    assert (request.status, asyncio.get_running_loop().time()) == (status, after)


@virtually
async def test_a_tool_result_is_returned_unchanged() -> None:
    """Numbers beyond a double, and text of every kind."""
    server = Endpoints()
    task = await server.create()
    result = '{"content":[{"type":"text","text":"\\u2028 \\n é"}],"n":123456789012345678901}'
    await (await server.claim(task)).settle(Outcome.of_result(result.encode()))
    request = await server.request(f"/tasks/{task.id}")
    assert request.json["result"] == {**json.loads(result), "resultType": "complete"}
