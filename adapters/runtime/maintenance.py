"""Periodic maintenance: expiry, removal of finished tasks and sessions, and lost workers."""

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
"""Maximum number of tasks or sessions per transaction, so that other writers do not wait long."""

LEASE_S: Final = 15.0
"""A worker without a heartbeat for this long is lost."""

MAX_GAP_S: Final = 6.0
"""Counted instead of a longer gap between two checks: while the store was unavailable no worker
could send a heartbeat, and live workers send one before the next check."""


async def expire_overdue(service: TaskService) -> int:
    """Fail live tasks whose ttl has passed, which stops their tools; return how many."""

    def expire(task: Task, now: int) -> tuple[Step, ...]:
        if task.deadline is None or task.deadline > now:
            return ()  # its ttl was extended
        return (lifecycle.expire(task, now, until=service.times.to_read_expired(now)),)

    return await _in_batches(service, service.store.overdue, expire)


async def sweep(service: TaskService) -> int:
    """Remove finished tasks and sessions past their deadline; return the number of tasks."""

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
    """Return the pause before the next sweep: the more was removed, the shorter."""
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
    except (IllegalTransition, NotFound):  # another process was faster
        return False
    return bool(steps)


class Leases:
    """Detects lost workers by the monotonic clock of this process.

    It measures how long a worker sent no heartbeat while this process observed it, so clocks of
    other machines and clock jumps do not matter.
    """

    def __init__(self, is_dead: Callable[[Worker], bool]) -> None:
        self._is_dead = is_dead
        self._silent: dict[str, tuple[int, float]] = {}  # last heartbeat, and seconds since
        self._checked_s: float | None = None

    def lost(self, workers: Sequence[Worker], now_s: float) -> list[str]:
        """Return the ids of workers whose process is dead or whose lease has expired."""
        passed_s = 0.0 if self._checked_s is None else min(now_s - self._checked_s, MAX_GAP_S)
        self._checked_s = now_s
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
    """Remove lost workers and release their tasks; return the number of tasks."""
    store = service.store
    now_s = asyncio.get_running_loop().time()
    for worker_id in leases.lost(await store.workers(), now_s):
        await store.remove_worker(worker_id)
    count = 0
    # Another process may have removed a worker and died before releasing its tasks.
    while orphans := await store.orphans(BATCH):
        for task in orphans:
            why = "The worker of this task was lost."
            await give_back(service, task, lost=True, why=why)
        count += len(orphans)
    return count
