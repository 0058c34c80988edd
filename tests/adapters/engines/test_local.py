"""Tools that run as tasks, on virtual time: whatever they do, the task has a defined end."""

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from random import Random
from typing import Any

import pytest

from taskmachine.adapters.runtime.claims import claim
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import Runtime, RuntimeConfig, Surroundings, start_runtime
from taskmachine.adapters.runtime.testing.virtual_loop import VirtualLoop
from taskmachine.adapters.stores import Caps, Worker
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.errors import Gone
from taskmachine.adapters.tools.questions import form
from taskmachine.adapters.tools.registry import Tools
from taskmachine.adapters.tools.sampling import sampling
from taskmachine.protocol.operations import Answer, Create
from taskmachine.statemachine import (
    Cause,
    Event,
    LimitExceeded,
    NotFound,
    Reply,
    State,
    Task,
    lifecycle,
)
from tests.adapters.memory_service import HOUR, MINUTE, Clock, call

FORM = form("Name?", {"type": "object", "properties": {"name": {"type": "string"}}})
ADA = {"name": Reply(b'{"action":"accept","content":{"name":"Ada"}}')}


class World:
    def __init__(self, tools: Tools, limits: Limits | None, store: MemoryStore | None) -> None:
        self.tools = tools
        self.clock = Clock()
        self.limits = limits
        self.store = store or MemoryStore(b"s" * 32)
        self.numbers = count(1)

    async def start(self) -> Runtime:
        world = Surroundings(
            clock=self.clock,
            new_id=lambda: f"id-{next(self.numbers)}",
            host="here",
            pid=1,
            is_dead=lambda worker: False,
        )
        return await start_runtime(
            self.store, self.tools, RuntimeConfig(limits=self.limits or Limits(), world=world)
        )

    async def create(self, runtime: Runtime, tool: str, **more: Any) -> Task:
        return await runtime.create("alice", Create(call(tool), **more))

    async def begin(self, runtime: Runtime, tool: str) -> Task:
        """A task whose tool has run for a second."""
        task = await self.create(runtime, tool)
        await asyncio.sleep(1)
        return task


@asynccontextmanager
async def started(
    tools: Tools, limits: Limits | None = None, store: MemoryStore | None = None
) -> AsyncIterator[tuple[World, Runtime]]:
    world = World(tools, limits, store)
    runtime = await world.start()
    yield world, runtime
    await runtime.stop()


def run_virtually(test: Coroutine[Any, Any, None]) -> None:
    """Run a test on virtual time; it may leave no task, and no error that is not retrieved."""

    async def main() -> None:
        await test
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, left

    loop = VirtualLoop(Random(0))
    try:
        loop.run(main())
        assert loop.escaped == []
        assert loop.unretrieved(loop.outside) == []
    finally:
        loop.close()


@pytest.fixture(autouse=True)
def runner() -> Callable[[Coroutine[Any, Any, None]], None]:
    return run_virtually


async def events(runtime: Runtime, task: Task) -> list[str]:
    return [entry.event.value for entry in await runtime.service.history("alice", task.id)]


async def until(runtime: Runtime, task: Task, is_it: Callable[[Task], bool]) -> Task:
    while not is_it(task):
        task = await runtime.service.wait("alice", task.id, after=task.version)
    return task


def is_waiting(task: Task) -> bool:
    return task.state is State.INPUT_REQUIRED


def is_asking(key: str, task: Task) -> bool:
    return key in {question.key for question in task.open_questions}


def is_working(task: Task) -> bool:
    return task.state is State.WORKING


# --- memory ----------------------------------------------------------------------------------


async def test_a_task_that_has_ended_leaves_nothing_to_the_garbage_collector() -> None:
    tools = Tools()

    @tools.task()
    async def quick() -> None:
        await asyncio.sleep(0)

    async with started(tools) as (world, runtime):

        async def whole() -> None:
            task = await world.create(runtime, "quick")
            await runtime.service.collect("alice", task.id)
            await asyncio.sleep(1)

        await whole()
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for _ in range(10):
                await whole()
            gc.collect()
            ours = [one for one in gc.garbage if type(one).__module__.startswith("taskmachine.")]
            assert ours == []
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()


# --- time ------------------------------------------------------------------------------------


async def test_a_tool_that_takes_too_long_fails_and_is_stopped() -> None:
    """The default is five minutes."""
    tools = Tools()
    stopped: list[float] = []

    @tools.task()
    async def slow() -> None:
        try:
            await asyncio.sleep(10_000)
        finally:
            stopped.append(asyncio.get_running_loop().time())

    async with started(tools) as (world, runtime):
        task = await world.create(runtime, "slow")
        ended = await runtime.service.collect("alice", task.id)
        assert asyncio.get_running_loop().time() == pytest.approx(300)
        assert (ended.state, ended.outcome and ended.outcome.cause) == (
            State.FAILED,
            Cause.TIMED_OUT,
        )
        assert ended.message == "Tool 'slow' took longer than 300 s."
        await asyncio.sleep(0.1)
        assert stopped == [pytest.approx(300)]


async def test_the_creator_can_shorten_the_timeout_and_not_lengthen_it() -> None:
    tools = Tools()

    @tools.task(timeout=60)
    async def slow() -> None:
        await asyncio.sleep(10_000)

    async with started(tools) as (world, runtime):
        for asked, granted in ((b"5000", 5_000), (b"600000", 60_000), (b'"x"', 60_000)):
            task = await world.create(runtime, "slow", metadata=b'{"timeout":%s}' % asked)
            assert task.timeout_ms == granted


async def test_tool_timeout_pauses_while_a_question_is_open() -> None:
    tools = Tools()

    @tools.task(timeout=10)
    async def greet(ctx: Context) -> str:
        await asyncio.sleep(4)
        answer = await ctx.ask("name", FORM)
        await asyncio.sleep(4)
        return f"Hello, {answer.content['name']}"

    async with started(tools) as (world, runtime):
        task = await until(runtime, await world.create(runtime, "greet"), is_waiting)
        await asyncio.sleep(1_000)
        await runtime.service.perform("alice", Answer(task.id, ADA))
        ended = await runtime.service.collect("alice", task.id)
        assert ended.state is State.COMPLETED
        task = await until(runtime, await world.create(runtime, "greet"), is_waiting)
        assert asyncio.get_running_loop().time() == pytest.approx(1_012)


async def test_tool_timeout_counts_the_time_before_and_after_a_question() -> None:
    tools = Tools()

    @tools.task(timeout=10)
    async def greet(ctx: Context) -> None:
        await asyncio.sleep(7)
        await ctx.ask("name", FORM)
        await asyncio.sleep(7)

    async with started(tools) as (world, runtime):
        task = await until(runtime, await world.create(runtime, "greet"), is_waiting)
        await runtime.service.perform("alice", Answer(task.id, ADA))
        ended = await runtime.service.collect("alice", task.id)
        assert ended.outcome is not None
        assert ended.outcome.cause is Cause.TIMED_OUT
        assert asyncio.get_running_loop().time() == pytest.approx(10)


async def test_a_task_that_waits_beyond_its_ttl_fails_within_a_second_and_its_tool_is_stopped() -> (
    None
):
    tools = Tools()
    stopped: list[float] = []

    @tools.task(timeout=10)
    async def greet(ctx: Context) -> None:
        ctx.on_cancel(lambda: stopped.append(asyncio.get_running_loop().time()))
        await ctx.ask("name", FORM)

    async with started(tools) as (world, runtime):
        loop = asyncio.get_running_loop()
        runtime.service.clock = lambda: round(loop.time() * 1_000)
        task = await until(runtime, await world.create(runtime, "greet", ttl_ms=90_000), is_waiting)
        ended = await runtime.service.collect("alice", task.id, 200)
        assert 90 <= loop.time() < 91
        assert ended.outcome is not None
        assert (ended.state, ended.outcome.cause) == (State.FAILED, Cause.EXPIRED)
        await asyncio.sleep(59)
        assert len(stopped) == 1
        assert stopped[0] < 91
        assert await runtime.service.get("alice", task.id) == ended
        await asyncio.sleep(400)  # the next sweep
        with pytest.raises(NotFound):
            await runtime.service.get("alice", task.id)


# --- cancellation ----------------------------------------------------------------------------


async def test_a_cancellation_reaches_the_tool_and_its_cleanups_run_in_reverse() -> None:
    tools = Tools()
    done: list[str] = []

    @tools.task()
    async def work(ctx: Context) -> None:
        async def later() -> None:
            await asyncio.sleep(0.1)
            done.append("second")

        ctx.on_cancel(lambda: done.append("first"))
        ctx.on_cancel(later)
        ctx.on_cancel(lambda: 1 / 0)
        try:
            await asyncio.sleep(1_000)
        except asyncio.CancelledError:
            done.append("tool")
            raise

    async with started(tools) as (world, runtime):
        task = await until(runtime, await world.create(runtime, "work"), is_working)
        await asyncio.sleep(1)
        assert (await runtime.service.cancel("alice", task.id)).state is State.CANCELLED
        await asyncio.sleep(1)
        assert sorted(done) == ["first", "second", "tool"]
        assert done.index("second") < done.index("first")


async def test_tool_that_awaits_a_cancelled_future_fails_its_task() -> None:
    tools = Tools()

    @tools.task()
    async def gives_up() -> None:
        waited = asyncio.get_running_loop().create_future()
        waited.cancel()
        await waited

    async with started(tools) as (world, runtime):
        task = await world.create(runtime, "gives_up")
        ended = await runtime.service.collect("alice", task.id)
        assert (ended.state, ended.message) == (State.FAILED, "Tool 'gives_up' cancelled itself")


async def test_event_loop_shutdown_runs_cleanups_and_ends_no_task() -> None:
    """As `asyncio.run` does: it cancels all that there is."""
    tools = Tools()
    cleaned: list[str] = []

    @tools.task()
    async def slow(ctx: Context) -> None:
        ctx.on_cancel(lambda: cleaned.append("up"))
        await asyncio.sleep(10_000)

    async with started(tools) as (world, runtime):
        task = await world.create(runtime, "slow")
        await until(runtime, task, is_working)
        await asyncio.sleep(1)
        [run] = [one for one in asyncio.all_tasks() if one.get_name() == f"task {task.id}"]
        run.cancel()
        await asyncio.wait({run})
        assert run.cancelled()
        assert cleaned == ["up"]
        left = await runtime.service.get("alice", task.id)
        assert left.state is State.WORKING, "which the shutdown of the runtime releases"
        await runtime.stop()
        assert (await runtime.service.get("alice", task.id)).state is State.SUBMITTED


async def test_a_tool_that_ignores_its_cancellation_is_abandoned_and_its_outcome_dropped() -> None:
    tools = Tools()
    said: list[object] = []

    @tools.task()
    async def stubborn(ctx: Context) -> str:
        for _ in range(20):
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                said.append("no")
        try:
            await ctx.progress(1)
        except Gone as gone:
            said.append(type(gone))
        return "too late"

    @tools.task()
    async def quick() -> str:
        return "here"

    async with started(tools, limits=Limits(concurrency=1)) as (world, runtime):
        task = await world.begin(runtime, "stubborn")
        cancelled = await runtime.service.cancel("alice", task.id)
        await asyncio.sleep(6)
        other = await world.create(runtime, "quick")
        assert (await runtime.service.collect("alice", other.id)).state is State.COMPLETED
        await asyncio.sleep(60)
        assert said == ["no", Gone]
        assert await runtime.service.get("alice", task.id) == cancelled


async def test_abandoned_tools_take_the_place_of_others_when_there_are_too_many() -> None:
    tools = Tools()
    freed = asyncio.Event()

    @tools.task()
    async def stubborn() -> None:
        while not freed.is_set():
            try:
                await freed.wait()
            except asyncio.CancelledError:
                continue

    async with started(tools, limits=Limits(concurrency=1)) as (world, runtime):
        for _ in range(2):
            task = await world.begin(runtime, "stubborn")
            await runtime.service.cancel("alice", task.id)
            await asyncio.sleep(6)
        waiting = await world.create(runtime, "stubborn")
        await asyncio.sleep(60)
        assert (await runtime.service.get("alice", waiting.id)).state is State.SUBMITTED
        freed.set()
        assert (await runtime.service.collect("alice", waiting.id)).state is State.COMPLETED


async def test_a_cleanup_that_takes_too_long_is_given_up() -> None:
    tools = Tools()

    @tools.task()
    async def work(ctx: Context) -> None:
        ctx.on_cancel(lambda: asyncio.sleep(1_000))
        await asyncio.sleep(1_000)

    async with started(tools, limits=Limits(concurrency=1)) as (world, runtime):
        first = await world.begin(runtime, "work")
        second = await world.create(runtime, "work")
        await runtime.service.cancel("alice", first.id)
        await until(runtime, second, is_working)
        assert asyncio.get_running_loop().time() == pytest.approx(6)


async def test_a_tool_never_begins_whose_task_was_cancelled_before() -> None:
    tools = Tools()
    begun: list[int] = []

    @tools.task()
    async def work() -> None:
        begun.append(1)

    async with started(tools) as (world, runtime):
        task = await world.create(runtime, "work")
        assert task.state is State.WORKING
        await runtime.service.cancel("alice", task.id)
        await asyncio.sleep(60)
        assert begun == []


# --- questions -------------------------------------------------------------------------------


async def test_a_tool_that_parks_keeps_no_worker_and_never_asks_twice() -> None:
    tools = Tools()
    begun: list[int] = []

    @tools.task()
    async def greet(ctx: Context) -> str:
        begun.append(1)
        answer = await ctx.ask("name", FORM, park=True, partial={"so": "far"})
        return f"Hello, {answer.content['name']}"

    @tools.task()
    async def quick() -> str:
        return "here"

    async with started(tools, limits=Limits(concurrency=1)) as (world, runtime):
        task = await until(
            runtime,
            await world.create(runtime, "greet"),
            lambda task: is_waiting(task) and task.worker is None,
        )
        assert task.partial == b'{"so":"far"}'
        other = await world.create(runtime, "quick")
        assert (await runtime.service.collect("alice", other.id)).state is State.COMPLETED
        await runtime.service.perform("alice", Answer(task.id, ADA))
        ended = await runtime.service.collect("alice", task.id)
        assert ended.state is State.COMPLETED
        assert len(begun) == 2
        assert len(ended.questions) == 1
        assert await events(runtime, task) == [
            "submit", "start", "ask", "report", "requeue", "start", "complete",
        ]  # fmt: skip
        assert asyncio.get_running_loop().time() < 1


async def test_tool_can_ask_several_questions_at_once_and_in_turn() -> None:
    """As many cycles as a tool likes."""
    tools = Tools()

    @tools.task()
    async def survey(ctx: Context) -> dict[str, str]:
        both = await ctx.ask_all({"a": FORM, "b": FORM})
        last = await ctx.ask("c", FORM)
        return {key: answer.action for key, answer in {**both, "c": last}.items()}

    async with started(tools) as (world, runtime):
        task = await until(runtime, await world.create(runtime, "survey"), is_waiting)
        for key, action in (("b", b"decline"), ("a", b"accept"), ("c", b"cancel")):
            task = await until(runtime, task, partial(is_asking, key))
            reply = Reply(b'{"action":"%s"}' % action)
            await runtime.service.perform("alice", Answer(task.id, {key: reply}))
        ended = await runtime.service.collect("alice", task.id)
        assert ended.outcome is not None
        assert b'"structuredContent":{"a":"accept","b":"decline","c":"cancel"}' in (
            ended.outcome.result or b""
        )


async def test_tool_end_withdraws_its_open_question() -> None:
    tools = Tools()

    @tools.task()
    async def impatient(ctx: Context) -> str:
        try:
            async with asyncio.timeout(5):
                await ctx.ask("name", FORM)
        except TimeoutError:
            return "nobody"
        return "somebody"

    async with started(tools) as (world, runtime):
        task = await world.create(runtime, "impatient")
        ended = await runtime.service.collect("alice", task.id)
        assert ended.state is State.COMPLETED
        assert ended.questions[0].withdrawn
        assert await events(runtime, task) == ["submit", "start", "ask", "resume", "complete"]


@pytest.mark.parametrize(
    ("words", "ask"),
    [
        ("did not declare", lambda ctx: ctx.ask("k", _sampling())),
        ("already names another request", lambda ctx: _twice(ctx)),
        ("2 questions of one task", lambda ctx: ctx.ask_all(dict.fromkeys("abc", FORM))),
        ("refused: not now", lambda ctx: ctx.ask("name", FORM)),
    ],
)
async def test_question_that_cannot_be_asked_fails_in_the_tool_at_once(
    words: str, ask: Callable[[Context], Awaitable[object]]
) -> None:
    tools = Tools()

    @tools.task()
    async def curious(ctx: Context) -> None:
        await ask(ctx)

    async with started(tools, limits=Limits(questions=2)) as (world, runtime):
        task = await world.create(runtime, "curious")
        if "not now" in words:
            await until(runtime, task, is_waiting)
            refusal = Reply(b'{"code":-1,"message":"not now"}', is_error=True)
            await runtime.service.perform("alice", Answer(task.id, {"name": refusal}))
        ended = await runtime.service.collect("alice", task.id, 1)
        assert ended.state is State.FAILED
        assert words in str(ended.message)


def _sampling() -> Any:
    return sampling([{"role": "user", "content": {"type": "text", "text": "?"}}], 5)


async def _twice(ctx: Context) -> None:
    other = form("Something else?", {"type": "object", "properties": {}})
    await asyncio.gather(ctx.ask("name", FORM), ctx.ask("name", other))


# --- order -----------------------------------------------------------------------------------


async def test_owners_take_turns_and_priority_counts_only_among_ones_own() -> None:
    tools = Tools()
    order: list[str] = []

    @tools.task()
    async def note(who: str) -> None:
        order.append(who)
        await asyncio.sleep(1)

    async with started(tools, limits=Limits(concurrency=1)) as (_, runtime):
        made = []
        for owner, who, priority in (
            ("alice", "a0", "normal"),
            ("alice", "a-low", "low"),
            ("alice", "a1", "normal"),
            ("alice", "a-high", "high"),
            ("bob", "b-low", "low"),
            ("bob", "b1", "nonsense"),
        ):
            arguments = b'{"who":"%s"}' % who.encode()
            metadata = b'{"priority":"%s"}' % priority.encode()
            wish = Create(call("note", arguments), metadata=metadata)
            made.append((owner, await runtime.create(owner, wish)))
        for owner, task in made:
            await runtime.service.collect(owner, task.id)
        assert order == ["a0", "a-high", "b1", "a1", "b-low", "a-low"]


async def test_no_more_tools_run_than_allowed() -> None:
    tools = Tools()
    running, most = 0, 0

    @tools.task()
    async def work() -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(1)
        running -= 1

    async with started(tools, limits=Limits(concurrency=3)) as (world, runtime):
        tasks = [await world.create(runtime, "work") for _ in range(20)]
        for task in tasks:
            await runtime.service.collect("alice", task.id)
        assert most == 3


async def test_a_server_leaves_the_tools_of_others_alone() -> None:
    tools = Tools()

    async with started(tools) as (_, runtime):
        task = await runtime.service.create("alice", call("somebody-elses"))
        await asyncio.sleep(60)
        assert (await runtime.service.get("alice", task.id)).state is State.SUBMITTED


async def test_full_store_deletes_expired_tasks_to_make_room() -> None:
    """What only waits for the next sweep does not stand in the way."""
    tools = Tools()

    @tools.task()
    async def quick() -> str:
        return "here"

    async with started(tools, limits=Limits(caps=Caps(retained=2))) as (world, runtime):
        for _ in range(2):
            task = await world.create(runtime, "quick")
            await runtime.service.collect("alice", task.id)
        world.clock.now += 24 * HOUR - 1
        with pytest.raises(LimitExceeded, match="2 stored tasks"):
            await world.create(runtime, "quick")
        world.clock.now += 1
        assert await world.create(runtime, "quick")
        assert asyncio.get_running_loop().time() < 60, "no sweep was due"


# --- shutdown and recovery -------------------------------------------------------------------


async def test_a_shutdown_lets_tools_end_for_five_seconds_and_gives_the_rest_back() -> None:
    tools = Tools()
    store = MemoryStore(b"s" * 32)

    @tools.task()
    async def brief() -> str:
        await asyncio.sleep(4)
        return "in time"

    @tools.task()
    async def long() -> None:
        await asyncio.sleep(100)

    @tools.task(repeatable=False)
    async def once() -> None:
        await asyncio.sleep(100)

    @tools.task()
    async def asks(ctx: Context) -> None:
        await ctx.ask("name", FORM)

    async with started(tools, store=store) as (world, runtime):
        made = {name: await world.create(runtime, name) for name in tools}
        await asyncio.sleep(0.1)
        began = asyncio.get_running_loop().time()
        await runtime.stop()
        assert asyncio.get_running_loop().time() - began <= 6
        states = {
            name: (await runtime.service.get("alice", task.id)).state.value
            for name, task in made.items()
        }
        assert states == {
            "brief": "completed",
            "long": "submitted",
            "once": "failed",
            "asks": "input_required",
        }
        assert await store.workers() == ()
        assert await store.orphans(10) == []
        long_one = await runtime.service.get("alice", made["long"].id)
        assert (long_one.losses, long_one.worker) == (0, None)


async def test_restarted_runtime_continues_the_unfinished_tasks() -> None:
    """The store knows no engine."""
    tools = Tools()
    store = MemoryStore(b"s" * 32)

    @tools.task()
    async def greet(ctx: Context) -> str:
        answer = await ctx.ask("name", FORM)
        return f"Hello, {answer.content['name']}"

    async with started(tools, store=store, limits=Limits(concurrency=1)) as (world, runtime):
        task = await until(runtime, await world.create(runtime, "greet"), is_waiting)
        queued = await world.create(runtime, "greet")
        await runtime.stop()
        again = await world.start()
        await again.service.perform("alice", Answer(task.id, ADA))
        assert (await again.service.collect("alice", task.id)).state is State.COMPLETED
        await until(again, queued, is_waiting)
        await again.stop()


async def test_a_worker_that_no_longer_beats_loses_its_tasks_after_fifteen_seconds() -> None:
    tools = Tools()
    store = MemoryStore(b"s" * 32)

    @tools.task()
    async def work() -> str:
        return "done"

    @tools.task(repeatable=False)
    async def once() -> str:
        return "done"

    async with started(tools, store=store) as (world, runtime):
        await store.register_worker(Worker("ghost", "elsewhere", 7))
        made = []
        for name in ("work", "once"):
            now, again = world.clock.now, tools[name].is_repeatable
            step = lifecycle.submit(
                name, "alice", call(name), now, ttl_ms=HOUR, is_repeatable=again
            )
            taken = lifecycle.start(step.task, now, worker="ghost")
            made.append(await store.create(taken.task, [step.entry, taken.entry], Caps()))
        ended = await runtime.service.collect("alice", made[0].id)
        assert 15 <= asyncio.get_running_loop().time() <= 25
        assert (ended.state, ended.losses) == (State.COMPLETED, 1)
        ended = await runtime.service.collect("alice", made[1].id)
        assert ended.outcome is not None
        assert (ended.state, ended.outcome.cause) == (State.FAILED, Cause.WORKER_LOST)


async def test_a_task_is_tried_three_times() -> None:
    tools = Tools()
    store = MemoryStore(b"s" * 32)

    async with started(tools, store=store) as (_, runtime):
        task = await runtime.service.create("alice", call("elsewhere"))
        claims = 0
        while not task.is_terminal:
            held = await claim(runtime.service, task.id, f"never-registered-{claims}")
            claims += held is not None
            task = await runtime.service.wait("alice", task.id, after=task.version + 1)
        assert claims == 3
        assert task.outcome is not None
        assert task.outcome.cause is Cause.WORKER_LOST
        assert [e for e in await events(runtime, task) if e == Event.REQUEUE] == ["requeue"] * 2


@pytest.mark.parametrize("asleep", [1, 300])
async def test_the_number_of_reads_does_not_depend_on_how_many_tasks_sleep(asleep: int) -> None:
    tools = Tools()
    reads: Counter[str] = Counter()

    class CountingStore(MemoryStore):
        def __getattribute__(self, name: str) -> Any:
            if name in ("load", "queued", "due", "history", "overdue"):
                reads[name] += 1
            return super().__getattribute__(name)

    @tools.task()
    async def sleeps(ctx: Context) -> str:
        await ctx.sleep("nap", minutes=5)
        return "awake"

    limits = Limits(caps=Caps(live_of_owner=asleep), concurrency=asleep)
    async with started(tools, limits, CountingStore(b"s" * 32)) as (world, runtime):
        tasks = [await world.create(runtime, "sleeps") for _ in range(asleep)]
        await asyncio.sleep(30)
        assert all(task.due_at for task in await runtime.service.store.browse(None, asleep))
        reads.clear()
        await asyncio.sleep(60)
        assert reads == {"due": 240, "queued": 12, "overdue": 120}
        world.clock.now += 5 * MINUTE
        async with asyncio.timeout(1):
            for task in tasks:
                assert (await runtime.service.collect("alice", task.id)).state == "completed"


async def test_worker_that_lost_its_lease_registers_under_a_new_id() -> None:
    tools = Tools()
    store = MemoryStore(b"s" * 32)

    @tools.task()
    async def work() -> str:
        await asyncio.sleep(30)
        return "done"

    async with started(tools, store=store) as (world, runtime):
        task = await until(runtime, await world.create(runtime, "work"), is_working)
        [worker] = await store.workers()
        await store.remove_worker(worker.id)  # as another process would
        ended = await runtime.service.collect("alice", task.id)
        assert (ended.state, ended.losses) == (State.COMPLETED, 1)
        [registered] = await store.workers()
        assert registered.id != worker.id
