"""The demo tools as tools of FastMCP over stdio, for third-party clients."""

import asyncio
import warnings
from typing import Literal

import mcp_types as types
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.utilities.tasks import TaskConfig
from mcp.shared.exceptions import MCPDeprecationWarning
from pydantic import BaseModel

from taskmachine.adapters.bridges.fastmcp import Tasks

warnings.simplefilter("ignore", MCPDeprecationWarning)

mcp = FastMCP("demo")
mcp.add_extension(Tasks(poll_interval=0.05))


ASKS = TaskConfig(mode="required")  # a plain call cannot


class Confirmation(BaseModel):
    confirmed: bool
    stage: Literal["test", "live"] = "test"


@mcp.tool
async def greet(name: str) -> str:
    return f"Hello, {name}!"


@mcp.tool(task=True)
async def count(ctx: Context, to: int = 10, pause_ms: int = 500) -> dict[str, int]:
    for number in range(1, to + 1):
        await asyncio.sleep(pause_ms / 1_000)
        await ctx.report_progress(number, to, f"{number} of {to}")
    return {"counted": to}


@mcp.tool(task=ASKS)
async def deploy(version: str, ctx: Context) -> str:
    answer = await ctx.elicit(f"Deploy {version}?", Confirmation)
    if answer.action != "accept" or not answer.data.confirmed:
        return f"{version} was not deployed: not confirmed."
    return f"{version} is deployed to {answer.data.stage}."


@mcp.tool(task=ASKS)
async def sample(topic: str, ctx: Context) -> str:
    asked = types.TextContent(type="text", text=f"Write one sentence about {topic}.")
    said = await ctx.session.create_message(
        [types.SamplingMessage(role="user", content=asked)], max_tokens=100
    )
    blocks = said.content if isinstance(said.content, list) else [said.content]
    return "".join(block.text for block in blocks if isinstance(block, types.TextContent))


@mcp.tool(task=True)
async def fail() -> str:
    raise ToolError("This tool always fails: that is its purpose.")


@mcp.tool(task=True)
async def crash() -> str:
    raise RuntimeError("the demo tool 'crash' was called")


if __name__ == "__main__":
    mcp.run(show_banner=False)
