#!/usr/bin/env python3
"""A server of the official SDK, `mcp` 2.x, whose tools run as tasks.

    python sdk_server.py                    on standard input and output
    python sdk_server.py --http 8000        over HTTP, at http://127.0.0.1:8000/mcp

Tasks are kept in `sdk.db`.  Kill it during a task and start it again: the tool runs
again, answers are kept, and the caller gets the result.
"""

import argparse
import asyncio
from typing import Annotated

from mcp.server.mcpserver import Context, MCPServer
from pydantic import BaseModel, Field

from taskmachine.mcp import Tasks

tasks = Tasks(store="sqlite:sdk.db")
server = MCPServer("shop", extensions=[tasks])


class Agreement(BaseModel):
    """The form for the user."""

    sure: bool = Field(title="Really deploy it?")


@server.tool()
def greet(name: str) -> str:
    """Say hello.  Without a mark it is a plain call."""
    return f"Hello, {name}!"


@server.tool()
@tasks.tool(poll_interval=0.25)
async def count(ctx: Context, to: Annotated[int, Field(ge=1, le=1000)] = 10) -> str:
    """Count slowly, and report progress."""
    for number in range(1, to + 1):
        await asyncio.sleep(0.1)
        await ctx.report_progress(number, to, f"{number} of {to}")
    return f"counted to {to}"


@server.tool()
@tasks.tool(support="required", timeout=60)  # only tasks can ask
async def deploy(version: str, ctx: Context) -> str:
    """Deploy a version after a person confirms it."""
    await ctx.report_progress(1, 2, "built")
    answer = await ctx.elicit(f"Deploy {version}?", Agreement)
    if answer.action != "accept" or not answer.data.sure:
        return "Nothing was deployed."
    return f"{version} is live."


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A server of the official SDK with tasks.")
    parser.add_argument("--http", type=int, metavar="PORT", help="serve HTTP on this port")
    port = parser.parse_args().http
    try:
        if port is None:
            server.run()
        else:
            server.run("streamable-http", port=port)
    except KeyboardInterrupt:  # the way to stop it
        pass
