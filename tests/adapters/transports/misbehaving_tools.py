"""Tools that do what tools should not do, or what makes life hard for a transport."""

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
    """Writes to the standard output in every way, and reads the standard input."""
    print("printed by Python", flush=True)
    os.write(1, b"printed by the descriptor\n")
    subprocess.run(["echo", "printed by a program"], check=True)
    read = subprocess.run(["cat"], capture_output=True, check=True).stdout
    return f"{len(read)} bytes were read, and {sys.stdin.read()!r}"


@TOOLS.task()
async def echo(text: str) -> str:
    """Returns the same."""
    return text


@TOOLS.task()
async def big(size: int) -> str:
    """Returns much."""
    return "x" * size


@TOOLS.task()
async def hold(ctx: Context) -> None:
    """Never ends by itself."""
    ctx.on_cancel(lambda: print("hold was stopped", flush=True))
    await ctx.status("holding")
    await asyncio.Event().wait()


@TOOLS.task()
async def stubborn(ctx: Context) -> None:
    """Does not even end when it is stopped."""
    await ctx.status("holding")
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            print("stubborn goes on", flush=True)


@TOOLS.task()
async def chatter(times: int, ctx: Context) -> None:
    """Reports progress, with many words."""
    for number in range(times):
        await ctx.progress(number, times, "words " * 500)
        await asyncio.sleep(0)


@TOOLS.task()
async def forge() -> None:
    """Has the log say what is not so."""
    raise RuntimeError("\x1b[2J\nINFO all is well")
