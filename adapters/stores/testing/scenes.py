"""Helpers of the test kit, see `contract`."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from taskmachine.adapters.stores import (
    Caps,
    Store,
)
from taskmachine.adapters.stores.testing.machine import NewPlace
from taskmachine.statemachine import Call, Outcome, Question, Task, lifecycle
from taskmachine.statemachine.lifecycle import Step

__all__ = [
    "NOTICED_S",
    "NO_CAPS",
    "created",
    "deleted",
    "ended",
    "ids",
    "moved",
    "pair",
    "scenario",
    "started",
    "state_of",
    "submit",
    "waiting",
]

Test = Callable[[Any, NewPlace], None]

NO_CAPS = Caps()
NOTICED_S = 5.0
"""Timeout of notifications that should take half a second; machines may be busy."""


def scenario(act: Callable[[Any, Store], Awaitable[None]]) -> Test:
    """Return a test that runs with a new store and closes it."""

    def test(self: Any, new_place: NewPlace) -> None:
        async def run() -> None:
            store = await new_place()()
            try:
                await act(self, store)
            finally:
                await store.close()

        with asyncio.Runner() as runner:
            runner.run(run())

    test.__name__ = test.__qualname__ = act.__name__
    test.__doc__ = act.__doc__
    return test


def pair(act: Callable[[Any, Store, Store], Awaitable[None]]) -> Test:
    """Return a test that runs with two stores opened in one new place."""

    def test(self: Any, new_place: NewPlace) -> None:
        async def run() -> None:
            place = new_place()
            first, second = await place(), await place()
            try:
                await act(self, first, second)
            finally:
                await first.close()
                await second.close()

        with asyncio.Runner() as runner:
            runner.run(run())

    test.__name__ = test.__qualname__ = act.__name__
    test.__doc__ = act.__doc__
    return test


def submit(
    task_id: str = "t1",
    owner: str = "alice",
    *,
    at: int = 1_000,
    ttl_ms: int | None = 60_000,
    call: Call = Call("tools/call", "tool"),  # noqa: B008  frozen
) -> Step:
    return lifecycle.submit(task_id, owner, call, at, ttl_ms=ttl_ms)


async def created(store: Store, task_id: str = "t1", owner: str = "alice", **more: Any) -> Task:
    step = submit(task_id, owner, **more)
    return await store.create(step.task, [step.entry], NO_CAPS)


async def moved(store: Store, step: Step) -> Task:
    await store.commit(step.task, [step.entry], step.task.version - 1)
    return step.task


def started(task: Task, worker: str = "w1") -> Step:
    return lifecycle.start(task, 2_000, worker=worker)


def ended(task: Task) -> Step:
    return lifecycle.complete(task, 3_000, Outcome.of_result(b'{"content":[]}'))


def waiting(task_id: str) -> Sequence[Step]:
    """Return the steps by which a task comes to wait for an answer."""
    steps = [submit(task_id)]
    steps.append(started(steps[-1].task))
    question = Question("k", "elicitation/create", b"{}")
    asked = lifecycle.ask(steps[-1].task, 2_000, [question])
    assert asked is not None, "its key is new"
    return [*steps, asked]


async def deleted(store: Store, task: Task) -> None:
    if not task.is_terminal:
        task = await moved(store, ended(task))
    await moved(store, lifecycle.purge(task, 9_000))


async def ids(tasks: Awaitable[Sequence[Task]]) -> list[str]:
    return [task.id for task in await tasks]


async def state_of(store: Store) -> tuple[object, ...]:
    """Return everything that can be read of one task and of all."""
    return (
        await store.browse(None, 100),
        await store.queued(10**12, 100),
        await store.totals(),
        await store.overdue(10**12, 100),
        await store.forgettable(10**12, 100),
        [list(await store.history(task.id)) for task in await store.browse(None, 100)],
    )
