"""A message of a client, and the ways to answer it that both transports have."""

import json
from collections.abc import Mapping
from typing import Any, Final, Protocol

from taskmachine.adapters.conformance.history import MISSING, Entry

__all__ = ["COMMENT", "NOT_UTF_8", "Actor", "Heard", "Stream", "read_message"]

NOT_UTF_8: Final = "not UTF-8: "
"""How the text of an entry begins if its bytes are no text."""

COMMENT: Final = ": still here"
"""The text of an entry that is no message, but a comment among events."""

_MOST_TEXT: Final = 2_000


def read_message(raw: bytes) -> tuple[Any, str | None]:
    """The message in these bytes; or a text, if they are no JSON."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return MISSING, NOT_UTF_8 + raw[:_MOST_TEXT].decode(errors="backslashreplace")
    try:
        return json.loads(text), None
    except (ValueError, RecursionError):
        return MISSING, text[:_MOST_TEXT]


class Stream(Protocol):
    """A place where messages for the client can be put, one after the other."""

    line: int

    @property
    def is_open(self) -> bool:
        """Whether somebody still listens."""

    async def say(self, message: Any, *, event_id: str | None = None) -> None:
        """One message; lost if nobody listens any more."""

    async def comment(self) -> None:
        """A line that means nothing; only events have such."""

    async def prime(self, event_id: str, retry_ms: int | None = None) -> None:
        """An event with an id and no data; only events have such."""

    async def close(self) -> None:
        """There is nothing more to come."""

    async def wait_closed(self) -> None:
        """Until nobody listens any more."""


class Heard(Protocol):
    """Something that the client sent: a message, or an HTTP request without one."""

    entry: Entry
    line: int
    post: int | None
    http_method: str
    """Empty over pipes."""
    headers: Mapping[str, str]
    """Names in lower case; empty over pipes."""

    async def accept(self, status: int = 202) -> None:
        """Take notice of what wants no answer."""

    async def answer(
        self, message: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        """One message, and that is all: JSON over HTTP."""

    async def stream(self, *, headers: Mapping[str, str] | None = None) -> Stream:
        """Several messages: events over HTTP."""


class Actor(Protocol):
    """A server that follows a script."""

    def line_of(self, method: str, headers: Mapping[str, str], message: Any) -> int:
        """Which line an HTTP request belongs to."""

    def opened(self, line: int) -> None:
        """A pipe was opened."""

    async def hear(self, heard: Heard) -> None:
        """Answer it.  Returns when all is said."""

    async def close(self) -> None:
        """Stop everything that still goes on."""
