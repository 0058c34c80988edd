"""A server of the Python SDK with its tasks in memory.  Runs with the interpreter that has it."""

import contextlib
import sys
from collections.abc import AsyncIterator
from typing import Any

import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import (
    StreamableHTTPSessionManager,
)
from mcp.types import (
    CallToolResult,
    TextContent,
    Tool,
    ToolExecution,
)
from starlette.applications import Starlette
from starlette.routing import Mount

NAME, TEXT = sys.argv[1:]

server = Server("peer")
server.experimental.enable_tasks()


async def list_tools() -> list[Any]:
    execution = ToolExecution(taskSupport="optional")
    return [Tool(name=NAME, inputSchema={"type": "object"}, execution=execution)]


async def call_tool(name: str, arguments: dict[str, Any]) -> Any:
    async def work(task: Any) -> Any:
        return CallToolResult(content=[TextContent(type="text", text=TEXT)])

    return await server.request_context.experimental.run_task(work)


server.list_tools()(list_tools)
server.call_tool()(call_tool)
manager = StreamableHTTPSessionManager(server, json_response=True)  # faster than streams


@contextlib.asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    async with manager.run():
        yield


uvicorn.run(
    Starlette(routes=[Mount("/mcp", app=manager.handle_request)], lifespan=lifespan),
    host="127.0.0.1",
    port=0,
    loop="uvloop",
    http="httptools",
    access_log=False,
    timeout_keep_alive=600,  # while another server has its turn
)
