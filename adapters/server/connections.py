"""Connections that do not last for ever: what uvicorn does not bound by itself.

A client that sends half a header and waits, or announces a body that never comes, or asks for a
stream and never reads it, holds a connection, and nobody else could end it.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

__all__ = ["protocol_within"]


def protocol_within(header_s: float, body_s: float, stall_s: float) -> type[asyncio.Protocol]:
    """The HTTP protocol for uvicorn.

    A client has `header_s` for a header, then `body_s` for the body, unless the application is
    less patient, and `stall_s` to go on reading an answer.
    """

    class Bounded(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self._request_due: asyncio.TimerHandle | None = None
            self._read_due: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._request_due = self.loop.call_later(header_s, transport.abort)

        def data_received(self, data: bytes) -> None:
            had_cycle = self.cycle
            super().data_received(data)
            cycle = self.cycle
            if cycle is not None and not cycle.response_complete and not cycle.more_body:
                self._is_whole()
            elif self._request_due is None or cycle is not had_cycle:
                self._is_whole()
                seconds = header_s if cycle is None or cycle.response_complete else body_s
                self._request_due = self.loop.call_later(seconds, self.transport.abort)

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
