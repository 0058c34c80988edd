"""What is run while everything fails: `--tools tests.chaos.tools:TOOLS`.

Each run has a name of its own, with which everything begins that it says.  When it begins, ends
and speaks it writes a line to the file CHAOS_LOG.
"""

import asyncio
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal
from zlib import crc32

import msgspec

from taskmachine.adapters.tools.context import Answer, Context, Request, SyncContext, form
from taskmachine.adapters.tools.registry import CallError, Tools
from tests.chaos.record import Line

__all__ = ["BROKEN", "LASTING", "NAMES", "SILENT", "TOOLS"]

TOOLS: Final = Tools()

SILENT: Final = "silent"
"""Waits for an answer that nobody gives, until its time is over; then it is forgotten."""

LASTING: Final = "lasting"
"""Takes so long that its worker may come back while somebody else is at it."""

NAMES: Final = {
    "quick": 40, "steps": 20, "threaded": 8, LASTING: 4, "asking": 10, "parking": 10,
    "once": 5, "broken": 2, SILENT: 1,
}  # fmt: skip
"""How often each is called, of a hundred times."""

BROKEN: Final = -31_999
"""The code of the error by which one of them always ends."""

_ANSWER: Final = {
    "type": "object",
    "properties": {"said": {"type": "string"}},
    "required": ["said"],
}


class Run:
    """One run of a tool."""

    def __init__(self, name: str, task_id: str | None) -> None:
        assert task_id is not None, "nobody calls them but as tasks"
        self._name = name
        self._task_id = task_id
        self.id = f"run-{secrets.token_hex(4)}"
        self._write("begin")

    def over(self, *answers: Any) -> str:
        """The result."""
        self._write("end")
        return " ".join([self.id, self._name, *(answer.content["said"] for answer in answers)])

    @contextmanager
    def speaking(self) -> Iterator[None]:
        """Whatever it writes to its task, it does in here."""
        self._write("speaks")
        yield
        self._write("spoke")

    def _write(self, what: Literal["begin", "speaks", "spoke", "end"]) -> None:
        at_ms = time.time_ns() // 1_000_000
        line = msgspec.json.encode(Line(self._task_id, self.id, self._name, what, at_ms))
        log = os.open(os.environ["CHAOS_LOG"], os.O_WRONLY | os.O_APPEND)
        try:
            os.write(log, line + b"\n")  # a short one is there as a whole, or not at all
        finally:
            os.close(log)


def moment(name: str, most_s: float) -> float:
    """How long a call takes: always the same."""
    return crc32(name.encode()) % 1_000 / 1_000 * most_s


def question(name: str, key: str) -> Request[Answer]:
    return form(f"{name}/{key}", _ANSWER)


@TOOLS.task(support="required")
async def quick(name: str, ctx: Context) -> str:
    run = Run(name, ctx.task_id)
    await asyncio.sleep(moment(name, 0.1))
    return run.over()


@TOOLS.task(support="required")
async def steps(name: str, ctx: Context) -> str:
    run = Run(name, ctx.task_id)
    for step in range(3):
        with run.speaking():
            await ctx.progress(step + 1, 3, f"{run.id} step {step}")
        await asyncio.sleep(moment(name, 0.1))
    return run.over()


@TOOLS.task(support="required")
def threaded(name: str, ctx: SyncContext) -> str:
    run = Run(name, ctx.task_id)
    with run.speaking():
        ctx.status(f"{run.id} in a thread")
    time.sleep(moment(name, 0.2))
    return run.over()


@TOOLS.task(support="required")
async def lasting(name: str, ctx: Context) -> str:
    run = Run(name, ctx.task_id)
    for step in range(5 + round(moment(name, 20))):
        with run.speaking():
            await ctx.progress(step + 1, None, f"{run.id} step {step}")
        await asyncio.sleep(0.4)
    return run.over()


@TOOLS.task(support="required")
async def asking(name: str, ctx: Context) -> str:
    run = Run(name, ctx.task_id)
    with run.speaking():
        first = await ctx.ask("a", question(name, "a"))
        await ctx.status(f"{run.id} knows a")
        both = await ctx.ask_all({"b": question(name, "b"), "c": question(name, "c")})
    return run.over(first, both["b"], both["c"])


@TOOLS.task(support="required", parks=True)
async def parking(name: str, ctx: Context) -> str:
    run = Run(name, ctx.task_id)
    with run.speaking():
        first = await ctx.ask("a", question(name, "a"))
        await ctx.status(f"{run.id} knows a")
        second = await ctx.ask("b", question(name, "b"))
    return run.over(first, second)


@TOOLS.task(support="required", retry=False)
async def once(name: str, ctx: Context) -> str:
    run = Run(name, ctx.task_id)
    await asyncio.sleep(moment(name, 0.3))
    return run.over()


@TOOLS.task(support="required")
async def broken(name: str, ctx: Context) -> str:
    Run(name, ctx.task_id)
    await asyncio.sleep(moment(name, 0.1))
    raise CallError(BROKEN, "broken")


@TOOLS.task(support="required", timeout=3)
async def silent(name: str, ctx: Context) -> str:
    run = Run(name, ctx.task_id)
    with run.speaking():
        answer = await ctx.ask("a", question(name, "a"), park=moment(name, 1) < 0.5)
    return run.over(answer)
