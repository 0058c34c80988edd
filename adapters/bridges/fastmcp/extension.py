"""Tasks for a server of FastMCP, by one line.

    mcp = FastMCP("shop")
    mcp.add_extension(Tasks(store="sqlite:tasks.db"))

    @mcp.tool(task=True)
    async def deploy(version: str, ctx: Context) -> str: ...

FastMCP stands on the official SDK, and this on the bridge to it: the same conversations, the same
channel for questions and progress, the same life.  What is FastMCP's own is how tools are found
and run (`host`), and that its middleware has to see a call before it may become a task (`calls`).

Two private names of FastMCP are used, since nothing public leads to what they name: `_mcp_server`
for the chain of messages, and `_lifespan_ref_count` for whether somebody else is still connected.
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
from taskmachine.adapters.bridges.mcp import modern
from taskmachine.adapters.bridges.mcp.bridged_tools import BridgedTools
from taskmachine.adapters.bridges.mcp.life import Life, Serving
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
    """The tasks extension of FastMCP, on a store of ours.

    Tools with `task=True`, or with a `TaskConfig`, become tasks.  The other options are the terms
    of those that have no mark by `tool`: see `Tools.task`.  One object is for one server.
    ConfigurationError for what cannot be.
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
        check_url(store)  # now, and not when the server starts
        self._configured = Configured(terms)
        self._host = FastMCPHost(lambda: self.server, self._configured)
        tools_on = partial(BridgedTools, self._host, self._configured)
        self._life = Life(store, tools_on, times, limits, observer)
        self._legacy = LegacyCalls(self.serving, self._configured)
        self._listening = ListenHandler(InMemorySubscriptionBus())
        self._holds = AsyncExitStack()
        self._is_installed = False

    def tool(self, name: str | None = None, **terms: Unpack[Terms]) -> Callable[[_F], _F]:
        """Say on what terms a function runs as a task; `name` if the server calls it otherwise.

        It stands beside `@mcp.tool(task=True)`, which says whether it may be one.
        """
        return self._configured.mark(name, terms)

    async def serving(self) -> Serving:
        """The runtime, while the server runs; `MCPError` if there can be none now."""
        return await self._life.serving_or_error()

    # --- what FastMCP asks for ---------------------------------------------------------------

    def methods(self) -> Sequence[MethodBinding]:
        """What the extension adds to the methods of a server."""
        versions = frozenset(MODERN_PROTOCOL_VERSIONS)
        return [
            MethodBinding(name, RequestParams, self._answer, versions) for name in modern.METHODS
        ]

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Go on with what a former process left, until the server stops."""
        if not self._is_installed:
            self._is_installed = True
            # Outside of all others: these may call tools, too.
            self.server.middleware.insert(0, Dispatch())
            self.server._mcp_server.middleware.append(self._middleware)
        self._host.surroundings = contextvars.copy_context()
        await self._holds.enter_async_context(self._life.held())
        try:
            await self._life.serving()
            yield
        finally:
            # FastMCP ends it with the connection that began it, whoever else is there; then the
            # end of the next one, or of the event loop, is the end of the tasks, too.
            if getattr(self.server, "_lifespan_ref_count", 1) <= 1:
                await self._holds.aclose()

    async def intercept_tool_call(
        self, params: CallToolRequestParams, context: Context, call_next: ToolCallContinuation
    ) -> ToolCallOutcome:
        """Make a task of a call, if that is to be."""
        sent = dispatched()
        if sent is None:  # what a tool or a middleware calls is a part of what it does
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
        made = await modern.answer(wire, serving)
        # A model would lose `"ttlMs": null`; FastMCP hands on what it does not know.
        return await call_next() if made is None else cast(ToolCallOutcome, made)

    # --- messages ----------------------------------------------------------------------------

    async def _answer(self, ctx: RequestContext, params: RequestParams) -> JSONObject | None:
        return await modern.answer(ctx, await self.serving())

    async def _middleware(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return await self._legacy(ctx, call_next)
        if ctx.method == "tools/call":
            return await send(Sent(ctx), call_next)
        if modern.is_watch(ctx):
            return await modern.listen(ctx, self._listen, await self.serving())
        return await call_next(ctx)

    async def _listen(self, ctx: RequestContext) -> HandlerResult:
        """FastMCP has no subscriptions: there is nothing but tasks to be told of."""
        nothing = SubscriptionsListenRequestParams(notifications=SubscriptionFilter())
        return await self._listening(ctx, nothing)
