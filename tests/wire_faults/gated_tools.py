"""Tools that continue when a test creates a file in a shared folder."""

import asyncio
from pathlib import Path
from typing import Final

from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.questions import form
from taskmachine.adapters.tools.registry import Tools

__all__ = ["TOOLS"]

TOOLS: Final = Tools()

_NAME: Final = {"type": "object", "properties": {"name": {"type": "string"}}}


async def _appears(path: str) -> None:
    while not Path(path).exists():
        await asyncio.sleep(0.01)


@TOOLS.task(support="forbidden")
async def greet(name: str) -> str:
    """Return a greeting."""
    return f"Hello, {name}!"


@TOOLS.task()
async def hold(gate: str, ctx: Context) -> str:
    """Wait for the file; create other files at the start and on cancellation."""
    ctx.on_cancel(lambda: Path(f"{gate}.stopped").touch())
    with Path(f"{gate}.runs").open("a") as runs:
        runs.write("run\n")
    await _appears(gate)
    return f"opened {Path(gate).name}"


@TOOLS.task()
async def ask(gate: str, ctx: Context, waits: bool = False) -> str:
    """Ask, then wait for a file; with `waits`, also wait for one before."""
    if waits:
        await _appears(f"{gate}.start")
    answer = await ctx.ask("name", form("Who?", _NAME))
    await _appears(gate)
    return f"{answer.action} {answer.content.get('name')}"


@TOOLS.task()
async def park(ctx: Context) -> str:
    """Ask, and release the worker while waiting."""
    answer = await ctx.ask("name", form("Who?", _NAME), park=True)
    return f"{answer.action} {answer.content.get('name')}"


@TOOLS.task()
async def tick(to: int, gate: str, ctx: Context, pause_ms: int = 5) -> str:
    """Wait for a file, report progress that many times, and wait for another file."""
    await _appears(f"{gate}.start")
    for number in range(1, to + 1):
        await ctx.progress(number, to, f"tick {number}")
        await asyncio.sleep(pause_ms / 1_000)
    await _appears(gate)
    return f"{to} ticks"


@TOOLS.task()
async def chatter(gate: str, ctx: Context) -> str:
    """Report progress with long messages until the file exists."""
    number = 0
    while not Path(gate).exists():
        number += 1
        await ctx.progress(number, None, f"{number} " + "words " * 600)
        await asyncio.sleep(0.02)
    return "silence"


@TOOLS.task()
async def brief(number: int, ctx: Context) -> str:
    """Run for 0.3 to 0.9 s."""
    await ctx.progress(1, 2)
    await asyncio.sleep(0.3 + number % 7 / 10)
    return f"number {number}"
