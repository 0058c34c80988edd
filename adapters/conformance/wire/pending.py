"""A request that was sent and may be answered."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

import anyio

from taskmachine.adapters.conformance.history import Entry, Exchange

__all__ = ["Pending", "TargetLost", "Work"]


class TargetLost(Exception):
    """There is nobody to talk to any more."""


class Asker(Protocol):
    """Who sent it."""

    @property
    def patience_ms(self) -> float:
        """How long an answer is awaited."""

    def gave_up(self, pending: "Pending", limit_ms: float) -> Entry:
        """Write down that nobody waits any more."""

    def heard_since(self, pending: "Pending") -> Sequence[Entry]:
        """What came on the stream of a request, or on the pipe since it was sent."""


class Work:
    """Something that goes on beside, until it is broken off.

    By a scope of anyio: from the cancellation of asyncio httpx does not shield the connections
    that it is about to close, and they would stay open.
    """

    def __init__(self, work: Coroutine[Any, Any, None]) -> None:
        self._scope = anyio.CancelScope()
        self.task = asyncio.create_task(self._go_on(work))

    async def _go_on(self, work: Coroutine[Any, Any, None]) -> None:
        with self._scope:
            await work

    async def break_off(self) -> None:
        """Returns when it is over."""
        self._scope.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class Pending:
    """A request that was sent; its answer is awaited, or not."""

    def __init__(self, caller: Asker, request: Entry) -> None:
        self.request = request
        self.id = request.body.get("id")
        self.response: Entry | None = None
        self.head: Entry | None = None
        self.end: Entry | None = None
        self.others: list[Entry] = []
        self.work: Work | None = None
        self._caller = caller
        self._over = asyncio.Event()

    @property
    def exchange(self) -> Exchange:
        """As far as it has come."""
        return Exchange(self.request, self.response, self.head, self.end, tuple(self.others))

    @property
    def is_over(self) -> bool:
        """Whether there is an answer, or none will come."""
        return self._over.is_set()

    async def answer(self, wait_ms: float | None = None) -> Exchange:
        """The exchange once it is answered, broken off, or we gave up, which is written down.

        Never raises: look at `is_answered`, `error`, `result`, `status`.
        """
        limit = self._caller.patience_ms if wait_ms is None else wait_ms
        try:
            async with asyncio.timeout(limit / 1_000):
                await self._over.wait()
        except TimeoutError:
            self.end = self._caller.gave_up(self, limit)
        return self.exchange

    def heard(self) -> Sequence[Entry]:
        """What came on its stream so far, or on the pipe since it was sent."""
        return self._caller.heard_since(self)

    async def leave(self) -> None:
        """Break off: over HTTP the connection is closed, on a pipe nobody waits any more."""
        if self.work is not None:
            await self.work.break_off()
        self._over.set()

    def settle(self, *, response: Entry | None = None, end: Entry | None = None) -> None:
        """It is answered, or broken off."""
        self.response = self.response or response
        self.end = end or self.end
        self._over.set()
