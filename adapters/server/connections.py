"""Connections that do not last for ever: what uvicorn does not bound by itself.

A client that sends half a header and waits, or asks for a stream and never reads it, holds a
connection, and nobody else could end it.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

__all__ = ["protocol_within"]


def protocol_within(header_s: float, stall_s: float) -> type[asyncio.Protocol]:
    """The HTTP protocol for uvicorn: `header_s` to send a header, `stall_s` to read an answer."""

    class Bounded(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self._header_due: asyncio.TimerHandle | None = None
            self._read_due: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._header_due = self.loop.call_later(header_s, transport.abort)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:
                if self._header_due is not None:
                    self._header_due.cancel()
                    self._header_due = None
            elif self._header_due is None:
                self._header_due = self.loop.call_later(header_s, self.transport.abort)

        def pause_writing(self) -> None:
            super().pause_writing()
            self._read_due = self.loop.call_later(stall_s, self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            self._is_read()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._is_read()
            if self._header_due is not None:
                self._header_due.cancel()

        def _is_read(self) -> None:
            if self._read_due is not None:
                self._read_due.cancel()
                self._read_due = None

    return Bounded
