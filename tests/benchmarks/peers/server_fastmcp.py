"""A server of FastMCP with its tasks in memory.  Runs with the interpreter that has it."""

import sys

import uvicorn
from fastmcp import FastMCP
from fastmcp_tasks import TasksExtension

NAME, TEXT = sys.argv[1:]

server = FastMCP("peer")
server.add_extension(TasksExtension(url="memory://", concurrency=64))


async def done() -> str:
    return TEXT


server.tool(name=NAME, task=True)(done)

uvicorn.run(
    server.http_app(path="/mcp", json_response=True),
    host="127.0.0.1",
    port=0,
    loop="uvloop",
    http="httptools",
    access_log=False,
    timeout_keep_alive=600,  # while another server has its turn
)
