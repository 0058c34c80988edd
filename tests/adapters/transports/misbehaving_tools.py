"""Tools that break rules or are difficult for a transport."""

import asyncio
import os
import subprocess
import sys
from typing import Final

from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.registry import Tools

TOOLS: Final = Tools()

print("printed by an import")


@TOOLS.task()
async def noisy() -> str:
    """Write to standard output in every way, and read standard input."""
    print("printed by Python", flush=True)
    os.write(1, b"printed by the descriptor\n")
    subprocess.run(["echo", "printed by a program"], check=True)
    read = subprocess.run(["cat"], capture_output=True, check=True).stdout
    return f"{len(read)} bytes were read, and {sys.stdin.read()!r}"


@TOOLS.task()
async def echo(text: str) -> str:
    """Return the text."""
    return text


@TOOLS.task()
async def big(size: int) -> str:
    """Return a text of this size."""
    return "x" * size


@TOOLS.task()
async def hold(ctx: Context) -> None:
    """Run until cancelled."""
    ctx.on_cancel(lambda: print("hold was stopped", flush=True))
    await ctx.status("holding")
    await asyncio.Event().wait()


@TOOLS.task()
async def stubborn(ctx: Context) -> None:
    """Ignore cancellation."""
    await ctx.status("holding")
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            print("stubborn ignores it", flush=True)


@TOOLS.task()
async def chatter(times: int, ctx: Context) -> None:
    """Report progress with long messages."""
    for number in range(times):
        await ctx.progress(number, times, "words " * 500)
        await asyncio.sleep(0)


@TOOLS.task()
async def forge() -> None:
    """Raise an error whose message forges a log line."""
    raise RuntimeError("\x1b[2J\nINFO all is well")
