# mypy: ignore-errors
"""A minimal server with tasks on FastMCP 3 or 4, over stdio or `http PORT`."""

import asyncio
import sys

import fastmcp
from fastmcp import Context, FastMCP

IS_4 = fastmcp.__version__.startswith("4.")
mcp = FastMCP("tasks-of-fastmcp-4" if IS_4 else "tasks-of-fastmcp-3")


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


if IS_4:
    from fastmcp_tasks import TasksExtension
    from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

    mcp.add_extension(TasksExtension(url="memory://"))

    async def ask(context: Context):
        """Ask for a name"""
        if not context.input_responses:
            name = {"type": "object", "properties": {"name": {"type": "string"}}}
            form = {**name, "required": ["name"]}
            asked = ElicitRequestFormParams(message="What is your name?", requested_schema=form)
            return InputRequiredResult(input_requests={"name": ElicitRequest(params=asked)})
        return "Hello"

else:

    async def ask(context: Context) -> str:
        """Ask for a name"""
        reply = await context.elicit("What is your name?", str)
        return f"Hello, {getattr(reply, 'data', 'stranger')}"


mcp.tool(task=True)(ask)

if sys.argv[1:2] == ["http"]:
    mcp.run("http", host="127.0.0.1", port=int(sys.argv[2]), show_banner=False)
else:
    mcp.run("stdio", show_banner=False)
