"""What time does to tasks: they expire, they are forgotten, and their workers are lost.

Sessions of transports are forgotten along with them.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from taskmachine.adapters.runtime.claims import give_back
from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.stores import Worker
from taskmachine.statemachine import IllegalTransition, NotFound, Task, lifecycle
from taskmachine.statemachine.lifecycle import Step

__all__ = [
    "BATCH",
    "LEASE_S",
    "Leases",
    "expire_overdue",
    "recover",
    "sweep",
    "sweep_pause_s",
]

BATCH: Final = 100
"""Tasks or sessions that are handled at a time, so that nothing else waits for long."""

LEASE_S: Final = 15.0
"""A worker that has not beaten for so long is lost."""

LOOKED_AWAY_S: Final = 6.0
"""What counts of a longer time in which nobody looked: while the store was away nobody could beat,
and whoever lives does so before the next look."""


async def expire_overdue(service: TaskService) -> int:
    """Fail the live tasks whose time is over; how many.  Their work is stopped by that."""

    def expire(task: Task, now: int) -> tuple[Step, ...]:
        if task.deadline is None or task.deadline > now:
            return ()  # it got more time
        return (lifecycle.expire(task, now, until=service.times.to_read_expired(now)),)

    return await _in_batches(service, service.store.overdue, expire)


async def sweep(service: TaskService) -> int:
    """Forget the ended tasks and the sessions whose time is over; how many tasks."""

    def purge(task: Task, now: int) -> tuple[Step, ...]:
        return (lifecycle.purge(task, now),)

    began = time.perf_counter()
    while await service.store.forget_sessions(service.clock(), BATCH) == BATCH:
        pass
    removed = await _in_batches(service, service.store.forgettable, purge)
    if service.observer is not None:
        service.observer.swept(removed, time.perf_counter() - began)
    return removed


def sweep_pause_s(removed: int) -> float:
    """When to sweep again: the sooner, the more there was to do."""
    return 60 if removed > 100 else 180 if removed > 10 else 300


async def _in_batches(
    service: TaskService,
    find: Callable[[int, int], Awaitable[Sequence[Task]]],
    act: Callable[[Task, int], tuple[Step, ...]],
) -> int:
    count = 0
    while tasks := await find(service.clock(), BATCH):
        moved = await asyncio.gather(*(_moved(service, task.id, act) for task in tasks))
        count += sum(moved)
        if not any(moved):
            break
    return count


async def _moved(
    service: TaskService, task_id: str, act: Callable[[Task, int], tuple[Step, ...]]
) -> bool:
    try:
        _, steps = await service.move(task_id, act)
    except (IllegalTransition, NotFound):  # somebody else was faster
        return False
    return bool(steps)


class Leases:
    """Tells which workers are lost, by this process's own steady clock.

    What counts is how long a worker has not beaten while we watched, so it does not matter what
    the clocks of other machines say, nor that any clock jumps.
    """

    def __init__(self, is_dead: Callable[[Worker], bool]) -> None:
        self._is_dead = is_dead
        self._silent: dict[str, tuple[int, float]] = {}  # its last beat, and since how long
        self._looked_s: float | None = None

    def lost(self, workers: Sequence[Worker], now_s: float) -> list[str]:
        """The ids of those that are known to be dead, or have not beaten for a lease."""
        passed_s = 0.0 if self._looked_s is None else min(now_s - self._looked_s, LOOKED_AWAY_S)
        self._looked_s = now_s
        silent = {}
        for worker in workers:
            beat, silent_s = self._silent.get(worker.id, (None, 0.0))
            is_silent = beat == worker.beat
            silent[worker.id] = worker.beat, silent_s + passed_s if is_silent else 0.0
        self._silent = silent
        return [
            worker.id
            for worker in workers
            if self._is_dead(worker) or silent[worker.id][1] >= LEASE_S
        ]


async def recover(service: TaskService, leases: Leases) -> int:
    """Strike lost workers off, and give their tasks to others; how many tasks."""
    store = service.store
    now_s = asyncio.get_running_loop().time()
    for worker_id in leases.lost(await store.workers(), now_s):
        await store.strike(worker_id)
    count = 0
    # Whoever struck a worker off may have died before it got here: look for all the orphans.
    while orphans := await store.orphans(BATCH):
        for task in orphans:
            why = "The worker of this task was lost."
            await give_back(service, task, lost=True, why=why)
        count += len(orphans)
    return count
