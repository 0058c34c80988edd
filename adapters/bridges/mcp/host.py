"""Access to the tools of a server from tasks.

An extension does not receive its server, and a tool that runs as a task has no request of its
own.  But a middleware can pass further messages down the chain, so tasks call their tools through
the latest request.  Such calls pass the same checks, extensions and lifespan as other messages.
"""

import asyncio
import contextvars
import dataclasses
import logging
from collections.abc import Mapping
from typing import Any, Final

import attrs
from mcp.server.context import CallNext, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from taskmachine.adapters.bridges.mcp.channel import Channel, TaskSession
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.questions import Request
from taskmachine.adapters.tools.registry import CallError
from taskmachine.protocol.dialects.dialect import capabilities_for
from taskmachine.protocol.jsonrpc import INTERNAL_ERROR
from taskmachine.protocol.jsonvalue import JSONObject

__all__ = ["MAX_ROUNDS", "Host", "next_round"]

log: Final = logging.getLogger("taskmachine")

MAX_ROUNDS: Final = 100
"""Maximum number of times that a tool may return `input_required` in one run."""


@attrs.frozen
class _MiddlewareCall:
    """A request in the chain of middleware."""

    context: ServerRequestContext[Any, Any]
    call_next: CallNext

    async def send(self, **changes: Any) -> JSONObject:
        result = await self.call_next(dataclasses.replace(self.context, **changes))
        if isinstance(result, BaseModel):  # from another middleware
            return result.model_dump(by_alias=True, mode="json", exclude_none=True)
        return result or {}


class Host:
    """Calls and lists the tools of the server.  `observe` must run before any other method."""

    def __init__(self) -> None:
        self._latest: _MiddlewareCall | None = None
        self._surroundings = contextvars.copy_context()

    def observe(self, context: ServerRequestContext[Any, Any], call_next: CallNext) -> bool:
        """Record a message; return whether it may start a runtime.

        Notifications are not recorded.  Before a handshake the SDK rejects requests, except on
        transports without sessions; such a request is used until there is a better one.
        """
        if context.request_id is None or context.method == "initialize":
            return False
        is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        is_good = is_modern or context.session.client_params is not None
        if is_good or self._latest is None:
            self._latest = _MiddlewareCall(context, call_next)
        return True

    async def tools(self) -> dict[str, JSONObject]:
        """Return the definitions of all tools as shown to the latest client."""
        latest = self._usable()
        meta = (latest.context.params or {}).get("_meta")
        params: JSONObject = {} if meta is None else {"_meta": meta}
        listed = await latest.send(method="tools/list", params=params)
        return {tool["name"]: tool for tool in listed["tools"]}

    async def call(
        self, name: str, arguments: JSONObject, context: Context, answers: frozenset[str]
    ) -> JSONObject:
        """Run a tool for a task whose client answers these kinds of requests.

        Raises `CallError` for the JSON-RPC error of a plain call.
        """
        channel = Channel(context)
        calling = self._call(name, arguments, channel, answers)
        try:
            # In the server's context: the task may be started by a request of another client.
            return _result(await asyncio.create_task(calling, context=self._surroundings.copy()))
        except MCPError as error:
            if channel.gone is not None:
                raise channel.gone from None
            raise CallError(error.code, error.message, error.data) from None
        except PydanticSerializationError as error:
            log.error("tool '%s' returned an invalid result: %s", name, error)
            words = f"Tool '{name}' returned an invalid result: it cannot be encoded as JSON"
            raise CallError(INTERNAL_ERROR, words) from None

    async def _call(
        self, name: str, arguments: JSONObject, channel: Channel, answers: frozenset[str]
    ) -> JSONObject:
        latest = self._usable()
        version = latest.context.protocol_version
        meta: JSONObject = {}
        if version in MODERN_PROTOCOL_VERSIONS:
            meta = {
                PROTOCOL_VERSION_META_KEY: version,
                CLIENT_CAPABILITIES_META_KEY: capabilities_for(answers),
            }
        session = TaskSession(channel, answers, version)
        params: JSONObject = {"name": name, "arguments": arguments, "_meta": meta}
        for _ in range(MAX_ROUNDS):
            result = await latest.send(
                session=session,
                method="tools/call",
                params=params,
                request_id=channel.request_id,
                meta=None,
                request=None,
                close_sse_stream=None,
                close_standalone_sse_stream=None,
            )
            if result.get("resultType") != "input_required":
                return result
            params = {**params, **await next_round(result, channel)}
        raise MCPError(
            INTERNAL_ERROR, f"Tool '{name}' did not end after {MAX_ROUNDS} rounds of input"
        )

    def _usable(self) -> _MiddlewareCall:
        assert self._latest is not None, "the first request starts the runtime"
        return self._latest


async def next_round(result: JSONObject, channel: Channel) -> JSONObject:
    """Return the parameters that a client would add to its next request."""
    asked: Mapping[str, JSONObject] = result.get("inputRequests") or {}
    questions: dict[str, Request[Any]] = {
        key: Request(request["method"], request.get("params") or {})
        for key, request in asked.items()
    }
    more: JSONObject = {"inputResponses": await channel.ask(questions) if questions else {}}
    if result.get("requestState") is not None:
        more["requestState"] = result["requestState"]
    return more


def _result(result: JSONObject) -> JSONObject:
    """Remove the metadata that the SDK adds to every answer, also to that of the task."""
    meta = dict(result.get("_meta") or {})
    meta.pop(SERVER_INFO_META_KEY, None)
    bare = {key: value for key, value in result.items() if key not in ("resultType", "_meta")}
    return bare | ({"_meta": meta} if meta else {})
