"""Waiting for a task by plain HTTP, in virtual time."""

import asyncio

import httpx
import pytest

from taskmachine.adapters.runtime.limits import Limits
from taskmachine.statemachine import State
from tests.adapters.connections import quiet
from tests.adapters.memory_service import DONE, run
from tests.adapters.transports.loopback import serving
from tests.adapters.transports.visits import House, Visit, virtually


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_task_that_has_ended_is_answered_at_once() -> None:
    async def main() -> None:
        house = House()
        task = await house.ended()
        visit = await house.visit(f"/tasks/{task.id}/poll")
        assert (visit.status, visit.json["status"], now()) == (200, "completed", 0)
        assert visit.headers["etag"] == f'"{task.version}"'

    virtually(main())


def test_whoever_has_the_end_of_a_task_is_told_so_at_once() -> None:
    async def main() -> None:
        house = House()
        task = await house.ended()
        visit = await house.visit(f"/tasks/{task.id}/poll", if_none_match=f'"{task.version}"')
        assert (visit.status, visit.body, now()) == (304, b"", 0)

    virtually(main())


@pytest.mark.parametrize("tags", [{}, {"if_none_match": '"1"'}, {"if_none_match": "*"}])
def test_a_change_is_answered_when_it_happens(tags: dict[str, str]) -> None:
    async def main() -> None:
        house = House()
        task = await house.create()
        visit = house.visit(f"/tasks/{task.id}/poll", **tags)
        await asyncio.sleep(12)
        assert not visit.is_answered
        await (await house.claim(task)).settle(DONE)
        await visit
        assert (visit.status, visit.headers["etag"], now()) == (200, '"2"', 12)

    virtually(main())


def test_whoever_has_another_version_is_answered_at_once() -> None:
    """So nothing is missed between two calls."""

    async def main() -> None:
        house = House()
        task = await house.create()
        await house.claim(task)
        for tags in ('"1"', '"3"', 'W/"1", "7"'):
            visit = await house.visit(f"/tasks/{task.id}/poll", if_none_match=tags)
            assert (visit.status, visit.headers["etag"], now()) == (200, '"2"', 0)

    virtually(main())


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
def test_when_the_time_is_over_there_is_nothing_to_say(
    query: str, seconds: float, tags: dict[str, str], status: int
) -> None:
    """With the tag, so that the next call can go on from there."""

    async def main() -> None:
        house = House()
        task = await house.create()
        visit = await house.visit(f"/tasks/{task.id}/poll{query}", **tags)
        assert (visit.status, visit.body, visit.headers["etag"]) == (status, b"", '"1"')
        assert now() == pytest.approx(seconds)

    virtually(main())


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
def test_a_time_that_is_none_is_refused(timeout: str) -> None:
    async def main() -> None:
        house = House()
        task = await house.create()
        for task_id in (task.id, "nobody"):
            visit = await house.visit(f"/tasks/{task_id}/poll?timeout={timeout}")
            assert visit.status == 400
            assert visit.json["error"]["code"] == "bad_timeout"
            assert "?timeout=30000" in visit.json["error"]["message"]

    virtually(main())


def test_a_tag_that_is_none_is_refused() -> None:
    """It would be answered at once, again and again."""

    async def main() -> None:
        house = House()
        task = await house.create()
        visit = await house.visit(f"/tasks/{task.id}/poll", if_none_match="1")
        assert (visit.status, visit.json["error"]["code"]) == (400, "bad_if_none_match")

    virtually(main())


async def waiting(house: House, count: int, task_id: str) -> list[Visit]:
    visits = [house.visit(f"/tasks/{task_id}/poll") for _ in range(count)]
    await quiet()
    assert house.service.waiting("alice") == count
    return visits


def test_a_hundred_wait_for_a_task_and_all_are_answered() -> None:
    """And nothing is left of them, not even a timer."""

    async def main() -> None:
        house = House()
        task, other = await house.create(), await house.create()
        visits = await waiting(house, 100, task.id)
        refused = await house.visit(f"/tasks/{task.id}/poll")
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert "100 calls that wait for one task" in refused.json["error"]["message"]
        assert (await house.visit(f"/tasks/{task.id}")).status == 200
        assert (await house.visit(f"/tasks/{other.id}/poll?timeout=0")).status == 204
        await house.claim(task)
        for visit in visits:
            assert (await visit).status == 200
        assert now() == 0
        assert house.service.waiting("alice") == 0
        again = [house.visit(f"/tasks/{task.id}/poll?timeout=5") for _ in range(100)]
        assert {(await visit).status for visit in again} == {204}

    virtually(main())


def test_the_number_of_waiters_is_a_setting() -> None:
    async def main() -> None:
        house = House(waiters_per_task=1)
        task = await house.create()
        [visit] = await waiting(house, 1, task.id)
        assert (await house.visit(f"/tasks/{task.id}/poll")).status == 429
        assert (await visit).status == 204

    virtually(main())


def test_all_waiting_calls_of_an_owner_count() -> None:
    async def main() -> None:
        house = House(Limits(blocked_calls=2))
        one, other = await house.create(), await house.create()
        await waiting(house, 2, one.id)
        refused = await house.visit(f"/tasks/{other.id}/poll")
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        await house.claim(one)
        await quiet()
        assert (await house.visit(f"/tasks/{other.id}/poll?timeout=0")).status == 204

    virtually(main())


def test_whoever_leaves_makes_room_at_once() -> None:
    async def main() -> None:
        house = House(waiters_per_task=2)
        task = await house.create()
        stays, leaves = await waiting(house, 2, task.id)
        leaves.leave()
        await leaves
        assert not leaves.is_answered
        assert (now(), house.service.waiting("alice")) == (0, 1)
        third = house.visit(f"/tasks/{task.id}/poll")
        await quiet()
        assert not third.is_answered
        await house.claim(task)
        assert [(await visit).status for visit in (stays, third)] == [200, 200]
        assert list(house.store._followers.by_task) == []

    virtually(main())


def test_a_task_that_is_forgotten_meanwhile_is_not_found() -> None:
    async def main() -> None:
        house = House()
        task = await house.create()
        [visit] = await waiting(house, 1, task.id)
        await house.store.commit(task.with_changes(state=State.REMOVED, version=2), [], 1)
        await visit
        assert (visit.status, visit.json["error"]["code"], now()) == (404, "task_not_found", 0)

    virtually(main())


def test_a_real_client_that_leaves_makes_room() -> None:
    async def main() -> None:
        house = House(waiters_per_task=1)
        task = await house.create()

        async def until_waiting(count: int) -> None:
            async with asyncio.timeout(10):
                while house.service.waiting("alice") != count:
                    await asyncio.sleep(0)

        async with serving(house.app) as port:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET /tasks/{task.id}/poll HTTP/1.1\r\nHost: x\r\n\r\n".encode())
            await until_waiting(1)
            writer.close()
            await writer.wait_closed()
            await until_waiting(0)
            async with httpx.AsyncClient(timeout=10) as client:
                poll = client.get(f"http://127.0.0.1:{port}/tasks/{task.id}/poll?timeout=1")
                assert (await poll).status_code == 204

    run(main())
