"""One connection of 2025-11-25: its conversation, and the delivery of messages by the SDK.

Each request has its own stream, and each connection a GET stream.  The SDK assigns its own ids
to the requests sent on them, and routes the answers.
"""

import asyncio
import secrets
from typing import Any, Final, cast

import anyio
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    CONNECTION_CLOSED,
    EmptyResult,
    PingRequest,
    ServerNotification,
    ServerRequest,
)
from pydantic import BaseModel, ConfigDict, ValidationError

from taskmachine.adapters.bridges.mcp.callers import caller_of
from taskmachine.adapters.runtime.runtime import Runtime
from taskmachine.adapters.transports.connection.conversation import Conversation
from taskmachine.protocol.dialects.mcp_2025_11_25.messages import REVISION
from taskmachine.protocol.dialects.mcp_2025_11_25.receiver import RECEIVER
from taskmachine.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    Error,
    ErrorResponse,
    Id,
    Message,
    Notification,
    Request,
    ResultResponse,
)
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.protocol.offer import Offer
from taskmachine.protocol.outputs import Send

__all__ = ["Connection", "RequestContext"]

RequestContext = ServerRequestContext[Any, Any]

WITHDRAW_S: Final = 1.0
"""How long to wait for sending the cancellation of a question."""

READER_S: Final = 2.0
"""How long the reader of the GET stream may take to answer a ping."""


class Connection:
    """The conversation with one client, which is asked nothing before it `is_ready`."""

    def __init__(
        self,
        runtime: Runtime,
        offer: Offer,
        owner: str,
        context: RequestContext,
        *,
        is_ready: bool,
    ) -> None:
        self.conversation = Conversation(
            runtime,
            RECEIVER,
            offer,
            owner=owner,
            new_id=lambda: secrets.token_urlsafe(12),
            send=self._send,
        )
        self._owner = owner
        # A pipe always has a reader.  Over HTTP this is unknown.
        self._is_pipe = self._has_reader = context.request is None
        self._looking: asyncio.Task[None] | None = None
        self._streams: dict[Id | None, _Stream] = {}
        self.conversation.receive(_introduction(context))
        self.conversation.handle(self.conversation.receiver.lost(None))  # until `listen`
        if is_ready:
            self.be_ready()

    def be_ready(self) -> None:
        """The client accepts requests (2025-11-25:server-waits-for-initialized)."""
        self.conversation.receive(Notification("notifications/initialized"))

    async def listen(self, context: RequestContext) -> None:
        """Deliver messages of the GET stream until cancelled."""
        general = self._streams[None] = _Stream(context, None, None, self.conversation)
        try:
            await self.conversation.listen()
            await general.carry()
        finally:
            del self._streams[None]

    async def close(self) -> None:
        """Close the conversation; its tasks continue."""
        await self.conversation.close()

    async def answer(self, request: Request, context: RequestContext) -> JSONObject:
        """Return the result or raise `MCPError`; cancelling this abandons the request."""
        task_id = request.params.get("taskId") if request.method == "tasks/result" else None
        if task_id is not None:
            await self._drop_broken(task_id)
            if self._has_reader:  # questions move to this stream if the GET stream has no reader
                self._look_for_reader()
        if request.id in self._streams:
            raise MCPError(INVALID_REQUEST, "Invalid request: the id is in use")
        can_carry = context.session.can_send_request or None not in self._streams
        stream = _Stream(context, request.id if can_carry else None, task_id, self.conversation)
        self._streams[request.id] = stream
        try:
            self.conversation.receive(request, caller=caller_of(self._owner))
            answer = await stream.carry()
            if None in self._streams:  # earlier messages are delivered before the answer
                await self._streams[None].passed()
        finally:
            del self._streams[request.id]
            self.conversation.handle(self.conversation.receiver.closed(request.id))
        if isinstance(answer, ErrorResponse):
            raise MCPError(answer.error.code, answer.error.message, answer.error.data)
        return answer.result

    def _send(self, said: Send) -> None:
        stream = self._streams.get(said.stream)
        if stream is None:
            return
        if said.stream is None and isinstance(said.message, Request):
            self._look_for_reader()
            if not self._has_reader:
                # Until a request for the result arrives, or the GET stream has a reader again.
                self._take_back()
                return
        stream.put(said.message)

    def _look_for_reader(self) -> None:
        """Check whether the GET stream is read before asking on it."""
        if not self._is_pipe and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        general = self._streams.get(None)
        had_reader, self._has_reader = (
            self._has_reader,
            general is not None and await general.is_read(),
        )
        if general is not None and had_reader and not self._has_reader:
            await general.withdraw(*general.asked)
            self._take_back()

    def _take_back(self) -> None:
        """Move the questions from the GET stream to other streams."""
        receiver = self.conversation.receiver
        self.conversation.handle([*receiver.lost(None), *receiver.opened()])

    async def _drop_broken(self, task_id: Any) -> None:
        """A client that requests a result again does not resume a broken stream."""
        for id, stream in list(self._streams.items()):
            if stream.task_id == task_id and await stream.is_broken():
                self.conversation.handle(self.conversation.receiver.closed(id))
                stream.put(ErrorResponse(None, Error(INTERNAL_ERROR, "The stream is broken")))


def _introduction(context: RequestContext) -> Request:
    """Return the client's `initialize` request, which the SDK has answered."""
    declared, capabilities = context.session.client_capabilities, {}
    if (
        declared is not None and context.session.can_send_request
    ):  # a client that cannot answer is not asked
        capabilities = declared.model_dump(mode="json", by_alias=True, exclude_none=True)
    unnamed = {"name": "", "version": ""}
    hello = {"protocolVersion": REVISION, "capabilities": capabilities, "clientInfo": unnamed}
    return Request("hello", "initialize", hello)


class _RawMessage(BaseModel):
    """A message unchanged: the SDK's classes would drop nulls and unknown members."""

    method: str
    params: dict[str, Any]


class _RawResult(BaseModel):
    """A result unchanged."""

    model_config = ConfigDict(extra="allow")


class _Stream:
    """The messages of one stream in order: that of a request, or the GET stream."""

    def __init__(
        self,
        context: RequestContext,
        related: Id | None,
        task_id: str | None,
        conversation: Conversation,
    ) -> None:
        self.task_id = task_id
        self._context = context
        self._related = related
        self._conversation = conversation
        self._messages: asyncio.Queue[Message | asyncio.Event] = asyncio.Queue()
        self.asked: dict[Id, asyncio.Task[None]] = {}

    def put(self, message: Message) -> None:
        """Send a message after those put earlier."""
        self._messages.put_nowait(message)

    async def passed(self) -> None:
        """Wait until all earlier messages are sent."""
        mark = asyncio.Event()
        self._messages.put_nowait(mark)
        await mark.wait()

    async def is_broken(self) -> bool:
        """Return whether the reader has disconnected, where each stream has its own connection."""
        request: Any = self._context.request
        has_reader = request is not None and "mcp-session-id" in request.headers
        return has_reader and bool(await request.is_disconnected())

    async def is_read(self) -> bool:
        """Return whether the client answers a ping."""
        try:
            await self._context.session.send_request(PingRequest(), EmptyResult, READER_S)
        except MCPError:
            return False
        return True

    async def carry(self) -> ResultResponse | ErrorResponse:
        """Send messages until the answer."""
        try:
            while True:
                message = await self._messages.get()
                match message:
                    case ResultResponse() | ErrorResponse():
                        return message
                    case asyncio.Event():
                        message.set()
                    case Request():
                        self._ask(message)
                    case Notification("notifications/cancelled", {"requestId": id}):
                        await self.withdraw(id)
                    case Notification():
                        said = _RawMessage(method=message.method, params=message.params)
                        notification = cast(ServerNotification, said)
                        session = self._context.session
                        await session.send_notification(notification, self._related)
        finally:
            with anyio.CancelScope(shield=True):
                await self.withdraw(*self.asked)

    async def withdraw(self, *ids: Id) -> None:
        """Cancel questions; the SDK notifies the client with its own ids."""
        asking = {self.asked[id] for id in ids if id in self.asked}
        for question in asking:
            question.cancel()
        if asking:  # without a limit, the SDK takes 5 s when the connection ends
            await asyncio.wait(asking, timeout=WITHDRAW_S)

    def _ask(self, question: Request) -> None:
        asking = asyncio.create_task(self._put_question(question))
        self.asked[question.id] = asking
        asking.add_done_callback(lambda _: self.asked.pop(question.id))

    async def _put_question(self, question: Request) -> None:
        said = _RawMessage(method=question.method, params=question.params)
        answer: Message
        try:
            heard = await self._context.session.send_request(
                cast(ServerRequest, said),
                _RawResult,
                metadata=ServerMessageMetadata(related_request_id=self._related),
            )
            answer = ResultResponse(question.id, heard.model_dump(mode="json"))
        except MCPError as error:
            if (error.code, error.message) == _CLOSED:
                return  # the question stays open
            answer = ErrorResponse(question.id, Error(error.code, error.message, error.data))
        except ValidationError:
            invalid = Error(
                INVALID_PARAMS, f"the answer is not a valid result of {question.method}"
            )
            answer = ErrorResponse(question.id, invalid)
        self._conversation.receive(answer)


_CLOSED: Final = (CONNECTION_CLOSED, "Connection closed")
"""The error that the SDK reports for a client that has disconnected."""
