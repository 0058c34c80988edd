"""Tools that go on when a test says so: by files in a folder that both know."""

import asyncio
from pathlib import Path
from typing import Final

from taskmachine.adapters.tools.context import Context, form
from taskmachine.adapters.tools.registry import Tools

__all__ = ["TOOLS"]

TOOLS: Final = Tools()

_NAME: Final = {"type": "object", "properties": {"name": {"type": "string"}}}


async def _appears(path: str) -> None:
    while not Path(path).exists():
        await asyncio.sleep(0.01)


@TOOLS.task(support="forbidden")
async def greet(name: str) -> str:
    """Says hello at once."""
    return f"Hello, {name}!"


@TOOLS.task()
async def hold(gate: str, ctx: Context) -> str:
    """Ends when there is a file; leaves others to tell that it began, and that it was stopped."""
    ctx.on_cancel(lambda: Path(f"{gate}.stopped").touch())
    with Path(f"{gate}.runs").open("a") as runs:
        runs.write("run\n")
    await _appears(gate)
    return f"opened {Path(gate).name}"


@TOOLS.task()
async def ask(gate: str, ctx: Context, waits: bool = False) -> str:
    """Asks, and then waits for a file; also before, if it has to."""
    if waits:
        await _appears(f"{gate}.start")
    answer = await ctx.ask("name", form("Who?", _NAME))
    await _appears(gate)
    return f"{answer.action} {answer.content.get('name')}"


@TOOLS.task()
async def park(ctx: Context) -> str:
    """Asks, and keeps no worker meanwhile."""
    answer = await ctx.ask("name", form("Who?", _NAME), park=True)
    return f"{answer.action} {answer.content.get('name')}"


@TOOLS.task()
async def tick(to: int, gate: str, ctx: Context, pause_ms: int = 5) -> str:
    """Waits for a file, reports progress that many times, and waits for another one."""
    await _appears(f"{gate}.start")
    for number in range(1, to + 1):
        await ctx.progress(number, to, f"tick {number}")
        await asyncio.sleep(pause_ms / 1_000)
    await _appears(gate)
    return f"{to} ticks"


@TOOLS.task()
async def chatter(gate: str, ctx: Context) -> str:
    """Reports progress in many words until there is a file."""
    number = 0
    while not Path(gate).exists():
        number += 1
        await ctx.progress(number, None, f"{number} " + "words " * 600)
        await asyncio.sleep(0.02)
    return "silence"


@TOOLS.task()
async def brief(number: int, ctx: Context) -> str:
    """Takes a moment."""
    await ctx.progress(1, 2)
    await asyncio.sleep(0.3 + number % 7 / 10)
    return f"number {number}"
