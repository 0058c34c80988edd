"""Requests and their answers, over whatever carries messages."""

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

__all__ = ["Line", "Listener", "Transport"]


class Listener(Protocol):
    """Who is told what comes.  None of these waits or raises."""

    def received(self, message: Message) -> None:
        """A message of the server."""

    def lost(self, id: Id, error: TaskmachineError) -> None:
        """The answer to that request will not come."""

    def expired(self) -> None:
        """The server has forgotten the session; it can be begun anew."""

    def gone(self, error: ConnectionLost) -> None:
        """Nothing will come any more."""


class Transport(Protocol):
    """What carries messages.  It reports to a `Listener` that it was given."""

    def send(self, message: Message) -> None:
        """Begin to send a message; what goes wrong is told to the listener."""

    async def begin(self, first: Notification) -> None:
        """Say that the handshake is over."""

    def admit(self, tools: list[JSONObject]) -> list[JSONObject]:
        """Of these tools, those that can be called this way."""

    async def close(self) -> None:
        """Leave the server; this takes a bounded time, and nothing is told afterwards."""


class Line:
    """One conversation: gives out ids, and brings answers to whoever waits for them.

    What belongs to nobody who waits here goes to `others`, once there is one.  `meta` is what the
    `_meta` of each request says beside what it has to say.
    """

    def __init__(self, timeout: float, meta: Callable[[], JSONObject] = dict) -> None:
        self.timeout = timeout
        self._meta = meta
        self.transport: Transport
        self.others: Listener | None = None
        self.death: ConnectionLost | None = None
        self.new_id: Callable[[], Id] = count(1).__next__
        self._waiting: dict[Id, asyncio.Future[Message | TaskmachineError]] = {}

    async def ask(self, dialect: Dialect, params: Any, *, timeout: float | None = None) -> Any:
        """The result of a request; the method follows from the class of the parameters.

        CallFailed if it is an error, ConnectionLost if there is none in time.
        """
        if self.death is not None:
            raise self.death
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
        """Begin to send a message; what goes wrong is told to the listener."""
        if isinstance(message, Request) and (more := self._meta()):
            meta = {**more, **message.params.get("_meta", {})}
            message = attrs.evolve(message, params={**message.params, "_meta": meta})
        self.transport.send(message)

    # --- as a listener ---------------------------------------------------------------------------

    def received(self, message: Message) -> None:
        """A message of the server."""
        if isinstance(message, ResultResponse | ErrorResponse) and message.id in self._waiting:
            self._settle(message.id, message)
        elif self.others is not None:
            self.others.received(message)

    def lost(self, id: Id, error: TaskmachineError) -> None:
        """The answer to that request will not come."""
        if id in self._waiting:
            self._settle(id, error)
        elif self.others is not None:
            self.others.lost(id, error)

    def expired(self) -> None:
        """The server has forgotten the session."""
        if self.others is not None:
            self.others.expired()

    def gone(self, error: ConnectionLost) -> None:
        """Nothing will come any more."""
        self.death = self.death or error
        for id in list(self._waiting):
            self._settle(id, error)
        if self.others is not None:
            self.others.gone(error)

    def _settle(self, id: Id | None, answer: Message | TaskmachineError) -> None:
        assert id is not None
        waiting = self._waiting[id]
        if not waiting.done():  # what comes twice counts once
            waiting.set_result(answer)
