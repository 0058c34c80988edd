"""Recorded steps, sleeps and retries of tools that run as tasks, on every store."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from taskmachine.adapters.engines import local
from taskmachine.adapters.runtime import runtime as runtimes
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import Runtime, RuntimeConfig, Surroundings, start_runtime
from taskmachine.adapters.stores import Store, open_store
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.recorded import MAX_RECORDS
from taskmachine.adapters.tools.registry import Tools
from taskmachine.adapters.tools.retries import exponential
from taskmachine.protocol.operations import Answer, Create
from taskmachine.statemachine import Cause, Reply, State, Task
from tests.adapters.memory_service import HOUR, MINUTE, Clock, call
from tests.adapters.runtime.durable_tools import SECRET, Trip, result_of, sleeper

YES = Reply(b'{"action":"accept","content":{"value":true}}')


class World:
    """A store, a clock that stands still, and the processes on the store."""

    def __init__(self, open_store: Callable[[], Any], *, is_shared: bool) -> None:
        self.clock = Clock()
        self._open_store = open_store
        self._is_shared = is_shared
        self._dead: set[int] = set()
        self._pids = count(1)

    @asynccontextmanager
    async def process(self, tools: Tools, concurrency: int = 8) -> AsyncIterator[Runtime]:
        """A runtime that stops without waiting for its tools."""
        pid = next(self._pids)
        world = Surroundings(
            clock=self.clock, host="here", pid=pid, is_dead=lambda worker: worker.pid in self._dead
        )
        store: Store = await self._open_store()
        limits = Limits(concurrency=concurrency)
        runtime = await start_runtime(store, tools, RuntimeConfig(limits=limits, world=world))
        try:
            async with asyncio.timeout(30):
                yield runtime
        finally:
            await runtime.stop(grace_s=0)
            if not self._is_shared:
                await store.close()

    def lose_first(self) -> None:
        """Let the other processes take the first one for dead."""
        self._dead.add(1)


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(local, "WAKE_S", 0.01)
    monkeypatch.setattr(runtimes, "EXPIRE_S", 0.01)
    if request.param == "memory":
        memory = MemoryStore(b"s" * 32)

        async def the_same() -> Store:
            return memory

        return World(the_same, is_shared=True)
    if request.param == "sqlite":
        url = f"sqlite:{tmp_path / 'tasks.db'}"
    else:
        url = request.getfixturevalue("server").new_url()
    return World(lambda: open_store(url), is_shared=False)


async def begin(runtime: Runtime, tool: str, **more: Any) -> Task:
    return await runtime.create("alice", Create(call(tool), **more))


async def ended(runtime: Runtime, task: Task) -> Task:
    return await runtime.service.collect("alice", task.id, timeout_s=20)


async def until(runtime: Runtime, task: Task, is_it: Callable[[Task], bool]) -> Task:
    task = await runtime.service.get("alice", task.id)
    while not is_it(task):
        task = await runtime.service.wait("alice", task.id, after=task.version)
    return task


def is_resting(task: Task) -> bool:
    """It sleeps, or waits for a retry."""
    return task.due_at is not None


# --- recorded steps --------------------------------------------------------------------------


@pytest.mark.parametrize("interrupt", ["retry", "park", "sleep"])
async def test_a_recorded_step_is_not_called_again(interrupt: str, world: World) -> None:
    trip = Trip(interrupt)
    async with world.process(trip.tools) as runtime:
        task = await begin(runtime, "trip")
        if interrupt == "park":
            await until(runtime, task, lambda task: bool(task.open_questions and not task.worker))
            await runtime.service.perform("alice", Answer(task.id, {"sure": YES}))
        else:
            await until(runtime, task, is_resting)
            world.clock.now += MINUTE
        trip.check(await ended(runtime, task))


@pytest.mark.parametrize("interrupt", ["restart", "loss"])
async def test_another_process_does_not_call_a_recorded_step_again(
    interrupt: str, world: World
) -> None:
    trip = Trip(interrupt)
    async with world.process(trip.tools) as first:
        task = await begin(first, "trip")
        await trip.is_begun.wait()
        if interrupt == "loss":
            world.lose_first()
            async with world.process(trip.tools) as second:
                trip.check(await ended(second, task))
    if interrupt == "restart":
        async with world.process(trip.tools) as second:
            trip.check(await ended(second, task))


@pytest.mark.parametrize(("interrupt", "runs"), [("retry", 3), ("sleep", 2)])
async def test_a_tool_in_a_thread_records_sleeps_and_is_retried(
    interrupt: str, runs: int, world: World
) -> None:
    trip = Trip(interrupt)
    async with world.process(trip.tools) as runtime:
        task = await begin(runtime, "threaded")
        for _ in range(runs - 1):
            task = await until(runtime, task, lambda now: is_resting(now) or now.is_terminal)
            assert not task.is_terminal, task.outcome
            world.clock.now = task.due_at or 0
            await until(runtime, task, lambda now, past=task: now.version > past.version)  # type: ignore[misc]
        trip.check(await ended(runtime, task), runs)


async def test_a_step_that_was_done_but_not_recorded_is_done_again_with_the_same_id(
    world: World,
) -> None:
    tools = Tools()
    charged: list[str | None] = []
    begun = asyncio.Event()

    @tools.task
    async def pay(ctx: Context) -> str:
        async def charge() -> str:
            charged.append(ctx.step_id)
            if len(charged) == 1:
                begun.set()
                await asyncio.Event().wait()
            return "paid"

        return await ctx.step("charge", charge)

    async with world.process(tools) as first:
        task = await begin(first, "pay")
        await begun.wait()
        world.lose_first()
        async with world.process(tools) as second:
            assert b"paid" in result_of(await ended(second, task))
    assert charged == [f"{task.id}:charge"] * 2


async def test_a_worker_that_lost_its_task_records_nothing(world: World) -> None:
    tools = Tools()
    begun, again, late, over = (asyncio.Event() for _ in range(4))
    calls: list[int] = []

    @tools.task
    async def count(ctx: Context) -> int:
        async def next_number() -> int:
            calls.append(1)
            if len(calls) == 1:
                begun.set()
                while not late.is_set():  # a function that cannot be stopped
                    try:
                        await late.wait()
                    except asyncio.CancelledError:
                        continue
                return 1
            again.set()
            async with asyncio.timeout(10):
                await over.wait()
            return 2

        try:
            return await ctx.step("number", next_number)
        finally:
            over.set()

    async with world.process(tools) as first:
        task = await begin(first, "count")
        await begun.wait()
        world.lose_first()
        async with world.process(tools) as second:
            await again.wait()
            late.set()  # while the second worker runs the tool
            assert b'"result":2' in result_of(await ended(second, task))
            history = await second.service.store.history(task.id)
    assert len([entry for entry in history if entry.data is not None]) == 1


async def test_a_used_key_with_other_arguments_fails_the_task(world: World) -> None:
    tools = Tools()

    @tools.task(retries=1, backoff=lambda failures: 0)
    async def fetch(ctx: Context) -> None:
        await ctx.step("a", asyncio.sleep, 0, f"result {ctx.attempt}")
        raise OSError

    async with world.process(tools) as runtime:
        task = await ended(runtime, await begin(runtime, "fetch"))
        assert task.outcome is not None
        said = "Tool 'fetch' failed: the step 'a' was recorded with other arguments"
        assert task.outcome.message == said


async def test_as_many_steps_as_a_task_can_record_are_there_in_the_next_run(world: World) -> None:
    tools = Tools()
    calls: list[int] = []

    async def work(number: int) -> int:
        calls.append(number)
        return number

    @tools.task(retries=1, backoff=lambda failures: 0)
    async def much(ctx: Context) -> int:
        found: list[int] = []
        for first in range(0, MAX_RECORDS, 50):
            steps = (ctx.step(f"{n}", work, n) for n in range(first, first + 50))
            found += await ctx.gather(*steps)
        if ctx.attempt == 1:
            raise OSError
        return sum(found)

    async with world.process(tools) as runtime:
        task = await ended(runtime, await begin(runtime, "much"))
        assert b'"result":499500' in result_of(task)
    assert sorted(calls) == [*range(MAX_RECORDS)]


# --- sleeps ----------------------------------------------------------------------------------


async def test_a_sleep_takes_no_place_and_ends_when_the_first_run_said(world: World) -> None:
    tools, runs = sleeper()
    began = world.clock.now
    async with world.process(tools, concurrency=1) as runtime:
        asleep = await until(runtime, await begin(runtime, "nap", ttl_ms=MINUTE), is_resting)
        assert (asleep.state, asleep.worker, asleep.due_at) == (
            State.SUBMITTED,
            None,
            began + HOUR,
        )
        assert asleep.created_at + (asleep.ttl_ms or 0) >= began + HOUR + MINUTE, "the ttl grows"
        assert b"done" in result_of(await ended(runtime, await begin(runtime, "quick")))
        world.clock.now += HOUR - 1
        assert b"done" in result_of(await ended(runtime, await begin(runtime, "quick")))
        assert len(runs) == 1
        world.clock.now += 1
        assert b"rested" in result_of(await ended(runtime, asleep))
        assert len(runs) == 2


async def test_a_sleep_ends_in_another_process(world: World) -> None:
    tools, runs = sleeper()
    async with world.process(tools) as first:
        asleep = await until(first, await begin(first, "nap"), is_resting)
    world.clock.now += HOUR
    async with world.process(tools) as second:
        assert b"rested" in result_of(await ended(second, asleep))
    assert len(runs) == 2


async def test_a_cancellation_reaches_a_task_that_sleeps(world: World) -> None:
    tools, runs = sleeper()
    async with world.process(tools) as runtime:
        asleep = await until(runtime, await begin(runtime, "nap"), is_resting)
        await runtime.service.cancel("alice", asleep.id)
        assert (await ended(runtime, asleep)).state is State.CANCELLED
        world.clock.now += HOUR
        assert b"done" in result_of(await ended(runtime, await begin(runtime, "quick")))
    assert len(runs) == 1


async def test_a_task_that_sleeps_expires_if_no_process_has_its_tool(world: World) -> None:
    tools, runs = sleeper()
    async with world.process(tools) as first:
        asleep = await until(first, await begin(first, "nap", ttl_ms=MINUTE), is_resting)
    world.clock.now = asleep.created_at + (asleep.ttl_ms or 0)
    async with world.process(Tools()) as second:
        task = await ended(second, asleep)
        assert task.outcome is not None
        assert (task.state, task.outcome.cause) == (State.FAILED, Cause.EXPIRED)
    assert len(runs) == 1


async def test_several_sleeps_at_once_and_a_step_beside_them(world: World) -> None:
    tools = Tools()
    calls: list[str] = []

    @tools.task
    async def tour(ctx: Context) -> None:
        async def slow() -> None:
            await asyncio.sleep(0.02)
            calls.append("slow")

        await ctx.gather(ctx.sleep("b", hours=2), ctx.sleep("a", hours=1), ctx.step("c", slow))

    async with world.process(tools) as runtime:
        task, began = await begin(runtime, "tour"), world.clock.now
        for hours in (1, 2):
            due_at = began + hours * HOUR
            await until(runtime, task, lambda task, due_at=due_at: task.due_at == due_at)  # type: ignore[misc]
            assert calls == ["slow"]
            world.clock.now = due_at
        assert (await ended(runtime, task)).state is State.COMPLETED
    assert calls == ["slow"]


# --- retries ---------------------------------------------------------------------------------


async def test_an_attempt_begins_after_its_pause_and_knows_what_failed(world: World) -> None:
    tools = Tools()
    seen: list[tuple[int, str | None, int]] = []

    @tools.task(retries=2, backoff=exponential(first=60, factor=2, jitter=False))
    async def flaky(ctx: Context) -> str:
        seen.append((ctx.attempt, ctx.last_error, world.clock.now))
        if ctx.attempt < 3:
            raise OSError(SECRET)
        return "done"

    async with world.process(tools) as runtime:
        task, began = await begin(runtime, "flaky", ttl_ms=MINUTE), world.clock.now
        for attempt, due_at in ((1, began + MINUTE), (2, began + 3 * MINUTE)):
            task = await until(runtime, task, lambda task, due_at=due_at: task.due_at == due_at)  # type: ignore[misc]
            when = datetime.fromtimestamp(due_at / 1_000, UTC)
            assert task.message == (
                f"Attempt {attempt} of 3 failed; the next one begins at"
                f" {when:%Y-%m-%dT%H:%M:%S}.{due_at % 1_000:03}Z."
            )
            assert (task.failures, task.losses) == (attempt, 0)
            world.clock.now = due_at
        assert b"done" in result_of(await ended(runtime, task))
    error = repr(OSError(SECRET))
    assert seen == [
        (1, None, began),
        (2, error, began + MINUTE),
        (3, error, began + 3 * MINUTE),
    ]


async def test_losses_and_failures_are_counted_apart(world: World) -> None:
    tools = Tools()
    runs: list[int] = []
    begun = asyncio.Event()

    @tools.task(retries=1, backoff=lambda failures: 0)
    async def unlucky(ctx: Context) -> None:
        runs.append(ctx.attempt)
        if len(runs) == 1:
            begun.set()
            await asyncio.Event().wait()
        raise OSError

    async with world.process(tools) as first:
        task = await begin(first, "unlucky")
        await begun.wait()
        world.lose_first()
        async with world.process(tools) as second:
            task = await ended(second, task)
    assert (runs, task.losses, task.failures) == ([1, 1, 2], 1, 1)


async def test_a_task_is_cancelled_while_it_waits_for_a_retry(world: World) -> None:
    trip = Trip("retry")
    async with world.process(trip.tools) as runtime:
        task = await until(runtime, await begin(runtime, "trip"), is_resting)
        await runtime.service.cancel("alice", task.id)
        world.clock.now += HOUR
        assert (await ended(runtime, task)).state is State.CANCELLED
    assert trip.runs == 1
