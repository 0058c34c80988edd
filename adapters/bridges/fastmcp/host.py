"""The tools of a FastMCP server: their task options, and how tasks run them."""

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any, TypeVar

import attrs
from fastmcp import FastMCP
from fastmcp.exceptions import DisabledError, FastMCPError, NotFoundError
from fastmcp.server.context import set_transport
from fastmcp.server.dependencies import bind_request_context
from fastmcp.tools.base import InputRequiredToolResult, ToolResult
from fastmcp.tools.base import Tool as ServerTool
from fastmcp.utilities.tasks import DEFAULT_POLL_INTERVAL
from fastmcp.utilities.versions import VersionSpec
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult
from mcp_types.version import LATEST_HANDSHAKE_VERSION

from taskmachine.adapters.bridges.mcp.channel import Channel, TaskSession
from taskmachine.adapters.bridges.mcp.host import MAX_ROUNDS, Host, next_round
from taskmachine.adapters.bridges.mcp.selection import Selection, Terms
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.registry import CallError, Tool
from taskmachine.protocol.jsonrpc import INTERNAL_ERROR
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.statemachine import ConfigurationError

__all__ = ["Configured", "FastMCPHost"]

_F = TypeVar("_F", bound=Callable[..., Any])


class Configured(Selection):
    """The task configuration of tools in FastMCP, with our options."""

    def __init__(self, terms: Terms) -> None:
        super().__init__(lambda _: True, _without_support(terms))
        self.tools: dict[str, ServerTool] = {}

    def mark(self, name: str | None, terms: Terms) -> Callable[[_F], _F]:
        """Set the options of a function; FastMCP configures its task support."""
        return super().mark(name, _without_support(terms))

    def terms(self, name: str) -> Tool | None:
        """Return the task options of a tool; None if it never becomes a task."""
        tool = self.tools.get(name)
        ours = None if tool is None else super().terms(tool.name)
        if tool is None or ours is None or not tool.task_config.supports_tasks():
            return None
        interval = tool.task_config.poll_interval
        if interval != DEFAULT_POLL_INTERVAL and ours.poll_interval_ms is None:
            ours = attrs.evolve(ours, poll_interval_ms=round(interval.total_seconds() * 1_000))
        # FastMCP enforces the timeout of a tool itself.
        longest = max(ours.timeout_ms, round((tool.timeout or 0) * 1_000))
        return attrs.evolve(ours, support=tool.task_config.mode, timeout_ms=longest)


def _without_support(terms: Terms) -> Terms:
    if "support" in terms:
        raise ConfigurationError("`support` is not an option here: use @mcp.tool(task=...)")
    return terms


class FastMCPHost(Host):
    """Finds the tools of a server and runs them for tasks.

    A versioned tool is identified by name and version, so a task keeps the version it started
    with.
    """

    def __init__(self, server: Callable[[], FastMCP[Any]], configured: Configured) -> None:
        super().__init__()
        self.surroundings = contextvars.Context()
        """The context of the server without a request, as recovered tasks have none either."""
        self._server = server
        self._configured = configured

    def learn(self, tool: ServerTool) -> str:
        """Record a tool and return the name that identifies it."""
        name = tool.name if tool.version is None else f"{tool.name}@{tool.version}"
        self._configured.tools[name] = tool
        return name

    async def tools(self) -> dict[str, JSONObject]:
        """Return the definitions of all tools that may become tasks."""
        for found in await self._server().get_tasks():
            if isinstance(found, ServerTool):
                self.learn(found)
        return {
            name: {
                "inputSchema": tool.parameters,
                "outputSchema": tool.output_schema,
                "description": tool.description,
            }
            for name, tool in self._configured.tools.items()
        }

    async def call(
        self, name: str, arguments: JSONObject, context: Context, answers: frozenset[str]
    ) -> JSONObject:
        """Run a tool for a task whose client answers these kinds of requests.

        Returns what FastMCP would answer to a plain call; a protocol error becomes a `CallError`.
        """
        channel = Channel(context)
        running = self._run(self._configured.tools[name], arguments, channel, answers)
        try:
            return await asyncio.create_task(running, context=self.surroundings.copy())
        except (DisabledError, NotFoundError):
            return _error_result(f"Unknown tool: {name!r}")
        except (FastMCPError, MCPError) as error:
            # FastMCP wraps the exception of a tool and would lose its code.
            said = error.__cause__ if isinstance(error, FastMCPError) else error
            if not isinstance(said, MCPError):
                return _error_result(str(error))
            raise CallError(said.code, said.message, said.data) from None

    async def _run(
        self, tool: ServerTool, arguments: JSONObject, channel: Channel, answers: frozenset[str]
    ) -> JSONObject:
        # Access was checked before the task was created, and no token is available now; stdio is
        # the transport for which FastMCP requires none.
        set_transport("stdio")
        version = None if tool.version is None else VersionSpec(eq=tool.version)
        # The latest revision in which a server may ask: FastMCP refuses to in the next one.
        session = TaskSession(channel, answers, LATEST_HANDSHAKE_VERSION)
        params: JSONObject = {"name": tool.name, "arguments": arguments}
        for _ in range(MAX_ROUNDS):
            request: ServerRequestContext[Any, Any] = ServerRequestContext(
                session=session,
                lifespan_context={},
                protocol_version=LATEST_HANDSHAKE_VERSION,
                method="tools/call",
                params=params,
                request_id=channel.request_id,
                meta={"progress_token": channel.request_id},
            )
            with bind_request_context(request):
                result = await self._server().call_tool(
                    tool.name, arguments, version=version, run_middleware=False
                )
            if not isinstance(result, InputRequiredToolResult):
                return _plain(result)
            asked = result.input_required.model_dump(by_alias=True, mode="json", exclude_none=True)
            params = {**params, **await next_round(asked, channel)}
        raise MCPError(
            INTERNAL_ERROR, f"Tool '{tool.name}' did not end after {MAX_ROUNDS} rounds of input"
        )


def _plain(result: ToolResult) -> JSONObject:
    said = CallToolResult(
        content=result.content,
        structured_content=result.structured_content,
        is_error=result.is_error,
        _meta=result.meta,
    )
    # 2025-11-25 has no `resultType`; in later revisions the answer adds it.
    return said.model_dump(by_alias=True, mode="json", exclude_none=True, exclude={"result_type"})


def _error_result(text: str) -> JSONObject:
    return {"content": [{"type": "text", "text": text}], "isError": True}
