"""A message from a client, and the ways to answer it that both transports support."""

import json
from collections.abc import Mapping
from typing import Any, Final, Protocol

from taskmachine.adapters.conformance.history import MISSING, Entry

__all__ = ["COMMENT", "NOT_UTF_8", "Actor", "ClientMessage", "Stream", "read_message"]

NOT_UTF_8: Final = "not UTF-8: "
"""Prefix of an entry's text if its bytes are not UTF-8."""

COMMENT: Final = ": still here"
"""Text of an entry for a comment in an event stream."""

_MOST_TEXT: Final = 2_000


def read_message(raw: bytes) -> tuple[Any, str | None]:
    """Decode a JSON message, or return the text if it is not JSON."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return MISSING, NOT_UTF_8 + raw[:_MOST_TEXT].decode(errors="backslashreplace")
    try:
        return json.loads(text), None
    except (ValueError, RecursionError):
        return MISSING, text[:_MOST_TEXT]


class Stream(Protocol):
    """A channel for messages to the client."""

    line: int

    @property
    def is_open(self) -> bool:
        """Whether the client still reads the stream."""

    async def send(self, message: Any, *, event_id: str | None = None) -> None:
        """Send a message; it is lost if the client has disconnected."""

    async def comment(self) -> None:
        """Send a comment (event streams only)."""

    async def prime(self, event_id: str, retry_ms: int | None = None) -> None:
        """Send an event with an id and without data (event streams only)."""

    async def close(self) -> None:
        """End the stream."""

    async def wait_closed(self) -> None:
        """Wait until the client has disconnected."""


class ClientMessage(Protocol):
    """A message from the client, or an HTTP request without one."""

    entry: Entry
    line: int
    post: int | None
    http_method: str
    """Empty on stdio."""
    headers: Mapping[str, str]
    """Header names in lower case; empty on stdio."""

    async def accept(self, status: int = 202) -> None:
        """Acknowledge a message that requires no response."""

    async def answer(
        self, message: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send the only response: JSON over HTTP."""

    async def stream(self, *, headers: Mapping[str, str] | None = None) -> Stream:
        """Open a stream for several messages: events over HTTP."""


class Actor(Protocol):
    """A server that follows a script."""

    def connection_of(self, method: str, headers: Mapping[str, str], message: Any) -> int:
        """Return the connection that an HTTP request belongs to."""

    def opened(self, line: int) -> None:
        """Note that a client opened a stdio connection."""

    async def handle(self, incoming: ClientMessage) -> None:
        """Answer a message; return when the response is complete."""

    async def close(self) -> None:
        """Stop all running work."""
