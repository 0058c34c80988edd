"""Tools that record steps and sleep, and what they have done."""

import asyncio
from datetime import UTC, datetime

import attrs

from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.registry import Tools
from taskmachine.adapters.tools.sync_context import SyncContext
from taskmachine.statemachine import Cause, Task

SECRET = "password=hunter2"


def result_of(task: Task) -> bytes:
    assert task.outcome is not None
    assert task.outcome.cause is Cause.RESULT, task.outcome
    return task.outcome.result or b""


@attrs.frozen
class Point:
    x: int
    when: datetime


NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


@attrs.define(eq=False)
class Trip:
    """A tool with two steps, and a way to interrupt its first run between them."""

    interrupt: str
    tools: Tools = attrs.field(factory=Tools)
    calls: list[str] = attrs.field(factory=list)
    found: list[Point] = attrs.field(factory=list)
    runs: int = 0
    is_begun: asyncio.Event = attrs.field(factory=asyncio.Event)

    def __attrs_post_init__(self) -> None:
        self.tools.task(retries=1, backoff=lambda failures: 60)(self.trip)
        self.tools.task("threaded", retries=1, backoff=lambda failures: 60)(self.threaded)

    async def fetch(self, x: int) -> Point:
        self.calls.append("fetch")
        return Point(x, NOON)

    def store(self, x: int) -> list[Point]:
        self.calls.append("store")
        return [Point(x, NOON)]

    async def trip(self, ctx: Context) -> str:
        self.runs += 1
        self.found.append(await ctx.step("fetch", self.fetch, 1))
        self.found += await ctx.step("store", self.store, x=2)
        match self.interrupt:
            case "retry" if ctx.attempt == 1:
                raise OSError(SECRET)
            case "park":
                assert await ctx.confirm("sure", "Sure?", park=True)
            case "sleep":
                await ctx.sleep("night", minutes=1)
            case "restart" | "loss" if self.runs == 1:
                self.is_begun.set()
                await asyncio.Event().wait()
        return "arrived"

    def threaded(self, ctx: SyncContext) -> str:
        self.runs += 1
        self.found.append(ctx.step("fetch", self.fetch, 1))
        self.found += ctx.step("store", self.store, x=2)
        if self.interrupt == "retry" and ctx.attempt == 1:
            raise OSError(SECRET)
        ctx.sleep("night", minutes=1)
        return "arrived"

    def check(self, task: Task, runs: int = 2) -> None:
        assert b"arrived" in result_of(task)
        assert (self.runs, self.calls) == (runs, ["fetch", "store"])
        assert self.found == [Point(1, NOON), Point(2, NOON)] * runs


def sleeper(seconds: float = 3_600) -> tuple[Tools, list[int]]:
    """Tools that sleep, and the runs of the first one."""
    tools = Tools()
    runs: list[int] = []

    @tools.task(timeout=60)
    async def nap(ctx: Context) -> str:
        runs.append(1)
        await ctx.sleep("nap", seconds * len(runs))
        return "rested"

    @tools.task
    async def quick() -> str:
        return "done"

    return tools, runs
