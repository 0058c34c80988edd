"""Server-sent events as the WHATWG specification has them: read from a target, written to one."""

import codecs
import re
from collections.abc import Iterator
from typing import Final

import attrs

__all__ = ["Event", "EventReader", "EventTooLarge", "write_event"]

_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_MILLISECONDS: Final = re.compile(r"[0-9]{1,15}")


class EventTooLarge(ValueError):
    """The target sent an event that exceeds the limit."""


@attrs.frozen
class Event:
    """An event with data, which may be empty."""

    data: str
    id: str | None = None
    """The id in this event, or None."""


class EventReader:
    """Parses the events of one stream, over one or several connections in turn."""

    def __init__(self, max_bytes: int) -> None:
        self.last_event_id = ""
        """The id from which to resume; empty if the target sent none."""
        self.retry_ms: int | None = None
        """The reconnection time that the target requested."""
        self._max_bytes = max_bytes
        self.reconnect()

    def reconnect(self) -> None:
        """Discard the event that the last connection left incomplete."""
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._follows_cr = False
        self._line: list[str] = []
        self._begin_event()

    def _begin_event(self) -> None:
        self._data: list[str] = []
        self._id: str | None = None
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """Yield the events that these bytes complete; EventTooLarge if one exceeds the limit."""
        text = self._decoder.decode(chunk)
        if not text:
            return
        # A line feed right after a carriage return belongs to a line that has already ended.
        skipped = self._follows_cr and text.startswith("\n")
        self._follows_cr = text.endswith("\r")
        first, *rest = _LINE_END.split(text[skipped:])
        self._extend(first)
        for piece in rest:
            line, self._line = "".join(self._line), []
            if line:
                self._take(*line.partition(":")[::2])
            else:
                yield from self._dispatch()
            self._extend(piece)

    def _extend(self, piece: str) -> None:
        self._line.append(piece)
        self._size += len(piece)
        if self._size > self._max_bytes:
            raise EventTooLarge(f"an event has more than {self._max_bytes} bytes")

    def _take(self, name: str, value: str) -> None:
        value = value.removeprefix(" ")
        if name == "retry" and _MILLISECONDS.fullmatch(value):
            self.retry_ms = int(value)
        elif name == "data":
            self._data.append(value)
        elif name == "id" and "\0" not in value:
            self._id = value

    def _dispatch(self) -> Iterator[Event]:
        data, id = self._data, self._id
        self._begin_event()
        if id is not None:
            self.last_event_id = id
        if data:
            yield Event("\n".join(data), id)


def write_event(data: str, *, id: str | None = None, retry_ms: int | None = None) -> bytes:
    """Return an event whose data is one line, such as JSON without line breaks."""
    fields = {"id": id, "retry": retry_ms, "data": data}
    lines = [f"{name}: {value}\n" for name, value in fields.items() if value is not None]
    return "".join([*lines, "\n"]).encode()
