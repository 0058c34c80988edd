"""Looking at a task by plain HTTP, and what all helper endpoints have in common."""

import asyncio
import json

import jsonschema_rs
import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.adapters.transports.rest.openapi import ENDPOINTS
from taskmachine.specs import load_schema
from taskmachine.statemachine import LimitExceeded, Outcome, Question, Task
from tests.adapters.connections import Connection
from tests.adapters.memory_service import run
from tests.adapters.transports.loopback import serving
from tests.adapters.transports.visits import House, virtually

DETAILED_TASK = jsonschema_rs.validator_for(
    {**load_schema("2026-07-28"), "$ref": "#/$defs/DetailedTask"}
)
NAME = Question(
    "name",
    "elicitation/create",
    b'{"mode":"form","message":"Name?","requestedSchema":{"type":"object","properties":{}}}',
)
TASK_PATHS = ("/tasks/{}", "/tasks/{}/poll", "/tasks/{}/events")


async def tasks_of_every_status(house: House) -> dict[str, Task]:
    working, asking, failed, cancelled = [await house.create() for _ in range(4)]
    await (await house.claim(working)).report(message="on it")
    await (await house.claim(asking)).ask([NAME])
    await (await house.claim(failed)).settle(Outcome.of_error(-32000, "no", b'{"why":"so"}'))
    await house.service.cancel("alice", cancelled.id)
    return {
        "working": working,
        "input_required": asking,
        "completed": await house.ended(),
        "failed": failed,
        "cancelled": cancelled,
    }


def test_a_task_is_shown_as_tasks_get_shows_it() -> None:
    """In every status, without resultType, and as the schema of the protocol has it."""

    async def main() -> None:
        house = House()
        line = Connection(house.runtime, "2026-07-28", "alice")
        for status, task in (await tasks_of_every_status(house)).items():
            visit = await house.visit(f"/tasks/{task.id}")
            assert visit.status == 200
            assert visit.json["status"] == status
            DETAILED_TASK.validate(visit.json)
            result = (await line.call("tasks/get", {"taskId": task.id}))["result"]
            del result["resultType"]
            result.pop("_meta", None)  # the server's name, for messages of the protocol only
            assert visit.json == result
        await line.conversation.close()

    run(main())


def test_the_tag_is_the_version_and_nobody_keeps_the_answer() -> None:
    async def main() -> None:
        house = House()
        task = await house.create()
        visit = await house.visit(f"/tasks/{task.id}")
        assert visit.headers["etag"] == '"1"'
        assert visit.headers["cache-control"] == "no-store"
        await house.claim(task)
        assert (await house.visit(f"/tasks/{task.id}")).headers["etag"] == '"2"'

    virtually(main())


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
def test_whoever_has_the_version_gets_no_body(tags: str, status: int) -> None:
    async def main() -> None:
        house = House()
        task = await house.ended()
        assert task.version == 3
        visit = await house.visit(f"/tasks/{task.id}", if_none_match=tags)
        assert visit.status == status
        if status == 304:
            assert (visit.body, visit.headers["etag"]) == (b"", '"3"')
        if status == 400:
            assert visit.json["error"]["code"] == "bad_if_none_match"

    virtually(main())


def test_reading_changes_nothing() -> None:

    async def main() -> None:
        house = House()
        task = await house.create()
        for path in TASK_PATHS:
            visit = house.visit(path.format(task.id) + "?timeout=0")
            visit.leave()
            await visit
        assert await house.service.get("alice", task.id) == task

    virtually(main())


@pytest.mark.parametrize("path", TASK_PATHS)
@pytest.mark.parametrize("task_id", ["nobody", "x" * 257, "\n", "ünknown", "%00"])
def test_an_unknown_task_is_not_found(path: str, task_id: str) -> None:
    async def main() -> None:
        visit = await House().visit(path.format(task_id))
        assert visit.status == 404
        assert visit.json["error"]["code"] == "task_not_found"
        assert "Check the id" in visit.json["error"]["message"]

    virtually(main())


@pytest.mark.parametrize("path", [endpoint.path for endpoint in ENDPOINTS])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"])
def test_everything_but_reading_is_refused(path: str, method: str) -> None:
    async def main() -> None:
        house = House()
        task = await house.create()
        visit = await house.visit(path.format(taskId=task.id), method)
        assert (visit.status, visit.headers["allow"]) == (405, "GET, HEAD")
        assert visit.json["error"]["code"] == "method_not_allowed"

    virtually(main())


@pytest.mark.parametrize("path", TASK_PATHS)
def test_a_foreign_task_answers_byte_for_byte_as_one_that_does_not_exist(path: str) -> None:
    """Headers too, on a real socket, whatever is asked in whatever way."""

    async def main() -> None:
        house = House()
        live, ended = await house.create(), await house.ended()
        async with serving(house.app) as port:

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
                for more in (
                    [],
                    ['If-None-Match: "1"'],
                    ["If-None-Match: *"],
                    ["Last-Event-ID: 3"],
                ):
                    for query in ("", "?timeout=60000", "?timeout=x"):
                        [none, one, other] = [
                            await raw(method, path.format(task_id) + query, *more)
                            for task_id in ("task-0", live.id, ended.id)
                        ]
                        assert none.startswith(b"HTTP/1.1 4")
                        assert none == one == other

    run(main())


def test_head_is_get_without_a_body() -> None:
    async def main() -> None:
        house = House()
        task = await house.ended()
        async with serving(house.app) as port:

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

    run(main())


def test_every_look_up_is_told_and_may_be_refused() -> None:

    async def main() -> None:
        told: list[tuple[str, bool]] = []

        def on_lookup(owner: str, is_found: bool) -> None:
            told.append((owner, is_found))
            if len(told) > 6:
                raise LimitExceeded("2.5 lookups per second", 2_001)

        house = House(on_lookup=on_lookup)
        task = await house.ended()
        for path in TASK_PATHS:
            assert (await house.visit(path.format(task.id))).status == 200
            assert (await house.visit(path.format(task.id), x_owner="bob")).status == 404
        assert told == [("alice", True), ("bob", False)] * 3
        for path in TASK_PATHS:
            for owner in ("alice", "bob"):
                visit = await house.visit(path.format(task.id), x_owner=owner)
                assert (visit.status, visit.headers["retry-after"]) == (429, "3")
                assert visit.json["error"]["code"] == "limit_reached"
                assert visit.json["error"]["retryAfterMs"] == 2_001
                assert "2.5 lookups per second" in visit.json["error"]["message"]

    virtually(main())


@pytest.mark.parametrize("path", TASK_PATHS)
def test_whoever_cannot_be_identified_is_not_told_anything(path: str) -> None:
    """The refusal is passed on to the transport, before anything is read or checked."""

    async def nobody(_: Request) -> str:
        raise HTTPException(401)

    async def main() -> None:
        house = House(identify=nobody)
        task = await house.create()
        for target in (
            path.format(task.id),
            path.format("nobody"),
            path.format("x") + "?timeout=x",
        ):
            visit = await house.visit(target)
            assert (visit.status, visit.body) == (401, b"Unauthorized")
        for public in ("/healthz", "/openapi.json"):
            assert (await house.visit(public)).status == 200

    virtually(main())


@pytest.mark.parametrize("path", TASK_PATHS)
def test_whoever_asks_too_often_is_told_when_to_come_again(path: str) -> None:
    async def impatient(_: Request) -> str:
        raise LimitExceeded("1 lookup per second", 1)

    async def main() -> None:
        visit = await House(identify=impatient).visit(path.format("x"))
        assert (visit.status, visit.headers["retry-after"]) == (429, "1")

    virtually(main())


def test_a_store_that_fails_is_said_so() -> None:
    async def main() -> None:
        house = House()
        task = await house.create()
        await house.store.close()
        for path in (*TASK_PATHS, "/healthz"):
            visit = await house.visit(path.format(task.id))
            assert visit.status == 503
            assert visit.json["error"]["code"] == "store_unavailable"

    virtually(main())


def test_health_is_that_the_store_answers() -> None:
    async def main() -> None:
        visit = await House().visit("/healthz", x_owner="a stranger")
        assert (visit.status, visit.json) == (200, {"status": "ok"})
        assert visit.headers["cache-control"] == "no-store"

    virtually(main())


class SlowStore(MemoryStore):
    """Answers after a while."""

    def __init__(self, seconds: float) -> None:
        super().__init__(b"s" * 32)
        self.seconds = seconds

    async def load(self, task_id: str) -> Task | None:
        await asyncio.sleep(self.seconds)
        return await super().load(task_id)


@pytest.mark.parametrize(("seconds", "status", "after"), [(0.9, 200, 0.9), (3_600, 503, 1.0)])
def test_a_store_has_a_second_to_answer(seconds: float, status: int, after: float) -> None:
    async def main() -> None:
        visit = await House(store=SlowStore(seconds)).visit("/healthz")
        assert (visit.status, asyncio.get_running_loop().time()) == (status, after)

    virtually(main())


def test_what_a_tool_said_stays_as_it_is() -> None:
    """Numbers beyond a double, and text of every kind."""

    async def main() -> None:
        house = House()
        task = await house.create()
        result = '{"content":[{"type":"text","text":"\\u2028 \\n é"}],"n":123456789012345678901}'
        await (await house.claim(task)).settle(Outcome.of_result(result.encode()))
        visit = await house.visit(f"/tasks/{task.id}")
        assert visit.json["result"] == {**json.loads(result), "resultType": "complete"}

    virtually(main())
