"""The PostgreSQL store with other processes, faults and restarts of the server."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import psycopg
import pytest

from taskmachine.adapters.runtime.waiting import retry_store_errors, wait_for
from taskmachine.adapters.stores import Caps, Conflict, KeptSession, StoreError
from taskmachine.adapters.stores.postgresql import connections as postgresql_connections
from taskmachine.adapters.stores.postgresql import watch as postgresql_watch
from taskmachine.adapters.stores.postgresql.connections import (
    Session,
    read_url,
    reraising_cancellation,
)
from taskmachine.adapters.stores.postgresql.store import PostgreSQLStore
from taskmachine.adapters.stores.postgresql.watch import Watch
from taskmachine.adapters.stores.testing.scenes import (
    created,
    deleted,
    ended,
    moved,
    started,
    submit,
)
from taskmachine.statemachine import Call, LimitExceeded, Task, lifecycle
from tests.adapters.stores.concurrent_writers import write_concurrently
from tests.adapters.stores.postgres_server import Server
from tests.adapters.stores.test_postgresql import CheckedStore

SOON_S = 10.0


@pytest.fixture
def url(server: Server) -> str:
    return server.new_url()


def play(url: str, scenario: Callable[..., Awaitable[None]], count: int = 1) -> None:
    """With so many stores in the same place."""

    async def run() -> None:
        stores = [await CheckedStore.open_at(read_url(url)) for _ in range(count)]
        try:
            await scenario(*stores)
        finally:
            for store in stores:
                await store.close()

    asyncio.run(run())


async def outcomes(*awaitables: Awaitable[Any]) -> list[Any]:
    answers = await asyncio.gather(*awaitables, return_exceptions=True)
    return [type(answer) if isinstance(answer, Exception) else answer for answer in answers]


# --- who follows ---------------------------------------------------------------------------------


def follow(store: PostgreSQLStore, task_id: str) -> Callable[[], Awaitable[Task]]:
    told: asyncio.Queue[Task | None] = asyncio.Queue()
    store.follow(task_id, told.put_nowait)

    async def next_told() -> Task:
        task = await asyncio.wait_for(told.get(), SOON_S)
        assert task is not None
        return task

    return next_told


async def told_of_another_process(store: PostgreSQLStore, url: str) -> None:
    next_told = follow(store, "a")
    await asyncio.to_thread(write_concurrently, url, 1, 5)
    versions: list[int] = []
    while not versions or versions[-1] < 6:
        versions.append((await next_told()).version)
    assert versions == sorted(set(versions))


async def nothing(_: Watch) -> None:
    """In the place of what would send hints, or listen for them."""


@pytest.fixture
def nothing_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the test looks at what others have committed."""
    for name in ("_send", "_keep_polling", "_keep_listening"):
        monkeypatch.setattr(Watch, name, nothing)


def test_follower_gets_versions_committed_by_another_process(url: str) -> None:
    play(url, partial(told_of_another_process, url=url))


def test_without_hints_looking_is_enough(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watch, "_keep_listening", nothing)
    play(url, partial(told_of_another_process, url=url))


def test_follower_gets_notifications_without_polling(
    server: Server, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(store: PostgreSQLStore, other: PostgreSQLStore) -> None:
        task = await created(other)
        assert await store.load("t1") == task
        told: asyncio.Queue[Task | None] = asyncio.Queue()
        store.follow("t1", told.put_nowait)
        await until(partial(listeners, server))
        for step in (started(task), ended(started(task).task)):
            assert await moved(other, step) == await asyncio.wait_for(told.get(), SOON_S)
        await moved(other, lifecycle.purge(ended(started(task).task).task, 9_000))
        assert await asyncio.wait_for(told.get(), SOON_S) is None

    monkeypatch.setattr(postgresql_watch, "INTERVAL_S", 3_600)
    play(url, scenario, 2)


def listeners(server: Server) -> list[int]:
    """Return the server processes of listening connections."""
    found = server.execute("SELECT pid FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
    return [pid for (pid,) in found]


async def until(is_so: Callable[[], Any]) -> Any:
    async with asyncio.timeout(SOON_S):
        while not (answer := await asyncio.to_thread(is_so)):
            await asyncio.sleep(0)
    return answer


def test_a_listener_that_was_cut_off_comes_back(server: Server, url: str) -> None:
    async def scenario(store: PostgreSQLStore, other: PostgreSQLStore) -> None:
        task = await created(other)
        next_told = follow(store, "t1")
        assert await next_told() == task
        (pid,) = await until(partial(listeners, server))
        server.execute("SELECT pg_terminate_backend(%s)", (pid,))
        task = await moved(other, started(task))
        assert await next_told() == task
        assert await until(partial(listeners, server)) != [pid]
        task = await moved(other, ended(task))
        assert await next_told() == task

    play(url, scenario, 2)


@pytest.mark.usefixtures("nothing_by_itself")
def test_follower_gets_a_local_commit_before_later_foreign_commits(url: str) -> None:
    async def scenario(store: PostgreSQLStore, other: PostgreSQLStore) -> None:
        task = await created(store)
        told: list[Task | None] = []
        store.follow("t1", told.append)
        first, second = started(task), lifecycle.report(started(task).task, 2_000, message="on")
        run = store._connections.run

        async def late(*arguments: Any, **more: Any) -> Any:
            answer = await run(*arguments, **more)
            if not more.get("reads"):
                patch.undo()
                await moved(other, second)
                await store._watch._look(["t1"])
            return answer

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store._connections, "run", late)
            await moved(store, first)
        assert told == [first.task]
        await store._watch._look(["t1"])
        assert told == [first.task, second.task]

    play(url, scenario, 2)


@pytest.mark.usefixtures("nothing_by_itself")
def test_a_look_from_before_a_creation_deletes_nothing(url: str) -> None:
    async def scenario(store: PostgreSQLStore) -> None:
        assert await store.load("t1") is None
        told: list[Task | None] = []
        store.follow("t1", told.append)
        run = store._connections.run

        async def late(*arguments: Any, **more: Any) -> Any:
            answer = await run(*arguments, **more)
            if more.get("reads"):
                monkeypatch.undo()
                task = await created(store)
                await deleted(store, task)
                await created(store)
            return {"t1": None} if more.get("reads") else answer

        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(store._connections, "run", late)
            await store._watch._look(["t1"])
        assert [task and task.state for task in told][-1] == "submitted"

    play(url, scenario)


def test_a_damaged_task_keeps_no_other_from_being_noticed(server: Server, url: str) -> None:
    async def run() -> None:
        store, other = [await PostgreSQLStore.open_at(read_url(url)) for _ in range(2)]
        tasks = [await created(store, task_id) for task_id in ("t1", "t2")]
        told = [follow(store, task.id) for task in tasks]
        schema = read_url(url).schema
        server.execute(f"UPDATE {schema}.tasks SET record = 'x', version = 2 WHERE id = 't1'")
        task = await moved(other, started(tasks[1]))
        assert await told[1]() == task
        with pytest.raises(StoreError, match="a stored task is damaged"):
            await store.load("t1")
        await store.close()
        await other.close()

    asyncio.run(run())


# --- caps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("caps", "room", "owners"),
    [
        (Caps(live=20), 20, "a"),
        (Caps(live_of_owner=20), 20, "a"),
        (Caps(live_of_owner=20), 40, "ab"),
        (Caps(retained=150), 150, "ab"),  # at first with room for all who create at once
        (Caps(retained_of_owner=130), 130, "a"),
    ],
)
def test_concurrent_creates_on_several_stores_reach_the_caps_exactly(
    url: str, caps: Caps, room: int, owners: str
) -> None:
    async def scenario(*stores: PostgreSQLStore) -> None:
        creates = []
        for number in range(180):
            step = submit(f"t{number}", owners[number % len(owners)])
            creates.append(stores[number % len(stores)].create(step.task, [step.entry], caps))
        answers = await outcomes(*creates)
        assert answers.count(LimitExceeded) == 180 - room
        assert sum(isinstance(answer, Task) for answer in answers) == room

    play(url, scenario, 3)


@pytest.mark.parametrize(
    "caps", [Caps(live=1), Caps(live_of_owner=1), Caps(retained=1), Caps(retained_of_owner=1)]
)
def test_create_near_a_cap_waits_for_uncommitted_creates(
    server: Server, url: str, caps: Caps
) -> None:
    async def scenario(store: PostgreSQLStore, other: PostgreSQLStore) -> None:
        is_stored, may_go_on = asyncio.Event(), asyncio.Event()

        async def hold(_: psycopg.AsyncConnection[Any], task: Task) -> None:
            is_stored.set()
            await may_go_on.wait()

        store.join(hold)
        first, second = submit("t1"), submit("t2")
        creating = asyncio.create_task(store.create(first.task, [first.entry], caps))
        await asyncio.wait_for(is_stored.wait(), SOON_S)
        refused = asyncio.create_task(other.create(second.task, [second.entry], caps))
        waiting = "SELECT 1 FROM pg_locks WHERE NOT granted"
        await until(lambda: server.execute(waiting) or refused.done())
        may_go_on.set()
        assert await creating == first.task
        with pytest.raises(LimitExceeded):
            await refused

    play(url, scenario, 2)


def test_concurrent_creates_with_one_key_return_the_same_task(url: str) -> None:
    async def scenario(*stores: PostgreSQLStore) -> None:
        call = Call("tools/call", key="k")
        ids = [
            created(store, f"t{number} of {place}", call=call)
            for number in range(10)
            for place, store in enumerate(stores)
        ]
        assert len({task.id for task in await asyncio.gather(*ids)}) == 1
        same = await outcomes(*(created(store, "u") for store in stores * 5))
        assert same.count(Conflict) == len(same) - 1

    play(url, scenario, 3)


def test_no_message_is_left_of_a_task_that_is_just_being_deleted(server: Server, url: str) -> None:
    async def run() -> None:
        store = await PostgreSQLStore.open_at(read_url(url))
        await created(store)
        schema = read_url(url).schema
        with psycopg.connect(server.url()) as other:
            other.execute(f"DELETE FROM {schema}.tasks".encode())
            enqueued = asyncio.create_task(store.enqueue("t1", b"message", 9))
            waiting = "SELECT 1 FROM pg_locks WHERE NOT granted"
            await until(lambda: server.execute(waiting) or enqueued.done())
        assert await enqueued == 0
        assert server.execute(f"SELECT count(*) FROM {schema}.messages") == [(0,)]
        await store.close()

    asyncio.run(run())


# --- the same transaction ------------------------------------------------------------------------


def test_joined_function_runs_when_a_task_enters_the_queue(url: str) -> None:
    async def scenario(store: PostgreSQLStore) -> None:
        jobs: list[tuple[str, int]] = []

        async def note(connection: psycopg.AsyncConnection[Any], task: Task) -> None:
            assert connection.info.transaction_status.name in ("INTRANS", "ACTIVE")
            await connection.execute("SELECT 1")
            jobs.append((task.id, task.version))

        store.join(note)
        call = Call("tools/call", key="k")
        task = await created(store, "t1", call=call)
        assert jobs == [("t1", 1)]
        assert await created(store, "t2", call=call) == task
        task = await moved(store, lifecycle.report(task, 1_500, message="waits"))
        task = await moved(store, started(task))
        assert jobs == [("t1", 1)], "nothing has entered the queue since then"
        task = await moved(store, lifecycle.requeue(task, 2_000))
        assert jobs == [("t1", 1), ("t1", task.version)]
        with pytest.raises(Conflict):
            await moved(store, lifecycle.requeue(started(submit("t1").task).task, 2_000))
        assert len(jobs) == 2

    play(url, scenario)


def test_joined_statements_commit_and_roll_back_with_the_task(server: Server, url: str) -> None:
    async def scenario(store: PostgreSQLStore) -> None:
        async def queue(connection: psycopg.AsyncConnection[Any], task: Task) -> None:
            statement = f"INSERT INTO {schema}_jobs VALUES (%s, %s)"
            await connection.execute(statement.encode(), (task.id, task.version))
            if task.id == "bad" or task.losses:
                await connection.execute("SELECT 1 / 0")

        store.join(queue)
        told: list[Task | None] = []
        for task_id in ("good", "bad"):
            store.follow(task_id, told.append)
        task = await created(store, "good")
        with pytest.raises(StoreError, match="division by zero"):
            await created(store, "bad")
        assert await store.load("bad") is None
        working = await moved(store, started(task))
        with pytest.raises(StoreError):
            await moved(store, lifecycle.requeue(working, 2_000, lost=True))
        assert await store.load("good") == working
        assert told == [task, working]
        assert server.execute(f"SELECT * FROM {schema}_jobs") == [("good", 1)]

    schema = read_url(url).schema
    server.execute(f"CREATE TABLE {schema}_jobs (id text, version bigint)")
    play(url, scenario)


# --- what goes wrong -----------------------------------------------------------------------------


def test_an_operation_that_is_refused_disturbs_no_other(url: str) -> None:
    async def scenario(store: PostgreSQLStore) -> None:
        task, other = await created(store, "t1"), await created(store, "t2")
        late, beyond, odd = submit("late"), submit("beyond", at=2**70), submit("\0", "\0")
        again = lifecycle.report(started(other).task, 5, message="on")
        assert await outcomes(
            moved(store, started(task)),
            store.commit(ended(task).task, [ended(task).entry], 7),
            store.create(beyond.task, [beyond.entry], Caps()),
            store.create(odd.task, [odd.entry], Caps()),
            store.commit(again.task, [again.entry, again.entry], 1),
            store.keep_session(KeptSession("s1", b"body", 2**70), 1),
            store.create(late.task, [late.entry], Caps()),
        ) == [
            started(task).task,
            Conflict,
            StoreError,
            StoreError,
            StoreError,
            StoreError,
            late.task,
        ]
        assert await store.load("t2") == other
        assert len(await store.history("t2")) == 1
        assert {task.id for task in await store.browse(None, 9)} == {"t1", "t2", "late"}

    play(url, scenario)


def test_text_that_the_database_does_not_have_is_not_found(url: str) -> None:
    async def scenario(store: PostgreSQLStore) -> None:
        assert await store.load("a\0b") is None
        assert await store.session("a\0b") is None
        assert list(await store.page("a\0b", None, 9)) == []
        assert await store.enqueue("a\0b", b"", 9) == 0
        assert list(await store.dequeue("a\0b", 9)) == []

    play(url, scenario)


def test_cancelled_caller_does_not_stop_its_store_operation(url: str) -> None:
    async def scenario(store: PostgreSQLStore) -> None:
        tasks = [await created(store, f"t{number}") for number in range(3)]
        told: list[Task | None] = []
        store.follow("t1", told.append)
        writes = [asyncio.create_task(moved(store, started(task))) for task in tasks]
        await asyncio.sleep(0)  # they are on their way
        writes[1].cancel()
        results = await asyncio.gather(*writes, return_exceptions=True)
        assert isinstance(results[1], asyncio.CancelledError)
        last = lifecycle.report(started(tasks[1]).task, 2_000, message="on")
        assert await moved(store, last) == last.task, "in its turn"
        assert told == [started(tasks[1]).task, last.task]

    play(url, scenario)


def test_closing_the_store_completes_submitted_operations(url: str) -> None:
    async def run() -> None:
        store = await PostgreSQLStore.open_at(read_url(url))
        write = asyncio.create_task(created(store))
        await asyncio.sleep(0)
        await asyncio.gather(store.close(), store.close())
        assert await write == submit().task
        with pytest.raises(StoreError, match="the store is closed"):
            await store.load("t1")

    asyncio.run(run())


def test_store_survives_lost_prepared_statements(url: str) -> None:
    """As behind a pooler that gives each transaction another connection to the server."""

    async def scenario(store: PostgreSQLStore) -> None:
        async def forget(session: Session) -> None:
            # Behind the back of psycopg, which would notice the plain command.
            await session.connection.execute("DO $$ BEGIN EXECUTE 'DEALLOCATE ALL'; END $$")

        task = await created(store)
        for _ in range(9):
            assert await store.load("t1") == task
            task = await moved(store, lifecycle.report(task, 2_000, message="on"))
        for _ in range(3):
            await store._connections.run(forget)
            assert await store.load("t1") == task
            task = await moved(store, lifecycle.report(task, 2_000, message="on"))
        assert store._connections._prepares is False

    play(f"{url}&pool_size=1", scenario)


def test_blocked_write_times_out_without_blocking_other_operations(
    server: Server, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(store: PostgreSQLStore) -> None:
        task = await created(store)
        schema = read_url(url).schema
        with psycopg.connect(server.url()) as other:
            other.execute(f"LOCK TABLE {schema}.tasks IN ACCESS EXCLUSIVE MODE".encode())
            write = asyncio.create_task(moved(store, started(task)))
            assert await store.session("s1") is None, "others go on"
            assert not write.done()
            with pytest.raises(StoreError, match=r"^database 'postgres' at .* (long|locked)"):
                await write
        await moved(store, started(task))

    settings = postgresql_connections._SETTINGS.replace("'5000'", "'300'")
    assert "'300'" in settings
    monkeypatch.setattr(postgresql_connections, "_SETTINGS", settings)
    play(url, scenario)


def test_a_connection_that_breaks_costs_a_write_and_no_read(server: Server, url: str) -> None:
    async def scenario(store: PostgreSQLStore) -> None:
        task = await created(store)
        schema = read_url(url).schema
        with psycopg.connect(server.url()) as other:
            other.execute(f"LOCK TABLE {schema}.tasks IN ACCESS EXCLUSIVE MODE".encode())
            read = asyncio.create_task(store.load("t1"))
            write = asyncio.create_task(moved(store, started(task)))
            waiting = "SELECT pid FROM pg_locks WHERE NOT granted"
            await until(lambda: len(server.execute(waiting)) == 2)
            for (pid,) in server.execute(waiting):
                server.execute("SELECT pg_terminate_backend(%s)", (pid,))
            with pytest.raises(StoreError, match=r"^database 'postgres' at .* is being restarted"):
                await write
        assert await read == task
        assert await store.load("t1") == task
        assert await moved(store, started(task)) == await store.load("t1")

    play(url, scenario)


def test_store_replaces_broken_idle_connections_without_failed_calls(
    server: Server, url: str
) -> None:
    async def scenario(store: PostgreSQLStore) -> None:
        tasks = await asyncio.gather(*(created(store, f"t{number}") for number in range(9)))
        ours = "SELECT pid FROM pg_stat_activity WHERE application_name = %s"
        cut = server.execute(ours, (name,))
        for (pid,) in cut:
            server.execute("SELECT pg_terminate_backend(%s)", (pid,))
        await until(lambda: not {*cut} & {*server.execute(ours, (name,))})
        for task in tasks:
            await moved(store, started(task))

    name = f"{read_url(url).schema}_cut"
    play(f"{url}&application_name={name}", scenario)


def test_store_retries_a_transaction_aborted_by_the_database_server(url: str) -> None:
    async def scenario(store: PostgreSQLStore) -> None:
        calls: list[Session] = []

        async def act(session: Session, failures: int) -> str:
            calls.append(session)
            if len(calls) <= failures:
                raise psycopg.errors.DeadlockDetected("deadlock detected")
            return "done"

        assert await store._connections.run(partial(act, failures=2)) == "done"
        assert len(calls) == 3
        with pytest.raises(StoreError, match="deadlock detected"):
            await store._connections.run(partial(act, failures=99))

    play(url, scenario)


def test_there_are_no_more_connections_than_allowed(server: Server, url: str) -> None:
    async def scenario(store: PostgreSQLStore) -> None:
        await asyncio.gather(*(created(store, f"t{number}") for number in range(100)))
        name = f"{read_url(url).schema}_few"
        count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
        assert server.execute(count, (name,)) == [(3,)]

    play(f"{url}&pool_size=3&application_name={read_url(url).schema}_few", scenario)


# --- the server ends and comes back --------------------------------------------------------------


def test_the_server_may_be_restarted(
    server: Server, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(store: PostgreSQLStore, task: Task, failures: list[str]) -> Task:
        for number in range(30):
            step = lifecycle.report(task, 2_000, message=str(number))
            while True:
                try:
                    task = await moved(store, step)
                    break
                except StoreError as error:
                    failures.append(str(error))
                except Conflict:  # it was made, and then the connection broke
                    assert await retry_store_errors(partial(store.load, task.id)) == step.task
                    task = step.task
                    break
            if number == 10:
                at_ten.release()
        return task

    async def scenario(store: PostgreSQLStore, other: PostgreSQLStore) -> None:
        failures: list[str] = []
        tasks = [await created(store, f"t{number}") for number in range(8)]
        waits = [
            asyncio.create_task(wait_for(other, task.id, lambda seen: seen.version == 31))
            for task in tasks
        ]
        works = [asyncio.create_task(work(store, task, failures)) for task in tasks]
        await asyncio.wait_for(at_ten.acquire(), SOON_S)
        await asyncio.to_thread(server.stop)
        with pytest.raises(StoreError, match=r"^database 'postgres' at .* (cannot be|is being) re"):
            await moved(other, started(await created(other, "meanwhile")))
        await asyncio.to_thread(server.start)
        async with asyncio.timeout(3 * SOON_S):
            ends = await asyncio.gather(*works)
            assert await asyncio.gather(*waits) == ends
        for task in ends:
            assert await store.load(task.id) == task
            assert [entry.seq for entry in await store.history(task.id)] == [*range(1, 32)]
        assert not [text for text in failures if "\n" in text]

    monkeypatch.setattr(postgresql_connections, "WAIT_S", 1.5)
    at_ten = asyncio.Semaphore(0)
    play(url, scenario, 2)


def test_swallowed_cancellation_is_raised_again() -> None:
    async def lose_it() -> str:
        with reraising_cancellation(), suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "it continued"

    async def main() -> None:
        losing = asyncio.create_task(lose_it())
        await asyncio.sleep(0)
        losing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await losing

    asyncio.run(main())


def test_lookup_right_after_an_answered_lookup_is_answered(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskmachine.adapters.stores.postgresql.lookups.ROUND_TRIPS", 1)

    async def scenario(store: PostgreSQLStore) -> None:
        task = await created(store)
        async with asyncio.timeout(SOON_S):
            for _ in range(3):
                assert await store.load("t1") == task

    play(url, scenario)
