"""Tasks for a server of the official SDK, added by one line.

    tasks = Tasks(store="sqlite:tasks.db")
    server = MCPServer("shop", extensions=[tasks])

    @server.tool()
    @tasks.tool(timeout=60, repeatable=False)
    async def deploy(version: str, ctx: Context) -> str: ...

The parts, for authors of other bridges:

- `selection.Selection`: which tools become tasks, with which options;
- `host.Host`: the server; `call` runs one of its tools for a task, `tools` lists them;
- `channel`: the session of such a tool, created from the task record;
- `bridged_tools.BridgedTools`: the tools as tools of our `Runtime`;
- `loop_runtime.LoopRuntime`: when the runtime starts and stops; `Serving` is the running one;
- `callers.owner_of`: the owner of a request;
- `requests_2026_07_28`: requests of 2026-07-28, answered by our `Conversation`;
- `legacy`: the same for connections that began with `initialize`.

A bridge to another server based on the same SDK has its own `Host` and extension, and reuses the
rest.
"""

import inspect
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Protocol, TypeVar, Unpack

from mcp.server.context import CallNext, HandlerResult, ServerMiddleware, ServerRequestContext
from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, RequestParams
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from taskmachine.adapters.bridges.mcp import requests_2026_07_28
from taskmachine.adapters.bridges.mcp.bridged_tools import BridgedTools
from taskmachine.adapters.bridges.mcp.channel import TaskSession
from taskmachine.adapters.bridges.mcp.host import Host
from taskmachine.adapters.bridges.mcp.legacy import Legacy
from taskmachine.adapters.bridges.mcp.loop_runtime import LoopRuntime, Serving
from taskmachine.adapters.bridges.mcp.selection import Selection, Terms, Which
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.observer import Observer
from taskmachine.adapters.stores import check_url
from taskmachine.protocol.dialects.mcp_2026_07_28.messages import EXTENSION
from taskmachine.protocol.jsonrpc import INTERNAL_ERROR
from taskmachine.statemachine import ConfigurationError, Times

__all__ = ["Tasks"]

_F = TypeVar("_F", bound=Callable[..., Any])
Context = ServerRequestContext[Any, Any]

log: Final = logging.getLogger("taskmachine")


class HasMiddleware(Protocol):
    """The part of a server that `install` uses."""

    @property
    def middleware(self) -> list[ServerMiddleware[Any]]: ...


class Tasks(Extension):
    """The tasks extension, on a taskmachine store.

    `tools` are the names of the tools that become tasks, or a predicate; without it, and without
    any use of `tool`, all do.  The other options are the defaults for tools without options of
    their own: see `Tools.task`.  An instance belongs to one server.  Raises ConfigurationError
    for invalid options.
    """

    identifier = EXTENSION

    def __init__(
        self,
        store: str = "memory:",
        *,
        tools: Which | None = None,
        times: Times | None = None,
        limits: Limits | None = None,
        observer: Observer | None = None,
        **terms: Unpack[Terms],
    ) -> None:
        check_url(store)  # fail now rather than at the first request
        self._host = Host()
        self._selection = Selection(tools, terms)
        tools_on = partial(BridgedTools, self._host, self._selection)
        self._loop_runtime = LoopRuntime(store, tools_on, times, limits, observer)
        self._legacy = Legacy(self.serving, self._selection)
        self._server: HasMiddleware | None = None

    def tool(self, name: str | None = None, **terms: Unpack[Terms]) -> Callable[[_F], _F]:
        """Mark a function whose calls become tasks; `name` if the server has it under another name.

        Used in addition to `@server.tool()`, above or below it.
        """
        return self._selection.mark(name, terms)

    def install(self, server: HasMiddleware) -> None:
        """Add the middleware to a server.

        An `MCPServer` created with this extension does so itself.
        """
        if self._server is server:
            return
        if self._server is not None:
            raise ConfigurationError(
                "this Tasks object belongs to another server: create one for each server"
            )
        self._server = server
        server.middleware.append(self._middleware)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Tasks"]:
        """Stop the runtime at the end of the last such block.

        Without one, it stops with the event loop.
        """
        async with self._loop_runtime.hold():
            yield self

    async def serving(self) -> Serving:
        """Return the runtime after the first request; raise `MCPError` if it could not start."""
        if self._server is None:
            log.error("the extension is not installed: call tasks.install(server)")
            raise MCPError(INTERNAL_ERROR, "Internal error: tasks are not installed")
        return await self._loop_runtime.serving_or_error()

    # --- called by the SDK ------------------------------------------------------------------

    def methods(self) -> Sequence[MethodBinding]:
        """The methods that the extension adds to the server."""
        server = _caller()
        if isinstance(server, MCPServer):
            self.install(server)
        versions = frozenset(MODERN_PROTOCOL_VERSIONS)
        return [
            MethodBinding(name, RequestParams, self._answer, versions)
            for name in requests_2026_07_28.METHODS
        ]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: Context, call_next: CallNext
    ) -> HandlerResult:
        """Make a task of a call if its tool and the client support it."""
        is_begun = isinstance(ctx.session, TaskSession)
        is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        terms = self._selection.terms(params.name)
        if is_begun or not is_modern or terms is None:
            return await call_next(ctx)
        if terms.support == "optional" and not requests_2026_07_28.declares_tasks(ctx):
            return await requests_2026_07_28.run(ctx, call_next)  # works without a store
        serving = await self.serving()
        await serving.tools.look(params.name)
        created = await requests_2026_07_28.answer(ctx, serving)
        return await requests_2026_07_28.run(ctx, call_next) if created is None else created

    async def _answer(self, ctx: Context, params: RequestParams) -> HandlerResult:
        return await requests_2026_07_28.answer(ctx, await self.serving())

    async def _middleware(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        if self._host.observe(ctx, call_next):
            self._loop_runtime.start()  # recover old tasks without waiting
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return await self._legacy(ctx, call_next)
        if requests_2026_07_28.is_watch(ctx):
            return await requests_2026_07_28.listen(ctx, call_next, await self.serving())
        return await call_next(ctx)


def _caller() -> Any:
    """Return the server that calls `methods`.

    The SDK passes no server to an extension, and without one tasks could neither resume after a
    restart nor send notifications.  Other servers have to call `install`.
    """
    frame = inspect.currentframe()
    asking = frame and frame.f_back and frame.f_back.f_back
    return asking.f_locals.get("self") if asking else None
