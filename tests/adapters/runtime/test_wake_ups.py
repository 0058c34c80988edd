"""Every wait is ended by a notification of the store, on every store, from this or another process.

A waiter also reads its task again from time to time, which hides lost notifications; here it
must not.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from taskmachine.adapters.runtime import waiting
from taskmachine.adapters.runtime.claims import Claim, claim
from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.runtime.testing.virtual_loop import VirtualLoop
from taskmachine.adapters.stores import Follower, Store, open_store
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.adapters.telemetry import names
from taskmachine.adapters.tools.errors import Gone
from taskmachine.protocol.operations import Answer
from taskmachine.protocol.sealing import Sealer
from taskmachine.statemachine import NotFound, Outcome, Reply, State, Task, lifecycle
from tests.adapters.memory_service import DONE, FORM, Clock, call
from tests.adapters.stores.postgres_server import Server, running
from tests.adapters.telemetry.exporters import Telemetry

PATIENCE_S: Final = 5.0
BOOM: Final = Outcome.of_error(-32_000, "boom")


class Process:
    """A service on a store, as each process has one."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.telemetry = Telemetry()
        numbers = count(1)
        self.service = TaskService(
            store,
            Sealer(b"s" * 32),
            clock=Clock(),
            new_id=lambda: f"task-{next(numbers)}",
            observer=self.telemetry.observer,
        )

    async def claim(self, task: Task) -> Claim:
        held = await claim(self.service, task.id, "w1")
        assert held is not None
        return held


End = Callable[[Process, Task], Awaitable[object]]


async def complete(process: Process, task: Task) -> None:
    await Claim(process.service, task).settle(DONE)


async def fail(process: Process, task: Task) -> None:
    await Claim(process.service, task).settle(BOOM)


async def expire(process: Process, task: Task) -> None:
    await process.service.move(task.id, lambda task, now: (lifecycle.expire(task, now),))


async def cancel(process: Process, task: Task) -> None:
    await process.service.cancel(task.owner, task.id)


ENDS: Final[dict[State, tuple[End, ...]]] = {
    State.COMPLETED: (complete,),
    State.FAILED: (fail, expire),
    State.CANCELLED: (cancel,),
}
EVERY_END: Final = pytest.mark.parametrize(
    ("state", "end"),
    [(state, end) for state, ends in ENDS.items() for end in ends],
    ids=lambda value: getattr(value, "__name__", str(value)),
)


@pytest.fixture(scope="module")
def database() -> Iterator[Server]:
    with running() as database:
        yield database


@pytest.fixture(params=["memory", "sqlite", "sqlite, shared", "postgresql", "postgresql, shared"])
def processes(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> "Processes":
    monkeypatch.setattr(waiting, "REREAD_S", 3_600.0)
    monkeypatch.setattr(waiting, "LOST_S", 0.0)
    kind, _, shared = request.param.partition(", ")
    if kind == "memory":
        url = "memory:"
    elif kind == "sqlite":
        url = f"sqlite:{tmp_path / 'tasks.db'}"
    else:
        url = request.getfixturevalue("database").new_url()
    return Processes(url, is_shared=bool(shared))


class Processes:
    def __init__(self, url: str, *, is_shared: bool) -> None:
        self._url = url
        self._is_shared = is_shared

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[Process, Process]]:
        """Yield the process that waits and the one that writes; no waiter may read again."""
        first = Process(await open_store(self._url))
        second = Process(await open_store(self._url)) if self._is_shared else first
        try:
            async with asyncio.timeout(2 * PATIENCE_S):
                yield first, second
                await asyncio.sleep(0)  # a lost notification is reported later
        finally:
            await first.store.close()
            await second.store.close()
        assert first.telemetry.value(names.LOST) == 0


async def blocked(
    process: Process, wait: Coroutine[Any, Any, Task], monkeypatch: pytest.MonkeyPatch
) -> "asyncio.Task[Task]":
    """Return a wait that has read its task and found nothing to return yet."""
    has_read = asyncio.Event()
    follow, load = process.store.follow, process.store.load
    is_followed = False

    def noting_follow(task_id: str, follower: Any) -> Any:
        nonlocal is_followed
        is_followed = True
        return follow(task_id, follower)

    async def noting_load(task_id: str) -> Task | None:
        is_last = is_followed
        task = await load(task_id)
        if is_last:
            has_read.set()
        return task

    monkeypatch.setattr(process.store, "follow", noting_follow)
    monkeypatch.setattr(process.store, "load", noting_load)
    waiter = asyncio.create_task(wait)
    await has_read.wait()
    await asyncio.sleep(0)
    assert not waiter.done()
    return waiter


@EVERY_END
async def test_a_caller_that_waits_for_the_outcome_is_notified(
    state: State, end: End, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with processes.opened() as (here, there):
        task = (await there.claim(await there.service.create("alice", call()))).task
        collect = here.service.collect("alice", task.id, PATIENCE_S)
        waiter = await blocked(here, collect, monkeypatch)
        await end(there, task)
        assert (await waiter).state is state


async def test_a_caller_that_waits_is_notified_of_a_removal(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with processes.opened() as (here, there):
        task = await there.service.create("alice", call())
        await cancel(there, task)
        ended = await there.service.get("alice", task.id)
        wait = here.service.wait("alice", task.id, after=ended.version, timeout_s=PATIENCE_S)
        waiter = await blocked(here, wait, monkeypatch)
        await there.service.move(task.id, lambda task, now: (lifecycle.purge(task, now),))
        with pytest.raises(NotFound):
            await waiter


@pytest.mark.parametrize("how", ["answer", "expire", "cancel"])
async def test_a_tool_that_waits_for_an_answer_is_notified(
    how: str, processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with processes.opened() as (here, there):
        held = await here.claim(await here.service.create("alice", call()))
        await held.ask([FORM])

        async def wait() -> Task:
            await held.answers({FORM.key})
            return held.task

        waiter = await blocked(here, wait(), monkeypatch)
        if how == "answer":
            reply = Reply(b'{"action":"accept","content":{}}')
            await there.service.perform("alice", Answer(held.task.id, {FORM.key: reply}))
            await waiter
        else:
            await (expire if how == "expire" else cancel)(there, held.task)
            with pytest.raises(Gone):
                await waiter


class LateStore(MemoryStore):
    """A store that notifies followers so late, or never."""

    def __init__(self, late_s: float | None) -> None:
        super().__init__(b"s" * 32)
        self._late_s = late_s

    def follow(self, task_id: str, follower: Follower) -> Callable[[], None]:
        def notify(task: Task | None) -> None:
            if self._late_s is not None:
                asyncio.get_running_loop().call_later(self._late_s, follower, task)

        return super().follow(task_id, notify)


@pytest.mark.parametrize(("late_s", "lost"), [(None, 1), (0.9, 0)])
def test_a_lost_notification_is_counted_and_a_late_one_is_not(
    late_s: float | None, lost: int
) -> None:
    async def main() -> None:
        process = Process(LateStore(late_s))
        task = await process.service.create("alice", call())
        waiter = asyncio.create_task(process.service.collect("alice", task.id))
        await asyncio.sleep(waiting.REREAD_S - 0.1)
        await cancel(process, task)
        assert (await waiter).state is State.CANCELLED, "it read the task again"
        await asyncio.sleep(waiting.LOST_S)
        assert process.telemetry.value(names.LOST) == lost

    loop = VirtualLoop(Random(0))
    try:
        loop.run(main())
    finally:
        loop.close()
