"""Races of a cancellation with a completion, and of an end with a thousand waiters."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Final

from taskmachine.adapters.runtime.claims import Claim, claim
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import new_id
from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.runtime.testing.virtual_loop import VirtualLoop
from taskmachine.adapters.stores import Caps, Store
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.adapters.stores.sqlite.store import open_sqlite
from taskmachine.adapters.tools.errors import Gone
from taskmachine.protocol.sealing import Sealer
from taskmachine.statemachine import Call, Cause, Entry, Outcome, State, Task

RACES: Final = 20_000
WAITERS: Final = 1_000
ORDERS: Final = 60
SEALER: Final = Sealer(bytes(32))
RESULT: Final = Outcome.of_result(b"{}")


async def yield_at_random(random: Random) -> None:
    """Let other coroutines run zero, one or two times."""
    for _ in range(int(random.random() ** 2 * 3)):
        await asyncio.sleep(0)


class SlowStore(MemoryStore):
    """Lets other coroutines run before and after each load and commit."""

    def __init__(self, random: Random) -> None:
        super().__init__(bytes(32))
        self._random = random

    async def load(self, task_id: str) -> Task | None:
        await yield_at_random(self._random)
        task = await super().load(task_id)
        await yield_at_random(self._random)
        return task

    async def commit(self, task: Task, entries: Sequence[Entry], expected: int) -> None:
        await yield_at_random(self._random)
        await super().commit(task, entries, expected)
        await yield_at_random(self._random)


def service_on(store: Store) -> TaskService:
    limits = Limits(Caps(live_of_owner=1_000), blocked_calls=WAITERS)
    return TaskService(store, SEALER, clock=lambda: 1_000_000, new_id=new_id, limits=limits)


async def begun(service: TaskService) -> Claim:
    task = await service.create("ada", Call("tools/call", "tool"))
    held = await claim(service, task.id, "worker")
    assert held is not None
    return held


async def race(service: TaskService, random: Random) -> Cause:
    """Race a cancellation with a completion and return the cause of the end."""
    held = await begun(service)

    async def settle() -> None:
        await yield_at_random(random)
        await held.settle(RESULT)

    async def cancel() -> Task:
        await yield_at_random(random)
        return await service.cancel("ada", held.task.id)

    cancelled, settled = await asyncio.gather(cancel(), settle(), return_exceptions=True)
    end = await service.get("ada", held.task.id)
    assert end.outcome is not None
    assert cancelled == end, "the cancelling client gets the task's end"
    won = settled is None
    assert won or isinstance(settled, Gone), settled
    assert end.outcome.cause is (Cause.RESULT if won else Cause.CANCELLED)
    ends = [entry for entry in await service.store.history(end.id) if entry.seq > 2]
    assert [entry.dest for entry in ends] == [end.state], "the task ended once"
    return end.outcome.cause


def test_a_cancel_and_a_completion_have_one_winner() -> None:
    wins: Counter[Cause] = Counter()
    for seed in range(RACES):
        loop = VirtualLoop(Random(seed), wild=seed % 2 == 1)
        try:
            random = Random(seed)
            wins[loop.run(race(service_on(SlowStore(random)), random))] += 1
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
        finally:
            loop.close()
    print(f"\n{RACES} races: {dict(wins)}")
    assert min(wins[Cause.RESULT], wins[Cause.CANCELLED]) > RACES / 10, "each wins often"


async def collect_all(service: TaskService, random: Random) -> set[int]:
    """Wait for one end by many callers, before, during and after it; return their versions."""
    held = await begun(service)
    first = int(random.random() * (WAITERS + 1))
    early = [asyncio.create_task(service.collect("ada", held.task.id)) for _ in range(first)]
    for _ in range(int(random.random() * 8)):
        await asyncio.sleep(0)
    settling = asyncio.create_task(held.settle(RESULT))
    late = [
        asyncio.create_task(service.collect("ada", held.task.id)) for _ in range(WAITERS - first)
    ]
    async with asyncio.timeout(1):  # shorter than the polling interval of waiters
        seen = await asyncio.gather(*early, *late)
    await settling
    assert {task.state for task in seen} == {State.COMPLETED}
    return {task.version for task in seen}


def test_a_thousand_waiters_all_get_the_end() -> None:
    for seed in range(ORDERS):
        random = Random(seed)
        loop = VirtualLoop(random, wild=seed % 2 == 1)
        try:
            assert loop.run(collect_all(service_on(SlowStore(random)), random)) == {3}, (
                f"seed {seed}"
            )
        except TimeoutError as error:
            raise AssertionError(f"seed {seed}: a waiter did not get the end") from error
        finally:
            loop.close()


def test_the_race_has_one_winner_on_sqlite(tmp_path: Path) -> None:
    async def races() -> Counter[Cause]:
        store = await open_sqlite(f"sqlite:{tmp_path / 'tasks.db'}")
        try:
            service = service_on(store)
            return Counter(
                await asyncio.gather(*(race(service, Random(seed)) for seed in range(500)))
            )
        finally:
            await store.close()

    wins = asyncio.run(races())
    print(f"\n500 races on SQLite: {dict(wins)}")
    assert wins.total() == 500
