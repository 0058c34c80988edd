"""A server of FastMCP whose tools the test lets finish, and its clients over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import mcp_types as types
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.auth import AccessToken, TokenVerifier
from fastmcp.utilities.tasks import TaskConfig
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from taskmachine.adapters.bridges.fastmcp import Tasks
from tests.adapters.transports import loopback
from tests.adapters.transports.wire import Caller, callers

__all__ = ["Shop", "Tokens", "authenticating_shop", "over_http", "requiring_shop", "shop"]


class Who(BaseModel):
    name: str


def asking(message: str) -> types.InputRequests:
    schema: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}}
    params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
    return {"name": types.ElicitRequest(params=params)}


class Shop:
    """The server, and the events that control its tools."""

    def __init__(
        self, store: str = "memory:", *, tasks: Tasks | None = None, **options: Any
    ) -> None:
        self.tasks = tasks or Tasks(store)
        self.server = mcp = FastMCP("shop", version="7", **options)
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
            """Ask twice under the same key, by returning `InputRequiredResult`."""
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
async def over_http(server: FastMCP[Any], **options: Any) -> AsyncIterator[Caller]:
    """Serve over HTTP and yield a client that sends plain JSON."""
    app = server.http_app(**options)
    async with (
        app.router.lifespan_context(app),
        loopback.serving(app) as port,
        callers(f"http://127.0.0.1:{port}/mcp") as [caller],
    ):
        yield caller


@asynccontextmanager
async def shop(**options: Any) -> AsyncIterator[tuple[Shop, Caller]]:
    place = Shop(**options)
    async with over_http(place.server) as caller:
        yield place, caller


@asynccontextmanager
async def requiring_shop() -> AsyncIterator[Caller]:
    """A shop whose tool `must` runs only as a task."""
    place = Shop()

    @place.server.tool(task=TaskConfig(mode="required"))
    async def must() -> str:
        return "done"

    async with over_http(place.server) as caller:
        yield caller


class Tokens(TokenVerifier):
    """Accepts tokens of the form `user+scope@client`."""

    async def verify_token(self, token: str) -> AccessToken | None:
        name, _, client = token.partition("@")
        user, _, scopes = name.partition("+")
        return AccessToken(
            token=token,
            client_id=client,
            scopes=scopes.split("+"),
            subject=user or None,
            claims={"iss": "i"} | ({"sub": user} if user else {}),
        )


def authenticating_shop() -> AbstractAsyncContextManager[tuple[Shop, Caller]]:
    return shop(auth=Tokens())
