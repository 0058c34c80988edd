"""Answer requests of 2026-07-28 received by the SDK with our `Conversation`."""

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

from taskmachine.adapters.bridges.mcp.callers import caller_of, owner_of
from taskmachine.adapters.bridges.mcp.loop_runtime import Serving
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
"""The methods that the extension adds to the server."""


def plain(message: Message) -> JSONObject:
    """Return a message as plain JSON values."""
    value: JSONObject = decode_json(encode_message(message))
    return value


def result_of(response: ResultResponse | ErrorResponse) -> JSONObject:
    """Return the result in a response; raise `MCPError` for an error."""
    said = plain(response)
    if "error" in said:
        raise _error(said["error"])
    result: JSONObject = said["result"]
    meta = result.get("_meta", {})
    meta.pop(SERVER_INFO_META_KEY, None)  # the server adds its own
    if not meta:
        result.pop("_meta", None)
    return result


def declares_tasks(context: Context) -> bool:
    """Return whether the client declares tasks in this request."""
    meta = (context.params or {}).get("_meta") or {}
    return mcp_2026_07_28.declares_tasks(meta.get(CLIENT_CAPABILITIES_META_KEY) or {})


async def answer(context: Context, serving: Serving) -> JSONObject | None:
    """Answer a request about tasks, or a call; return None for a plain call."""
    request = _request(context)
    offered = {}
    if request.method == "tools/call":  # the SDK has checked its headers
        tool = serving.tools.get(request.params["name"])
        if tool is None:
            return None
        offered = {tool.name: tool.offered}
    else:
        _check_headers(context, request)
    owner = owner_of(context, serving.owners)
    conversation = _conversation(owner, serving, lambda send: None, offered)
    response = await conversation.answer(request, caller=caller_of(owner))
    return None if response is None else result_of(response)


async def run(context: Context, call_next: CallNext) -> HandlerResult:
    """Run a plain call of a tool that supports tasks."""
    try:
        return await call_next(context)
    except NoBackChannelError:  # the tool asks, which only tasks can do
        # 2026-07-28:missing-capability-32021
        error = MissingCapability(mcp_2026_07_28.TASKS_REQUIRED)
        return result_of(RECEIVER.messages.encode_error(context.request_id, error))


def is_watch(context: Context) -> bool:
    """Return whether a request subscribes to tasks, among others."""
    wanted = (context.params or {}).get("notifications")
    is_listen = context.method == "subscriptions/listen"
    return is_listen and isinstance(wanted, dict) and bool(wanted.get("taskIds"))


async def listen(context: Context, call_next: CallNext, serving: Serving) -> HandlerResult:
    """Serve `subscriptions/listen`: events of the SDK and task notifications on one stream."""
    assert context.request_id is not None, "it is a request"
    messages: asyncio.Queue[JSONObject] = asyncio.Queue(serving.runtime.service.limits.buffer)

    def put(said: Send) -> None:
        if messages.full():  # the client does not read
            messages.get_nowait()
            serving.runtime.service.dropped()
        messages.put_nowait(plain(said.message))

    conversation = _conversation(owner_of(context, serving.owners), serving, put)
    try:
        refusal = await conversation.answer(_request(context))
        if refusal is not None:
            result_of(refusal)  # raises
        first = await messages.get()
        session = _Acknowledging(context.session, first["params"]["notifications"])
        sending = asyncio.create_task(_send_messages(session, messages, context.request_id))
        try:
            ours = dataclasses.replace(context, session=cast(ServerSession, session))
            return await call_next(ours)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
    finally:
        await conversation.close()


class _Acknowledging:
    """A session whose acknowledgement also lists the subscribed tasks."""

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
        self.is_acknowledged.set()  # 2026-07-28: must be the first message


async def _send_messages(
    session: _Acknowledging, messages: "asyncio.Queue[JSONObject]", request_id: RequestId
) -> None:
    await session.is_acknowledged.wait()
    while True:
        said = await messages.get()
        if "method" in said:
            notification = Notification[JSONObject, str](
                method=said["method"], params=said["params"]
            )
            await session.send_notification(cast(ServerNotification, notification), request_id)


def _request(context: Context) -> Request:
    assert context.request_id is not None, "only requests are answered"
    return Request(context.request_id, context.method, dict(context.params or {}))


def _check_headers(context: Context, request: Request) -> None:
    """Check the `Mcp-Name` header, which the SDK does only for its own methods (2026-07-28)."""
    if context.request is None:
        return
    try:
        check_headers(context.request.headers.items(), request)
    except HeaderMismatch as error:
        result_of(RECEIVER.messages.encode_error(request.id, error))


def _conversation(
    owner: str,
    serving: Serving,
    send: Callable[[Send], None],
    offered: Mapping[str, Tool] | None = None,
) -> Conversation:
    return Conversation(
        serving.runtime,
        RECEIVER,
        Offer({}, offered or {}),  # the SDK adds the server info
        owner=owner,
        new_id=lambda: secrets.token_urlsafe(12),
        send=send,
        runs_calls=False,  # the SDK does that
    )


def _error(error: JSONObject) -> MCPError:
    return MCPError(error["code"], error["message"], error.get("data"))
