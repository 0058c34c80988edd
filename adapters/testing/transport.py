"""A connection between a client and a server in one process."""

from collections.abc import Callable
from typing import Final

from taskmachine.adapters.client.connection import Listener
from taskmachine.adapters.client.errors import ConnectionLost
from taskmachine.protocol.jsonrpc import (
    ErrorResponse,
    Id,
    Message,
    Notification,
    Request,
    ResultResponse,
    decode_message,
    encode_message,
)
from taskmachine.protocol.jsonvalue import JSONObject

__all__ = ["MemoryTransport"]

CRASHED: Final = "the server crashed"


class MemoryTransport:
    """Passes messages to the current server, and keeps them while there is none."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._server: Callable[[Message], None] | None = None
        self._kept: list[Message] = []
        self._pending: dict[Id, None] = {}

    # --- transport of the client -----------------------------------------------------------------

    def send(self, message: Message) -> None:
        """Pass a message to the server."""
        copy = decode_message(encode_message(message))
        if isinstance(message, Request):
            self._pending[message.id] = None
        if self._server is None:
            self._kept.append(copy)
        else:
            self._server(copy)

    async def begin(self, first: Notification) -> None:
        """Send the notification that completes the handshake."""
        self.send(first)

    def admit(self, tools: list[JSONObject]) -> list[JSONObject]:
        """Accept all tools."""
        return tools

    async def close(self) -> None:
        """Forget the server."""
        self._server = None

    # --- for the server --------------------------------------------------------------------------

    def attach(self, server: Callable[[Message], None]) -> None:
        """Connect a server that has started."""
        self._server = server
        kept, self._kept = self._kept, []
        for message in kept:
            server(message)

    def deliver(self, message: Message) -> None:
        """Pass a message to the client."""
        if isinstance(message, ResultResponse | ErrorResponse) and message.id is not None:
            self._pending.pop(message.id, None)
        self._listener.received(message)

    def detach(self) -> None:
        """Disconnect a server that has crashed."""
        self._server = None

    def lose_answers(self) -> None:
        """Report that pending requests get no answer."""
        kept = {message.id for message in self._kept if isinstance(message, Request)}
        lost = [id for id in self._pending if id not in kept]
        for id in lost:
            del self._pending[id]
            self._listener.lost(id, ConnectionLost(CRASHED))

    def gone(self, why: str) -> None:
        """Report that there will be no server."""
        self._listener.gone(ConnectionLost(why))
