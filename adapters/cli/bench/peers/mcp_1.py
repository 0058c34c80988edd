"""A server of the Python SDK 1.x with its tasks in memory, run with an interpreter that has it.

Arguments: `http` or `stdio`, and the text that tools return.
"""

import asyncio
import collections
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.types import CallToolResult, TextContent, Tool, ToolExecution
from starlette.applications import Starlette
from starlette.routing import Mount

WHERE, TEXT = sys.argv[1:]

server = Server("peer")
server.experimental.enable_tasks()
released: collections.defaultdict[str, asyncio.Event] = collections.defaultdict(asyncio.Event)


def said(text: str) -> Any:
    return CallToolResult(content=[TextContent(type="text", text=text)])


async def list_tools() -> list[Any]:
    support = {"done": "optional", "hold": "optional", "release": "forbidden"}
    return [
        Tool(
            name=name,
            inputSchema={"type": "object"},
            execution=ToolExecution(taskSupport=kind),
        )
        for name, kind in support.items()
    ]


async def call_tool(name: str, arguments: dict[str, Any]) -> Any:
    if name == "release":
        released[arguments["key"]].set()
        return said(TEXT)

    async def work(task: Any) -> Any:
        if name == "hold":
            await released[arguments["key"]].wait()
            del released[arguments["key"]]
        return said(TEXT)

    return await server.request_context.experimental.run_task(work)


server.list_tools()(list_tools)
server.call_tool()(call_tool)
manager = StreamableHTTPSessionManager(server, json_response=True)  # faster than streams


@contextlib.asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    async with manager.run():
        yield


async def on_pipes() -> None:
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if WHERE == "stdio":
    asyncio.run(on_pipes())
else:
    uvicorn.run(
        Starlette(routes=[Mount("/mcp", app=manager.handle_request)], lifespan=lifespan),
        host="127.0.0.1",
        port=0,
        loop="uvloop",
        http="httptools",
        access_log=False,
        timeout_keep_alive=600,  # idle while other servers are measured
    )
