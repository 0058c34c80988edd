"""Live pages: one stream of server-sent events for each page that is open, at a bounded pace.

What changes faster than a stream may tell is told once, as it is then; so nothing piles up,
however slowly somebody reads.  A page that lost its stream connects again by itself, says what it
has seen, and is told what is different.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

import attrs
from starlette.types import Receive, Scope, Send

from taskmachine.adapters.console.browser_sessions import Visits
from taskmachine.adapters.stores import StoreError
from taskmachine.adapters.transports.http.disconnects import disconnected, ended
from taskmachine.adapters.transports.http.sse import comment
from taskmachine.protocol.sealing import Login
from taskmachine.statemachine import LimitExceeded

__all__ = ["Live", "LiveResponse", "Streams"]

PACE_S: Final = 0.25
"""Between two messages of one stream."""

RETRY_MS: Final = 1_000
"""After which a browser connects again."""

_START: Final = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")],
}


class Live(Protocol):
    """What one stream tells."""

    changed: asyncio.Event
    """Set when there may be news."""

    @property
    def look_s(self) -> float | None:
        """How often to ask for news without that."""

    async def begin(self) -> bytes:
        """What the page does not know yet."""

    async def news(self) -> bytes:
        """What has changed since, perhaps nothing."""

    @property
    def is_over(self) -> bool:
        """Whether there will be no more."""

    def close(self) -> None:
        """Nobody listens any more."""


class Streams:
    """How many streams each owner has open."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()

    def check(self, owner: str) -> None:
        """`LimitExceeded` if there is no room for one more."""
        if self._open[owner] >= self._most:
            raise LimitExceeded(f"{self._most} live pages at the same time", 5_000)

    @contextmanager
    def one_more(self, owner: str) -> Iterator[None]:
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
    """An ASGI response that ends when the reader leaves, or may not look any more."""

    live: Live
    streams: Streams
    visits: Visits
    visit: Login
    keep_alive_s: float

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(disconnected(receive))
        try:
            with self.streams.one_more(self.visit.owner):
                await send({**_START})  # others add headers to it
                if scope["method"] != "HEAD":
                    await self._tell(send, gone)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except StoreError:  # the page connects again, and perhaps the store is there then
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self.live.close()
            await ended(gone)

    async def _tell(self, send: Send, gone: "asyncio.Future[None]") -> None:
        now = asyncio.get_running_loop().time
        # The comment opens the stream, also through proxies that wait for a first byte.
        await _send(send, b"retry: %d\n\n" % RETRY_MS + comment() + await self.live.begin())
        told_at = now()
        while not (gone.done() or self.live.is_over or self.visits.is_over(self.visit)):
            rest = max(0.0, told_at + self.keep_alive_s - now())
            look_s = self.live.look_s
            await self._until_changed(gone, rest if look_s is None else min(rest, look_s))
            block = b"" if gone.done() else await self.live.news()
            if not block and now() - told_at >= self.keep_alive_s:
                block = comment("keep-alive")
            if block:
                await _send(send, block)
                told_at = now()
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
