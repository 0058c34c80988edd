"""Tools that continue when a test creates a file in a shared folder."""

import asyncio
from pathlib import Path
from typing import Final

from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.questions import form
from taskmachine.adapters.tools.registry import ToolError, Tools
from taskmachine.adapters.tools.retries import Retry
from taskmachine.adapters.tools.sampling import sampling

__all__ = ["TOOLS"]

TOOLS: Final = Tools()

RELEASE: Final = {
    "type": "object",
    "properties": {
        "stage": {
            "type": "string",
            "title": "Where to",
            "oneOf": [
                {"const": "test", "title": "Test"},
                {"const": "live", "title": "Live, with customers"},
            ],
        },
        "replicas": {
            "type": "integer",
            "title": "Replicas",
            "minimum": 1,
            "maximum": 20,
            "default": 3,
            "description": "How many run at the same time.",
        },
        "share": {"type": "number", "title": "Share of traffic", "minimum": 0, "maximum": 1},
        "contact": {"type": "string", "title": "Who to call", "format": "email"},
        "note": {"type": "string", "title": "Note", "maxLength": 200},
        "confirmed": {"type": "boolean", "title": "The tests have passed"},
    },
    "required": ["stage", "replicas", "confirmed"],
}


async def _appears(path: str) -> None:
    while not Path(path).exists():
        await asyncio.sleep(0.01)


@TOOLS.task(timeout=3_600)
async def release(version: str, ctx: Context) -> str:
    """Ask where to release, and return the answer."""
    await ctx.progress(1, 3, f"{version} is built")
    answer = await ctx.ask("where", form(f"Release {version} now?", RELEASE))
    if answer.action != "accept":
        return f"{version} stays here: {answer.action}"
    content = answer.content
    return f"{version} runs in {content['stage']}, {content['replicas']} times."


@TOOLS.task(timeout=3_600)
async def steps(gate: str, of: int, ctx: Context) -> str:
    """Do one step for each file `gate.N`, and end with the file `gate`."""
    await ctx.status("Importing the orders of last month")
    for number in range(1, of + 1):
        await _appears(f"{gate}.{number}")
        await ctx.progress(number, of, f"step {number} of {of}")
    await _appears(gate)
    return f"{of} steps"


async def read_page(number: int) -> dict[str, object]:
    rows = [{"order": 100 * number + n, "text": "two boxes of <tea>"} for n in range(20)]
    return {"page": number, "rows": rows}


@TOOLS.task(timeout=3_600, retries=5)
async def import_orders(pages: int, ctx: Context) -> str:
    """Read pages in steps, sleep for an hour, and wait for a retry at the second attempt."""
    for number in range(1, pages + 1):
        await ctx.step(f"page {number}", read_page, number)
    if ctx.attempt == 1:
        raise Retry(after=0, reason="The shop was busy")
    if pages > 3:
        raise Retry(after=7_200, reason="The shop is closed")
    await ctx.sleep("nap", hours=1)
    return f"{pages} pages"


@TOOLS.task(timeout=3_600)
async def pulse(pause_ms: int, ctx: Context) -> None:
    """Report progress until cancelled."""
    number = 0
    while True:
        number += 1
        await ctx.progress(number, 1_000_000, f"pulse {number}")
        await asyncio.sleep(pause_ms / 1_000)


@TOOLS.task(timeout=3_600)
async def ask_model(topic: str, ctx: Context) -> str:
    """Ask a model to write a sentence."""
    asked = sampling(f"Write one sentence about {topic}.", max_tokens=100)
    return (await ctx.ask("sentence", asked)).text


@TOOLS.task()
async def echo(text: str) -> str:
    """Return the text."""
    return text


@TOOLS.task()
async def fail(text: str) -> str:
    """Fail with this text."""
    raise ToolError(text)
