# mypy: ignore-errors
"""A minimal server with tasks on FastMCP 3, over stdio or `http PORT`."""

import asyncio
import sys

from fastmcp import Context, FastMCP

mcp = FastMCP("tasks-of-fastmcp-3")


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
async def ask(context: Context) -> str:
    """Ask for a name"""
    reply = await context.elicit("What is your name?", str)
    return f"Hello, {getattr(reply, 'data', 'stranger')}"


if sys.argv[1:2] == ["http"]:
    mcp.run("http", host="127.0.0.1", port=int(sys.argv[2]), show_banner=False)
else:
    mcp.run("stdio", show_banner=False)
