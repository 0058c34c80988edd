"""Live pages: one stream of server-sent events for each open page, at a bounded rate.

Changes that come faster are combined, so nothing piles up for a slow client.  A page that lost
its stream reconnects with the version that it has, and gets the differences.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

import attrs
from starlette.types import Receive, Scope, Send

from taskmachine.adapters.console.browser_sessions import BrowserSessions
from taskmachine.adapters.stores import StoreError
from taskmachine.adapters.transports.http.disconnects import disconnected, ended
from taskmachine.adapters.transports.http.sse import comment
from taskmachine.protocol.sealing import BrowserSession
from taskmachine.statemachine import LimitExceeded

__all__ = ["Live", "LiveResponse", "Streams"]

PACE_S: Final = 0.25
"""Minimum time between two messages of one stream."""

RETRY_MS: Final = 1_000
"""Delay after which a browser reconnects."""

_START: Final = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")],
}


class Live(Protocol):
    """The source of the events of one stream."""

    changed: asyncio.Event
    """Set when something may have changed."""

    @property
    def poll_s(self) -> float | None:
        """How often to call `news` without that, or None."""

    async def begin(self) -> bytes:
        """Return the events that bring the page up to date."""

    async def news(self) -> bytes:
        """Return the events for the changes since, or b""."""

    @property
    def is_over(self) -> bool:
        """Whether no more changes can follow."""

    def close(self) -> None:
        """Stop following."""


class Streams:
    """Counts the open streams of each owner."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    def check(self, owner: str) -> None:
        """Raise `LimitExceeded` if the owner may not open one more."""
        if self._open[owner] >= self._most:
            raise LimitExceeded(f"{self._most} live pages at the same time", 5_000)

    @contextmanager
    def opened(self, owner: str) -> Iterator[None]:
        self.check(owner)
        self._open[owner] += 1
        try:
            yield
        finally:
            self._open[owner] -= 1
            if not self._open[owner]:
                del self._open[owner]


@attrs.frozen
class LiveResponse:
    """An ASGI response that ends when the client disconnects or its session expires."""

    live: Live
    streams: Streams
    browser_sessions: BrowserSessions
    session: BrowserSession
    keep_alive_s: float

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(disconnected(receive))
        try:
            with self.streams.opened(self.session.owner):
                await send({**_START})  # copied, because headers are added to it
                if scope["method"] != "HEAD":
                    await self._stream(send, gone)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except StoreError:  # the page will reconnect
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self.live.close()
            await ended(gone)

    async def _stream(self, send: Send, gone: "asyncio.Future[None]") -> None:
        now = asyncio.get_running_loop().time
        # The comment makes proxies pass the headers on.
        await _send(send, b"retry: %d\n\n" % RETRY_MS + comment() + await self.live.begin())
        sent_at = now()
        while not (
            gone.done() or self.live.is_over or self.browser_sessions.has_expired(self.session)
        ):
            rest = max(0.0, sent_at + self.keep_alive_s - now())
            poll_s = self.live.poll_s
            await self._until_changed(gone, rest if poll_s is None else min(rest, poll_s))
            block = b"" if gone.done() else await self.live.news()
            if not block and now() - sent_at >= self.keep_alive_s:
                block = comment("keep-alive")
            if block:
                await _send(send, block)
                sent_at = now()
                await asyncio.wait({gone}, timeout=PACE_S)

    async def _until_changed(self, gone: "asyncio.Future[None]", timeout_s: float) -> None:
        changed = asyncio.create_task(self.live.changed.wait())
        waiting: set[asyncio.Future[Any]] = {changed, gone}
        try:
            await asyncio.wait(waiting, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await ended(changed)
        self.live.changed.clear()


async def _send(send: Send, block: bytes) -> None:
    await send({"type": "http.response.body", "body": block, "more_body": True})
