"""What a client sees of tools that are retried, record steps and sleep, on virtual time."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import RuntimeConfig
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.registry import CallError, ToolError, Tools
from taskmachine.adapters.tools.retries import Retry
from taskmachine.adapters.tools.steps import retrying
from taskmachine.client import CallFailed
from taskmachine.testing import MemoryServer, open_server, run
from tests.adapters.runtime.durable_tools import SECRET, Trip, sleeper


def play(tools: Tools, scene: Callable[[MemoryServer], Any], **options: Any) -> Any:
    async def main() -> Any:
        async with open_server(tools, **options) as server:
            return await scene(server)

    return run(main())


async def watched(server: MemoryServer, tool: str) -> tuple[list[str], str]:
    """Everything that the client was told about a call, and its error."""
    task = await server.start(tool)
    told = [f"{update.status} {update.message}" async for update in task]
    with pytest.raises(CallFailed) as failed:
        await task.result()
    return told, str(failed.value)


def test_a_client_sees_attempts_and_reasons_but_no_exception() -> None:
    tools = Tools()
    errors = [Retry(after=90, reason="the shop is closed"), OSError(SECRET), OSError(SECRET)]

    @tools.task(retries=2, backoff=lambda failures: 30)
    async def buy(ctx: Context) -> None:
        raise errors[ctx.attempt - 1]

    told, error = play(tools, lambda server: watched(server, "buy"))
    assert told[-3:] == [
        "working Attempt 1 of 3 failed: the shop is closed; the next one begins at"
        " 2026-01-01T00:01:30.000Z.",
        "working Attempt 2 of 3 failed; the next one begins at 2026-01-01T00:02:00.000Z.",
        "failed Tool 'buy' failed",
    ]
    assert error == "Tool 'buy' failed (-32603)"


@pytest.mark.parametrize(
    ("error", "options", "attempts", "says"),
    [
        (OSError(SECRET), {}, 1, "Tool 'it' failed (-32603)"),
        (Retry(after=1, reason="busy"), {}, 1, "Tool 'it' failed: busy (-32603)"),
        (OSError(SECRET), {"retries": 2}, 3, "Tool 'it' failed (-32603)"),
        (Retry(reason="busy"), {"retries": 2}, 3, "Tool 'it' failed: busy (-32603)"),
        (OSError(SECRET), {"retries": 2, "retry_on": KeyError}, 1, "Tool 'it' failed (-32603)"),
        (OSError(SECRET), {"retries": 2, "give_up_on": OSError}, 1, "Tool 'it' failed (-32603)"),
        (CallError(-5, "no"), {"retries": 2}, 1, "no (-5)"),
        (CallError(-5, "no"), {"retries": 2, "retry_on": CallError}, 3, "no (-5)"),
        (CallFailed(-5, "no"), {"retries": 2}, 1, "Tool 'it' failed: no (-5) (-32603)"),
        (CallFailed(-5, "no"), {"retries": 1, "retry_on": CallFailed}, 2, "no (-5) (-32603)"),
    ],
)
def test_which_errors_of_a_tool_are_retried(
    error: Exception, options: Any, attempts: int, says: str
) -> None:
    tools = Tools()
    runs: list[int] = []

    @tools.task("it", **options)
    async def tool() -> None:
        runs.append(1)
        raise error

    told, said = play(tools, lambda server: watched(server, "it"))
    assert len(runs) == attempts
    assert said.endswith(says)
    assert SECRET not in "".join(told)


@pytest.mark.parametrize(("retry_on", "attempts"), [(Exception, 1), (ToolError, 2)])
def test_a_tool_error_is_a_result_unless_retry_on_names_it(retry_on: Any, attempts: int) -> None:
    tools = Tools()
    runs: list[int] = []

    @tools.task(retries=1, retry_on=retry_on)
    async def pack() -> None:
        runs.append(1)
        raise ToolError("out of stock")

    result = play(tools, lambda server: server.call("pack"))
    assert (result.is_error, result.text, len(runs)) == (True, "out of stock", attempts)


def test_a_plain_call_is_tried_once_sleeps_and_calls_each_step() -> None:
    tools = Tools()
    runs: list[str] = []

    @tools.task(support="forbidden", retries=5)
    async def plain(ctx: Context) -> None:
        runs.append(await ctx.step("a", asyncio.sleep, 0, "step"))
        assert (ctx.task_id, ctx.attempt, ctx.last_error) == (None, 1, None)
        began = asyncio.get_running_loop().time()
        await ctx.sleep("b", 30)
        runs.append(f"{asyncio.get_running_loop().time() - began:.0f}")
        raise Retry(after=1, reason="busy")

    async def scene(server: MemoryServer) -> None:
        with pytest.raises(CallFailed, match=r"^Tool 'plain' failed: busy \(-32603\)$"):
            await server.call("plain")

    play(tools, scene)
    assert runs == ["step", "30"]


def test_a_timeout_of_a_tool_is_not_retried() -> None:
    tools = Tools()
    runs: list[int] = []

    @tools.task(retries=5, timeout=60)
    async def hang() -> None:
        runs.append(1)
        await asyncio.Event().wait()

    _, error = play(tools, lambda server: watched(server, "hang"))
    assert error == "Tool 'hang' took longer than 60 s. (-32603)"
    assert runs == [1]


def play_beside_second(tools: Tools, order: list[str]) -> None:
    """Start the tools `first` and `second` at the same time, with one place."""

    @tools.task
    async def second() -> None:
        order.append("second")

    async def scene(server: MemoryServer) -> None:
        tasks = [await server.start(tool) for tool in ("first", "second")]
        for task in tasks:
            await task.result()

    play(tools, scene, config=RuntimeConfig(limits=Limits(concurrency=1)))


def test_retries_of_a_step_keep_the_place_of_the_tool() -> None:
    tools = Tools()
    order: list[str] = []

    @tools.task
    async def first(ctx: Context) -> None:
        async def fetch() -> None:
            order.append("fetch")
            if order.count("fetch") < 3:
                raise OSError

        await ctx.step("a", retrying(fetch, retries=2, backoff=lambda failures: 60))

    play_beside_second(tools, order)
    assert order == ["fetch", "fetch", "fetch", "second"]


def test_a_retry_of_a_tool_gives_up_its_place() -> None:
    tools = Tools()
    order: list[str] = []

    @tools.task(retries=1, backoff=lambda failures: 60)
    async def first(ctx: Context) -> None:
        order.append("first")
        if ctx.attempt == 1:
            raise OSError

    play_beside_second(tools, order)
    assert order == ["first", "second", "first"]


@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize("tool", ["trip", "threaded"])
def test_a_crash_after_any_record_repeats_no_step(tool: str, times: int) -> None:
    """The third record is the sleep."""
    trip = Trip("sleep")

    async def scene(server: MemoryServer) -> None:
        server.crash_after("report", times)
        assert (await server.call(tool)).text == "arrived"

    play(trip.tools, scene)
    assert trip.calls == ["fetch", "store"]


def test_a_crash_while_a_task_sleeps_does_not_prolong_its_sleep() -> None:
    tools, runs = sleeper(1_800)

    async def scene(server: MemoryServer) -> float:
        task = await server.start("nap")
        for _ in range(2):
            await asyncio.sleep(600)
            await server.crash()
        await task.result()
        return asyncio.get_running_loop().time()

    assert 1_800 <= play(tools, scene) < 1_806, "the client polls every 5 s"
    assert len(runs) == 2


def test_a_step_that_takes_too_long_is_stopped_and_tried_again() -> None:
    tools = Tools()
    ends: list[str] = []

    @tools.task
    async def fetch(ctx: Context) -> str:
        async def slow() -> str:
            try:
                await asyncio.sleep(5 if "stopped" in ends else 60)
            except asyncio.CancelledError:
                ends.append("stopped")
                raise
            return "done"

        policy = retrying(slow, retries=1, backoff=lambda failures: 1, timeout=10)
        return await ctx.step("a", policy)

    async def scene(server: MemoryServer) -> tuple[str, float]:
        return (await server.call("fetch")).text, asyncio.get_running_loop().time()

    text, took = play(tools, scene)
    assert (text, ends) == ("done", ["stopped"])
    assert 16 <= took < 18
