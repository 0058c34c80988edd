"""A server of FastMCP 4 with its tasks in memory or Redis, run with an interpreter that has it.

Arguments: `http` or `stdio`, the text that tools return, and the URL of the queue.
"""

import asyncio
import collections
import sys

import uvicorn
from fastmcp import FastMCP
from fastmcp_tasks import TasksExtension

WHERE, TEXT, URL = sys.argv[1:]

server = FastMCP("peer")
server.add_extension(TasksExtension(url=URL, concurrency=1_000))  # as our server
released: collections.defaultdict[str, asyncio.Event] = collections.defaultdict(asyncio.Event)


async def done() -> str:
    return TEXT


async def hold(key: str) -> str:
    await released[key].wait()
    del released[key]
    return TEXT


async def release(key: str) -> str:
    released[key].set()
    return TEXT


server.tool(name="done", task=True)(done)
server.tool(name="hold", task=True)(hold)
server.tool(name="release")(release)

if WHERE == "stdio":
    server.run("stdio", show_banner=False)
else:
    uvicorn.run(
        server.http_app(path="/mcp", json_response=True),
        host="127.0.0.1",
        port=0,
        loop="uvloop",
        http="httptools",
        access_log=False,
        timeout_keep_alive=600,  # idle while other servers are measured
    )
