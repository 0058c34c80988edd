"""Batched lookups of tasks: one statement reads tasks for many callers.

Lookups that arrive during a round trip to the server are collected for the next one, which starts
after they arrived.  A lookup never waits for later ones.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from taskmachine.adapters.stores import StoreError
from taskmachine.adapters.stores.postgresql import queries as sql
from taskmachine.adapters.stores.postgresql.connections import MAX_WAITING, Connections, Session

__all__ = ["Lookups"]

ROUND_TRIPS: Final = 2
"""Concurrent round trips: the server works on one while the results of the other are read."""

MOST: Final = 32
"""Tasks per round trip; each may have some megabytes."""

_Record = bytes | None


class Lookups:
    """Loads records by task id."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._waiting: deque[tuple[str, asyncio.Future[_Record]]] = deque()
        self._round_trips: set[asyncio.Task[None]] = set()

    async def load(self, task_id: str) -> _Record:
        if len(self._waiting) >= MAX_WAITING:
            raise StoreError(f"the store is too busy: {MAX_WAITING} operations wait for it")
        loop = asyncio.get_running_loop()
        found: asyncio.Future[_Record] = loop.create_future()
        self._waiting.append((task_id, found))
        if len(self._round_trips) < ROUND_TRIPS:
            self._round_trips.add(loop.create_task(self._load_waiting()))
        return await found

    async def close(self) -> None:
        """Wait until all lookups are answered; there must be no new ones."""
        while self._round_trips:
            await asyncio.wait(self._round_trips)

    async def _load_waiting(self) -> None:
        while self._waiting:
            asked = [self._waiting.popleft() for _ in range(min(MOST, len(self._waiting)))]
            records: Mapping[str, bytes] = {}
            failure: Exception | None = None
            try:
                records = await self._read([*{task_id for task_id, _ in asked}])
            except Exception as error:  # noqa: BLE001  raised in the callers
                failure = error
            for task_id, found in asked:
                if found.done():
                    continue  # its caller was cancelled
                if failure is None:
                    found.set_result(records.get(task_id))
                else:
                    found.set_exception(failure)
        # Without an await in between: a later lookup must start another round trip.
        current = asyncio.current_task()
        assert current is not None, "it runs as an asyncio task"
        self._round_trips.discard(current)

    async def _read(self, ids: Sequence[str]) -> Mapping[str, bytes]:
        async def read(session: Session) -> Mapping[str, bytes]:
            return dict(await session.rows(sql.LOAD, (ids,)))

        return await self._connections.run(read, reads=True)
