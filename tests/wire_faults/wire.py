"""HTTP and server-sent events on bare sockets, so that a test controls every byte."""

import json
import socket
import struct
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Self

import attrs

__all__ = ["BOTH", "Answer", "Event", "Events", "Wire", "first_id", "request_bytes"]

BOTH: Final = "application/json, text/event-stream"

PATIENCE_S: Final = 30.0
"""Bound for the next event of a stream."""


def request_bytes(
    method: str,
    path: str = "/mcp",
    headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    body: bytes | None = None,
    host: str = "127.0.0.1",
) -> bytes:
    """Return a request; a body without framing headers gets a Content-Length."""
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    names = {name.lower() for name, _ in pairs}
    if "host" not in names:
        pairs.insert(0, ("Host", host))
    if body is not None and not names & {"content-length", "transfer-encoding"}:
        pairs.append(("Content-Length", str(len(body))))
    head = "".join(f"{name}: {value}\r\n" for name, value in pairs)
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1") + (body or b"")


@attrs.frozen
class Answer:
    """A complete response."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def is_stream(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/event-stream")


@attrs.frozen
class Event:
    """One server-sent event."""

    id: str
    data: str
    name: str

    @property
    def json(self) -> Any:
        return json.loads(self.data)


class Wire:
    """One connection, which reads no further than requested."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self._buffer = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def close(self) -> None:
        self.socket.close()

    def reset(self) -> None:
        """Close the connection with a TCP reset."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def head(self) -> tuple[int, dict[str, str]]:
        """Read the status and the headers (by lower-case name) of the next response."""
        raw = self._until(b"\r\n\r\n").decode("latin-1")
        status_line, *lines = raw[:-4].split("\r\n")
        version, status, *_ = status_line.split(" ", 2)
        assert version == "HTTP/1.1", status_line
        pairs = [line.partition(": ") for line in lines]
        headers = {name.lower(): value for name, _, value in pairs}
        assert len(headers) == len(pairs), f"a header came twice: {raw}"
        if status == "100":
            return self.head()
        return int(status), headers

    def answer(self) -> Answer:
        """Read the next response."""
        status, headers = self.head()
        return Answer(status, headers, self.body(status, headers))

    def body(self, status: int, headers: Mapping[str, str]) -> bytes:
        """Read the body of a response."""
        if status in (204, 304):
            return b""
        if headers.get("transfer-encoding") == "chunked":
            return b"".join(self.chunks())
        return self._exactly(int(headers["content-length"]))

    def chunks(self) -> Iterator[bytes]:
        """Yield the chunks of a response body."""
        while size := int(self._until(b"\r\n"), 16):
            yield self._exactly(size + 2)[:-2]
        self._exactly(2)

    def has_more(self) -> bool:
        """Return whether more data arrives within the timeout of the socket."""
        try:
            self._more()
        except TimeoutError:
            return False
        return True

    def read_to_end(self) -> None:
        """Wait for the other side to close the connection; discard all data until then."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionError:
            pass

    def _until(self, end: bytes) -> bytes:
        while end not in self._buffer:
            self._more()
        size = self._buffer.index(end) + len(end)
        return self._take(size)

    def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            self._more()
        return self._take(size)

    def _take(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _more(self) -> None:
        data = self.socket.recv(65536)
        if not data:
            raise EOFError("the server closed the connection")
        self._buffer += data


class Events:
    """The events of a response, independent of its chunks."""

    def __init__(self, wire: Wire) -> None:
        self._chunks = wire.chunks()
        self._text = b""
        self.last_id = ""

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        deadline = time.monotonic() + PATIENCE_S  # comments reset the timeout of the socket
        while True:
            block, end, rest = self._text.partition(b"\n\n")
            if not end:
                if time.monotonic() > deadline:
                    raise TimeoutError("no event came, only comments")
                self._text += next(self._chunks)
                continue
            self._text = rest
            event = self._read(block.decode())
            if event is not None:
                return event

    def _read(self, block: str) -> Event | None:
        data, name = [], "message"
        for line in block.split("\n"):
            field, _, value = line.partition(": ")
            if field == "id":
                self.last_id = value
            elif field == "data":
                data.append(value)
            elif field == "event":
                name = value
        text = "\n".join(data)
        # An event without data only sets the id from which to resume.
        return Event(self.last_id, text, name) if text else None


def first_id(wire: Wire) -> str:
    """Return the id of the first event of a stream, from which it can be resumed."""
    line, *_ = next(wire.chunks()).decode().splitlines()
    return line.removeprefix("id: ")
