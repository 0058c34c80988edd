"""A server of the SDK whose tools the test lets finish, and its clients over HTTP."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

from mcp.client import Client
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from pydantic import AnyHttpUrl, BaseModel

from taskmachine.adapters.bridges.mcp import Tasks
from taskmachine.adapters.bridges.mcp.client import Tasks as ClientTasks
from tests.adapters.bridges.mcp.serving import SERVER, over_http
from tests.adapters.transports.wire import Caller

__all__ = ["Shop", "authenticating_shop", "over_http", "requiring_shop", "shop"]


class Answer(BaseModel):
    name: str


class Shop:
    """The server, and the events that control its tools."""

    def __init__(
        self, store: str = "memory:", *, tasks: Tasks | None = None, **options: Any
    ) -> None:
        self.tasks = tasks or Tasks(store)
        self.server = MCPServer("shop", version="7", extensions=[self.tasks], **SERVER, **options)
        self.open = asyncio.Event()
        self.stopped = asyncio.Event()
        self.begun = asyncio.Event()
        self.lifespans: list[Any] = []

        @self.server.tool()
        async def wait(ctx: Context[Any]) -> str:
            self.lifespans.append(ctx.request_context.lifespan_context)
            self.begun.set()
            await ctx.report_progress(1, 2, "half way")
            try:
                await self.open.wait()
            except asyncio.CancelledError:
                self.stopped.set()
                raise
            return "open"

        @self.server.tool()
        async def greet(ctx: Context) -> str:
            answer = await ctx.elicit("Who?", Answer)
            return f"Hello, {answer.data.name}!" if answer.action == "accept" else answer.action

        @self.server.tool()
        async def who() -> str:
            return str(get_access_token())

        @self.server.tool()
        async def add(a: int, b: int) -> dict[str, int]:
            return {"sum": a + b}

        @self.server.tool()
        async def refuse() -> str:
            raise ToolError("not today")

        @self.server.tool()
        async def crash() -> str:
            raise RuntimeError("secret")

        @self.server.tool()
        async def protocol() -> str:
            raise MCPError(-31_000, "special", {"why": 1})

    def client(self) -> Client:
        return Client(self.server, extensions=[ClientTasks()])


@asynccontextmanager
async def shop(**options: Any) -> AsyncIterator[tuple[Shop, Caller]]:
    place = Shop(**options)
    async with over_http(place.server) as caller:
        yield place, caller


@asynccontextmanager
async def requiring_shop() -> AsyncIterator[Caller]:
    """A shop whose tool `must` runs only as a task."""
    place = Shop(tasks=Tasks(tools=["must"], support="required"))

    @place.server.tool()
    async def must() -> str:
        return "done"

    async with over_http(place.server) as caller:
        yield caller


AUTH: Final = AuthSettings(
    issuer_url=AnyHttpUrl("http://127.0.0.1:1"),
    resource_server_url=AnyHttpUrl("http://127.0.0.1:1"),
    validate_token_resource=False,
)


class Tokens:
    """Accepts tokens of the form `user+scope@client`."""

    async def verify_token(self, token: str) -> AccessToken | None:
        name, _, client = token.partition("@")
        user, _, scopes = name.partition("+")
        return AccessToken(
            token=token,
            client_id=client,
            scopes=scopes.split("+"),
            subject=user or None,
            claims={"iss": "i"},
        )


def authenticating_shop() -> AbstractAsyncContextManager[tuple[Shop, Caller]]:
    return shop(auth=AUTH, token_verifier=Tokens())
