"""Connections that do not last for ever: what uvicorn does not bound by itself.

A client that sends half a header and waits, or announces a body that never comes, or asks for a
stream and never reads it, holds a connection, and nobody else could end it.
"""

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.auto import AutoHTTPProtocol

__all__ = ["protocol_within"]

MAX_FRAMING: Final = 64 * 1024
"""Bytes of a request that are not its body: the parser would keep any number."""


def protocol_within(header_s: float, body_s: float, stall_s: float) -> type[asyncio.Protocol]:
    """The HTTP protocol for uvicorn.

    A client has `header_s` for a header, then `body_s` for the body, unless the application is
    less patient, and `stall_s` to go on reading an answer.  One request at a time: whoever sends
    another one before the answer is cut off, as nothing would notice that such a client left.
    """

    class Bounded(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self._request_due: asyncio.TimerHandle | None = None
            self._read_due: asyncio.TimerHandle | None = None
            self._framing = 0
            self._served: Any = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._request_due = self.loop.call_later(header_s, transport.abort)

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            self._framing += len(data)
            super().data_received(data)
            cycle = self.cycle
            if getattr(self, "pipeline", None):
                self._served.disconnected = True  # uvicorn would tell the newest one only
                self._served.message_event.set()
                self.transport.abort()
            elif self._framing > MAX_FRAMING and hasattr(self, "parser"):  # h11 has its own bound
                self.transport.abort()
            elif cycle is not None and not cycle.response_complete and not cycle.more_body:
                self._is_whole()
            elif self._request_due is None or cycle is not before:
                self._is_whole()
                seconds = header_s if cycle is None or cycle.response_complete else body_s
                self._request_due = self.loop.call_later(seconds, self.transport.abort)

        def _start_asgi_task(self, cycle: Any, app: Any) -> None:
            self._served = cycle
            super()._start_asgi_task(cycle, app)

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._framing = 0

        def on_body(self, body: bytes) -> None:
            super().on_body(body)
            self._framing -= 6 * len(body)  # there are five bytes around even the smallest chunk

        def pause_writing(self) -> None:
            super().pause_writing()
            self._read_due = self.loop.call_later(stall_s, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._is_read()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._is_read()
            self._is_whole()

        def _is_whole(self) -> None:
            if self._request_due is not None:
                self._request_due.cancel()
                self._request_due = None

        def _is_read(self) -> None:
            if self._read_due is not None:
                self._read_due.cancel()
                self._read_due = None

    return Bounded
