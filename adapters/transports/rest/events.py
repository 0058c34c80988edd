"""The changes of one task as server-sent events, until it ends."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Final, cast

from starlette.types import Receive, Scope, Send

from taskmachine.adapters.runtime.subscriptions import Subscription
from taskmachine.adapters.transports.http.disconnects import disconnected, ended
from taskmachine.adapters.transports.http.sse import comment, event
from taskmachine.adapters.transports.rest.problems import NO_STORE
from taskmachine.protocol.jsonvalue import JSONObject, encode_json
from taskmachine.statemachine import Task

__all__ = ["MEDIA_TYPE", "TaskEvents", "has_seen"]

MEDIA_TYPE: Final = "text/event-stream"

_HEADERS: Final = [
    (b"content-type", MEDIA_TYPE.encode()),
    (b"cache-control", NO_STORE.encode()),
    (b"x-accel-buffering", b"no"),  # nginx would collect events until a buffer is full
]
_START: Final = {"type": "http.response.start", "status": 200, "headers": _HEADERS}

_NO_NEWS: Final = frozenset({"lastUpdatedAt", "pollIntervalMs"})
"""Members whose change alone is not sent."""


def has_seen(last_event_id: str | None, task: Task) -> bool:
    """Return whether a client that sends this `Last-Event-ID` has the current version.

    Any other value is ignored: a browser repeats the last id that it received.
    """
    return last_event_id == str(task.version)


class TaskEvents:
    """A response that streams the task and each visible change, until the task ends.

    It closes the subscription.  A client that reads too slowly loses the oldest changes, but
    never the end.
    """

    def __init__(
        self,
        subscription: Subscription,
        show: Callable[[Task], JSONObject],
        *,
        last_event_id: str | None,
        keep_alive_s: float,
    ) -> None:
        self._subscription = subscription
        self._show = show
        self._last_event_id = last_event_id
        self._keep_alive_s = keep_alive_s
        self._shown: JSONObject = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(disconnected(receive))
        try:
            await send(_START)
            if scope["method"] != "HEAD":
                await self._stream(send, gone)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._subscription.close()
            await ended(gone)

    async def _stream(self, send: Send, gone: "asyncio.Future[None]") -> None:
        [task] = self._subscription.known
        block = self._news(task)
        # The comment makes proxies pass the headers on.
        await _send(send, comment() if has_seen(self._last_event_id, task) else block)
        generator = cast("AsyncGenerator[Task, None]", aiter(self._subscription))
        async with aclosing(generator) as versions:
            while await self._send_next(versions, send, gone):
                pass

    async def _send_next(
        self,
        versions: "AsyncGenerator[Task, None]",
        send: Send,
        gone: "asyncio.Future[None]",
    ) -> bool:
        """Send the next version; return whether more can follow."""
        upcoming = asyncio.create_task(_next(versions))
        try:
            while not upcoming.done():
                waiting: set[asyncio.Future[Any]] = {upcoming, gone}
                await asyncio.wait(
                    waiting, timeout=self._keep_alive_s, return_when=asyncio.FIRST_COMPLETED
                )
                if gone.done():
                    return False
                if not upcoming.done():
                    await _send(send, comment("keep-alive"))
                    self._subscription.drain(0)  # the client keeps up
            task = upcoming.result()
        finally:
            await ended(upcoming)
        if task is None:
            return False
        block = self._news(task)
        if block:
            await _send(send, block)
        return True

    def _news(self, task: Task) -> bytes:
        """Return the event for a version, or b"" if it looks like the last one."""
        body = self._show(task)
        shown = {name: value for name, value in body.items() if name not in _NO_NEWS}
        if shown == self._shown:
            return b""
        self._shown = shown
        return event(encode_json(body), id=str(task.version), event="task")


async def _next(versions: "AsyncGenerator[Task, None]") -> Task | None:
    return await anext(versions, None)


async def _send(send: Send, block: bytes) -> None:
    await send({"type": "http.response.body", "body": block, "more_body": True})
