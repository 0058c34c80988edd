"""Route calls through the middleware of FastMCP before they may become tasks.

The middleware may check, count or reject a call; only then does it reach the extension, which
decides whether it becomes a task.  The answer is replaced further out, because FastMCP would
validate an answer of 2025-11-25 as the result of a tool.
"""

from contextvars import ContextVar
from typing import Any, Final, cast

import attrs
from fastmcp.server.extensions import ToolCallContinuation, ToolCallOutcome
from fastmcp.server.middleware import CallNext as ToolNext
from fastmcp.server.middleware import Middleware, MiddlewareContext
from fastmcp.tools.base import ToolResult
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams, CallToolResult

from taskmachine.adapters.bridges.mcp.legacy import Legacy
from taskmachine.protocol.dialects.mcp_2025_11_25.messages import REVISION
from taskmachine.protocol.jsonrpc import INVALID_PARAMS
from taskmachine.protocol.jsonvalue import JSONObject

__all__ = ["Dispatch", "LegacyCalls", "Sent", "dispatched", "send"]

RequestContext = ServerRequestContext[Any, Any]


@attrs.define(eq=False)
class Sent:
    """A call from a client."""

    context: RequestContext
    is_dispatched: bool = False
    answer: JSONObject | None = None
    """The answer that replaces the one of FastMCP."""


_SENT: Final[ContextVar[Sent | None]] = ContextVar("sent", default=None)
_DISPATCHED: Final[ContextVar[Sent | None]] = ContextVar("dispatched", default=None)


def dispatched() -> Sent | None:
    """Return the client's call if that is being dispatched, as opposed to one by a tool."""
    return _DISPATCHED.get()


async def send(sent: Sent, call_next: CallNext) -> HandlerResult:
    """Dispatch a call and return its answer."""
    token = _SENT.set(sent)
    try:
        said = await call_next(sent.context)
    finally:
        _SENT.reset(token)
    return said if sent.answer is None else sent.answer


class Dispatch(Middleware):
    """Distinguishes calls from clients from the calls that follow from them."""

    async def on_call_tool(
        self,
        context: MiddlewareContext[CallToolRequestParams],
        call_next: ToolNext[CallToolRequestParams, ToolResult],
    ) -> ToolResult:
        sent = _SENT.get()
        is_first = sent is not None and not sent.is_dispatched
        if sent is not None:
            sent.is_dispatched = True
        token = _DISPATCHED.set(sent if is_first else None)
        try:
            return await call_next(context)
        finally:
            _DISPATCHED.reset(token)


class LegacyCalls(Legacy):
    """Connections of 2025-11-25 whose calls pass through FastMCP first."""

    async def _call(self, context: RequestContext, call_next: CallNext) -> HandlerResult:
        sent = Sent(context)
        said = await send(sent, call_next)
        is_augmented = (context.params or {}).get("task") is not None
        if is_augmented and sent.answer is None and context.protocol_version == REVISION:
            raise MCPError(INVALID_PARAMS, _refusal(said))  # for instance an unknown tool
        return said

    def _listed(self, said: HandlerResult) -> HandlerResult:
        return said  # FastMCP lists the task support itself

    async def decide(
        self, sent: Sent, context: RequestContext, call_next: ToolCallContinuation
    ) -> ToolCallOutcome:
        """Make a task of a call, or run it."""
        ran: list[ToolCallOutcome] = []

        async def run(_: RequestContext) -> HandlerResult:
            ran.append(await call_next())
            return None

        said = await super()._call(context, run)
        if ran:
            return ran[0]
        sent.answer = cast(JSONObject, said)
        return CallToolResult(content=[])  # a placeholder that the SDK accepts and `send` replaces


def _refusal(said: HandlerResult) -> str:
    content = said.get("content") if isinstance(said, dict) else None
    words = " ".join(block.get("text", "") for block in content or ())
    return f"The call did not become a task: {words or 'it was answered before'}"
