"""The life of one task as server-sent events, from now to its end."""

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
"""Members that say nothing new by themselves."""


def has_seen(last_event_id: str | None, task: Task) -> bool:
    """Whether a reader that sends this `Last-Event-ID` knows the task as it is.

    Whatever else it sends is no reason to refuse the stream: a browser repeats the last id that
    it got, and is shown the newest version then.
    """
    return last_event_id == str(task.version)


class TaskEvents:
    """A response: the task as it is, then each change that shows, until its end.

    The subscription is closed when the stream ends, whoever ends it.  A reader that is slower
    than the task loses the oldest changes; the end is the newest and always arrives.
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
                await self._tell(send, gone)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._subscription.close()
            await ended(gone)

    async def _tell(self, send: Send, gone: "asyncio.Future[None]") -> None:
        [task] = self._subscription.known
        block = self._news(task)
        # A comment, so that proxies pass on that the stream is open.
        await _send(send, comment() if has_seen(self._last_event_id, task) else block)
        generator = cast("AsyncGenerator[Task, None]", aiter(self._subscription))
        async with aclosing(generator) as versions:
            while await self._tell_next(versions, send, gone):
                pass

    async def _tell_next(
        self,
        versions: "AsyncGenerator[Task, None]",
        send: Send,
        gone: "asyncio.Future[None]",
    ) -> bool:
        """Whether there can be more."""
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
                    self._subscription.drain(0)  # somebody reads, even if there is no news
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
        """The event for a version, nothing if no caller could tell it from the last one."""
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
