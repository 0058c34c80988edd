"""Requests of 2026-07-28: from the SDK to a conversation of ours, and back."""

import asyncio
import dataclasses
import secrets
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    SERVER_INFO_META_KEY,
    Notification,
    RequestId,
    ServerNotification,
    SubscriptionsAcknowledgedNotification,
)

from taskmachine.adapters.bridges.mcp.callers import owner_of
from taskmachine.adapters.bridges.mcp.life import Serving
from taskmachine.adapters.transports.connection.conversation import Conversation
from taskmachine.protocol.dialects.mcp_2026_07_28 import messages as mcp_2026_07_28
from taskmachine.protocol.dialects.mcp_2026_07_28.headers import check_headers
from taskmachine.protocol.dialects.mcp_2026_07_28.receiver import RECEIVER
from taskmachine.protocol.errors import HeaderMismatch, MissingCapability
from taskmachine.protocol.jsonrpc import (
    ErrorResponse,
    Message,
    Request,
    ResultResponse,
    encode_message,
)
from taskmachine.protocol.jsonvalue import JSONObject, decode_json
from taskmachine.protocol.offer import Offer, Tool
from taskmachine.protocol.outputs import Send

__all__ = ["METHODS", "answer", "declares_tasks", "is_watch", "listen", "plain", "result_of", "run"]

Context = ServerRequestContext[Any, Any]

METHODS: Final = ("tasks/get", "tasks/update", "tasks/cancel")
"""What the extension adds to the methods of a server."""


def plain(message: Message) -> JSONObject:
    """A message as the SDK takes it: nothing but what JSON has."""
    value: JSONObject = decode_json(encode_message(message))
    return value


def result_of(response: ResultResponse | ErrorResponse) -> JSONObject:
    """What to return for an answer of ours; `MCPError` if it is an error."""
    said = plain(response)
    if "error" in said:
        raise _error(said["error"])
    result: JSONObject = said["result"]
    meta = result.get("_meta", {})
    meta.pop(SERVER_INFO_META_KEY, None)  # the server signs its answers itself
    if not meta:
        result.pop("_meta", None)
    return result


def declares_tasks(context: Context) -> bool:
    """Whether this very request says that its sender knows tasks."""
    meta = (context.params or {}).get("_meta") or {}
    return mcp_2026_07_28.declares_tasks(meta.get(CLIENT_CAPABILITIES_META_KEY) or {})


async def answer(context: Context, serving: Serving) -> JSONObject | None:
    """The answer to a request about tasks, or to a call; None if that is a plain one."""
    request = _request(context)
    offered = {}
    if request.method == "tools/call":  # whose headers the SDK has checked
        tool = serving.tools.get(request.params["name"])
        if tool is None:
            return None
        offered = {tool.name: tool.offered}
    else:
        _check_headers(context, request)
    conversation = _conversation(context, serving, lambda send: None, offered)
    response = await conversation.answer(request)
    return None if response is None else result_of(response)


async def run(context: Context, call_next: CallNext) -> HandlerResult:
    """A plain call of a tool that could have been a task."""
    try:
        return await call_next(context)
    except NoBackChannelError:  # it asks somebody, and only a task can do that
        # 2026-07-28:missing-capability-32021
        error = MissingCapability(mcp_2026_07_28.TASKS_REQUIRED)
        return result_of(RECEIVER.messages.encode_error(context.request_id, error))


def is_watch(context: Context) -> bool:
    """Whether a request subscribes to tasks, be it to something else, too."""
    wanted = (context.params or {}).get("notifications")
    is_listen = context.method == "subscriptions/listen"
    return is_listen and isinstance(wanted, dict) and bool(wanted.get("taskIds"))


async def listen(context: Context, call_next: CallNext, serving: Serving) -> HandlerResult:
    """Serve `subscriptions/listen`: the SDK its own events, we the tasks, on the same stream."""
    assert context.request_id is not None, "it is a request"
    told: asyncio.Queue[JSONObject] = asyncio.Queue(serving.runtime.service.limits.buffer)

    def tell(said: Send) -> None:
        if told.full():  # of somebody who does not read
            told.get_nowait()
            serving.runtime.service.dropped()
        told.put_nowait(plain(said.message))

    conversation = _conversation(context, serving, tell)
    try:
        refusal = await conversation.answer(_request(context))
        if refusal is not None:
            result_of(refusal)  # raises
        first = await told.get()
        session = _Acknowledging(context.session, first["params"]["notifications"])
        telling = asyncio.create_task(_tell(session, told, context.request_id))
        try:
            ours = dataclasses.replace(context, session=cast(ServerSession, session))
            return await call_next(ours)
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
    finally:
        await conversation.close()


class _Acknowledging:
    """A session whose acknowledgement also says which tasks will be told of."""

    def __init__(self, session: ServerSession, agreed: JSONObject) -> None:
        self.is_acknowledged = asyncio.Event()
        self._session = session
        self._agreed = agreed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def send_notification(
        self, notification: ServerNotification, related_request_id: RequestId | None = None
    ) -> None:
        if isinstance(notification, SubscriptionsAcknowledgedNotification):
            params = notification.params
            agreed = params.notifications.model_copy(update=self._agreed)
            notification = SubscriptionsAcknowledgedNotification(
                params=params.model_copy(update={"notifications": agreed})
            )
        await self._session.send_notification(notification, related_request_id)
        self.is_acknowledged.set()  # 2026-07-28: nothing comes before it


async def _tell(
    session: _Acknowledging, told: "asyncio.Queue[JSONObject]", request_id: RequestId
) -> None:
    await session.is_acknowledged.wait()
    while True:
        said = await told.get()
        if "method" in said:
            notification = Notification[JSONObject, str](
                method=said["method"], params=said["params"]
            )
            await session.send_notification(cast(ServerNotification, notification), request_id)


def _request(context: Context) -> Request:
    assert context.request_id is not None, "only requests are answered"
    return Request(context.request_id, context.method, dict(context.params or {}))


def _check_headers(context: Context, request: Request) -> None:
    """2026-07-28: the SDK checks `Mcp-Name` for its own methods only."""
    if context.request is None:
        return
    try:
        check_headers(context.request.headers.items(), request)
    except HeaderMismatch as error:
        result_of(RECEIVER.messages.encode_error(request.id, error))


def _conversation(
    context: Context,
    serving: Serving,
    send: Callable[[Send], None],
    offered: Mapping[str, Tool] | None = None,
) -> Conversation:
    return Conversation(
        serving.runtime,
        RECEIVER,
        Offer({}, offered or {}),  # the SDK says itself whose answers they are
        owner=owner_of(context, serving.owners),
        new_id=lambda: secrets.token_urlsafe(12),
        send=send,
        runs_calls=False,  # the SDK does that
    )


def _error(error: JSONObject) -> MCPError:
    return MCPError(error["code"], error["message"], error.get("data"))
