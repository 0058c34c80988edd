"""The server that the tools belong to, as far as a library may reach it.

An extension is not handed its server, and a tool that runs as a task has no request of its own.
But whoever stands in the chain of middleware is handed the rest of it, and may send another
message down: so the last request that came by lends its place to the calls of tasks.  They take
the same way as all others: the checks of the SDK, other extensions, the lifespan of that request.
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
from taskmachine.adapters.tools.context import Context, Request
from taskmachine.adapters.tools.registry import CallError
from taskmachine.protocol.dialects.dialect import capabilities_for
from taskmachine.protocol.jsonrpc import INTERNAL_ERROR
from taskmachine.protocol.jsonvalue import JSONObject

__all__ = ["MAX_ROUNDS", "Host", "next_round"]

log: Final = logging.getLogger("taskmachine")

MAX_ROUNDS: Final = 100
"""How often a tool may say that it needs more input before it is run."""


@attrs.frozen
class _Place:
    """Of a request in the chain of middleware."""

    context: ServerRequestContext[Any, Any]
    call_next: CallNext

    async def send(self, **changes: Any) -> JSONObject:
        result = await self.call_next(dataclasses.replace(self.context, **changes))
        if isinstance(result, BaseModel):  # of a middleware further down
            return result.model_dump(by_alias=True, mode="json", exclude_none=True)
        return result or {}


class Host:
    """Calls and lists the tools of the server.  `seen` has to come before everything else."""

    def __init__(self) -> None:
        self._place: _Place | None = None
        self._surroundings = contextvars.copy_context()

    def seen(self, context: ServerRequestContext[Any, Any], call_next: CallNext) -> bool:
        """A message came by; whether it is one that a runtime may be begun for.

        Notifications have no place to lend.  Before a handshake the SDK refuses everything, but
        where there are no sessions nobody is introduced either: such a place is a makeshift.
        """
        if context.request_id is None or context.method == "initialize":
            return False
        is_modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        is_good = is_modern or context.session.client_params is not None
        if is_good or self._place is None:
            self._place = _Place(context, call_next)
        return True

    async def tools(self) -> dict[str, JSONObject]:
        """The definitions of all tools, as the last caller would be shown them."""
        place = self._borrowed()
        meta = (place.context.params or {}).get("_meta")
        params: JSONObject = {} if meta is None else {"_meta": meta}
        listed = await place.send(method="tools/list", params=params)
        return {tool["name"]: tool for tool in listed["tools"]}

    async def call(
        self, name: str, arguments: JSONObject, context: Context, answers: frozenset[str]
    ) -> JSONObject:
        """The result of a tool, run for a task whose requestor answers such questions.

        `CallError` for the JSON-RPC error that a plain call would be answered with.
        """
        channel = Channel(context)
        calling = self._call(name, arguments, channel, answers)
        try:
            # A task is begun by whoever makes room for it: no tool may find that caller around.
            return _result(await asyncio.create_task(calling, context=self._surroundings.copy()))
        except MCPError as error:
            if channel.gone is not None:
                raise channel.gone from None
            raise CallError(error.code, error.message, error.data) from None
        except PydanticSerializationError as error:
            log.error("tool '%s' returned what is no result: %s", name, error)
            words = f"Tool '{name}' returned an invalid result: it cannot be JSON"
            raise CallError(INTERNAL_ERROR, words) from None

    async def _call(
        self, name: str, arguments: JSONObject, channel: Channel, answers: frozenset[str]
    ) -> JSONObject:
        place = self._borrowed()
        version = place.context.protocol_version
        meta: JSONObject = {}
        if version in MODERN_PROTOCOL_VERSIONS:
            meta = {
                PROTOCOL_VERSION_META_KEY: version,
                CLIENT_CAPABILITIES_META_KEY: capabilities_for(answers),
            }
        session = TaskSession(channel, answers, version)
        params: JSONObject = {"name": name, "arguments": arguments, "_meta": meta}
        for _ in range(MAX_ROUNDS):
            result = await place.send(
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
        raise MCPError(INTERNAL_ERROR, f"Tool '{name}' asked in {MAX_ROUNDS} rounds")

    def _borrowed(self) -> _Place:
        assert self._place is not None, "the first request starts the runtime"
        return self._place


async def next_round(result: JSONObject, channel: Channel) -> JSONObject:
    """What a client would send along with its next try."""
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
    """Without what the SDK says of every answer: it is said again, in that of the task."""
    meta = dict(result.get("_meta") or {})
    meta.pop(SERVER_INFO_META_KEY, None)
    bare = {key: value for key, value in result.items() if key not in ("resultType", "_meta")}
    return bare | ({"_meta": meta} if meta else {})
