"""A task as server-sent events, in virtual time, and once on a real socket."""

import asyncio
import json

import httpx
import pytest

from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.statemachine import State, Task
from tests.adapters.connections import quiet
from tests.adapters.memory_service import DONE, FORM, run
from tests.adapters.transports.event_reader import read_events
from tests.adapters.transports.loopback import serving
from tests.adapters.transports.visits import House, Visit, virtually


def heard(visit: Visit) -> list[tuple[str, str, str | None]]:
    """Id, status and message of each event."""
    events = read_events(visit.body)
    assert {event.name for event in events} <= {"task"}
    tasks = [json.loads(event.data) for event in events]
    return [
        (event.id, task["status"], task.get("statusMessage"))
        for event, task in zip(events, tasks, strict=True)
    ]


def is_free(house: House) -> bool:
    return not list(house.store._followers.by_task) and not house.runtime.subscriptions._count


def test_the_task_as_it_is_then_each_change_until_the_end() -> None:
    """What no caller can see is no event: that a worker took the task."""

    async def main() -> None:
        house = House()
        task = await house.create()
        visit = house.visit(f"/tasks/{task.id}/events")
        await visit.until_sent(b"\n\n")
        assert heard(visit) == [("1", "working", None)]
        held = await house.claim(task)
        await held.report(message="one")
        await visit.until_sent(b"one")
        await held.report(message="one")
        await held.report(message="two")
        await held.ask([FORM])
        await house.service.cancel("alice", task.id)
        await visit
        assert heard(visit) == [
            ("1", "working", None),
            ("3", "working", "one"),
            ("5", "working", "two"),
            ("6", "input_required", "two"),
            ("7", "cancelled", "The task was cancelled by request."),
        ]
        assert is_free(house)

    virtually(main())


def test_an_event_is_what_a_look_at_the_task_shows() -> None:
    async def main() -> None:
        house = House()
        task = await house.ended()
        visit = await house.visit(f"/tasks/{task.id}/events")
        [event] = read_events(visit.body)
        assert json.loads(event.data) == (await house.visit(f"/tasks/{task.id}")).json
        assert visit.headers == {
            "content-type": "text/event-stream",
            "cache-control": "no-store",
            "x-accel-buffering": "no",
        }
        assert is_free(house)

    virtually(main())


@pytest.mark.parametrize(("options", "seconds"), [({}, 15), ({"keep_alive_s": 60.0}, 60)])
def test_silence_is_broken_by_comments(options: dict[str, float], seconds: int) -> None:
    async def main() -> None:
        house = House(**options)  # type: ignore[arg-type]
        task = await house.create()
        visit = house.visit(f"/tasks/{task.id}/events")
        await asyncio.sleep(3 * seconds + 1)
        await (await house.claim(task)).settle(DONE)
        await visit
        times = [at for at, block in visit.chunks if block.startswith(b":")]
        assert times == [seconds, 2 * seconds, 3 * seconds]
        assert [id for id, _, _ in heard(visit)] == ["1", "3"]

    virtually(main())


@pytest.mark.parametrize(
    ("last", "ids"),
    [
        ("0", ["2", "3"]),
        ("1", ["2", "3"]),
        ("2", ["3"]),
        ("3", ["2", "3"]),  # not yet: an id of something else
        ("-1", ["2", "3"]),
        ("two", ["2", "3"]),
        ("", ["2", "3"]),
        ("9" * 5_000, ["2", "3"]),
    ],
)
def test_whoever_comes_again_is_not_told_what_it_has_seen(last: str, ids: list[str]) -> None:
    async def main() -> None:
        house = House()
        task = await house.create()
        held = await house.claim(task)
        visit = house.visit(f"/tasks/{task.id}/events", last_event_id=last)
        await visit.until_sent(b"\n\n")
        await held.settle(DONE)
        await visit
        assert [id for id, _, _ in heard(visit)] == ids

    virtually(main())


def test_whoever_has_seen_the_end_is_told_not_to_come_again() -> None:
    """A browser connects again after every end of a stream, but not after 204."""

    async def main() -> None:
        house = House()
        task = await house.ended()
        visit = await house.visit(f"/tasks/{task.id}/events", last_event_id=str(task.version))
        assert (visit.status, visit.body) == (204, b"")
        before = await house.visit(f"/tasks/{task.id}/events", last_event_id="2")
        assert heard(before) == [("3", "completed", None)]

    virtually(main())


def test_a_slow_reader_loses_the_oldest_but_not_the_end() -> None:
    """And the task does not wait for it."""

    async def main() -> None:
        house = House(Limits(buffer=3))
        task = await house.create()
        visit = house.visit(f"/tasks/{task.id}/events")
        await visit.until_sent(b"\n\n")
        visit.readable.clear()
        held = await house.claim(task)
        for number in range(10):
            await held.report(message=str(number))
            await quiet()
        await held.settle(DONE)
        await quiet()
        assert len(heard(visit)) == 1
        visit.readable.set()
        await visit
        ids = [int(id) for id, _, _ in heard(visit)]
        # The first, the one that was on its way, and what the buffer has room for.
        assert ids == [1, 3, 11, 12, 13]
        assert heard(visit)[-1][1] == "completed"
        assert is_free(house)

    virtually(main())


def test_whoever_leaves_frees_everything_at_once() -> None:
    async def main() -> None:
        house = House()
        task = await house.create()
        visits = [house.visit(f"/tasks/{task.id}/events") for _ in range(3)]
        await quiet()
        assert not is_free(house)
        for visit in visits:
            visit.leave()
            await visit
        assert asyncio.get_running_loop().time() == 0
        assert is_free(house)

    virtually(main())


def test_whoever_leaves_without_reading_frees_everything_too() -> None:
    async def main() -> None:
        house = House()
        task = await house.create()
        visit = house.visit(f"/tasks/{task.id}/events")
        visit.readable.clear()
        held = await house.claim(task)
        await held.report(message="unread")
        await quiet()
        visit.leave()
        await visit
        assert is_free(house)
        await held.settle(DONE)

    virtually(main())


def test_an_attentive_reader_is_not_idle_however_long_nothing_happens() -> None:
    """Those that do not read are another matter."""

    async def main() -> None:
        house = House()
        task = await house.create()
        reads, sleeps = [house.visit(f"/tasks/{task.id}/events") for _ in range(2)]
        await quiet()
        sleeps.readable.clear()
        await asyncio.sleep(2 * 3_600)
        house.runtime.subscriptions.close_idle()
        sleeps.readable.set()
        await sleeps
        assert [id for id, _, _ in heard(sleeps)] == ["1"]
        await (await house.claim(task)).settle(DONE)
        await reads
        assert [id for id, _, _ in heard(reads)] == ["1", "3"]

    virtually(main())


def test_streams_of_an_owner_are_limited() -> None:
    async def main() -> None:
        house = House(Limits(subscriptions=1))
        task = await house.create()
        visit = house.visit(f"/tasks/{task.id}/events")
        await quiet()
        refused = await house.visit(f"/tasks/{task.id}/events")
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        visit.leave()
        await visit
        again = house.visit(f"/tasks/{task.id}/events")
        await again.until_sent(b"task")
        again.leave()
        await again

    virtually(main())


class ForgetfulStore(MemoryStore):
    """Forgets a task as soon as it was looked at."""

    async def load(self, task_id: str) -> Task | None:
        task = await super().load(task_id)
        if task is not None:
            gone = task.with_changes(state=State.REMOVED, version=task.version + 1)
            await self.commit(gone, [], task.version)
        return task


def test_a_task_that_is_forgotten_before_the_stream_begins_is_not_found() -> None:
    async def main() -> None:
        house = House(store=ForgetfulStore(b"s" * 32))
        task = await house.create()
        visit = await house.visit(f"/tasks/{task.id}/events")
        assert (visit.status, visit.json["error"]["code"]) == (404, "task_not_found")
        assert is_free(house)

    virtually(main())


def test_head_does_not_wait_for_the_end() -> None:
    async def main() -> None:
        house = House()
        task = await house.create()
        visit = await house.visit(f"/tasks/{task.id}/events", "HEAD")
        assert (visit.status, visit.body) == (200, b"")
        assert is_free(house)

    virtually(main())


def test_a_real_client_on_a_real_socket() -> None:
    """It reads a life, and another one leaves in the middle."""

    async def main() -> None:
        house = House()
        task = await house.create()
        async with (
            serving(house.app) as port,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=10) as client,
        ):
            url = f"/tasks/{task.id}/events"
            async with client.stream("GET", url) as stays:
                async with client.stream("GET", url) as leaves:
                    await anext(leaves.aiter_bytes())
                async with asyncio.timeout(10):
                    while len(house.runtime.subscriptions._open) > 1:
                        await asyncio.sleep(0)
                await (await house.claim(task)).settle(DONE)
                body = await stays.aread()
            assert [event.id for event in read_events(body)] == ["1", "3"]
            poll = asyncio.create_task(client.get(f"/tasks/{task.id}/poll"))
            assert (await poll).json()["status"] == "completed"

    run(main())
