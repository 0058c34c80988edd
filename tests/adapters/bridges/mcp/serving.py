"""A server of the SDK on a loopback socket, with time limits for tests."""

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, ParamSpec
from unittest import mock

import mcp_types as types
from mcp.server.mcpserver import MCPServer

from taskmachine.adapters.engines import worker as worker_module
from tests.adapters.transports import loopback
from tests.adapters.transports.wire import Caller, callers

__all__ = ["SERVER", "accepting", "bounded", "over_http", "seen"]

_P = ParamSpec("_P")

PATIENCE_S: Final = 120.0

SERVER: Final[Any] = {"log_level": "ERROR"}


def bounded(test: Callable[_P, Awaitable[None]]) -> Callable[_P, None]:
    """Run a test with a time limit; afterwards, do not wait for tools that never end."""

    @functools.wraps(test)
    def run(*args: _P.args, **fixtures: _P.kwargs) -> None:
        async def main() -> None:
            async with asyncio.timeout(PATIENCE_S):
                await test(*args, **fixtures)

        with mock.patch.object(worker_module, "GRACE_S", 0.05):
            asyncio.run(main())

    return run


@asynccontextmanager
async def over_http(server: MCPServer) -> AsyncIterator[Caller]:
    """Serve over HTTP and yield a client that sends plain JSON."""
    app = server.streamable_http_app()
    async with (
        server.session_manager.run(),
        loopback.serving(app) as port,
        callers(f"http://127.0.0.1:{port}/mcp") as [caller],
    ):
        yield caller


async def seen(caller: Caller, task_id: str, status: str) -> dict[str, Any]:
    await caller.wait_for(task_id, status)
    shown: dict[str, Any] = (await caller.call("tasks/get", {"taskId": task_id}))["result"]
    return shown


def accepting(content: dict[str, Any], asked: list[Any]) -> Any:
    """Return a callback of an SDK client that accepts forms and records them."""

    async def elicited(context: Any, params: Any) -> types.ElicitResult:
        asked.append(params)
        return types.ElicitResult(action="accept", content=content)

    return elicited
