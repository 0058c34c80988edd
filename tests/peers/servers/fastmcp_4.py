# mypy: ignore-errors
"""A minimal server with tasks on FastMCP 4, over stdio or `http PORT`."""

import asyncio
import sys

from fastmcp import Context, FastMCP
from fastmcp_tasks import TasksExtension
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

mcp = FastMCP("tasks-of-fastmcp-4")
mcp.add_extension(TasksExtension(url="memory://"))


@mcp.tool
async def echo() -> str:
    """At once"""
    return "echo"


@mcp.tool(task=True)
async def sleep(seconds: float) -> str:
    """Sleep a while"""
    await asyncio.sleep(seconds)
    return "Good morning"


@mcp.tool(task=True)
async def fail() -> str:
    """Raise an error"""
    raise RuntimeError("it does not work")


@mcp.tool(task=True)
async def ask(context: Context):
    """Ask for a name"""
    if not context.input_responses:
        form = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        asked = ElicitRequestFormParams(message="What is your name?", requested_schema=form)
        return InputRequiredResult(input_requests={"name": ElicitRequest(params=asked)})
    return "Hello"


if sys.argv[1:2] == ["http"]:
    mcp.run("http", host="127.0.0.1", port=int(sys.argv[2]), show_banner=False)
else:
    mcp.run("stdio", show_banner=False)
