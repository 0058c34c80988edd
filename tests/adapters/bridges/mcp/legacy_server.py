"""A server of the SDK with our demo tools, over stdio: run as a script, or imported."""

import asyncio
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, SamplingMessage, TextContent
from pydantic import BaseModel

from taskmachine.adapters.bridges.mcp import Tasks

__all__ = ["make_server"]


class Confirmation(BaseModel):
    confirmed: bool
    stage: str = "test"


def make_server(tasks: Tasks, **options: Any) -> MCPServer:
    """Make a server whose tool `greet` is never a task, `hold` always, others optionally."""
    server = MCPServer("legacy", extensions=[tasks], log_level="ERROR", **options)

    @server.tool()
    async def greet(name: str) -> str:
        return f"Hello, {name}!"

    @server.tool()
    @tasks.tool(immediate="Counting.")
    async def count(ctx: Context, to: int = 10, pause_ms: int = 500) -> dict[str, int]:
        for number in range(1, to + 1):
            await asyncio.sleep(pause_ms / 1_000)
            await ctx.report_progress(number, to, f"{number} of {to}")
        return {"counted": to}

    @server.tool()
    @tasks.tool()
    async def deploy(version: str, ctx: Context) -> str:
        answer = await ctx.elicit(f"Deploy {version}?", Confirmation)
        if answer.action != "accept" or not answer.data.confirmed:
            return f"{version} was not deployed."
        return f"{version} is deployed to {answer.data.stage}."

    @server.tool()
    @tasks.tool()
    async def sample(topic: str, ctx: Context) -> str:
        words = TextContent(type="text", text=f"Write one sentence about {topic}.")
        said = await ctx.session.create_message(
            [SamplingMessage(role="user", content=words)], max_tokens=100
        )
        assert isinstance(said.content, TextContent)
        return said.content.text

    @server.tool()
    @tasks.tool()
    async def fail() -> str:
        raise ToolError("This tool always fails.")

    @server.tool()
    @tasks.tool()
    async def crash() -> str:
        raise MCPError(INTERNAL_ERROR, "This tool answers with an error.")

    @server.tool()
    @tasks.tool(support="required")
    async def hold() -> str:
        await asyncio.Event().wait()
        return "never"

    return server


if __name__ == "__main__":
    make_server(Tasks()).run("stdio")
