"""Tasks for a server of the official SDK, by one line.

    tasks = Tasks(store="sqlite:tasks.db")
    server = MCPServer("shop", extensions=[tasks])

    @server.tool()
    @tasks.tool(timeout=60, retry=False)
    async def deploy(version: str, ctx: Context) -> str: ...

The parts, for whoever builds on them:

- `selection.Selection`: which tools become tasks, on what terms;
- `host.Host`: the server; `call` runs one of its tools for a task, `tools` lists them;
- `channel`: the session that such a tool has, made of what the record says;
- `bridged_tools.BridgedTools`: the tools as our `Runtime` takes them;
- `life.Life`: when the runtime begins and ends; `Serving` is what there is in between;
- `callers.owner_of`: whose request it is;
- `modern`: a request of 2026-07-28, answered by our `Conversation`;
- `legacy`: the same for connections that began with `initialize`.

A bridge to another server on the same SDK has a `Host` and an extension of its own, and takes the
rest as it is.
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

from taskmachine.adapters.bridges.mcp import modern
from taskmachine.adapters.bridges.mcp.bridged_tools import BridgedTools
from taskmachine.adapters.bridges.mcp.channel import TaskSession
from taskmachine.adapters.bridges.mcp.host import Host
from taskmachine.adapters.bridges.mcp.legacy import Legacy
from taskmachine.adapters.bridges.mcp.life import Life, Serving
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
    """What we need of a server."""

    @property
    def middleware(self) -> list[ServerMiddleware[Any]]: ...


class Tasks(Extension):
    """The tasks extension, on a store of ours.

    `tools` are the names of those that become tasks, or a predicate; without it, and without any
    mark by `tool`, all do.  The other options are the terms of those that have no mark: see
    `Tools.task`.  One object is for one server.  ConfigurationError for what cannot be.
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
        check_url(store)  # now, and not at the first request
        self._host = Host()
        self._selection = Selection(tools, terms)
        tools_on = partial(BridgedTools, self._host, self._selection)
        self._life = Life(store, tools_on, times, limits, observer)
        self._legacy = Legacy(self.serving, self._selection)
        self._server: HasMiddleware | None = None

    def tool(self, name: str | None = None, **terms: Unpack[Terms]) -> Callable[[_F], _F]:
        """Mark a function whose calls become tasks; `name` if the server calls it otherwise.

        It stands beside `@server.tool()`, above or below.
        """
        return self._selection.mark(name, terms)

    def install(self, server: HasMiddleware) -> None:
        """Stand in the way of the server's messages.

        An `MCPServer` that is given this extension does it by itself.
        """
        if self._server is server:
            return
        if self._server is not None:
            raise ConfigurationError("one Tasks object is for one server: make another one")
        self._server = server
        server.middleware.append(self._middleware)

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Tasks"]:
        """Stop what runs, in good order, at the end of this block, or of the last such one.

        Without it everything is stopped when the event loop ends.
        """
        async with self._life.held():
            yield self

    async def serving(self) -> Serving:
        """The runtime, once a request came by; `MCPError` if there can be none now."""
        if self._server is None:
            log.error("the extension is not installed: call tasks.install(server)")
            raise MCPError(INTERNAL_ERROR, "Internal error: tasks are not installed")
        return await self._life.serving_or_error()

    # --- what the SDK asks for ---------------------------------------------------------------

    def methods(self) -> Sequence[MethodBinding]:
        """What the extension adds to the methods of a server."""
        server = _caller()
        if isinstance(server, MCPServer):
            self.install(server)
        versions = frozenset(MODERN_PROTOCOL_VERSIONS)
        return [
            MethodBinding(name, RequestParams, self._answer, versions) for name in modern.METHODS
        ]

    async def intercept_tool_call(
        self, params: CallToolRequestParams, ctx: Context, call_next: CallNext
    ) -> HandlerResult:
        """Make a task of a call, if that is to be."""
        is_begun = isinstance(ctx.session, TaskSession)
        is_modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
        terms = self._selection.terms(params.name)
        if is_begun or not is_modern or terms is None:
            return await call_next(ctx)
        if terms.support == "optional" and not modern.declares_tasks(ctx):
            return await modern.run(ctx, call_next)  # whatever there is of a store
        serving = await self.serving()
        await serving.tools.look(params.name)
        created = await modern.answer(ctx, serving)
        return await modern.run(ctx, call_next) if created is None else created

    async def _answer(self, ctx: Context, params: RequestParams) -> HandlerResult:
        return await modern.answer(ctx, await self.serving())

    async def _middleware(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        if self._host.seen(ctx, call_next):
            self._life.wake()  # what a former process left is not to wait for somebody who asks
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return await self._legacy(ctx, call_next)
        if modern.is_watch(ctx):
            return await modern.listen(ctx, call_next, await self.serving())
        return await call_next(ctx)


def _caller() -> Any:
    """Whose method is asking for ours.

    The SDK hands an extension no server, and nothing else that leads to one; without it no task
    could go on after a restart, nor anybody subscribe.  Who is not found is installed by hand.
    """
    frame = inspect.currentframe()
    asking = frame and frame.f_back and frame.f_back.f_back
    return asking.f_locals.get("self") if asking else None
