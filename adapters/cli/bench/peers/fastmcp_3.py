"""A server of FastMCP 3 with its tasks in memory, run with an interpreter that has it.

Arguments: `http` or `stdio`, and the text that tools return.
"""

import asyncio
import collections
import os
import sys

os.environ["FASTMCP_DOCKET_URL"] = "memory://"
os.environ["FASTMCP_DOCKET_CONCURRENCY"] = "1000"  # as our server

import uvicorn
from fastmcp import FastMCP

WHERE, TEXT = sys.argv[1:]

server = FastMCP("peer")
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
