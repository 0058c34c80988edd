"""Looking tasks up, for many callers at a time by one statement.

Whoever asks while others are being answered is gathered: one journey for all of them, which
begins after they have asked.  Nobody waits for others to come.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from taskmachine.adapters.stores import StoreError
from taskmachine.adapters.stores.postgresql import queries as sql
from taskmachine.adapters.stores.postgresql.connections import MAX_WAITING, Connections, Session

__all__ = ["Lookups"]

JOURNEYS: Final = 2
"""At a time: while the answers of one are read, the server works on the next."""

MOST: Final = 32
"""Tasks of one journey: each may be some megabytes."""

_Record = bytes | None


class Lookups:
    """Records by their ids."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._waiting: deque[tuple[str, asyncio.Future[_Record]]] = deque()
        self._journeys: set[asyncio.Task[None]] = set()

    async def load(self, task_id: str) -> _Record:
        if len(self._waiting) >= MAX_WAITING:
            raise StoreError(f"the store is too busy: {MAX_WAITING} operations wait for it")
        loop = asyncio.get_running_loop()
        found: asyncio.Future[_Record] = loop.create_future()
        self._waiting.append((task_id, found))
        if len(self._journeys) < JOURNEYS:
            self._journeys.add(loop.create_task(self._travel()))
        return await found

    async def close(self) -> None:
        """Back when everybody has an answer; nobody asks any more."""
        while self._journeys:
            await asyncio.wait(self._journeys)

    async def _travel(self) -> None:
        while self._waiting:
            asked = [self._waiting.popleft() for _ in range(min(MOST, len(self._waiting)))]
            records: Mapping[str, bytes] = {}
            failure: Exception | None = None
            try:
                records = await self._read([*{task_id for task_id, _ in asked}])
            except Exception as error:  # noqa: BLE001  it is theirs who asked
                failure = error
            for task_id, found in asked:
                if found.done():
                    continue  # nobody waits for it any more
                if failure is None:
                    found.set_result(records.get(task_id))
                else:
                    found.set_exception(failure)
        # At once: whoever asks from now on needs another journey.
        journey = asyncio.current_task()
        assert journey is not None, "it is made a task"
        self._journeys.discard(journey)

    async def _read(self, ids: Sequence[str]) -> Mapping[str, bytes]:
        async def read(session: Session) -> Mapping[str, bytes]:
            return dict(await session.rows(sql.LOAD, (ids,)))

        return await self._connections.run(read, reads=True)
