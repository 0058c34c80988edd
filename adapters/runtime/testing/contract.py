"""The test kit of the engine contract, for authors of engines.

Requires pytest, which the package itself does not.  Provide one fixture: a function that makes a
new, empty place and returns a function that opens a runtime there.  That runtime creates the tasks;
its engine, or workers that the same context starts, must run the tools within the limits.

    class TestMyEngine(EngineContract):
        @pytest.fixture
        def new_place(self, tmp_path):
            def new_place():
                url = f"sqlite:{tmp_path / 'tasks.db'}"
                return lambda tools, limits: open_runtime(
                    url, tools, RuntimeConfig(engine=MyEngine, limits=limits)
                )

            return new_place
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

import attrs

from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import Runtime
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.questions import form
from taskmachine.adapters.tools.registry import ToolError, Tools
from taskmachine.protocol.operations import Answer, Cancel, Create
from taskmachine.statemachine import Call, Cause, Reply, State, Task

__all__ = ["EngineContract", "NewRuntimePlace", "RuntimePlace"]

RuntimePlace = Callable[[Tools, Limits], AbstractAsyncContextManager[Runtime]]
"""Opens a runtime with these tools and limits; opening it again finds the same tasks."""

NewRuntimePlace = Callable[[], RuntimePlace]
"""Makes a place without tasks."""

PATIENCE_S: Final = 20.0
"""Maximum duration of a test: an engine may poll for its tasks every few seconds."""

_OWNER: Final = "alice"
_NAME: Final = form("Name?", {"type": "object", "properties": {"name": {"type": "string"}}})
_ADA: Final = {"name": Reply(b'{"action":"accept","content":{"name":"Ada"}}')}


@attrs.define
class _Recorder:
    """Tools that record their runs and wait until the test opens the gate."""

    tools: Tools = attrs.field(factory=Tools)
    runs: list[str] = attrs.field(factory=list)
    running: int = 0
    began: asyncio.Event = attrs.field(factory=asyncio.Event)
    is_full: asyncio.Event = attrs.field(factory=asyncio.Event)
    """Set while two tools wait at the gate."""
    gate: asyncio.Event = attrs.field(factory=asyncio.Event)
    cleaned: asyncio.Event = attrs.field(factory=asyncio.Event)

    def __attrs_post_init__(self) -> None:
        self.tools.task()(self.quick)
        self.tools.task()(self.broken)
        self.tools.task()(self.gated)
        self.tools.task(timeout=0.2)(self.slow)
        self.tools.task()(self.stays)
        self.tools.task(parks=True)(self.parks)

    async def quick(self) -> str:
        self.runs.append("quick")
        return "done"

    async def broken(self) -> str:
        raise ToolError("it cannot be done")

    async def gated(self, ctx: Context) -> str:
        ctx.on_cancel(self.cleaned.set)
        self.runs.append("gated")
        self.running += 1
        self.began.set()
        if self.running == 2:
            self.is_full.set()
        try:
            await self.gate.wait()
        finally:
            self.running -= 1
        return "through"

    async def slow(self) -> str:
        await self.gate.wait()
        return "too late"

    async def stays(self, ctx: Context) -> str:
        self.runs.append("stays")
        return f"Hello, {(await ctx.ask('name', _NAME)).content['name']}!"

    async def parks(self, ctx: Context) -> str:
        self.runs.append("parks")
        return f"Hello, {(await ctx.ask('name', _NAME)).content['name']}!"


class EngineContract:
    """The requirements on every engine, one test for each."""

    def test_a_task_is_run_once_and_its_outcome_is_stored(self, new_place: NewRuntimePlace) -> None:
        async def scene(runtime: Runtime, recorder: _Recorder) -> None:
            task = await _ended(runtime, await _create(runtime, "quick"))
            assert (task.state, recorder.runs) == (State.COMPLETED, ["quick"])
            assert b"done" in _result(task)

        _play(new_place(), scene)

    def test_an_error_of_a_tool_is_an_outcome(self, new_place: NewRuntimePlace) -> None:
        async def scene(runtime: Runtime, recorder: _Recorder) -> None:
            task = await _ended(runtime, await _create(runtime, "broken"))
            assert task.outcome is not None
            assert task.outcome.is_error
            assert b"it cannot be done" in _result(task)

        _play(new_place(), scene)

    def test_a_tool_that_takes_too_long_is_stopped(self, new_place: NewRuntimePlace) -> None:
        async def scene(runtime: Runtime, recorder: _Recorder) -> None:
            task = await _ended(runtime, await _create(runtime, "slow"))
            assert task.outcome is not None
            assert (task.state, task.outcome.cause) == (State.FAILED, Cause.TIMED_OUT)

        _play(new_place(), scene)

    def test_a_cancellation_reaches_the_tool_and_is_final(self, new_place: NewRuntimePlace) -> None:
        async def scene(runtime: Runtime, recorder: _Recorder) -> None:
            task = await _create(runtime, "gated")
            await recorder.began.wait()
            await runtime.service.perform(_OWNER, Cancel(task.id))
            await recorder.cleaned.wait()
            recorder.gate.set()
            task = await _ended(runtime, task)
            assert (task.state, recorder.running) == (State.CANCELLED, 0)

        _play(new_place(), scene)

    def test_a_tool_that_waits_resumes_with_the_answer(self, new_place: NewRuntimePlace) -> None:
        _play(new_place(), lambda runtime, recorder: _ask(runtime, recorder, "stays", runs=1))

    def test_a_tool_that_parks_is_run_again_with_the_answer(
        self, new_place: NewRuntimePlace
    ) -> None:
        _play(new_place(), lambda runtime, recorder: _ask(runtime, recorder, "parks", runs=2))

    def test_no_more_tools_run_than_the_limit_says(self, new_place: NewRuntimePlace) -> None:
        async def scene(runtime: Runtime, recorder: _Recorder) -> None:
            first = [await _create(runtime, "gated") for _ in range(2)]
            await recorder.is_full.wait()
            third = await _create(runtime, "quick")
            third = await runtime.service.collect(_OWNER, third.id, timeout_s=0.5)
            assert (third.state, recorder.runs) == (State.SUBMITTED, ["gated", "gated"])
            recorder.gate.set()
            ended = [await _ended(runtime, task) for task in (*first, third)]
            assert {task.state for task in ended} == {State.COMPLETED}

        _play(new_place(), scene, Limits(concurrency=2))

    def test_no_owner_takes_every_place(self, new_place: NewRuntimePlace) -> None:
        async def scene(runtime: Runtime, recorder: _Recorder) -> None:
            flood = [await _create(runtime, "gated") for _ in range(10)]
            await recorder.is_full.wait()
            other = await _create(runtime, "quick", "bob")
            assert (await _ended(runtime, other)).state is State.COMPLETED
            assert 2 <= recorder.running < 8
            recorder.gate.set()
            ended = [await _ended(runtime, task) for task in flood]
            assert {task.state for task in ended} == {State.COMPLETED}

        _play(new_place(), scene, Limits(concurrency=8))

    def test_a_stopped_runtime_returns_unfinished_tasks_to_the_queue(
        self, new_place: NewRuntimePlace
    ) -> None:
        """The next engine on the same place runs it; the first run leaves no outcome."""
        place, first, second = new_place(), _Recorder(), _Recorder()

        async def main() -> None:
            async with place(first.tools, Limits()) as runtime:
                task = await _create(runtime, "gated")
                await first.began.wait()
                await runtime.stop(grace_s=0)
            second.gate.set()
            async with place(second.tools, Limits()) as runtime:
                assert (await _ended(runtime, task)).state is State.COMPLETED
            assert (first.runs, second.runs) == (["gated"], ["gated"])

        _run(main)


async def _ask(runtime: Runtime, recorder: _Recorder, tool: str, runs: int) -> None:
    task = await _create(runtime, tool)
    while task.state is not State.INPUT_REQUIRED:
        task = await runtime.service.wait(_OWNER, task.id, after=task.version)
    await runtime.service.perform(_OWNER, Answer(task.id, _ADA))
    assert b"Hello, Ada!" in _result(await _ended(runtime, task))
    assert recorder.runs == [tool] * runs


def _play(
    place: RuntimePlace,
    scene: Callable[[Runtime, _Recorder], Awaitable[None]],
    limits: Limits | None = None,
) -> None:
    async def main() -> None:
        recorder = _Recorder()
        async with place(recorder.tools, limits or Limits()) as runtime:
            await scene(runtime, recorder)

    _run(main)


def _run(main: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await main()

    asyncio.run(within())


async def _create(runtime: Runtime, tool: str, owner: str = _OWNER) -> Task:
    call = Call("tools/call", tool, answers=frozenset({"elicitation/create"}))
    return await runtime.create(owner, Create(call))


async def _ended(runtime: Runtime, task: Task) -> Task:
    return await runtime.service.collect(task.owner, task.id)


def _result(task: Task) -> bytes:
    assert task.outcome is not None
    return task.outcome.result or b""
