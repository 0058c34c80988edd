"""The two halves of the engine: replicas write tickets, workers take them and run the tools.

Workers write tickets, too, for tasks that they give back.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from taskmachine.adapters.engines.procrastinate.tickets import Tickets, queue_of
from taskmachine.adapters.engines.worker import LOOK_S, MOST_QUEUED, Workshop
from taskmachine.adapters.runtime.claims import Claim
from taskmachine.adapters.runtime.engine import Duty
from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.runtime.waiting import persevere
from taskmachine.adapters.stores import Worker
from taskmachine.adapters.stores.postgresql.store import PostgreSQLStore
from taskmachine.adapters.tools.registry import Threads, Tool
from taskmachine.statemachine import ConfigurationError

__all__ = ["ReplicaEngine", "WorkerEngine"]

log: Final = logging.getLogger("taskmachine")

POLL_S: Final = 1.0
"""How often to look for a ticket that nobody told us of."""


class ReplicaEngine:
    """Runs no tool.  Each task that enters the queue gets a ticket in the same transaction."""

    def __init__(self, service: TaskService, tools: Mapping[str, Tool]) -> None:
        store = service.store
        if not isinstance(store, PostgreSQLStore):
            raise ConfigurationError(
                "the engine procrastinate needs a store in PostgreSQL: --store postgresql://..."
            )
        self._store = store
        self._tickets = Tickets(store.address, tools)

    async def start(self) -> None:
        await self._tickets.open()
        self._store.join(self._tickets.write_within)

    @property
    def duties(self) -> Mapping[str, Duty]:
        return {}

    async def shutdown(self, grace_s: float | None = None) -> None:
        await self._tickets.close()


class WorkerEngine(ReplicaEngine):
    """Takes tickets for its tools while there is room, and runs them."""

    def __init__(
        self,
        service: TaskService,
        tools: Mapping[str, Tool],
        threads: Threads,
        new_worker: Callable[[], Worker],
    ) -> None:
        super().__init__(service, tools)
        self._tools = tools
        self._queues = [queue_of(name) for name in tools]
        self._room = asyncio.Event()
        self._workshop = Workshop(service, tools, threads, new_worker, self._room.set)
        self._unknown: set[str] = set()
        self._without_ticket: set[str] = set()

    async def start(self) -> None:
        await super().start()
        await self._workshop.enlist()

    @property
    def duties(self) -> Mapping[str, Duty]:
        return {
            "the beat of the worker": self._beat,
            "the search for tickets": self._take,
            "the news of tickets": self._listen,
            "the end of tickets": self._delete,
            "the care for tickets": self._look,
        }

    async def shutdown(self, grace_s: float | None = None) -> None:
        await self._workshop.shutdown(grace_s)
        await super().shutdown(grace_s)

    # --- what it keeps doing -----------------------------------------------------------------

    async def _beat(self) -> float:
        await self._tickets.beat()
        return await self._workshop.beat()

    async def _take(self) -> float:
        while True:
            while not self._workshop.has_room:
                self._room.clear()
                await self._room.wait()
            ticket = await self._tickets.fetch(self._queues)
            if ticket is None:
                await self._tickets.wait(POLL_S)
            else:
                task_id, number = ticket
                self._workshop.begin(task_id, partial(self._claim, task_id, number))

    async def _claim(self, task_id: str, number: int) -> Claim | None:
        # Not given up: nobody else looks for a ticket that a living worker has.
        held = await persevere(lambda: self._workshop.claim(task_id))
        self._tickets.finish(number)
        return held

    async def _delete(self) -> float:
        await self._tickets.delete_finished()
        return 0

    async def _listen(self) -> float:
        await self._tickets.listen(self._queues)
        return POLL_S

    async def _look(self) -> float:
        """Find what nobody told us: tickets and claims that got lost, and tasks without a ticket.

        The latter were brought from another store, or put into the queue by a process that does
        not know of tickets.  A look may come between a ticket and its task, so it takes two.
        """
        await self._workshop.give_back_lost()
        if stalled := await self._tickets.retry_stalled():
            log.info("%d tickets of lost workers are there again", stalled)
        queued = await self._store.queued(MOST_QUEUED)
        missing = await self._tickets.missing(queued)
        for task in missing:
            if task.id in self._without_ticket:
                await self._tickets.write(task)
        self._without_ticket = {task.id for task in missing}
        names = Counter(task.call.name or "" for task in queued)
        for name in names.keys() - self._tools.keys() - self._unknown:
            log.warning(
                "%d tasks wait for the tool '%s', which this worker does not have:"
                " they are left for one that has it",
                names[name],
                name,
            )
        self._unknown = names.keys() - self._tools.keys()
        return LOOK_S
