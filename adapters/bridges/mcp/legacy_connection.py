"""One connection of 2025-11-25: its conversation, and how the SDK carries the messages of it.

Each request has a stream of its own, and there is a general one as long as the connection lives.
The SDK gives its own ids to what is asked on them, and brings the answers to whoever asked.
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
"""How long to wait until a requestor is told that a question was taken back."""

HEARD_S: Final = 2.0
"""How long a reader of the general stream may take to say that there is one."""


class Connection:
    """The conversation with one requestor, who is asked nothing before it `is_ready`."""

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
        # A pipe is read by whoever wrote to it.  Over HTTP nobody tells whether there is a reader.
        self._is_pipe = self._is_heard = context.request is None
        self._looking: asyncio.Task[None] | None = None
        self._streams: dict[Id | None, _Stream] = {}
        self.conversation.receive(_introduction(context))
        self.conversation.handle(self.conversation.receiver.lost(None))  # until `listen`
        if is_ready:
            self.be_ready()

    def be_ready(self) -> None:
        """The requestor has said that it can be asked (2025-11-25:server-waits-for-initialized)."""
        self.conversation.receive(Notification("notifications/initialized"))

    async def listen(self, context: RequestContext) -> None:
        """Say what belongs to no request, until this is cancelled."""
        general = self._streams[None] = _Stream(context, None, None, self.conversation)
        try:
            await self.conversation.listen()
            await general.carry()
        finally:
            del self._streams[None]

    async def close(self) -> None:
        """The requestor is gone; its tasks live on."""
        await self.conversation.close()

    async def answer(self, request: Request, context: RequestContext) -> JSONObject:
        """The result; `MCPError` if there is none.  Cancel this if nobody waits for it."""
        task_id = request.params.get("taskId") if request.method == "tasks/result" else None
        if task_id is not None:
            await self._drop_broken(task_id)
            if self._is_heard:  # what is asked there belongs here, if it is so no more
                self._look_for_reader()
        if request.id in self._streams:
            raise MCPError(INVALID_REQUEST, "Invalid request: the id is in use")
        can_carry = context.session.can_send_request or None not in self._streams
        stream = _Stream(context, request.id if can_carry else None, task_id, self.conversation)
        self._streams[request.id] = stream
        try:
            self.conversation.receive(request)
            answer = await stream.carry()
            if None in self._streams:  # what was said before the answer is read before it
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
            if not self._is_heard:
                # Until somebody waits for the result, or looks again and there is a reader.
                self._take_back()
                return
        stream.put(said.message)

    def _look_for_reader(self) -> None:
        """Find out whether the general stream is read, so that nothing is asked in vain."""
        if not self._is_pipe and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look())

    async def _look(self) -> None:
        general = self._streams.get(None)
        was_heard, self._is_heard = self._is_heard, general is not None and await general.is_heard()
        if general is not None and was_heard and not self._is_heard:
            await general.withdraw(*general.asked)
            self._take_back()

    def _take_back(self) -> None:
        """What is asked on the general stream is asked elsewhere."""
        receiver = self.conversation.receiver
        self.conversation.handle([*receiver.lost(None), *receiver.opened()])

    async def _drop_broken(self, task_id: Any) -> None:
        """Whoever asks for a result again does not come back for a stream that broke."""
        for id, stream in list(self._streams.items()):
            if stream.task_id == task_id and await stream.is_broken():
                self.conversation.handle(self.conversation.receiver.closed(id))
                stream.put(ErrorResponse(None, Error(INTERNAL_ERROR, "The stream is broken")))


def _introduction(context: RequestContext) -> Request:
    """What the requestor said first.  The SDK has answered it."""
    declared, capabilities = context.session.client_capabilities, {}
    if declared is not None and context.session.can_send_request:  # who cannot answer is not asked
        capabilities = declared.model_dump(mode="json", by_alias=True, exclude_none=True)
    nobody = {"name": "", "version": ""}
    hello = {"protocolVersion": REVISION, "capabilities": capabilities, "clientInfo": nobody}
    return Request("hello", "initialize", hello)


class _Said(BaseModel):
    """A message as it is: the SDK's own classes would drop nulls, and what they do not know."""

    method: str
    params: dict[str, Any]


class _Heard(BaseModel):
    """An answer as it is."""

    model_config = ConfigDict(extra="allow")


class _Stream:
    """What is said on one stream, in its order: on that of a request, or on the general one."""

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
        """It goes out after what was put before."""
        self._messages.put_nowait(message)

    async def passed(self) -> None:
        """Back when all is out that was put so far."""
        mark = asyncio.Event()
        self._messages.put_nowait(mark)
        await mark.wait()

    async def is_broken(self) -> bool:
        """Whether its reader is gone, where each stream has one of its own."""
        request: Any = self._context.request
        has_reader = request is not None and "mcp-session-id" in request.headers
        return has_reader and bool(await request.is_disconnected())

    async def is_heard(self) -> bool:
        """Whether somebody answers who is asked for nothing but that."""
        try:
            await self._context.session.send_request(PingRequest(), EmptyResult, HEARD_S)
        except MCPError:
            return False
        return True

    async def carry(self) -> ResultResponse | ErrorResponse:
        """Send all there is to send, up to the answer."""
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
                        said = _Said(method=message.method, params=message.params)
                        notification = cast(ServerNotification, said)
                        session = self._context.session
                        await session.send_notification(notification, self._related)
        finally:
            with anyio.CancelScope(shield=True):
                await self.withdraw(*self.asked)

    async def withdraw(self, *ids: Id) -> None:
        """Take questions back: the SDK says so, under the ids that it has given to them."""
        asking = {self.asked[id] for id in ids if id in self.asked}
        for question in asking:
            question.cancel()
        if asking:  # when everything ends at once the SDK would take 5 s to find that out
            await asyncio.wait(asking, timeout=WITHDRAW_S)

    def _ask(self, question: Request) -> None:
        asking = asyncio.create_task(self._put_question(question))
        self.asked[question.id] = asking
        asking.add_done_callback(lambda _: self.asked.pop(question.id))

    async def _put_question(self, question: Request) -> None:
        said = _Said(method=question.method, params=question.params)
        answer: Message
        try:
            heard = await self._context.session.send_request(
                cast(ServerRequest, said),
                _Heard,
                metadata=ServerMessageMetadata(related_request_id=self._related),
            )
            answer = ResultResponse(question.id, heard.model_dump(mode="json"))
        except MCPError as error:
            if (error.code, error.message) == _CLOSED:
                return  # the question stays open
            answer = ErrorResponse(question.id, Error(error.code, error.message, error.data))
        except ValidationError:
            invalid = Error(INVALID_PARAMS, f"the answer is no result of {question.method}")
            answer = ErrorResponse(question.id, invalid)
        self._conversation.receive(answer)


_CLOSED: Final = (CONNECTION_CLOSED, "Connection closed")
"""What the SDK says in the name of a requestor that has left."""
