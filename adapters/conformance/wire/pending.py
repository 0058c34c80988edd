"""A request that awaits its response."""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Protocol

import anyio

from taskmachine.adapters.conformance.history import Entry, Exchange

__all__ = ["Pending", "TargetLost", "Work"]


class TargetLost(Exception):
    """The connection to the target has ended."""


class Asker(Protocol):
    """The sender of a request."""

    @property
    def patience_ms(self) -> float:
        """Time limit of a response."""

    def gave_up(self, pending: "Pending", limit_ms: float) -> Entry:
        """Record that the sender stopped waiting."""

    def heard_since(self, pending: "Pending") -> Sequence[Entry]:
        """Return the messages on the request's stream, or on stdio since it was sent."""


class Work:
    """A background task that can be cancelled.

    It uses an anyio scope: httpx does not shield closing connections from asyncio cancellation, and
    they would stay open.
    """

    def __init__(self, work: Coroutine[Any, Any, None]) -> None:
        self._scope = anyio.CancelScope()
        self.task = asyncio.create_task(self._run(work))

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        with self._scope:
            await work

    async def cancel(self) -> None:
        """Cancel the work, and wait until it has ended."""
        self._scope.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class Pending:
    """A request that was sent; its response can be awaited."""

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
        """The exchange so far."""
        return Exchange(self.request, self.response, self.head, self.end, tuple(self.others))

    @property
    def is_done(self) -> bool:
        """Whether the response has arrived or will never arrive."""
        return self._over.is_set()

    async def answer(self, wait_ms: float | None = None) -> Exchange:
        """Wait for the response, the end of the connection or the time limit, which is recorded.

        Never raises: see `is_answered`, `error`, `result`, `status`.
        """
        limit = self._caller.patience_ms if wait_ms is None else wait_ms
        try:
            async with asyncio.timeout(limit / 1_000):
                await self._over.wait()
        except TimeoutError:
            self.end = self._caller.gave_up(self, limit)
        return self.exchange

    def heard(self) -> Sequence[Entry]:
        """Return the messages on the request's stream so far, or on stdio since it was sent."""
        return self._caller.heard_since(self)

    async def abandon(self) -> None:
        """Abandon the request: close the HTTP connection; on stdio only stop waiting."""
        if self.work is not None:
            await self.work.cancel()
        self._over.set()

    def settle(self, *, response: Entry | None = None, end: Entry | None = None) -> None:
        """Record the response or the end."""
        self.response = self.response or response
        self.end = end or self.end
        self._over.set()
