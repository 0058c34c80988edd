"""Tasks of 2025-11-25 on connections to an SDK server that began with `initialize`.

The extension interface does not cover these: the SDK rejects a task as the result of an
interceptor, and announces methods and capabilities of extensions only to newer clients.  A
middleware passes requests about tasks to a conversation, and all others to the SDK.

The conversation lasts as long as its connection.  The SDK does not report the end of one, but it
cancels the handlers that still run for it; as notifications have no answer, the handler of
`notifications/initialized` can run until then.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final

import anyio
import attrs
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError

from taskmachine.adapters.bridges.mcp.bridged_tools import BridgedTools
from taskmachine.adapters.bridges.mcp.callers import is_identified, owner_of
from taskmachine.adapters.bridges.mcp.legacy_connection import Connection, RequestContext
from taskmachine.adapters.bridges.mcp.loop_runtime import Serving
from taskmachine.adapters.bridges.mcp.selection import Selection
from taskmachine.adapters.transports.auth.owners import ANONYMOUS, Owners
from taskmachine.protocol.dialects.mcp_2025_11_25.messages import (
    DIALECT,
    REVISION,
    tasks_capability,
)
from taskmachine.protocol.errors import TaskSupportMismatch
from taskmachine.protocol.jsonrpc import Request
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.protocol.offer import Offer
from taskmachine.protocol.offer import Tool as OfferedTool

__all__ = ["Legacy"]

_METHODS: Final = frozenset({"tasks/get", "tasks/result", "tasks/list", "tasks/cancel"})


class Legacy:
    """The middleware for all connections that began with `initialize`."""

    def __init__(self, serving: Callable[[], Awaitable[Serving]], selection: Selection) -> None:
        self._serving = serving
        self._selection = selection
        self._slots: dict[int, _ConnectionSlot] = {}
        self._early: list[tuple[object, Connection]] = []

    async def __call__(self, context: RequestContext, call_next: CallNext) -> HandlerResult:
        """Handle a message."""
        method = context.method
        if method == "initialize":
            return self._introduced(context, await call_next(context))
        if context.session.client_params is None and context.session.can_send_request:
            return await call_next(context)  # before the handshake, to be rejected
        if method == "tools/call":
            return await self._call(context, call_next)
        if context.protocol_version == REVISION:  # earlier revisions have no tasks
            if method in _METHODS:
                return await self._answer(context, dict(context.params or {}))
            if method == "tools/list":
                return self._listed(await call_next(context))
            if method == "notifications/initialized":
                await call_next(context)
                await self._serve_connection(context)
                return None
        return await call_next(context)

    # --- additions to answers of the SDK -----------------------------------------------------

    def _introduced(self, context: RequestContext, said: HandlerResult) -> HandlerResult:
        if isinstance(said, dict) and said.get("protocolVersion") == REVISION:
            tasks = tasks_capability("tools/call", listing=_can_list(context))
            said["capabilities"] = {**said["capabilities"], "tasks": tasks}
        return said

    def _listed(self, said: HandlerResult) -> HandlerResult:
        if isinstance(said, dict):
            for tool in said["tools"]:
                terms = self._selection.terms(tool["name"])
                support = "forbidden" if terms is None else terms.support
                tool["execution"] = {**tool.get("execution", {}), "taskSupport": support}
        return said

    # --- requests about tasks ----------------------------------------------------------------

    async def _call(self, context: RequestContext, call_next: CallNext) -> HandlerResult:
        params = dict(context.params or {})
        if context.protocol_version != REVISION:
            params.pop("task", None)
        name, is_augmented = params.get("name"), params.get("task") is not None
        terms = self._selection.terms(name) if isinstance(name, str) else None
        if not is_augmented and (terms is None or terms.support != "required"):
            return await call_next(context)
        if isinstance(name, str) and terms is None:
            # 2025-11-25:forbidden-tool-task-refused-32601
            refusal = DIALECT.encode_error(None, TaskSupportMismatch(name, "forbidden")).error
            raise MCPError(refusal.code, refusal.message)
        return await self._answer(context, params)

    async def _answer(self, context: RequestContext, params: JSONObject) -> JSONObject:
        assert context.request_id is not None, "only requests are answered"
        request = Request(context.request_id, context.method, params)
        serving = await self._serving()
        if request.method == "tools/call" and isinstance(params.get("name"), str):
            await serving.tools.look(params["name"])
        peer = context.session.client_params
        slot = self._slots.get(id(peer))
        connection = None if slot is None else slot.to(serving, context)
        if connection is not None:
            return await connection.answer(request, context)
        # Without a session, or before it has begun, each request is a conversation of its own.
        connection = _connect(context, serving, is_ready=peer is None or slot is not None)
        self._early.append((peer, connection))
        try:
            return await connection.answer(request, context)
        finally:
            self._early.remove((peer, connection))
            with anyio.CancelScope(shield=True):
                await connection.close()

    async def _serve_connection(self, context: RequestContext) -> None:
        """Serve the tasks of a connection until it ends."""
        # The one object shared by all requests of a connection.  The context keeps it alive, so its
        # id cannot be reused meanwhile.
        peer = context.session.client_params
        if peer is None or id(peer) in self._slots:
            return
        slot = self._slots[id(peer)] = _ConnectionSlot()
        for other, connection in self._early:
            if other is peer:
                connection.be_ready()
        try:
            await (await asyncio.shield(slot.connection)).listen(context)
        finally:
            del self._slots[id(peer)]
            if slot.connection.done():
                with anyio.CancelScope(shield=True):
                    await slot.connection.result().close()


class _ConnectionSlot:
    """The conversation of a connection, created with the first request about tasks."""

    def __init__(self) -> None:
        self.connection: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self._serving: Serving | None = None

    def to(self, serving: Serving, context: RequestContext) -> Connection | None:
        """Return the conversation; None if its runtime has been stopped since."""
        if self._serving is None:
            self._serving = serving
            self.connection.set_result(_connect(context, serving, is_ready=True))
        return self.connection.result() if self._serving is serving else None


def _connect(context: RequestContext, serving: Serving, *, is_ready: bool) -> Connection:
    info: JSONObject = {}  # the SDK announces its server itself
    offer = Offer(info, _Offered(serving.tools), listing=_can_list(context))
    owner = _owner(context, serving.owners)
    return Connection(serving.runtime, offer, owner, context, is_ready=is_ready)


@attrs.frozen
class _Offered(Mapping[str, OfferedTool]):
    """The tools that may become tasks, always up to date."""

    _tools: BridgedTools

    def __getitem__(self, name: str) -> OfferedTool:
        return self._tools[name].offered

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)


def _owner(context: RequestContext, owners: Owners) -> str:
    """Return the owner; over HTTP, the session identifies an anonymous client."""
    owner, session_id = owner_of(context, owners), _session_id(context)
    return owners.of_session(session_id) if owner == ANONYMOUS and session_id else owner


def _session_id(context: RequestContext) -> str | None:
    """Return the session id of Streamable HTTP, or of the HTTP+SSE transport before it."""
    request: Any = context.request
    if request is None:
        return None
    found = request.headers.get("mcp-session-id") or request.query_params.get("session_id")
    return None if found is None else str(found)


def _can_list(context: RequestContext) -> bool:
    """Return whether clients are distinguishable; called before there is a session, too.

    Without a way back there may be no session (2025-11-25:list-not-declared-without-identity).
    """
    return context.request is None or is_identified() or context.session.can_send_request
