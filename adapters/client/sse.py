"""Server-Sent Events, as they arrive: bytes in whatever pieces, events out."""

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
    """An event has more bytes than a message may have."""


@attrs.frozen
class Event:
    """One event: its type is `message` unless the server says otherwise."""

    data: str
    type: str = "message"
    id: str | None = None
    """Its own, if it has one."""


class Parser:
    """The state of one stream.  An event that is cut off by the end of the stream never was."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.last_event_id: str | None = None
        """Where to resume: it counts only from the end of its event on."""
        self.retry_ms: int | None = None
        """How long the server wants to be left alone before the next try."""
        self._max_bytes = max_bytes
        self.restart()

    def restart(self) -> None:
        """The same stream over another connection: what was incomplete never was."""
        self._line = bytearray()
        self._is_first_line = True
        self._ended_with_cr = False
        self._id: str | None = None
        self._type = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that are complete with these bytes; EventTooLarge if one cannot be any more.

        Take all of them before more is fed.
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
            case _:  # a comment, or a field of the future
                pass

    def _dispatch(self) -> Event | None:
        data, type, id = self._data, self._type, self._id
        self._data, self._type, self._id, self._size = [], "", None, 0
        if id is not None:
            self.last_event_id = id
        return Event("\n".join(data), type or "message", id) if data else None
