"""Parse Server-Sent Events from arbitrary chunks of bytes."""

import re
from collections.abc import Iterator
from typing import Final

import attrs

from taskmachine.protocol.jsonvalue import MAX_BYTES

__all__ = ["Event", "EventTooLarge", "Parser"]

LONGEST_RETRY_MS: Final = 3_600_000

_LINE_ENDS: Final = re.compile(rb"\r\n|\n|\r")
_BOM: Final = b"\xef\xbb\xbf"


class EventTooLarge(ValueError):
    """An event exceeds the maximum size of a message."""


@attrs.frozen
class Event:
    """One event; its type is `message` by default."""

    data: str
    type: str = "message"
    id: str | None = None
    """The id that the event itself carries, if any."""


class Parser:
    """The parser of one stream.  It discards an event that the stream ends within."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.last_event_id: str | None = None
        """The id to resume after; it changes only at the end of an event."""
        self.retry_ms: int | None = None
        """The reconnection delay that the server requested."""
        self._max_bytes = max_bytes
        self.restart()

    def restart(self) -> None:
        """Continue the stream on a new connection, discarding an incomplete event."""
        self._line = bytearray()
        self._is_first_line = True
        self._ended_with_cr = False
        self._id: str | None = None
        self._type = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Parse a chunk and yield the events it completes; raise EventTooLarge for oversized ones.

        Exhaust the iterator before feeding the next chunk.
        """
        if not chunk:
            return
        rest = chunk.removeprefix(b"\n") if self._ended_with_cr else chunk
        self._ended_with_cr = chunk.endswith(b"\r")
        first, *others = _LINE_ENDS.split(rest)
        self._line += first
        for piece in others:
            line, self._line = bytes(self._line), bytearray(piece)
            if self._is_first_line:
                line, self._is_first_line = line.removeprefix(_BOM), False
            self._bound(len(line))
            if line:
                self._take(line)
                continue
            event = self._dispatch()
            if event is not None:
                yield event
        self._bound(len(self._line))

    def _bound(self, more: int) -> None:
        if self._size + more > self._max_bytes:
            raise EventTooLarge(f"an event has more than {self._max_bytes} bytes")

    def _take(self, line: bytes) -> None:
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data":
                self._data.append(value)
                self._size += len(line)
            case "event":
                self._type = value
            case "id" if "\0" not in value:
                self._id = value
            case "retry" if value.isascii() and value.isdecimal():
                self.retry_ms = min(int(value.lstrip("0")[:9] or 0), LONGEST_RETRY_MS)
            case _:  # comments and unknown fields
                pass

    def _dispatch(self) -> Event | None:
        data, type, id = self._data, self._type, self._id
        self._data, self._type, self._id, self._size = [], "", None, 0
        if id is not None:
            self.last_event_id = id
        return Event("\n".join(data), type or "message", id) if data else None
