"""Task events in virtual time, and once on a real socket."""

import asyncio
import json

import httpx
import pytest

from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.statemachine import State, Task
from tests.adapters.connections import quiet
from tests.adapters.memory_service import DONE, FORM
from tests.adapters.transports.asgi_requests import AsgiRequest, Endpoints, virtually
from tests.adapters.transports.event_reader import read_events
from tests.adapters.transports.loopback import serving


def received(request: AsgiRequest) -> list[tuple[str, str, str | None]]:
    """Return id, status and message of each event."""
    events = read_events(request.body)
    assert {event.name for event in events} <= {"task"}
    tasks = [json.loads(event.data) for event in events]
    return [
        (event.id, task["status"], task.get("statusMessage"))
        for event, task in zip(events, tasks, strict=True)
    ]


def is_free(server: Endpoints) -> bool:
    return not list(server.store._followers.by_task) and not server.runtime.subscriptions._count


@virtually
async def test_the_current_task_is_followed_by_each_visible_change() -> None:
    """Changes that callers cannot see, such as a claim by a worker, are not sent."""
    server = Endpoints()
    task = await server.create()
    request = server.request(f"/tasks/{task.id}/events")
    await request.until_sent(b"\n\n")
    assert received(request) == [("1", "working", None)]
    held = await server.claim(task)
    await held.report(message="one")
    await request.until_sent(b"one")
    await held.report(message="one")
    await held.report(message="two")
    await held.ask([FORM])
    await server.service.cancel("alice", task.id)
    await request
    assert received(request) == [
        ("1", "working", None),
        ("3", "working", "one"),
        ("5", "working", "two"),
        ("6", "input_required", "two"),
        ("7", "cancelled", "The task was cancelled by request."),
    ]
    assert is_free(server)


@virtually
async def test_an_event_equals_the_response_of_the_task_endpoint() -> None:
    server = Endpoints()
    task = await server.ended()
    request = await server.request(f"/tasks/{task.id}/events")
    [event] = read_events(request.body)
    assert json.loads(event.data) == (await server.request(f"/tasks/{task.id}")).json
    assert request.headers == {
        "content-type": "text/event-stream",
        "cache-control": "no-store",
        "x-accel-buffering": "no",
    }
    assert is_free(server)


@pytest.mark.parametrize(("options", "seconds"), [({}, 15), ({"keep_alive_s": 60.0}, 60)])
@virtually
async def test_comments_keep_an_idle_stream_alive(options: dict[str, float], seconds: int) -> None:
    server = Endpoints(**options)  # type: ignore[arg-type]
    task = await server.create()
    request = server.request(f"/tasks/{task.id}/events")
    await asyncio.sleep(3 * seconds + 1)
    await (await server.claim(task)).settle(DONE)
    await request
    times = [at for at, block in request.chunks if block.startswith(b":")]
    assert times == [seconds, 2 * seconds, 3 * seconds]
    assert [id for id, _, _ in received(request)] == ["1", "3"]


@pytest.mark.parametrize(
    ("last", "ids"),
    [
        ("0", ["2", "3"]),
        ("1", ["2", "3"]),
        ("2", ["3"]),
        ("3", ["2", "3"]),  # a version that does not exist yet
        ("-1", ["2", "3"]),
        ("two", ["2", "3"]),
        ("", ["2", "3"]),
        ("9" * 5_000, ["2", "3"]),
    ],
)
@virtually
async def test_a_reconnecting_client_does_not_get_its_version_again(
    last: str, ids: list[str]
) -> None:
    server = Endpoints()
    task = await server.create()
    held = await server.claim(task)
    request = server.request(f"/tasks/{task.id}/events", last_event_id=last)
    await request.until_sent(b"\n\n")
    await held.settle(DONE)
    await request
    assert [id for id, _, _ in received(request)] == ids


@virtually
async def test_a_client_that_has_the_end_gets_204() -> None:
    """A browser reconnects after every end of a stream, but not after 204."""
    server = Endpoints()
    task = await server.ended()
    request = await server.request(f"/tasks/{task.id}/events", last_event_id=str(task.version))
    assert (request.status, request.body) == (204, b"")
    before = await server.request(f"/tasks/{task.id}/events", last_event_id="2")
    assert received(before) == [("3", "completed", None)]


@virtually
async def test_a_slow_reader_loses_the_oldest_but_not_the_end() -> None:
    """The task does not wait for it."""
    server = Endpoints(Limits(buffer=3))
    task = await server.create()
    request = server.request(f"/tasks/{task.id}/events")
    await request.until_sent(b"\n\n")
    request.readable.clear()
    held = await server.claim(task)
    for number in range(10):
        await held.report(message=str(number))
        await quiet()
    await held.settle(DONE)
    await quiet()
    assert len(received(request)) == 1
    request.readable.set()
    await request
    ids = [int(id) for id, _, _ in received(request)]
    # The first event, the one being sent, and the contents of the buffer.
    assert ids == [1, 3, 11, 12, 13]
    assert received(request)[-1][1] == "completed"
    assert is_free(server)


@virtually
async def test_event_stream_disconnect_frees_its_resources_at_once() -> None:
    server = Endpoints()
    task = await server.create()
    requests = [server.request(f"/tasks/{task.id}/events") for _ in range(3)]
    await quiet()
    assert not is_free(server)
    for request in requests:
        request.disconnect()
        await request
    assert asyncio.get_running_loop().time() == 0
    assert is_free(server)


@virtually
async def test_disconnect_of_a_blocked_event_reader_frees_its_resources() -> None:
    server = Endpoints()
    task = await server.create()
    request = server.request(f"/tasks/{task.id}/events")
    request.readable.clear()
    held = await server.claim(task)
    await held.report(message="unread")
    await quiet()
    request.disconnect()
    await request
    assert is_free(server)
    await held.settle(DONE)


@virtually
async def test_a_reading_client_is_not_idle() -> None:
    """Only clients that do not read are idle."""
    server = Endpoints()
    task = await server.create()
    reads, sleeps = [server.request(f"/tasks/{task.id}/events") for _ in range(2)]
    await quiet()
    sleeps.readable.clear()
    await asyncio.sleep(2 * 3_600)
    server.runtime.subscriptions.close_idle()
    sleeps.readable.set()
    await sleeps
    assert [id for id, _, _ in received(sleeps)] == ["1"]
    await (await server.claim(task)).settle(DONE)
    await reads
    assert [id for id, _, _ in received(reads)] == ["1", "3"]


@virtually
async def test_streams_of_an_owner_are_limited() -> None:
    server = Endpoints(Limits(subscriptions=1))
    task = await server.create()
    request = server.request(f"/tasks/{task.id}/events")
    await quiet()
    refused = await server.request(f"/tasks/{task.id}/events")
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    request.disconnect()
    await request
    again = server.request(f"/tasks/{task.id}/events")
    await again.until_sent(b"task")
    again.disconnect()
    await again


class ForgetfulStore(MemoryStore):
    """Removes a task once it is loaded."""

    async def load(self, task_id: str) -> Task | None:
        task = await super().load(task_id)
        if task is not None:
            gone = task.with_changes(state=State.REMOVED, version=task.version + 1)
            await self.commit(gone, [], task.version)
        return task


@virtually
async def test_a_task_that_is_removed_before_the_stream_begins_is_not_found() -> None:
    server = Endpoints(store=ForgetfulStore(b"s" * 32))
    task = await server.create()
    request = await server.request(f"/tasks/{task.id}/events")
    assert (request.status, request.json["error"]["code"]) == (404, "task_not_found")
    assert is_free(server)


@virtually
async def test_head_does_not_wait_for_the_end() -> None:
    server = Endpoints()
    task = await server.create()
    request = await server.request(f"/tasks/{task.id}/events", "HEAD")
    assert (request.status, request.body) == (200, b"")
    assert is_free(server)


async def test_a_real_client_on_a_real_socket() -> None:
    """One client reads until the end, and another one disconnects before."""
    server = Endpoints()
    task = await server.create()
    async with (
        serving(server.app) as port,
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10) as client,
    ):
        url = f"/tasks/{task.id}/events"
        async with client.stream("GET", url) as stays:
            async with client.stream("GET", url) as leaves:
                await anext(leaves.aiter_bytes())
            async with asyncio.timeout(10):
                while len(server.runtime.subscriptions._open) > 1:
                    await asyncio.sleep(0)
            await (await server.claim(task)).settle(DONE)
            body = await stays.aread()
        assert [event.id for event in read_events(body)] == ["1", "3"]
        poll = asyncio.create_task(client.get(f"/tasks/{task.id}/poll"))
        assert (await poll).json()["status"] == "completed"
