"""A server of FastMCP whose tools the test lets go on, and the way to it over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from taskmachine.adapters.bridges.fastmcp import Tasks
from tests.adapters.transports import loopback
from tests.adapters.transports.wire import Caller, callers

__all__ = ["Shop", "over_http", "shop"]


class Who(BaseModel):
    name: str


def asking(message: str) -> types.InputRequests:
    schema: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}}
    params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
    return {"name": types.ElicitRequest(params=params)}


class Shop:
    """The server, and what its tools wait for and have seen."""

    def __init__(self, tasks: Tasks | None = None, **options: Any) -> None:
        self.tasks = tasks or Tasks()
        self.mcp = mcp = FastMCP("shop", version="7", **options)
        mcp.add_extension(self.tasks)
        self.open = asyncio.Event()
        self.stopped = asyncio.Event()
        self.begun = asyncio.Event()
        self.runs = 0

        @mcp.tool(task=True)
        async def wait(ctx: Context) -> str:
            self.begun.set()
            await ctx.report_progress(1, 2, "half way")
            try:
                await self.open.wait()
            except asyncio.CancelledError:
                self.stopped.set()
                raise
            return "open"

        @mcp.tool(task=True)
        async def greet(ctx: Context) -> str:
            answer = await ctx.elicit("Who?", Who)
            return f"Hello, {answer.data.name}!" if answer.action == "accept" else answer.action

        @mcp.tool(task=True)
        async def guarded(ctx: Context) -> str | types.InputRequiredResult:
            """Asks twice under the same key, in the way of FastMCP."""
            self.runs += 1
            said, before = ctx.input_responses, ctx.request_state
            if said is None:
                return types.InputRequiredResult(input_requests=asking("First name?"))
            [answer] = said.values()
            assert isinstance(answer, types.ElicitResult)
            name = (answer.content or {})["name"]
            if before is None:
                return types.InputRequiredResult(
                    input_requests=asking("Last name?"), request_state=str(name)
                )
            return f"{before} {name}"

        @mcp.tool(task=True)
        async def add(a: int, b: int) -> dict[str, int]:
            return {"sum": a + b}

        @mcp.tool(task=True)
        async def refuse() -> str:
            raise ToolError("not today")

        @mcp.tool(task=True)
        async def crash() -> str:
            raise RuntimeError("secret")

        @mcp.tool(task=True)
        async def protocol() -> str:
            raise MCPError(-31_000, "special", {"why": 1})

        @mcp.tool
        def plain(word: str) -> str:
            return word


@asynccontextmanager
async def over_http(mcp: FastMCP[Any], **options: Any) -> AsyncIterator[Caller]:
    """Somebody who calls the server, in plain JSON."""
    app = mcp.http_app(**options)
    async with (
        app.router.lifespan_context(app),
        loopback.serving(app) as port,
        callers(f"http://127.0.0.1:{port}/mcp") as [caller],
    ):
        yield caller


@asynccontextmanager
async def shop(**options: Any) -> AsyncIterator[tuple[Shop, Caller]]:
    place = Shop(**options)
    async with over_http(place.mcp) as caller:
        yield place, caller
