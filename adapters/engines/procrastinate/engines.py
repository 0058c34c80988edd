"""The two halves of the engine: replicas write tickets, workers fetch them and run the tools.

Workers also write tickets, for tasks that they release.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final

from taskmachine.adapters.engines.procrastinate.tickets import Tickets, queue_of
from taskmachine.adapters.engines.worker import MOST_QUEUED, POLL_S, WAKE_S, TaskWorker
from taskmachine.adapters.runtime.claims import Claim
from taskmachine.adapters.runtime.engine import PeriodicJob
from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.runtime.tool_runs import ToolRunner
from taskmachine.adapters.runtime.waiting import retry_store_errors
from taskmachine.adapters.stores import Worker
from taskmachine.adapters.stores.postgresql.store import PostgreSQLStore
from taskmachine.adapters.tools.registry import Tools
from taskmachine.statemachine import ConfigurationError

__all__ = ["ReplicaEngine", "WorkerEngine"]

log: Final = logging.getLogger("taskmachine")

FETCH_S: Final = 1.0
"""How often to fetch a ticket without a notification."""


class ReplicaEngine:
    """Runs no tools.  Each task that enters the queue gets a ticket in the same transaction."""

    def __init__(self, service: TaskService, tools: Tools) -> None:
        store = service.store
        if not isinstance(store, PostgreSQLStore):
            raise ConfigurationError(
                "the engine procrastinate requires a PostgreSQL store: --store postgresql://..."
            )
        self._service = service
        self._store = store
        self._tickets = Tickets(store.address, tools)

    async def start(self) -> None:
        await self._tickets.open()
        self._store.join(self._tickets.write_within)

    @property
    def periodic_jobs(self) -> Mapping[str, PeriodicJob]:
        return {}

    async def shutdown(self, grace_s: float | None = None) -> None:
        await self._tickets.close()


class WorkerEngine(ReplicaEngine):
    """Fetches tickets for its tools while it has room, and runs the tools."""

    def __init__(
        self,
        service: TaskService,
        tools: Tools,
        runner: ToolRunner,
        new_worker: Callable[[], Worker],
    ) -> None:
        super().__init__(service, tools)
        self._tools = tools
        self._queues = [queue_of(name) for name in tools]
        self._room = asyncio.Event()
        self._worker = TaskWorker(service, tools, runner, new_worker, self._make_room)
        self._skipped: Collection[str] = ()
        self._unknown: set[str] = set()
        self._without_ticket: set[str] = set()

    async def start(self) -> None:
        await super().start()
        await self._worker.register()

    @property
    def periodic_jobs(self) -> Mapping[str, PeriodicJob]:
        return {
            "worker heartbeat": self._beat,
            "fetching of tickets": self._fetch,
            "notification of tickets": self._listen,
            "deletion of tickets": self._delete,
            "recovery of tickets": self._recover,
            "waking of tasks": self._wake,
        }

    async def shutdown(self, grace_s: float | None = None) -> None:
        await self._worker.shutdown(grace_s)
        await super().shutdown(grace_s)

    # --- periodic jobs -----------------------------------------------------------------------

    async def _beat(self) -> float:
        await self._tickets.beat()
        return await self._worker.beat()

    async def _fetch(self) -> float:
        while True:
            while not self._worker.has_room:
                self._room.clear()
                await self._room.wait()
            self._skipped = self._worker.owners_without_room
            ticket = await self._tickets.fetch(self._queues, self._skipped)
            if ticket is None:
                await self._tickets.wait(FETCH_S)
            else:
                task_id, owner, number = ticket
                self._worker.begin(task_id, owner, partial(self._claim, task_id, number))

    def _make_room(self) -> None:
        self._room.set()
        if self._skipped:
            self._tickets.hint()

    async def _claim(self, task_id: str, number: int) -> Claim | None:
        # Retried without limit: no other worker recovers a ticket of a live worker.
        held = await retry_store_errors(lambda: self._worker.claim(task_id))
        self._tickets.finish(number)
        return held

    async def _delete(self) -> float:
        await self._tickets.delete_finished()
        return 0

    async def _listen(self) -> float:
        await self._tickets.listen(self._queues)
        return FETCH_S

    async def _wake(self) -> float:
        """Write the tickets of tasks that have become due."""
        due = await self._store.due(self._service.clock(), MOST_QUEUED)
        await asyncio.gather(*map(self._tickets.write, await self._tickets.missing(due)))
        return WAKE_S

    async def _recover(self) -> float:
        """Recover lost tickets and claims, and queued tasks without a ticket.

        The latter were imported from another store or queued by a process with another engine.
        Only tasks without a ticket in two consecutive calls count, as a ticket may be in progress.
        """
        await self._worker.give_back_lost()
        if stalled := await self._tickets.retry_stalled():
            log.info("requeued %d tickets of lost workers", stalled)
        queued = await self._store.queued(self._service.clock(), MOST_QUEUED)
        missing = await self._tickets.missing(queued)
        for task in missing:
            if task.id in self._without_ticket:
                await self._tickets.write(task)
        self._without_ticket = {task.id for task in missing}
        names = Counter(task.call.name or "" for task in queued)
        for name in names.keys() - self._tools.keys() - self._unknown:
            log.warning(
                "queued tasks of the tool '%s': %d; this worker does not provide it and leaves"
                " them to other workers",
                name,
                names[name],
            )
        self._unknown = names.keys() - self._tools.keys()
        return POLL_S
