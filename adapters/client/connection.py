"""Match responses to requests, independent of the transport."""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any, Protocol

import attrs

from taskmachine.adapters.client.errors import BadAnswer, CallFailed, ConnectionLost, NoAnswer
from taskmachine.protocol.dialects.dialect import Dialect
from taskmachine.protocol.errors import InvalidResult
from taskmachine.protocol.jsonrpc import (
    ErrorResponse,
    Id,
    Message,
    Notification,
    Request,
    ResultResponse,
)
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.statemachine import TaskmachineError

__all__ = ["Connection", "Listener", "Transport"]


class Listener(Protocol):
    """Receives the events of a transport.  Its methods neither block nor raise."""

    def received(self, message: Message) -> None:
        """Handle a message from the server."""

    def lost(self, id: Id, error: TaskmachineError) -> None:
        """Handle the loss of the answer to a request."""

    def expired(self) -> None:
        """Handle the loss of the session, which can be renewed."""

    def gone(self, error: ConnectionLost) -> None:
        """Handle the loss of the server."""


class Transport(Protocol):
    """Carries messages and reports to its `Listener`."""

    def send(self, message: Message) -> None:
        """Start sending a message; failures are reported to the listener."""

    async def begin(self, first: Notification) -> None:
        """Send the notification that completes the handshake."""

    def admit(self, tools: list[JSONObject]) -> list[JSONObject]:
        """Return the tools that can be called over this transport."""

    async def close(self) -> None:
        """Disconnect within a bounded time; no events follow."""


class Connection:
    """The client side of a JSON-RPC connection: assigns ids and matches answers to requests.

    All other messages go to `listener`, once it is set.  `meta` returns additional members for the
    `_meta` of each request.
    """

    def __init__(self, timeout: float, meta: Callable[[], JSONObject] = dict) -> None:
        self.timeout = timeout
        self._meta = meta
        self.transport: Transport
        self.listener: Listener | None = None
        self.failure: ConnectionLost | None = None
        self.new_id: Callable[[], Id] = count(1).__next__
        self._waiting: dict[Id, asyncio.Future[Message | TaskmachineError]] = {}

    async def ask(self, dialect: Dialect, params: Any, *, timeout: float | None = None) -> Any:
        """Send a request and return its result; the class of the parameters determines the method.

        Raises CallFailed for an error, and ConnectionLost without an answer in time.
        """
        if self.failure is not None:
            raise self.failure
        limit = self.timeout if timeout is None else timeout
        request = dialect.encode_request(self.new_id(), params)
        waiting = self._waiting[request.id] = asyncio.get_running_loop().create_future()
        self.send(request)
        try:
            async with asyncio.timeout(limit):
                answer = await waiting
        except TimeoutError:
            raise NoAnswer(f"no answer to {request.method} within {limit:g} s") from None
        finally:
            del self._waiting[request.id]
        if isinstance(answer, TaskmachineError):
            raise answer
        if isinstance(answer, ErrorResponse):
            error = answer.error
            raise CallFailed(error.code, error.message, error.data)
        assert isinstance(answer, ResultResponse)
        try:
            return dialect.decode_result(request.method, answer)
        except InvalidResult as error:
            raise BadAnswer(str(error)) from None

    def send(self, message: Message) -> None:
        """Start sending a message; failures are reported to the listener."""
        if isinstance(message, Request) and (more := self._meta()):
            meta = {**more, **message.params.get("_meta", {})}
            message = attrs.evolve(message, params={**message.params, "_meta": meta})
        self.transport.send(message)

    # --- listener --------------------------------------------------------------------------------

    def received(self, message: Message) -> None:
        """Deliver a message from the server."""
        if isinstance(message, ResultResponse | ErrorResponse) and message.id in self._waiting:
            self._settle(message.id, message)
        elif self.listener is not None:
            self.listener.received(message)

    def lost(self, id: Id, error: TaskmachineError) -> None:
        """Deliver the loss of an answer."""
        if id in self._waiting:
            self._settle(id, error)
        elif self.listener is not None:
            self.listener.lost(id, error)

    def expired(self) -> None:
        """Report the loss of the session."""
        if self.listener is not None:
            self.listener.expired()

    def gone(self, error: ConnectionLost) -> None:
        """Fail all pending requests."""
        self.failure = self.failure or error
        for id in list(self._waiting):
            self._settle(id, error)
        if self.listener is not None:
            self.listener.gone(error)

    def _settle(self, id: Id | None, answer: Message | TaskmachineError) -> None:
        assert id is not None
        waiting = self._waiting[id]
        if not waiting.done():  # ignore duplicate answers
            waiting.set_result(answer)
