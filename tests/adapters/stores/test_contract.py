"""The test kit notices broken stores: each has one bug, and at least two tests to find it."""

import itertools
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from taskmachine.adapters.stores import MAX_REPORTS, Caps, Conflict, Follower, Worker
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.adapters.stores.sqlite.schema import prepare
from taskmachine.adapters.stores.sqlite.store import SQLiteStore
from taskmachine.adapters.stores.testing.contract import (
    NewPlace,
    PersistentStoreContract,
    Place,
    StoreContract,
)
from taskmachine.adapters.stores.testing.machine import StoreMachine
from taskmachine.adapters.stores.testing.sessions import (
    PersistentSessionContract,
    SessionContract,
)
from taskmachine.protocol.sealing import Position
from taskmachine.statemachine import Entry, LimitExceeded, State, Task
from tests.adapters.stores import broken_sessions


class IgnoresVersions(MemoryStore):
    async def commit(self, task: Task, entries: Sequence[Entry], expected: int) -> None:
        stored = await self.load(task.id)
        await super().commit(task, entries, expected if stored is None else stored.version)


class CommitsBeforeItChecks(MemoryStore):
    async def commit(self, task: Task, entries: Sequence[Entry], expected: int) -> None:
        if task.id in self._histories:
            self._histories[task.id] += entries
        await super().commit(task, (), expected)


class ForgetsKeys(MemoryStore):
    async def create(self, task: Task, entries: Sequence[Entry], caps: Caps) -> Task:
        self._keys.clear()
        return await super().create(task, entries, caps)


class SharesKeysBetweenOwners(MemoryStore):
    async def create(self, task: Task, entries: Sequence[Entry], caps: Caps) -> Task:
        for other in self._tasks.values():
            if task.call.key is not None and other.call == task.call:
                return other
        return await super().create(task, entries, caps)


class AllowsOneTooMany(MemoryStore):
    async def create(self, task: Task, entries: Sequence[Entry], caps: Caps) -> Task:
        return await super().create(task, entries, attrs.evolve(caps, live=caps.live + 1))


class CountsEndedTasksAsLive(MemoryStore):
    async def create(self, task: Task, entries: Sequence[Entry], caps: Caps) -> Task:
        if task.call.key is None and len(self._tasks) >= caps.live:
            raise LimitExceeded("tasks", 1_000)
        return await super().create(task, entries, caps)


class ChecksCapsBeforeKeys(MemoryStore):
    async def create(self, task: Task, entries: Sequence[Entry], caps: Caps) -> Task:
        if len(self._tasks) >= caps.retained:
            raise LimitExceeded("tasks", 1_000)
        return await super().create(task, entries, caps)


class PagesIncludeTheirPosition(MemoryStore):
    async def page(self, owner: str, after: Position | None, limit: int) -> Sequence[Task]:
        if after is not None:
            after = attrs.evolve(after, task_id=after.task_id + "\0")
        return await super().page(owner, after, limit)


class PagesByTimeOnly(MemoryStore):
    async def browse(self, after: Position | None, limit: int) -> Sequence[Task]:
        if after is not None:
            after = Position(after.created_at, "")
        return await super().browse(after, limit)


class ShowsTasksOfOthers(MemoryStore):
    async def page(self, owner: str, after: Position | None, limit: int) -> Sequence[Task]:
        return await super().browse(after, limit)


class QueuesWhatIsTaken(MemoryStore):
    async def queued(self, now: int, limit: int) -> Sequence[Task]:
        live = [task for task in self._tasks.values() if not task.is_terminal]
        return sorted(live, key=lambda task: (task.created_at, task.id))[:limit]


class QueuesInAnyOrder(MemoryStore):
    async def queued(self, now: int, limit: int) -> Sequence[Task]:
        return [*reversed(await super().queued(now, 10**6))][:limit]


class QueuesBeforeDue(MemoryStore):
    async def queued(self, now: int, limit: int) -> Sequence[Task]:
        return await super().queued(10**12, limit)


class LosesSteps(MemoryStore):
    async def commit(self, task: Task, entries: Sequence[Entry], expected: int) -> None:
        kept = [entry for entry in entries if entry.data is None or entry.seq <= MAX_REPORTS]
        await super().commit(task, kept, expected)


class ExpiresTooLate(MemoryStore):
    async def overdue(self, now: int, limit: int) -> Sequence[Task]:
        return await super().overdue(now - 1, limit)


class ForgetsLiveTasks(MemoryStore):
    async def forgettable(self, now: int, limit: int) -> Sequence[Task]:
        return [*await super().forgettable(now, limit), *await super().overdue(now, limit)][:limit]


class HoldsForAnybody(MemoryStore):
    async def held(self, worker: str, limit: int) -> Sequence[Task]:
        return [task for task in self._tasks.values() if task.worker is not None][:limit]


class LeavesHistoryBehind(MemoryStore):
    async def commit(self, task: Task, entries: Sequence[Entry], expected: int) -> None:
        lines = self._histories.get(task.id, [])
        await super().commit(task, entries, expected)
        if task.state is State.REMOVED:
            self._histories[task.id] = lines


class LeavesMessagesBehind(MemoryStore):
    async def commit(self, task: Task, entries: Sequence[Entry], expected: int) -> None:
        messages = self._messages.get(task.id, deque())
        await super().commit(task, entries, expected)
        self._messages[task.id] = messages


class KeepsMessagesOfNobody(MemoryStore):
    async def enqueue(self, task_id: str, message: bytes, maximum: int) -> int:
        if task_id not in self._tasks:
            self._messages.setdefault(task_id, deque()).append(message)
        return await super().enqueue(task_id, message, maximum)


class DropsTheNewestMessage(MemoryStore):
    async def enqueue(self, task_id: str, message: bytes, maximum: int) -> int:
        if len(self._messages.get(task_id, ())) >= maximum:
            return int(task_id in self._tasks)
        return await super().enqueue(task_id, message, maximum)


class TellsAfterTheCommit(MemoryStore):
    async def commit(self, task: Task, entries: Sequence[Entry], expected: int) -> None:
        followers = self._followers.by_task.pop(task.id, {})
        await super().commit(task, entries, expected)
        if followers:
            self._followers.by_task[task.id] = followers


class TellsWhoLeft(MemoryStore):
    def follow(self, task_id: str, follower: Follower) -> Callable[[], None]:
        super().follow(task_id, follower)
        return lambda: None


class TellsOfConflicts(MemoryStore):
    async def commit(self, task: Task, entries: Sequence[Entry], expected: int) -> None:
        try:
            await super().commit(task, entries, expected)
        except Conflict:
            self._followers.notify(task.id, task)
            raise


class BeatsForTheDead(MemoryStore):
    async def beat(self, worker_id: str) -> bool:
        await super().beat(worker_id)
        return True


class DoesNotCountBeats(MemoryStore):
    async def beat(self, worker_id: str) -> bool:
        return worker_id in self._workers


class ForgetsWhoIsOrphaned(MemoryStore):
    async def remove_worker(self, worker_id: str) -> None:
        self._workers[worker_id] = Worker(worker_id, "", 0)
        await super().remove_worker(worker_id)
        self._held.pop(worker_id, None)


class ExportsNoHistory(MemoryStore):
    async def export(self) -> AsyncIterator[tuple[Task, Sequence[Entry]]]:
        async for task, _ in super().export():
            yield task, ()


class AdoptsOverWhatIsThere(MemoryStore):
    async def adopt(self, task: Task, entries: Sequence[Entry]) -> None:
        if task.id in self._tasks:
            self._tasks[task.id] = task
        else:
            await super().adopt(task, entries)


BROKEN = [
    broken
    for broken in tuple(globals().values())
    if isinstance(broken, type) and issubclass(broken, MemoryStore) and broken is not MemoryStore
]


def checks(contract: type) -> list[str]:
    names = [name for name in dir(contract) if name.startswith("test_")]
    return [name for name in names if name != "test_random_operations_agree_with_the_model"]


EXAMPLES = checks(StoreContract)

FAILURES = (AssertionError, pytest.fail.Exception, LookupError, ValueError, Conflict, LimitExceeded)


def places(broken: type[MemoryStore]) -> NewPlace:
    async def open_broken() -> MemoryStore:
        return broken(secrets.token_bytes(32))

    return lambda: open_broken


def files(broken: type[SQLiteStore], folder: Path) -> NewPlace:
    numbers = itertools.count()

    def new_place() -> Place:
        path = folder / f"{next(numbers)}.db"

        async def open_broken() -> SQLiteStore:
            prepare(path)
            return broken(path)

        return open_broken

    return new_place


def notices(contract: Any, name: str, new_place: NewPlace) -> bool:
    try:
        getattr(contract, name)(new_place)
    except FAILURES:
        return True
    return False


@pytest.mark.parametrize("broken", [*BROKEN, *broken_sessions.BROKEN])
def test_the_examples_notice_a_broken_store(broken: type[MemoryStore]) -> None:
    assert [name for name in EXAMPLES if notices(StoreContract(), name, places(broken))]


@pytest.mark.parametrize("broken", broken_sessions.BROKEN_FILES)
def test_contract_examples_detect_stores_that_do_not_share_sessions(
    broken: type[SQLiteStore], tmp_path: Path
) -> None:
    contract, new_place = PersistentStoreContract(), files(broken, tmp_path)
    names = checks(PersistentSessionContract)
    assert [name for name in names if notices(contract, name, new_place)]


@pytest.mark.parametrize("name", checks(SessionContract))
def test_each_example_of_sessions_has_a_store_that_fails_it(name: str) -> None:
    contract = StoreContract()
    assert any(notices(contract, name, places(broken)) for broken in broken_sessions.BROKEN)


@pytest.mark.parametrize("name", checks(PersistentSessionContract))
def test_each_example_of_shared_sessions_has_a_store_that_fails_it(
    name: str, tmp_path: Path
) -> None:
    contract = PersistentStoreContract()
    assert any(
        notices(contract, name, files(broken, tmp_path)) for broken in broken_sessions.BROKEN_FILES
    )


# Those that chance meets soon: the others take it longer than the examples.
@pytest.mark.parametrize(
    "broken",
    [
        IgnoresVersions,
        CommitsBeforeItChecks,
        ForgetsKeys,
        ShowsTasksOfOthers,
        QueuesWhatIsTaken,
        HoldsForAnybody,
        LeavesHistoryBehind,
        AdoptsOverWhatIsThere,
        broken_sessions.KeepsTheFirstBody,
        broken_sessions.ForgetsSessionsTooLate,
        broken_sessions.ForgetsSessionsInAnyOrder,
    ],
)
def test_random_operations_notice_a_broken_store(broken: type[MemoryStore]) -> None:
    class BrokenStoreMachine(StoreMachine):
        def __init__(self) -> None:
            super().__init__(places(broken), persists=False)

    with pytest.raises(FAILURES):
        run_state_machine_as_test(
            BrokenStoreMachine,
            settings=settings(
                max_examples=1_000,
                stateful_step_count=40,
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            ),
        )


def test_the_store_itself_is_not_broken() -> None:
    contract: Any = StoreContract()
    for name in EXAMPLES:
        getattr(contract, name)(places(MemoryStore))
