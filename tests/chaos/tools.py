"""Tools of the chaos runs: `--tools tests.chaos.tools:TOOLS`.

Each run has an id, which starts every text that it writes to its task.  At its start, at its end
and around each write, it appends a line to the file CHAOS_LOG.
"""

import asyncio
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Literal
from zlib import crc32

import msgspec

from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.questions import Answer, Request, form
from taskmachine.adapters.tools.registry import CallError, Tools
from taskmachine.adapters.tools.retries import Retry
from taskmachine.adapters.tools.sync_context import SyncContext
from taskmachine.protocol.jsonvalue import JSONObject
from tests.chaos.record import LogLine

__all__ = ["BROKEN", "LASTING", "NAMES", "SILENT", "TOOLS"]

TOOLS: Final = Tools()

SILENT: Final = "silent"
"""Asks a question that no client answers; the task expires and is deleted."""

LASTING: Final = "lasting"
"""Runs so long that a paused worker may resume while another one runs the task."""

NAMES: Final = {
    "quick": 30, "steps": 18, "durable": 12, "threaded": 8, LASTING: 4, "asking": 10, "parking": 10,
    "once": 5, "broken": 2, SILENT: 1,
}  # fmt: skip
"""The tools and how many of a hundred calls each gets."""

BROKEN: Final = -31_999
"""The error code with which the tool `broken` always fails."""

_ANSWER: Final = {
    "type": "object",
    "properties": {"said": {"type": "string"}},
    "required": ["said"],
}


class Run:
    """One run of a tool."""

    def __init__(self, name: str, task_id: str | None) -> None:
        assert task_id is not None, "the tools require task support"
        self._name = name
        self._task_id = task_id
        self.id = f"run-{secrets.token_hex(4)}"
        self._log("begin")

    def finish(self, *answers: Any) -> str:
        """Log the end and return the result."""
        return self.end(*(answer.content["said"] for answer in answers))

    def end(self, *results: str) -> str:
        self._log("end")
        return " ".join([self.id, self._name, *results])

    async def step(self, ctx: Context, key: str) -> str:
        """Log a call of the step's function, and that what it returned is recorded."""
        result = await ctx.step(key, partial(self._call, key), self._name)
        if result == self._result(key):
            self._log("recorded", key)
        return result

    async def _call(self, key: str, name: str) -> str:
        self._log("called", key)
        await asyncio.sleep(duration(f"{name} {key}", 0.3))
        return self._result(key)

    def _result(self, key: str) -> str:
        return f"{key}-{self.id}"

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Log the period around a write to the task."""
        self._log("writing")
        yield
        self._log("written")

    def _log(
        self,
        what: Literal["begin", "writing", "written", "called", "recorded", "end"],
        key: str = "",
    ) -> None:
        at_ms = time.time_ns() // 1_000_000
        line = msgspec.json.encode(LogLine(self._task_id, self.id, self._name, what, at_ms, key))
        log = os.open(os.environ["CHAOS_LOG"], os.O_WRONLY | os.O_APPEND)
        try:
            os.write(log, line + b"\n")  # a short append is atomic
        finally:
            os.close(log)


def duration(name: str, most_s: float) -> float:
    """Return a duration that depends only on the name of the call."""
    return crc32(name.encode()) % 1_000 / 1_000 * most_s


def question(name: str, key: str) -> Request[Answer[JSONObject]]:
    return form(f"{name}/{key}", _ANSWER)


@TOOLS.task(support="required")
async def quick(name: str, ctx: Context) -> str:
    run = Run(name, ctx.task_id)
    await asyncio.sleep(duration(name, 0.1))
    return run.finish()


@TOOLS.task(support="required")
async def steps(name: str, ctx: Context) -> str:
    run = Run(name, ctx.task_id)
    for step in range(3):
        with run.writing():
            await ctx.progress(step + 1, 3, f"{run.id} step {step}")
        await asyncio.sleep(duration(name, 0.1))
    return run.finish()


@TOOLS.task(support="required")
def threaded(name: str, ctx: SyncContext) -> str:
    run = Run(name, ctx.task_id)
    with run.writing():
        ctx.status(f"{run.id} in a thread")
    time.sleep(duration(name, 0.2))
    return run.finish()


@TOOLS.task(support="required")
async def lasting(name: str, ctx: Context) -> str:
    run = Run(name, ctx.task_id)
    for step in range(5 + round(duration(name, 20))):
        with run.writing():
            await ctx.progress(step + 1, None, f"{run.id} step {step}")
        await asyncio.sleep(0.4)
    return run.finish()


@TOOLS.task(support="required")
async def asking(name: str, ctx: Context) -> str:
    run = Run(name, ctx.task_id)
    with run.writing():
        first = await ctx.ask("a", question(name, "a"))
        await ctx.status(f"{run.id} knows a")
        both = await ctx.ask_all({"b": question(name, "b"), "c": question(name, "c")})
    return run.finish(first, both["b"], both["c"])


@TOOLS.task(support="required", parks=True)
async def parking(name: str, ctx: Context) -> str:
    run = Run(name, ctx.task_id)
    with run.writing():
        first = await ctx.ask("a", question(name, "a"))
        await ctx.status(f"{run.id} knows a")
        second = await ctx.ask("b", question(name, "b"))
    return run.finish(first, second)


@TOOLS.task(support="required", retries=1)
async def durable(name: str, ctx: Context) -> str:
    """Record steps around a sleep; half of the first attempts fail after it."""
    run = Run(name, ctx.task_id)
    with run.writing():
        first = await run.step(ctx, "a")
        await ctx.sleep("nap", duration(name, 4))
    if ctx.attempt == 1 and duration(name, 1) < 0.5:
        raise Retry(after=duration(name, 2), reason=f"{run.id} failed")
    with run.writing():
        rest = await ctx.gather(run.step(ctx, "b"), run.step(ctx, "c"))
    return run.end(first, *rest)


@TOOLS.task(support="required", repeatable=False)
async def once(name: str, ctx: Context) -> str:
    run = Run(name, ctx.task_id)
    await asyncio.sleep(duration(name, 0.3))
    return run.finish()


@TOOLS.task(support="required")
async def broken(name: str, ctx: Context) -> str:
    Run(name, ctx.task_id)
    await asyncio.sleep(duration(name, 0.1))
    raise CallError(BROKEN, "broken")


@TOOLS.task(support="required", timeout=3)
async def silent(name: str, ctx: Context) -> str:
    run = Run(name, ctx.task_id)
    with run.writing():
        answer = await ctx.ask("a", question(name, "a"), park=duration(name, 1) < 0.5)
    return run.finish(answer)
