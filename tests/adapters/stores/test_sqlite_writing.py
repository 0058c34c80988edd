"""Group commit, other processes, and what followers learn of them."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from taskmachine.adapters.stores import Caps, Conflict, KeptSession, StoreError, Worker
from taskmachine.adapters.stores.sqlite import operations
from taskmachine.adapters.stores.sqlite import writer as sqlite_writer
from taskmachine.adapters.stores.sqlite.store import SQLiteStore, open_sqlite
from taskmachine.adapters.stores.testing.scenes import created, ended, moved, started, submit
from taskmachine.statemachine import LimitExceeded, Task, lifecycle
from tests.adapters.stores.concurrent_writers import write_concurrently

Scenario = Callable[[SQLiteStore], Awaitable[None]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


def play(path: Path, scenario: Scenario) -> None:
    async def run() -> None:
        store = await open_sqlite(f"sqlite:{path}")
        try:
            await scenario(store)
            assert await store.check() == []
        finally:
            await store.close()

    asyncio.run(run())


async def outcomes(*calls: Awaitable[Any]) -> list[Any]:
    """Return each result, or the class of the exception raised."""
    answers = await asyncio.gather(*calls, return_exceptions=True)
    return [type(answer) if isinstance(answer, Exception) else answer for answer in answers]


# --- one transaction for many --------------------------------------------------------------------


def test_concurrent_writes_share_one_transaction(path: Path) -> None:
    async def scenario(store: SQLiteStore) -> None:
        tasks = [await created(store, f"t{number}") for number in range(100)]
        statements: list[str] = []
        store._writer._connection.set_trace_callback(statements.append)
        await asyncio.gather(
            *(moved(store, started(task)) for task in tasks),
            *(store.keep_session(KeptSession(task.id, b"body", 10), 100) for task in tasks),
        )
        store._writer._connection.set_trace_callback(None)
        assert [s for s in statements if s in ("BEGIN IMMEDIATE", "COMMIT")] == [
            "BEGIN IMMEDIATE",
            "COMMIT",
        ]

    play(path, scenario)


def test_an_operation_that_is_refused_disturbs_no_other(path: Path) -> None:
    async def scenario(store: SQLiteStore) -> None:
        task, other = await created(store, "t1"), await created(store, "t2")
        late, full = submit("late"), submit("full")
        beyond = submit("beyond", at=2**70)
        again = lifecycle.report(started(other).task, 5, message="on")
        assert await outcomes(
            moved(store, started(task)),
            store.commit(ended(task).task, [ended(task).entry], 7),
            store.create(full.task, [full.entry], Caps(live=2)),
            store.create(task, [submit("t1").entry], Caps()),
            store.create(beyond.task, [beyond.entry], Caps()),
            store.commit(again.task, [again.entry, again.entry], 1),
            store.keep_session(KeptSession("s1", b"body", 10), 1),
            store.keep_session(KeptSession("s2", b"body", 10), 1),
            store.keep_session(KeptSession("s1", b"body", 2**70), 1),
            store.create(late.task, [late.entry], Caps()),
        ) == [
            started(task).task,
            Conflict,
            LimitExceeded,
            Conflict,
            StoreError,
            StoreError,
            None,
            LimitExceeded,
            StoreError,
            late.task,
        ]
        assert await store.session("s1") == KeptSession("s1", b"body", 10)
        assert await store.session("s2") is None
        assert await store.load("t1") == started(task).task
        assert await store.load("t2") == other
        assert len(await store.history("t2")) == 1
        assert {task.id for task in await store.browse(None, 9)} == {"t1", "t2", "late"}

    play(path, scenario)


def test_full_disk_fails_every_write_of_the_batch(path: Path) -> None:
    async def scenario(store: SQLiteStore) -> None:
        told: list[Task | None] = []
        tasks = [await created(store, f"t{number}") for number in range(20)]
        leave = store.follow("t0", told.append)
        pages = store._writer._connection.execute("PRAGMA page_count").fetchone()[0]
        store._writer._connection.execute(f"PRAGMA max_page_count = {pages}")
        steps = [lifecycle.report(task, 5, message="x" * 9_000) for task in tasks]
        statements: list[str] = []
        store._writer._connection.set_trace_callback(statements.append)
        answers = await asyncio.gather(
            *(moved(store, step) for step in steps), return_exceptions=True
        )
        store._writer._connection.set_trace_callback(None)
        assert statements.count("BEGIN IMMEDIATE") == 1, "a new process would fail as well"
        assert {str(answer) for answer in answers} == {f"{path} cannot grow: the disk is full"}
        assert {type(answer) for answer in answers} == {StoreError}
        assert [await store.load(task.id) for task in tasks] == tasks
        assert told == []
        store._writer._connection.execute("PRAGMA max_page_count = 1000000")
        await asyncio.gather(*(moved(store, step) for step in steps))
        assert told == [steps[0].task]
        leave()

    play(path, scenario)


def test_cancelled_caller_does_not_stop_its_store_operation(path: Path) -> None:
    async def scenario(store: SQLiteStore) -> None:
        tasks = [await created(store, f"t{number}") for number in range(3)]
        told: list[Task | None] = []
        leave = store.follow("t1", told.append)
        writes = [asyncio.create_task(moved(store, started(task))) for task in tasks]
        await asyncio.sleep(0)  # they are on their way
        writes[1].cancel()
        results = await asyncio.gather(*writes, return_exceptions=True)
        assert isinstance(results[1], asyncio.CancelledError)
        await store.remove_worker("nobody")  # all of them are answered now
        assert [await store.load(task.id) for task in tasks] == [started(t).task for t in tasks]
        assert told == [started(tasks[1]).task]
        leave()

    play(path, scenario)


def test_forgetting_no_sessions_writes_nothing(path: Path) -> None:
    async def scenario(store: SQLiteStore) -> None:
        await store.keep_session(KeptSession("s1", b"body", 10), 1)
        statements: list[str] = []
        store._writer._connection.set_trace_callback(statements.append)
        assert await store.forget_sessions(9, 100) == 0
        store._writer._connection.set_trace_callback(None)
        assert statements == []

    play(path, scenario)


def test_too_many_operations_are_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(store: SQLiteStore) -> None:
        answers = await outcomes(*(created(store, f"t{number}") for number in range(5)))
        assert answers.count(StoreError) == 2
        assert len(await store.browse(None, 9)) == 3
        await created(store, "later")

    monkeypatch.setattr(sqlite_writer, "MAX_WAITING", 3)
    play(path, scenario)


def test_a_batch_is_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(store: SQLiteStore) -> None:
        await asyncio.gather(*(created(store, f"t{number}") for number in range(10)))
        assert len(await store.browse(None, 99)) == 10

    monkeypatch.setattr(sqlite_writer, "MAX_BATCH", 3)
    play(path, scenario)


def test_closing_the_store_completes_submitted_operations(path: Path) -> None:
    async def run() -> None:
        store = await open_sqlite(f"sqlite:{path}")
        write = asyncio.create_task(created(store))
        await asyncio.sleep(0)
        await asyncio.gather(store.close(), store.close())
        assert await write == submit().task
        with pytest.raises(StoreError, match="the store is closed"):
            await store.load("t1")
        assert [file.name for file in path.parent.iterdir()] == ["tasks.db"]
        store = await open_sqlite(f"sqlite:{path}")
        assert await store.load("t1") == submit().task
        await store.close()

    asyncio.run(run())


def test_closing_the_store_completes_an_operation_submitted_just_before(path: Path) -> None:
    async def run() -> None:
        store = await open_sqlite(f"sqlite:{path}")
        write = store._writer.submit(
            partial(operations.register_worker, worker=Worker("w1", "here", 1))
        )
        await store.close()
        await asyncio.wait_for(write, 5)
        store = await open_sqlite(f"sqlite:{path}")
        assert [worker.id for worker in await store.workers()] == ["w1"]
        await store.close()

    asyncio.run(run())


def test_later_damage_to_the_file_raises_store_error(path: Path) -> None:
    async def run() -> None:
        store = await open_sqlite(f"sqlite:{path}")
        task = await created(store)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("UPDATE tasks SET record = x'ff'")
            connection.commit()
        with pytest.raises(StoreError, match="a stored task is damaged"):
            await store.load("t1")
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("DROP TABLE tasks")
        for call in (store.load("t1"), store.browse(None, 9), moved(store, started(task))):
            with pytest.raises(StoreError, match="no such table"):
                await call
        await store.close()

    asyncio.run(run())


# --- other processes -----------------------------------------------------------------------------


def test_processes_on_one_file_lose_nothing(path: Path) -> None:
    async def scenario(store: SQLiteStore) -> None:
        for task_id in "abc":
            task = await store.load(task_id)
            history = await store.history(task_id)
            assert task is not None
            assert task.version == 1 + 3 * 20
            assert [entry.seq for entry in history] == list(range(1, task.version + 1))
        assert len(await store.browse(None, 9)) == 3

    reports = write_concurrently(f"sqlite:{path}", count=3, rounds=20)
    assert len({report["secret"] for report in reports}) == 1, "it was made once"
    play(path, scenario)


def test_follower_gets_versions_committed_by_another_process(path: Path) -> None:
    async def scenario(store: SQLiteStore) -> None:
        told: asyncio.Queue[Task | None] = asyncio.Queue()
        leave = store.follow("a", told.put_nowait)
        await asyncio.to_thread(write_concurrently, f"sqlite:{path}", 1, 5)
        versions: list[int] = []
        while not versions or versions[-1] < 6:
            task = await asyncio.wait_for(told.get(), 5)
            assert task is not None
            versions.append(task.version)
        assert versions == sorted(set(versions))
        leave()

    play(path, scenario)


def test_store_stops_polling_without_followers(path: Path) -> None:
    async def scenario(store: SQLiteStore) -> None:
        for _ in range(2):
            leave = store.follow("t1", lambda _: None)
            polling = store._watch._polling
            assert polling is not None
            leave()
            await asyncio.wait_for(polling, 5)
            assert store._watch._polling is None

    play(path, scenario)


def test_a_look_that_did_not_know_of_a_follower_hides_nothing_from_it(path: Path) -> None:
    async def scenario(store: SQLiteStore) -> None:
        other = await open_sqlite(f"sqlite:{path}")
        task = await created(store)
        told: asyncio.Queue[Task | None] = asyncio.Queue()
        leave = store.follow("t1", told.put_nowait)
        task = await moved(other, started(task))
        look = partial(store._watch._look, versions={}, unseen=set())
        assert await store._writer.submit(look, writes=False) == {}
        assert await asyncio.wait_for(told.get(), 5) == task
        leave()
        await other.close()

    play(path, scenario)


def test_store_follows_hundreds_of_tasks_at_once(path: Path) -> None:
    async def scenario(store: SQLiteStore) -> None:
        other = await open_sqlite(f"sqlite:{path}")
        tasks = [await created(store, f"t{number}") for number in range(230)]
        told: asyncio.Queue[Task | None] = asyncio.Queue()
        leaves = [store.follow(task.id, told.put_nowait) for task in tasks]
        await asyncio.gather(*(moved(other, started(task)) for task in tasks[::10]))
        news = [await asyncio.wait_for(told.get(), 5) for _ in tasks[::10]]
        assert sorted(task.id for task in news if task) == sorted(task.id for task in tasks[::10])
        for leave in leaves:
            leave()
        assert told.empty()
        await other.close()

    play(path, scenario)


def test_a_look_that_fails_is_repeated(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(store: SQLiteStore) -> None:
        other = await open_sqlite(f"sqlite:{path}")
        told: asyncio.Queue[Task | None] = asyncio.Queue()
        leave = store.follow("t1", told.put_nowait)
        ask, failures = store._watch._ask, [StoreError("busy"), StoreError("busy")]

        def fail_twice(look: Any, then: Any) -> Any:
            if failures:
                raise failures.pop()
            return ask(look, then)

        monkeypatch.setattr(store._watch, "_ask", fail_twice)
        task = await created(other)
        assert await asyncio.wait_for(told.get(), 5) == task
        assert not failures
        leave()
        await other.close()

    play(path, scenario)


def test_a_damaged_task_keeps_no_other_from_being_noticed(path: Path) -> None:
    async def run() -> None:
        store, other = await open_sqlite(f"sqlite:{path}"), await open_sqlite(f"sqlite:{path}")
        told: asyncio.Queue[Task | None] = asyncio.Queue()
        tasks = [await created(store, task_id) for task_id in ("t1", "t2")]
        leaves = [store.follow(task.id, told.put_nowait) for task in tasks]
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("UPDATE tasks SET record = x'ff', version = 2 WHERE id = 't1'")
        task = await moved(other, started(tasks[1]))
        assert await asyncio.wait_for(told.get(), 5) == task
        for leave in leaves:
            leave()
        await other.close()
        await store.close()

    asyncio.run(run())


def test_follower_is_notified_of_a_deletion_by_another_process(path: Path) -> None:
    async def scenario(store: SQLiteStore) -> None:
        other = await open_sqlite(f"sqlite:{path}")
        task = await moved(store, ended(await created(store)))
        told: asyncio.Queue[Task | None] = asyncio.Queue()
        leave = store.follow("t1", told.put_nowait)
        await moved(other, lifecycle.purge(task, 9_000))
        assert await asyncio.wait_for(told.get(), 5) is None
        leave()
        await other.close()

    play(path, scenario)


def test_follower_gets_a_local_commit_only_once(path: Path) -> None:
    async def scenario(store: SQLiteStore) -> None:
        task = await created(store)
        told: list[Task | None] = []
        leave = store.follow("t1", told.append)
        look = partial(store._watch._look, versions={"t1": 1}, unseen={"t1"})
        looked = store._writer.submit(look, store._watch._notify_foreign, writes=False)
        task = await moved(store, started(task))
        assert await looked == {"t1": task}, "it began before the commit and saw it"
        assert told == [task]
        leave()

    play(path, scenario)


def test_store_rereads_tasks_only_after_a_foreign_commit(path: Path) -> None:
    async def scenario(store: SQLiteStore) -> None:
        await created(store)
        look = partial(store._watch._look, versions={"t1": 1}, unseen=set())
        await store._writer.submit(look, writes=False)
        await created(store, "t2")
        statements: list[str] = []
        store._writer._connection.set_trace_callback(statements.append)
        await store._writer.submit(look, writes=False)
        store._writer._connection.set_trace_callback(None)
        assert statements == ["PRAGMA data_version"]

    play(path, scenario)
