"""Tools that demonstrate tasks: `taskmachine serve --tools demo`."""

import asyncio
from typing import Annotated, Final

from pydantic import Field

from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.questions import form
from taskmachine.adapters.tools.registry import ToolError, Tools
from taskmachine.adapters.tools.sampling import sampling

__all__ = ["TOOLS"]

TOOLS: Final = Tools()

CONFIRMATION: Final = {
    "type": "object",
    "properties": {
        "confirmed": {"type": "boolean", "title": "Deploy it", "default": True},
        "stage": {"type": "string", "title": "Where", "enum": ["test", "live"]},
    },
    "required": ["confirmed"],
}


@TOOLS.task(support="forbidden")
async def greet(name: str) -> str:
    """Say hello.  Answers immediately and never becomes a task."""
    return f"Hello, {name}!"


@TOOLS.task(timeout=3_600, immediate="Counting; poll the task for its progress.")
async def count(
    ctx: Context,
    to: Annotated[int, Field(ge=1, le=100_000, description="the last number")] = 10,
    pause_ms: Annotated[
        int, Field(ge=0, le=60_000, description="milliseconds before each number")
    ] = 500,
) -> dict[str, int]:
    """Count slowly from one to a number and report progress."""
    await ctx.status(f"Counting to {to}")
    for number in range(1, to + 1):
        await asyncio.sleep(pause_ms / 1_000)
        await ctx.progress(number, to, f"{number} of {to}")
    return {"counted": to}


@TOOLS.task(timeout=60, immediate="The deployment is waiting for confirmation.")
async def deploy(
    version: Annotated[str, Field(min_length=1, max_length=40, description="as in 1.4.2")],
    ctx: Context,
) -> str:
    """Pretend to deploy a version after a person has confirmed it in a form."""
    await ctx.progress(1, 3, f"{version} is built")
    # Parked: no worker is occupied while a person thinks, and the server can shut down.
    answer = await ctx.ask("confirm", form(f"Deploy {version}?", CONFIRMATION), park=True)
    if answer.action != "accept" or not answer.content.get("confirmed"):
        return f"{version} was not deployed: not confirmed."
    await ctx.progress(2, 3, f"{version} is being deployed")
    return f"{version} is deployed to {answer.content.get('stage', 'test')}."


@TOOLS.task(timeout=120)
async def sample(topic: Annotated[str, Field(min_length=1, max_length=200)], ctx: Context) -> str:
    """Have the client's model write a sentence about a topic."""
    asked = sampling(f"Write one sentence about {topic}.", max_tokens=100)
    return (await ctx.ask("sentence", asked, park=True)).text


@TOOLS.task()
async def fail() -> str:
    """Fail with an error result, as tools do."""
    raise ToolError("This tool always fails: that is its purpose.")


@TOOLS.task()
async def crash() -> str:
    """Fail with an exception: clients see an internal error, the log has the details."""
    raise RuntimeError("the demo tool 'crash' was called")
