"""SSE streams that a client can resume after its connection breaks.

A stream outlives its connections.  It keeps messages, within bounds, so that a client that
reconnects continues where it was cut off (2025-11-25 transports, resumability).
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import attrs
from starlette.types import Receive, Send

from taskmachine.adapters.transports.http.disconnects import disconnected
from taskmachine.adapters.transports.http.sse import comment, event
from taskmachine.protocol.jsonrpc import (
    ErrorResponse,
    Message,
    Request,
    ResultResponse,
    encode_message,
)

__all__ = ["Stream", "write_events"]

MAX_EVENTS: Final = 1_000
MAX_BYTES: Final = 8 * 1024 * 1024
RETRY_MS: Final = 1_000

UNWATCHED_S: Final = 0.02
"""Delay before watching for a disconnect: most responses are faster."""

EVENT_STREAM: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
]


@attrs.frozen
class _Kept:
    number: int
    body: bytes
    is_question: bool


def _ignore() -> None:
    pass


class Stream:
    """Messages for one peer, up to the response if there is to be one.

    They are numbered.  With a `clock` the numbers are its times, so that another process can
    compare them.  `on_drop` is called for each message that is dropped before it was written.
    """

    def __init__(
        self,
        name: str = "",
        clock: Callable[[], int] | None = None,
        on_drop: Callable[[], None] = _ignore,
    ) -> None:
        self.name = name
        self.response: ResultResponse | ErrorResponse | None = None
        self.is_closed = False
        self.reader: object | None = None
        """The newest connection that reads this stream; earlier ones end."""
        self.written = 0
        """The highest number that was written to a connection."""
        self._kept: deque[_Kept] = deque()
        self._bytes = 0
        self._count = 0
        self._clock = clock
        self._on_drop = on_drop
        self._changed: asyncio.Future[None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether no message can follow."""
        return self.is_closed or self.response is not None

    @property
    def is_empty(self) -> bool:
        return not self._count

    @property
    def is_single(self) -> bool:
        """Whether there has been exactly one message."""
        return self._count == 1

    @property
    def newest(self) -> int:
        """The number of the last message."""
        return self._count

    def put(self, message: Message) -> None:
        """Append a message.  Beyond the bounds the oldest are dropped, but never the response."""
        if self.is_over:
            return
        self._count += 1
        if self._clock is not None:  # which may stall or go back
            self._count = max(self._count, self._clock())
        body = encode_message(message)
        self._kept.append(_Kept(self._count, body, isinstance(message, Request)))
        self._bytes += len(body)
        while len(self._kept) > MAX_EVENTS or (self._bytes > MAX_BYTES and len(self._kept) > 1):
            oldest = self._kept.popleft()
            self._bytes -= len(oldest.body)
            if oldest.number > self.written:
                self._on_drop()
        if isinstance(message, ResultResponse | ErrorResponse):
            self.response = message
        self._wake()

    def after(self, number: int) -> Sequence[tuple[int, bytes]]:
        """Return the messages after that number."""
        if self._kept and self._kept[-1].number <= number:
            return ()
        return [(kept.number, kept.body) for kept in self._kept if kept.number > number]

    def forget(self, number: int) -> None:
        """Forget the messages up to that number, because the stream cannot be resumed."""
        while self._kept and self._kept[0].number <= number:
            self._bytes -= len(self._kept.popleft().body)

    def last_body(self) -> bytes:
        """Return the newest message, encoded."""
        return self._kept[-1].body

    def forget_questions(self) -> None:
        """Drop requests to the client, which were sent on another stream instead."""
        self._kept = deque(kept for kept in self._kept if not kept.is_question)
        self._bytes = sum(len(kept.body) for kept in self._kept)

    def attach(self) -> object:
        """Replace the reader, which ends the one before."""
        self.reader = object()
        self._wake()
        return self.reader

    def close(self) -> None:
        """End the stream and its reader."""
        self.is_closed = True
        self._wake()

    def changed(self) -> "asyncio.Future[None]":
        """Return a future that is done at the next change of this stream."""
        if self._changed is None or self._changed.done():
            self._changed = asyncio.get_running_loop().create_future()
        return self._changed

    def _wake(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    async def wait_for_first(self, timeout_s: float, receive: Receive) -> bool:
        """Wait for a message, the end of the stream, or the timeout.

        Return False if the client disconnects first: it has received no event to resume from.
        """
        if not self.is_empty or self.is_over:
            return True
        changed = self.changed()
        timer = asyncio.get_running_loop().call_later(UNWATCHED_S, self._wake)
        try:
            await changed
        finally:
            timer.cancel()
        if not self.is_empty or self.is_over:
            return True
        gone = asyncio.ensure_future(disconnected(receive))
        try:
            await asyncio.wait(
                {gone, self.changed()}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED
            )
            return not gone.done()
        finally:
            gone.cancel()


async def write_events(
    stream: Stream,
    send: Send,
    receive: Receive,
    *,
    keep_alive_s: float,
    after: int = 0,
    headers: Iterable[tuple[bytes, bytes]] = (),
) -> bool:
    """Write a stream as events until it ends or the client disconnects.

    Return whether everything was written.  A stream without a name cannot be resumed, so its
    events have no ids.
    """
    reader = stream.attach()
    await send({"type": "http.response.start", "status": 200, "headers": [*EVENT_STREAM, *headers]})
    if stream.name:  # 2025-11-25: primes the client to reconnect
        await _write(send, event(b"", id=f"{stream.name}.{after}", retry=RETRY_MS))
    else:
        await _write(send, comment())  # makes proxies flush the headers
    gone = asyncio.ensure_future(disconnected(receive))
    try:
        while True:
            for number, body in stream.after(after):
                id = f"{stream.name}.{number}" if stream.name else None
                await _write(send, event(body, id=id, event="message"))
                after = number
                stream.written = max(stream.written, number)
                if not stream.name:
                    stream.forget(number)
                if gone.done():
                    return False
            if stream.reader is not reader or stream.is_over:
                await send({"type": "http.response.body", "body": b""})
                return stream.reader is reader and stream.is_over
            waiting = {gone, stream.changed()}
            done, _ = await asyncio.wait(
                waiting, timeout=keep_alive_s, return_when=asyncio.FIRST_COMPLETED
            )
            if gone in done:
                return False
            if not done:
                await _write(send, comment())
    finally:
        gone.cancel()
        if stream.reader is reader:
            stream.reader = None


async def _write(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
