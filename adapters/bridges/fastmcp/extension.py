"""Tasks for a FastMCP server, added by one line.

    mcp = FastMCP("shop")
    mcp.add_extension(Tasks(store="sqlite:tasks.db"))

    @mcp.tool(task=True)
    async def deploy(version: str, ctx: Context) -> str: ...

FastMCP is based on the official SDK, and this module on the bridge to it: conversations, the
channel for questions and progress, and the lifetime are the same.  Specific to FastMCP are how
tools are found and run (`host`), and that its middleware sees a call before it becomes a task
(`calls`).

This uses two private names of FastMCP that have no public alternative: `_mcp_server` for the
chain of messages, and `_lifespan_ref_count` for whether other connections are open.
"""

import contextvars
import dataclasses
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, TypeVar, Unpack, cast

from fastmcp import Context
from fastmcp.exceptions import NotFoundError
from fastmcp.server.dependencies import extract_version_spec
from fastmcp.server.extensions import (
    MethodBinding,
    ServerExtension,
    ToolCallContinuation,
    ToolCallOutcome,
)
from fastmcp.utilities.versions import VersionSpec
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp_types import (
    CallToolRequestParams,
    RequestParams,
    SubscriptionFilter,
    SubscriptionsListenRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from taskmachine.adapters.bridges.fastmcp.calls import Dispatch, LegacyCalls, Sent, dispatched, send
from taskmachine.adapters.bridges.fastmcp.host import Configured, FastMCPHost
from taskmachine.adapters.bridges.mcp import requests_2026_07_28
from taskmachine.adapters.bridges.mcp.bridged_tools import BridgedTools
from taskmachine.adapters.bridges.mcp.loop_runtime import LoopRuntime, Serving
from taskmachine.adapters.bridges.mcp.selection import Terms
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.observer import Observer
from taskmachine.adapters.stores import check_url
from taskmachine.protocol.dialects.mcp_2026_07_28.messages import EXTENSION
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.statemachine import Times

__all__ = ["Tasks"]

_F = TypeVar("_F", bound=Callable[..., Any])
RequestContext = ServerRequestContext[Any, Any]


class Tasks(ServerExtension):
    """The tasks extension of FastMCP, on a taskmachine store.

    Tools with `task=True` or a `TaskConfig` become tasks.  The other options are the defaults for
    tools that have none by `tool`: see `Tools.task`.  An instance belongs to one server.  Raises
    ConfigurationError for invalid options.
    """

    identifier = EXTENSION

    def __init__(
        self,
        store: str = "memory:",
        *,
        times: Times | None = None,
        limits: Limits | None = None,
        observer: Observer | None = None,
        **terms: Unpack[Terms],
    ) -> None:
        check_url(store)  # fail now rather than when the server starts
        self._configured = Configured(terms)
        self._host = FastMCPHost(lambda: self.server, self._configured)
        tools_on = partial(BridgedTools, self._host, self._configured)
        self._loop_runtime = LoopRuntime(store, tools_on, times, limits, observer)
        self._legacy = LegacyCalls(self.serving, self._configured)
        self._listening = ListenHandler(InMemorySubscriptionBus())
        self._holds = AsyncExitStack()
        self._is_installed = False

    def tool(self, name: str | None = None, **terms: Unpack[Terms]) -> Callable[[_F], _F]:
        """Set the task options of a function; `name` if the server has it under another name.

        Used in addition to `@mcp.tool(task=True)`, which enables tasks.
        """
        return self._configured.mark(name, terms)

    async def serving(self) -> Serving:
        """Return the runtime of the running server; raise `MCPError` if it could not start."""
        return await self._loop_runtime.serving_or_error()

    # --- called by FastMCP ------------------------------------------------------------------

    def methods(self) -> Sequence[MethodBinding]:
        """The methods that the extension adds to the server."""
        versions = frozenset(MODERN_PROTOCOL_VERSIONS)
        return [
            MethodBinding(name, RequestParams, self._answer, versions)
            for name in requests_2026_07_28.METHODS
        ]

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Recover the tasks of a former process, and run until the server stops."""
        if not self._is_installed:
            self._is_installed = True
            # Outermost, because other middleware may call tools, too.
            self.server.middleware.insert(0, Dispatch())
            self.server._mcp_server.middleware.append(self._middleware)
        self._host.surroundings = contextvars.copy_context()
        await self._holds.enter_async_context(self._loop_runtime.hold())
        try:
            await self._loop_runtime.serving()
            yield
        finally:
            # FastMCP ends this with the connection that started it, even if others are open.
            # Then the tasks stop with the next connection, or with the event loop.
            if getattr(self.server, "_lifespan_ref_count", 1) <= 1:
                await self._holds.aclose()

    async def intercept_tool_call(
        self, params: CallToolRequestParams, context: Context, call_next: ToolCallContinuation
    ) -> ToolCallOutcome:
        """Make a task of a call if its tool and the client support it."""
        sent = dispatched()
        if sent is None:  # a call by a tool or a middleware is part of its work
            return await call_next()
        number = extract_version_spec(cast("dict[str, Any] | None", params.meta))
        version = None if number is None else VersionSpec(eq=number)
        try:
            tool = await self.server.get_tool(params.name, version)
        except NotFoundError:
            tool = None
        if tool is None:
            return await call_next()
        name = self._host.learn(tool)
        called = {"name": name, "arguments": params.arguments or {}}
        wire = sent.context
        wire = dataclasses.replace(wire, params={**(wire.params or {}), **called})
        if wire.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return await self._legacy.decide(sent, wire, call_next)
        serving = await self.serving()
        await serving.tools.look(name)
        made = await requests_2026_07_28.answer(wire, serving)
        # A model would drop `"ttlMs": null`; FastMCP passes unknown results unchanged.
        return await call_next() if made is None else cast(ToolCallOutcome, made)

    # --- messages ---------------------------------------------------------------------------

    async def _answer(self, ctx: RequestContext, params: RequestParams) -> JSONObject | None:
        return await requests_2026_07_28.answer(ctx, await self.serving())

    async def _middleware(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return await self._legacy(ctx, call_next)
        if ctx.method == "tools/call":
            return await send(Sent(ctx), call_next)
        if requests_2026_07_28.is_watch(ctx):
            return await requests_2026_07_28.listen(ctx, self._listen, await self.serving())
        return await call_next(ctx)

    async def _listen(self, ctx: RequestContext) -> HandlerResult:
        """Keep the stream open: FastMCP has no subscriptions of its own."""
        nothing = SubscriptionsListenRequestParams(notifications=SubscriptionFilter())
        return await self._listening(ctx, nothing)
