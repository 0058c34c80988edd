"""A server of FastMCP 3 or 4 with tasks, run with an interpreter that has it.

Arguments: `http` or `stdio`, the text that tools return and, for FastMCP 4, the URL of the queue;
FastMCP 3 keeps its tasks in memory.
"""

import asyncio
import collections
import os
import sys

# FastMCP 3 reads these when it is imported; the concurrency is that of our server.
os.environ["FASTMCP_DOCKET_URL"] = "memory://"
os.environ["FASTMCP_DOCKET_CONCURRENCY"] = "1000"

import uvicorn
from fastmcp import FastMCP

WHERE, TEXT, *URL = sys.argv[1:]

server = FastMCP("peer")
if URL:
    from fastmcp_tasks import TasksExtension

    server.add_extension(TasksExtension(url=URL[0], concurrency=1_000))
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
