"""Long polls in virtual time."""

import asyncio

import httpx
import pytest

from taskmachine.adapters.runtime.limits import Limits
from taskmachine.statemachine import State
from tests.adapters.connections import quiet
from tests.adapters.memory_service import DONE
from tests.adapters.transports.asgi_requests import AsgiRequest, Endpoints, virtually
from tests.adapters.transports.loopback import serving


def now() -> float:
    return asyncio.get_running_loop().time()


@virtually
async def test_long_poll_of_an_ended_task_is_answered_at_once() -> None:
    server = Endpoints()
    task = await server.ended()
    tag, path = f'"{task.version}"', f"/tasks/{task.id}/poll"
    ended = await server.request(path)
    assert (ended.status, ended.json["status"], ended.headers["etag"]) == (200, "completed", tag)
    known = await server.request(path, if_none_match=tag)
    assert (known.status, known.body, now()) == (304, b"", 0)


@pytest.mark.parametrize("tags", [{}, {"if_none_match": '"1"'}, {"if_none_match": "*"}])
@virtually
async def test_long_poll_is_answered_when_the_task_changes(tags: dict[str, str]) -> None:
    server = Endpoints()
    task = await server.create()
    request = server.request(f"/tasks/{task.id}/poll", **tags)
    await asyncio.sleep(12)
    assert not request.is_answered
    await (await server.claim(task)).settle(DONE)
    await request
    assert (request.status, request.headers["etag"], now()) == (200, '"2"', 12)


@virtually
async def test_long_poll_with_a_different_version_is_answered_at_once() -> None:
    """So no change is missed between two calls."""
    server = Endpoints()
    task = await server.create()
    await server.claim(task)
    for tags in ('"1"', '"3"', 'W/"1", "7"'):
        request = await server.request(f"/tasks/{task.id}/poll", if_none_match=tags)
        assert (request.status, request.headers["etag"], now()) == (200, '"2"', 0)


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        ("", 30),
        ("?timeout=0", 0),
        ("?timeout=1", 0.001),
        ("?timeout=0001500", 1.5),
        ("?timeout=59999", 59.999),
        ("?timeout=60000", 60),
        ("?timeout=60001", 60),
        ("?timeout=999999", 60),
        ("?timeout=" + "9" * 5_000, 60),
        ("?timeout=" + "0" * 5_000, 0),
        ("?other=1", 30),
    ],
)
@pytest.mark.parametrize(("tags", "status"), [({}, 204), ({"if_none_match": '"1"'}, 304)])
@virtually
async def test_a_timeout_returns_the_tag_without_a_body(
    query: str, seconds: float, tags: dict[str, str], status: int
) -> None:
    """The tag is for the next call."""
    server = Endpoints()
    task = await server.create()
    request = await server.request(f"/tasks/{task.id}/poll{query}", **tags)
    assert (request.status, request.body, request.headers["etag"]) == (status, b"", '"1"')
    assert now() == pytest.approx(seconds)


@pytest.mark.parametrize(
    "timeout",
    [
        "",
        "x",
        "-1",
        "%2B5",
        "+5",
        "1.5",
        "1e3",
        "1_000",
        "0x10",
        "%D9%A3",
        "5%0A",
        "null",
        "1&timeout=2",
    ],
)
@virtually
async def test_an_invalid_timeout_is_refused(timeout: str) -> None:
    server = Endpoints()
    task = await server.create()
    for task_id in (task.id, "nobody"):
        request = await server.request(f"/tasks/{task_id}/poll?timeout={timeout}")
        assert request.status == 400
        assert request.json["error"]["code"] == "bad_timeout"
        assert "?timeout=30000" in request.json["error"]["message"]


@virtually
async def test_an_invalid_tag_is_refused() -> None:
    """Polling with it would never wait."""
    server = Endpoints()
    task = await server.create()
    request = await server.request(f"/tasks/{task.id}/poll", if_none_match="1")
    assert (request.status, request.json["error"]["code"]) == (400, "bad_if_none_match")


async def waiting(server: Endpoints, count: int, task_id: str) -> list[AsgiRequest]:
    requests = [server.request(f"/tasks/{task_id}/poll") for _ in range(count)]
    await quiet()
    assert server.service.waiting("alice") == count
    return requests


@virtually
async def test_a_hundred_callers_can_wait_for_a_task() -> None:

    server = Endpoints()
    task, other = await server.create(), await server.create()
    requests = await waiting(server, 100, task.id)
    refused = await server.request(f"/tasks/{task.id}/poll")
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    assert "100 waiting calls per task" in refused.json["error"]["message"]
    assert (await server.request(f"/tasks/{task.id}")).status == 200
    assert (await server.request(f"/tasks/{other.id}/poll?timeout=0")).status == 204
    await server.claim(task)
    for request in requests:
        assert (await request).status == 200
    assert now() == 0
    assert server.service.waiting("alice") == 0
    again = [server.request(f"/tasks/{task.id}/poll?timeout=5") for _ in range(100)]
    assert {(await request).status for request in again} == {204}


@virtually
async def test_the_number_of_waiters_is_a_setting() -> None:
    server = Endpoints(waiters_per_task=1)
    task = await server.create()
    [request] = await waiting(server, 1, task.id)
    assert (await server.request(f"/tasks/{task.id}/poll")).status == 429
    assert (await request).status == 204


@virtually
async def test_all_waiting_calls_of_an_owner_count() -> None:
    server = Endpoints(Limits(blocked_calls=2))
    one, other = await server.create(), await server.create()
    await waiting(server, 2, one.id)
    refused = await server.request(f"/tasks/{other.id}/poll")
    assert (refused.status, refused.headers["retry-after"]) == (429, "1")
    await server.claim(one)
    await quiet()
    assert (await server.request(f"/tasks/{other.id}/poll?timeout=0")).status == 204


@virtually
async def test_long_poll_disconnect_frees_its_waiter_slot_at_once() -> None:
    server = Endpoints(waiters_per_task=2)
    task = await server.create()
    stays, leaves = await waiting(server, 2, task.id)
    leaves.disconnect()
    await leaves
    assert not leaves.is_answered
    assert (now(), server.service.waiting("alice")) == (0, 1)
    third = server.request(f"/tasks/{task.id}/poll")
    await quiet()
    assert not third.is_answered
    await server.claim(task)
    assert [(await request).status for request in (stays, third)] == [200, 200]
    assert list(server.store._followers.by_task) == []


@virtually
async def test_a_task_that_is_removed_meanwhile_is_not_found() -> None:
    server = Endpoints()
    task = await server.create()
    [request] = await waiting(server, 1, task.id)
    await server.store.commit(task.with_changes(state=State.REMOVED, version=2), [], 1)
    await request
    assert (request.status, request.json["error"]["code"], now()) == (404, "task_not_found", 0)


async def test_a_disconnect_on_a_real_socket_makes_room() -> None:
    server = Endpoints(waiters_per_task=1)
    task = await server.create()

    async def until_waiting(count: int) -> None:
        async with asyncio.timeout(10):
            while server.service.waiting("alice") != count:
                await asyncio.sleep(0)

    async with serving(server.app) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET /tasks/{task.id}/poll HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await until_waiting(1)
        writer.close()
        await writer.wait_closed()
        await until_waiting(0)
        async with httpx.AsyncClient(timeout=10) as client:
            poll = client.get(f"http://127.0.0.1:{port}/tasks/{task.id}/poll?timeout=1")
            assert (await poll).status_code == 204
