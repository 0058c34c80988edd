"""A server of the SDK on a loopback socket, and how long tests wait for it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final
from unittest import mock

import mcp_types as types
from mcp.server.mcpserver import MCPServer

from taskmachine.adapters.engines import worker as workshop
from tests.adapters.transports import loopback
from tests.adapters.transports.wire import Caller, callers

__all__ = ["SERVER", "accepting", "over_http", "run", "seen"]

PATIENCE_S: Final = 30.0

SERVER: Final[Any] = {"log_level": "ERROR"}


def run(act: Callable[[], Awaitable[None]], patience_s: float = PATIENCE_S) -> None:
    """Within a bound; tools that never end are not waited for when it is over."""

    async def main() -> None:
        async with asyncio.timeout(patience_s):
            await act()

    with mock.patch.object(workshop, "GRACE_S", 0.05):
        asyncio.run(main())


@asynccontextmanager
async def over_http(server: MCPServer) -> AsyncIterator[Caller]:
    """Somebody who calls the server, in plain JSON."""
    app = server.streamable_http_app()
    async with (
        server.session_manager.run(),
        loopback.serving(app) as port,
        callers(f"http://127.0.0.1:{port}/mcp") as [caller],
    ):
        yield caller


async def seen(caller: Caller, task_id: str, status: str) -> dict[str, Any]:
    """The task as it is shown once it has that status."""
    await caller.wait_for(task_id, status)
    shown: dict[str, Any] = (await caller.call("tasks/get", {"taskId": task_id}))["result"]
    return shown


def accepting(content: dict[str, Any], asked: list[Any]) -> Any:
    """What a client of the SDK answers forms with, and where it notes them."""

    async def elicited(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params)
        return types.ElicitResult(action="accept", content=content)

    return elicited
