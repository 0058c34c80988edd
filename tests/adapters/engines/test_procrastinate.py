"""Tasks that are run by workers elsewhere, on a real PostgreSQL."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import attrs
import psycopg
import pytest
from psycopg import AsyncConnection

from taskmachine.adapters.engines.local import LocalEngine
from taskmachine.adapters.engines.procrastinate.engines import FETCH_S
from taskmachine.adapters.engines.procrastinate.opening import for_replicas, for_workers
from taskmachine.adapters.engines.procrastinate.tickets import Tickets, queue_of
from taskmachine.adapters.runtime.claims import claim
from taskmachine.adapters.runtime.runtime import RuntimeConfig, open_runtime, system_clock
from taskmachine.adapters.runtime.waiting import wait_for
from taskmachine.adapters.stores import StoreError, open_store
from taskmachine.adapters.stores.postgresql.connections import read_url
from taskmachine.adapters.stores.postgresql.store import PostgreSQLStore
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.errors import Gone
from taskmachine.adapters.tools.questions import form
from taskmachine.adapters.tools.registry import Tools
from taskmachine.protocol.caller import Caller
from taskmachine.protocol.operations import Create
from taskmachine.statemachine import Call, Cause, ConfigurationError, Outcome, State, Task
from tests.adapters.engines.cluster import (
    PATIENCE_S,
    answer,
    cancel,
    cluster_on,
    create,
    ended,
    reached,
    until,
)
from tests.adapters.memory_service import call
from tests.adapters.stores.postgres_server import Server

FORM = form("Name?", {"type": "object", "properties": {"name": {"type": "string"}}})
JOBS = "SELECT status::text, args->>'task_id' FROM @procrastinate_jobs"


@attrs.define
class Bench:
    """Tools that record their runs and wait for the test."""

    tools: Tools = attrs.field(factory=Tools)
    runs: list[str] = attrs.field(factory=list)
    running: int = 0
    most: int = 0
    cleaned: asyncio.Event = attrs.field(factory=asyncio.Event)
    gate: asyncio.Event = attrs.field(factory=asyncio.Event)

    def __attrs_post_init__(self) -> None:
        @self.tools.task()
        async def quick() -> str:
            return "done"

        @self.tools.task()
        async def gated(ctx: Context) -> str:
            ctx.on_cancel(self.cleaned.set)
            self.runs.append(str(ctx.task_id))
            self.running += 1
            self.most = max(self.most, self.running)
            try:
                await self.gate.wait()
            finally:
                self.running -= 1
            return "through"

        @self.tools.task()
        async def stays(ctx: Context) -> str:
            self.runs.append("stays")
            return f"Hello, {(await ctx.ask('name', FORM)).content['name']}!"

        @self.tools.task(parks=True)
        async def parks(ctx: Context) -> str:
            self.runs.append("parks")
            return f"Hello, {(await ctx.ask('name', FORM)).content['name']}!"

    async def until_running(self, number: int = 1) -> None:
        await until(lambda: len(self.runs) >= number)


def text(task: Task) -> str:
    assert task.outcome is not None
    return bytes(task.outcome.result or b"").decode()


async def test_a_task_of_a_replica_is_run_by_a_worker(server: Server) -> None:
    async with cluster_on(server) as cluster:
        bench = Bench()
        replica = await cluster.replica(bench.tools)
        waiting = await create(replica, "quick")
        assert cluster.rows(JOBS) == [("todo", waiting.id)]  # and no worker takes it
        await cluster.worker(bench.tools)
        assert "done" in text(await ended(replica, waiting))
        assert "done" in text(await ended(replica, await create(replica, "quick")))
        await until(lambda: cluster.rows(JOBS) == [])  # they are deleted together, soon


async def test_a_worker_elsewhere_has_the_caller_and_its_own_lifespan(server: Server) -> None:
    ada = Caller("alice", "ada", {"team": "blue"}, frozenset({"deploy"}))
    seen = []

    @asynccontextmanager
    async def lifespan(tools: Tools) -> AsyncIterator[str]:
        yield "pool of the worker"

    tools = Tools(lifespan=lifespan)

    @tools.task(parks=True)
    async def who(ctx: Context) -> str:
        seen.append((ctx.caller, ctx.lifespan))
        return str(await ctx.ask("name", FORM))

    async with cluster_on(server) as cluster:
        replica = await cluster.replica(tools)
        task = await replica.create("alice", Create(call("who")), caller=ada)
        async with cluster.machine(tools, for_workers):
            await reached(replica, task, State.INPUT_REQUIRED)
        async with cluster.machine(tools, for_workers):  # which did not see the first run
            await answer(replica, task)
            assert (await ended(replica, task)).state is State.COMPLETED
        assert seen == [(ada, "pool of the worker")] * 2
        dump = str(cluster.rows("SELECT encode(record, 'escape') FROM @tasks"))
        assert "elicitation" in dump
        assert "blue" not in dump


async def test_worker_is_notified_of_a_new_task_without_polling(server: Server) -> None:
    async with cluster_on(server) as cluster:
        bench = Bench()
        replica = await cluster.replica(bench.tools)
        await cluster.worker(bench.tools)
        await ended(replica, await create(replica, "quick"))
        began = asyncio.get_running_loop().time()
        for _ in range(10):
            await ended(replica, await create(replica, "quick"))
        # Polling alone would take a second each.
        assert asyncio.get_running_loop().time() - began < 5


@pytest.mark.parametrize("tool", ["quick", "parks"])
async def test_a_task_enters_the_queue_with_its_ticket_or_not_at_all(
    server: Server, tool: str
) -> None:
    async with cluster_on(server) as cluster:
        bench = Bench()
        replica = await cluster.replica(bench.tools)
        move: Callable[[], Awaitable[object]] = partial(create, replica, tool)
        before = 0
        if tool == "parks":
            async with cluster.machine(bench.tools, for_workers):
                task = await reached(replica, await create(replica, tool), State.INPUT_REQUIRED)
            move, before = partial(answer, replica, task), 1
        cluster.rows("ALTER TABLE @procrastinate_jobs RENAME TO elsewhere")
        with pytest.raises(StoreError):
            await move()
        assert len(cluster.rows("SELECT 1 FROM @tasks")) == before
        assert cluster.rows("SELECT 1 FROM @tasks WHERE queued_at IS NOT NULL") == []
        assert cluster.rows("SELECT 1 FROM @elsewhere") == []


async def test_a_ticket_belongs_to_the_transaction_of_its_task(server: Server) -> None:
    async with cluster_on(server) as cluster:
        async with cluster.machine(Bench().tools, LocalEngine) as machine:
            store = machine.service.store
            assert isinstance(store, PostgreSQLStore)
            tickets = Tickets(store.address, Tools())
            await tickets.open()

            async def fail_late(connection: AsyncConnection[Any], task: Task) -> None:
                await tickets.write_within(connection, task)
                raise StoreError("at the last moment")

            store.join(fail_late)
            with pytest.raises(StoreError, match="at the last moment"):  # it is for others to run
                await machine.service.create("alice", Call("tools/call", "elsewhere"))
            await tickets.close()
        assert cluster.rows(JOBS) == cluster.rows("SELECT 1 FROM @tasks") == []


async def test_a_ticket_that_was_fetched_by_a_lost_worker_is_there_again(server: Server) -> None:
    async with cluster_on(server) as cluster:
        bench = Bench()
        replica = await cluster.replica(bench.tools)
        task = await create(replica, "quick")
        lost = Tickets(read_url(cluster.url), bench.tools)
        await lost.open()
        assert await lost.fetch([queue_of("quick")]) is not None
        living = Tickets(read_url(cluster.url), bench.tools)
        await living.open()
        assert await living.retry_stalled() == 0  # it beats
        assert await living.fetch([queue_of("quick")]) is None
        cluster.rows("UPDATE @procrastinate_workers SET last_heartbeat = now() - interval '16 s'")
        assert await living.retry_stalled() == 1
        assert cluster.rows(JOBS) == [("todo", task.id)]
        # The lost worker continues under another number, without any harm.
        fetched = await lost.fetch([queue_of("greet")])
        assert fetched is None
        await lost.close()
        await living.close()
        await cluster.worker(bench.tools)
        assert "done" in text(await ended(replica, task))


async def test_worker_continues_after_its_registration_is_pruned(server: Server) -> None:
    async with cluster_on(server) as cluster:
        bench = Bench()
        replica = await cluster.replica(bench.tools)
        await cluster.worker(bench.tools)
        await ended(replica, await create(replica, "quick"))
        cluster.rows("DELETE FROM @procrastinate_workers")
        assert "done" in text(await ended(replica, await create(replica, "quick")))


async def test_tasks_without_a_ticket_get_one(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskmachine.adapters.engines.procrastinate.engines.POLL_S", 0.05)

    async with cluster_on(server) as cluster:
        bench = Bench()
        # As of a store that was copied, or of an operator's command.
        async with cluster.machine(Tools(), LocalEngine) as other:
            task = await other.service.create("alice", call("quick"))
        assert cluster.rows("SELECT queued_at IS NOT NULL FROM @tasks") == [(True,)]
        worker = await cluster.worker(bench.tools)
        assert "done" in text(await ended(worker, task))
        await until(lambda: cluster.rows(JOBS) == [])


async def test_a_cancel_reaches_the_worker_on_another_machine(server: Server) -> None:
    async with cluster_on(server) as cluster:
        bench = Bench()
        replica = await cluster.replica(bench.tools)
        await cluster.worker(bench.tools)
        task = await create(replica, "gated")
        await bench.until_running()
        async with asyncio.timeout(1):
            await cancel(replica, task)
            await bench.cleaned.wait()
        assert (await ended(replica, task)).state is State.CANCELLED


@pytest.mark.parametrize(("tool", "runs"), [("stays", 1), ("parks", 2)])
async def test_questions_are_answered_through_any_replica(
    server: Server, tool: str, runs: int
) -> None:
    async with cluster_on(server) as cluster:
        bench = Bench()
        await cluster.worker(bench.tools)
        async with cluster.machine(bench.tools, for_replicas) as first:
            task = await create(first, tool)
            await reached(first, task, State.INPUT_REQUIRED)
        second = await cluster.replica(bench.tools)  # the one that was called is gone
        await answer(second, task)
        assert "Hello, Ada!" in text(await ended(second, task))
        assert bench.runs == [tool] * runs


async def test_a_worker_that_is_stopped_gives_its_tasks_to_another_one(server: Server) -> None:
    async with cluster_on(server) as cluster:
        bench = Bench()
        replica = await cluster.replica(bench.tools)
        async with cluster.machine(bench.tools, for_workers) as first:
            task = await create(replica, "gated")
            await bench.until_running()
            await first.stop(0)
        assert cluster.rows(JOBS) == [("todo", task.id)]
        bench.gate.set()
        await cluster.worker(bench.tools)
        assert "through" in text(await ended(replica, task))
        assert bench.runs == [task.id] * 2


async def test_a_worker_that_was_given_up_can_write_nothing(server: Server) -> None:
    """Also while the task lives, in the hands of another one: that is what the fence is for."""
    async with cluster_on(server) as cluster:
        bench = Bench()
        replica = await cluster.replica(bench.tools)
        task = await create(replica, "gated")
        async with cluster.machine(Tools(), LocalEngine) as machine:
            held = await claim(machine.service, task.id, "paused")
            assert held is not None
            # The worker is not registered any more: its task is an orphan and is released.
            await cluster.worker(bench.tools)
            await bench.until_running()
            before = await replica.service.get("alice", task.id)
            late = Outcome(Cause.RESULT, b'{"content":[{"text":"late"}]}')
            for write in (partial(held.report, message="late"), partial(held.settle, late)):
                with pytest.raises(Gone, match="fence"):
                    await write()
            assert await replica.service.get("alice", task.id) == before
            bench.gate.set()
            assert "through" in text(await ended(replica, task))
            with pytest.raises(Gone):
                await held.settle(late)
        assert "late" not in text(await replica.service.get("alice", task.id))


async def test_a_task_is_left_for_a_worker_that_has_its_tool(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "taskmachine"):
        async with cluster_on(server) as cluster:
            bench, more = Bench(), Bench()

            @more.tools.task("sized." + "x" * 100)
            async def sized() -> str:
                return "big"

            replica = await cluster.replica(more.tools)
            task = await create(replica, "sized." + "x" * 100)
            await cluster.worker(bench.tools)
            await until(lambda: "queued tasks of the tool 'sized" in caplog.text)
            assert "done" in text(await ended(replica, await create(replica, "quick")))
            assert (await replica.service.get("alice", task.id)).state is State.SUBMITTED
            await cluster.worker(more.tools)
            assert "big" in text(await ended(replica, task))


async def test_a_worker_runs_so_many_at_a_time(server: Server) -> None:
    async with cluster_on(server) as cluster:
        bench = Bench()
        replica = await cluster.replica(bench.tools)
        tasks = [await create(replica, "gated") for _ in range(5)]
        await cluster.worker(bench.tools, concurrency=2)
        await bench.until_running(2)
        quick = await create(replica, "quick")  # no worker has room for it
        assert not (await replica.service.get("alice", quick.id)).is_terminal
        bench.gate.set()
        for task in tasks:
            assert "through" in text(await ended(replica, task))
        assert bench.most == 2


async def test_owners_take_turns_and_priority_counts_only_among_ones_own(server: Server) -> None:
    tools, order = Tools(), []

    @tools.task(priority="low")
    async def note(who: str) -> None:
        order.append(who)

    async with cluster_on(server) as cluster:
        replica = await cluster.replica(tools)
        tasks = []
        for who, priority in (
            ("a1", "normal"), ("a-high", "high"), ("a-tool", "nonsense"), ("a2", "normal"),
            ("b-low", "low"), ("b1", "normal"), ("c-high", "high"),
        ):  # fmt: skip
            wish = Create(
                call("note", b'{"who":"%s"}' % who.encode()),
                metadata=b'{"priority":"%s"}' % priority.encode(),
            )
            tasks.append(await replica.create(who[0], wish))
        await cluster.worker(tools, concurrency=1)
        for task in tasks:
            await replica.service.collect(task.owner, task.id)
    assert order == ["a-high", "b1", "c-high", "a1", "b-low", "a2", "a-tool"]


async def test_ticket_that_another_worker_is_fetching_does_not_hide_those_of_other_owners(
    server: Server,
) -> None:
    async with cluster_on(server) as cluster:
        bench = Bench()
        replica = await cluster.replica(bench.tools)
        for owner in ("alice", "bob"):
            await replica.create(owner, Create(call("quick")))
        tickets = Tickets(read_url(cluster.url), bench.tools)
        await tickets.open()
        schema = cluster.url.rpartition("=")[2]
        async with await AsyncConnection.connect(server.url()) as other:
            jobs = f"SELECT 1 FROM {schema}.procrastinate_jobs"
            await other.execute(f"{jobs} WHERE args->>'owner' = 'alice' FOR UPDATE".encode())
            owners = [(await tickets.fetch([queue_of("quick")]) or ("", None))[1] for _ in range(2)]
            assert owners == ["bob", None]
        fetched = await tickets.fetch([queue_of("quick")])
        assert fetched is not None
        assert fetched[1] == "alice"
        await tickets.close()


async def test_worker_does_not_fetch_again_and_again_for_an_owner_at_its_share(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetches = []
    fetch = Tickets.fetch

    async def counted(*arguments: Any) -> tuple[str, str, int] | None:
        fetches.append(arguments)
        return await fetch(*arguments)

    monkeypatch.setattr(Tickets, "fetch", counted)
    async with cluster_on(server) as cluster:
        bench = Bench()
        replica = await cluster.replica(bench.tools)
        for _ in range(20):
            await create(replica, "gated")
        await cluster.worker(bench.tools, concurrency=8)
        await bench.until_running(6)
        fetches.clear()
        began = asyncio.get_running_loop().time()
        for _ in range(10):
            quick = await replica.create("bob", Create(call("quick")))
            await replica.service.collect("bob", quick.id)
        took = asyncio.get_running_loop().time() - began
        # For each call: its notification, the ticket after it, the end of its tool; and polling.
        assert len(fetches) <= 10 * 4 + took / FETCH_S
        assert len(bench.runs) == 6
        bench.gate.set()


async def test_a_restart_of_the_database_costs_no_task(server: Server) -> None:
    async with cluster_on(server) as cluster:
        bench = Bench()
        replica = await cluster.replica(bench.tools)
        await cluster.worker(bench.tools)
        task = await create(replica, "gated")
        await bench.until_running()
        await asyncio.to_thread(server.stop)
        bench.gate.set()  # it ends while there is nowhere to write it down
        await asyncio.to_thread(server.start)
        assert "through" in text(await ended(replica, task))
        assert "done" in text(await ended(replica, await create(replica, "quick")))
        assert bench.runs == [task.id]


@pytest.mark.parametrize("behind_ms", [0, 3_000])
async def test_a_task_that_sleeps_wakes_in_time_on_another_machine(
    server: Server, behind_ms: int
) -> None:
    """Also if the clock of that machine is behind: a ticket that comes too early is kept."""
    ended_at: list[int] = []
    tools = Tools()

    @tools.task()
    async def sleeps(ctx: Context) -> str:
        await ctx.sleep("nap", 1)
        ended_at.append(system_clock())
        return "awake"

    async with cluster_on(server) as cluster:
        replica = await cluster.replica(tools)
        task = await create(replica, "sleeps")
        async with cluster.machine(tools, for_workers):
            asleep = await wait_for(
                replica.service.store, task.id, lambda task: task.due_at is not None, PATIENCE_S
            )
        assert asleep.due_at is not None
        clock = partial(_behind, behind_ms)
        async with cluster.machine(tools, for_workers, clock=clock):
            assert "awake" in text(await ended(replica, task))
        assert 0 <= ended_at[0] - behind_ms - asleep.due_at < 1_000
        assert cluster.rows(JOBS) == []


def _behind(ms: int) -> int:
    return system_clock() - ms


# --- what cannot be ---------------------------------------------------------------------------


def refused(url: str, engine: Callable[..., object] = for_replicas) -> str:
    async def main() -> None:
        async with open_runtime(url, Tools(), RuntimeConfig(engine=engine)):  # type: ignore[arg-type]
            pass

    with pytest.raises(ConfigurationError) as caught:
        asyncio.run(main())
    return str(caught.value)


def test_procrastinate_engine_requires_a_postgresql_store() -> None:
    for engine in (for_replicas, for_workers):
        assert refused("memory:", engine) == (
            "the engine procrastinate requires a PostgreSQL store: --store postgresql://..."
        )


async def test_ten_machines_can_start_at_once(server: Server) -> None:
    async with cluster_on(server) as cluster:
        tools = Bench().tools
        engines = [for_replicas, for_workers] * 5
        machines = [cluster.machine(tools, engine) for engine in engines]
        runtimes = await asyncio.gather(*(m.__aenter__() for m in machines))
        task = await create(runtimes[0], "quick")
        assert "done" in text(await ended(runtimes[0], task))
        await asyncio.gather(*(m.__aexit__(None, None, None) for m in machines))


def test_tables_of_a_newer_procrastinate_are_refused(server: Server) -> None:
    url = server.new_url()

    async def open_once() -> None:
        async with open_runtime(url, Tools(), RuntimeConfig(engine=for_replicas)):
            pass

    asyncio.run(open_once())
    schema = url.rpartition("=")[2]
    server.execute(f"UPDATE {schema}.meta SET value = '99.00' WHERE name = 'procrastinate'")
    assert "has tables of a newer procrastinate ('99.00')" in refused(url)


def test_tables_of_an_older_procrastinate_are_brought_up_to_date(server: Server) -> None:
    url = server.new_url()
    schema = url.rpartition("=")[2]

    async def open_once() -> None:
        async with open_runtime(url, Tools(), RuntimeConfig(engine=for_replicas)):
            pass

    asyncio.run(open_once())
    # As before its migration 03.04.00_50, which brought this one.
    function = "procrastinate_trigger_function_status_events_update_v1"
    server.execute(f"DROP FUNCTION {schema}.{function} CASCADE")
    server.execute(f"UPDATE {schema}.meta SET value = '03.04.00_02' WHERE name = 'procrastinate'")
    asyncio.run(open_once())
    assert server.execute(
        f"SELECT 1 FROM pg_proc WHERE oid = to_regproc('{schema}.{function}')::oid"
    )


def test_missing_rights_are_named(server: Server) -> None:
    url = server.new_url()
    schema = url.rpartition("=")[2]

    async def make() -> None:
        await (await open_store(url)).close()

    asyncio.run(make())
    server.execute("DROP ROLE IF EXISTS visitor")
    server.execute("CREATE ROLE visitor LOGIN")
    server.execute(f"GRANT USAGE ON SCHEMA {schema} TO visitor")
    server.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO visitor")
    said = refused(server.url(schema, user="visitor"))
    assert f"this user may not create the tables of procrastinate in the schema '{schema}'" in said
    with pytest.raises(psycopg.errors.UndefinedTable):
        server.execute(f"SELECT 1 FROM {schema}.procrastinate_jobs")


@pytest.mark.parametrize(
    ("tool", "is_kept"),
    [("quick", True), ("a" * 40, True), ("a" * 41, False), ("größe", False), ("", False)],
)
def test_the_name_of_a_queue_fits_into_a_channel(tool: str, is_kept: bool) -> None:
    assert len(f"procrastinate_queue_v1#{queue_of(tool)}") < 64
    assert (queue_of(tool) == tool) is is_kept
