"""A connection that delivers the messages of an answer as they arrive.

For late answers and endless streams.
"""

import asyncio
from collections.abc import Callable

from taskmachine.adapters.cli.bench.connection import WrongAnswer, header_of

__all__ = ["Listening"]


class Listening(asyncio.Protocol):
    """Send one request and deliver each message of the answer immediately.

    An answer of JSON is one message; of a stream, each event with data is one.
    """

    def __init__(
        self, on_message: Callable[[bytes], None], on_error: Callable[[Exception], None]
    ) -> None:
        self._on_message = on_message
        self._on_error = on_error
        self._transport: asyncio.Transport | None = None
        self._received = b""
        self._text = b""
        self._length: int | None = None
        """Length of the body, or None if it is chunked."""
        self._has_head = False
        self._has_ended = False

    def send(self, request: bytes) -> None:
        assert self._transport is not None
        self._has_head = self._has_ended = False
        self._received = self._text = b""
        self._transport.write(request)

    def close(self) -> None:
        self._has_ended = True
        assert self._transport is not None
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's class is unrelated

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._has_ended:
            self._on_error(WrongAnswer(f"the server hung up: {exc}"))

    def data_received(self, data: bytes) -> None:
        if self._has_ended:
            return
        self._received += data
        try:
            if self._has_head or self._read_head():
                self._read_body()
        except (WrongAnswer, ValueError) as error:
            self._has_ended = True
            self._on_error(error)

    def _read_head(self) -> bool:
        head, found, rest = self._received.partition(b"\r\n\r\n")
        if not found:
            return False
        lowered = head.lower()
        length = header_of(head, lowered, b"content-length")
        if not head.startswith(b"HTTP/1.1 200"):
            if length is not None and len(rest) < int(length):
                return False
            raise WrongAnswer(f"HTTP {head[9:12].decode(errors='replace')} {rest[:200]!r}")
        self._length = None if length is None else int(length)
        self._received, self._has_head = rest, True
        return True

    def _read_body(self) -> None:
        if self._length is not None:
            if len(self._received) >= self._length:
                self._has_ended = True
                self._on_message(self._received[: self._length])
            return
        while True:
            line, found, rest = self._received.partition(b"\r\n")
            if not found:
                return
            size = int(line.partition(b";")[0], 16)
            if len(rest) < size + 2:
                return
            self._text += rest[:size]
            self._received = rest[size + 2 :]
            self._read_events()
            if size == 0:
                self._has_ended = True
                if self._text.strip():  # chunked JSON
                    self._on_message(self._text)
                return

    def _read_events(self) -> None:
        if self._text.startswith(b"{"):
            return
        text = self._text.replace(b"\r\n", b"\n")
        *events, self._text = text.split(b"\n\n")
        for event in events:
            data = [
                line[5:].removeprefix(b" ")
                for line in event.split(b"\n")
                if line.startswith(b"data:")
            ]
            if any(data):
                self._on_message(b"\n".join(data))
