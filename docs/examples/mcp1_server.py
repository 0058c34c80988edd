#!/usr/bin/env python3
"""A server of `mcp` 1.x whose tasks are in a file: `mcp1_server.py [STORE]`, on its pipes.

Kill it while it bakes, and start it again: finished tasks are still there, and unfinished ones have
failed, instead of being unknown.
"""

import sys
from typing import Any

import anyio
from mcp.server import Server
from mcp.server.experimental.task_context import ServerTaskContext
from mcp.server.stdio import stdio_server
from mcp.types import CallToolResult, CreateTaskResult, TextContent, Tool, ToolExecution

from taskmachine.mcp1 import enable_tasks

server: Server[Any, Any] = Server("bakery")
enable_tasks(server, sys.argv[1] if len(sys.argv) > 1 else "sqlite:tasks.db")

MINUTES = {"type": "object", "properties": {"minutes": {"type": "integer", "default": 3}}}
CONSENT = {"type": "object", "properties": {"sugar": {"type": "boolean"}}, "required": ["sugar"]}


@server.list_tools()
async def list_tools() -> list[Tool]:
    task = ToolExecution(taskSupport="required")
    return [Tool(name="bake", description="Bakes a cake", inputSchema=MINUTES, execution=task)]


@server.call_tool()
async def call_tool(name: str, arguments: dict[str, Any]) -> CreateTaskResult:
    async def bake(task: ServerTaskContext) -> CallToolResult:
        answer = await task.elicit("With sugar?", CONSENT)
        minutes = arguments.get("minutes", 3)
        for minute in range(minutes):
            await task.update_status(f"{minute} of {minutes} minutes")  # raises if cancelled
            await anyio.sleep(1)  # a minute in this kitchen
        cake = "sweet cake" if (answer.content or {}).get("sugar") else "cake"
        return CallToolResult(content=[TextContent(type="text", text=f"One {cake}")])

    return await server.request_context.experimental.run_task(bake)


async def main() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
