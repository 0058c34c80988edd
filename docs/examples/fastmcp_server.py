#!/usr/bin/env python3
"""A server of FastMCP 4 whose tools run as tasks.

    python fastmcp_server.py                    on standard input and output
    python fastmcp_server.py --http 8000        over HTTP, at http://127.0.0.1:8000/mcp

Tasks are kept in `fastmcp.db`.  Kill it during a task and start it again: the tool runs
again, answers are kept, and the caller gets the result.
"""

import argparse
import asyncio
from typing import Annotated

from fastmcp import Context, FastMCP
from fastmcp.utilities.tasks import TaskConfig
from pydantic import BaseModel, Field

from taskmachine.fastmcp import Tasks

tasks = Tasks(store="sqlite:fastmcp.db")
mcp = FastMCP("shop")
mcp.add_extension(tasks)


class Agreement(BaseModel):
    """The form for the user."""

    sure: bool = Field(title="Really deploy it?")


@mcp.tool
def greet(name: str) -> str:
    """Say hello.  It never becomes a task."""
    return f"Hello, {name}!"


@mcp.tool(task=True)
async def count(ctx: Context, to: Annotated[int, Field(ge=1, le=1000)] = 10) -> str:
    """Count slowly, and report progress."""
    for number in range(1, to + 1):
        await asyncio.sleep(0.1)
        await ctx.report_progress(number, to, f"{number} of {to}")
    return f"counted to {to}"


@mcp.tool(task=TaskConfig(mode="required"))  # only tasks can ask
@tasks.tool(timeout=60)
async def deploy(version: str, ctx: Context) -> str:
    """Deploy a version after a person confirms it."""
    await ctx.report_progress(1, 2, "built")
    answer = await ctx.elicit(f"Deploy {version}?", Agreement)
    if answer.action != "accept" or not answer.data.sure:
        return "Nothing was deployed."
    return f"{version} is live."


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A server of FastMCP with tasks.")
    parser.add_argument("--http", type=int, metavar="PORT", help="serve HTTP on this port")
    port = parser.parse_args().http
    try:
        if port is None:
            mcp.run(show_banner=False)
        else:
            # By default FastMCP accepts calls from any web page.
            mcp.run("http", port=port, host_origin_protection="auto", show_banner=False)
    except KeyboardInterrupt:  # the way to stop it
        pass
