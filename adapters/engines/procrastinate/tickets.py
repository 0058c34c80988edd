"""Tickets: jobs of procrastinate, each of which says that one task waits for a worker.

A ticket is written in the transaction in which its task enters the queue, fetched by one worker
that has the tool, and deleted as soon as the task is claimed: from then on lease and fence take
care of the task.  A ticket too many does no harm, as there is nothing to claim; one that got lost
with its worker is retried.

This speaks to procrastinate's `JobManager`.  Its `Worker` ends whenever the database is away for
a moment, and waits for all that runs before it does.
"""

import asyncio
import hashlib
import logging
import re
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import psycopg
from procrastinate import App, PsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException
from psycopg import AsyncConnection

from taskmachine.adapters.engines.procrastinate.schema import prepare
from taskmachine.adapters.stores import StoreError
from taskmachine.adapters.stores.postgresql.connections import (
    WAIT_S,
    Address,
    heeding_cancellation,
    make_pool,
)
from taskmachine.adapters.stores.postgresql.faults import explain
from taskmachine.adapters.tools.registry import Priority, Tool
from taskmachine.statemachine import Task

__all__ = ["Tickets", "queue_of"]

log: Final = logging.getLogger("taskmachine")

NAME: Final = "taskmachine"
PRIORITIES: Final[dict[Priority, int]] = {"low": -1, "normal": 0, "high": 1}
"""Of tools.  What callers say of their tasks does not count, as it would among all callers."""

STALLED_S: Final = 15.0
"""After which a worker that says nothing has lost its tickets: as long as a lease."""

POOL_SIZE: Final = 3

GATHER_S: Final = 0.05
"""How long a ticket that is to be deleted waits for others."""


def queue_of(tool: str) -> str:
    """A queue for each tool, so that nobody fetches what it cannot run.

    Its name has to fit into that of a channel of PostgreSQL.
    """
    if re.fullmatch(r"[A-Za-z0-9_./-]{1,40}", tool):
        return tool
    return hashlib.blake2b(tool.encode(errors="surrogatepass"), digest_size=20).hexdigest()


class Tickets:
    """The tickets in one database."""

    def __init__(self, address: Address, tools: Mapping[str, Tool]) -> None:
        self._address = address
        self._tools = tools
        self._path = f"SELECT set_config('search_path', '{address.schema}', %s)"
        self._pool = make_pool(address, POOL_SIZE, self._configure)
        self._app = App(connector=PsycopgConnector())
        self._jobs = self._app.job_manager
        self._worker_id: int | None = None
        self._hint = asyncio.Event()
        self._finished: list[int] = []
        self._has_finished = asyncio.Event()

    async def open(self) -> None:
        """`ConfigurationError` if the tables are not for us."""
        await prepare(self._address)
        await self._pool.open()
        await self._app.open_async(self._pool)

    async def close(self) -> None:
        """What was fetched and not finished is for others."""
        if self._worker_id is not None:
            with suppress(StoreError):
                await self._delete_finished()
                async with self._translated():
                    await self._jobs.unregister_worker(self._worker_id)
        await self._app.close_async()
        await self._pool.close(WAIT_S)

    # --- writing them ------------------------------------------------------------------------

    async def write_within(self, connection: AsyncConnection[Any], task: Task) -> None:
        """A ticket for a task, in the transaction that puts it into the queue."""
        try:
            # For this transaction only: the store may stand behind a pooler that forgets it.
            await connection.execute(self._path, (True,))
            await self._defer(task, connection)
        except ConnectorException as error:
            raise _cause(error) from error  # the store knows which of them it may repeat

    async def write(self, task: Task) -> None:
        """A ticket for a task that has none, unless somebody else was faster."""
        async with self._translated():
            with suppress(AlreadyEnqueued):
                await self._defer(task, None)

    async def missing(self, tasks: Iterable[Task]) -> list[Task]:
        """Those of these queued tasks for which there is no ticket."""
        by_lock = {_lock(task): task for task in tasks}
        async with self._translated():
            rows = await self._app.connector.execute_query_all_async(
                "SELECT queueing_lock FROM procrastinate_jobs"
                " WHERE status IN ('todo', 'doing') AND queueing_lock = ANY (%(locks)s)",
                locks=[*by_lock],
            )
        there = {row["queueing_lock"] for row in rows}
        return [task for lock, task in by_lock.items() if lock not in there]

    # --- taking them -------------------------------------------------------------------------

    async def fetch(self, queues: Collection[str]) -> tuple[str, int] | None:
        """The id of the next task, and the number of its ticket."""
        async with self._translated():
            if self._worker_id is None:
                self._worker_id = await self._jobs.register_worker()
            self._hint.clear()
            try:
                job = await self._jobs.fetch_job(queues, self._worker_id)
            except ConnectorException:
                self._worker_id = None  # perhaps we were given up: under another number, then
                raise
        if job is None:
            return None
        assert job.id is not None, "it comes from the database"
        return str(job.task_kwargs["task_id"]), job.id

    def finish(self, number: int) -> None:
        """A ticket has served its purpose: it is deleted soon, together with others."""
        self._finished.append(number)
        self._has_finished.set()

    async def delete_finished(self) -> None:
        """Wait for tickets that have served their purpose, and delete them."""
        await self._has_finished.wait()
        await asyncio.sleep(GATHER_S)
        await self._delete_finished()

    async def wait(self, seconds: float) -> None:
        """Until there may be another ticket, or for so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hint.wait()

    async def listen(self, queues: Collection[str]) -> None:
        """Be told of new tickets, for ever.  Where nobody can be told, `wait` is enough."""

        async def hear(**_: Any) -> None:
            self._hint.set()

        async with self._translated():
            await self._jobs.listen_for_jobs(on_notification=hear, queues=queues)

    async def beat(self) -> None:
        """Say that the tickets that we have fetched are in good hands."""
        if self._worker_id is not None:
            async with self._translated():
                await self._jobs.update_heartbeat(self._worker_id)

    async def retry_stalled(self) -> int:
        """Put back what workers have fetched that are gone; how many."""
        async with self._translated():
            stalled = list(await self._jobs.get_stalled_jobs(seconds_since_heartbeat=STALLED_S))
        for job in stalled:
            try:
                async with self._translated(psycopg.errors.RaiseException):  # it moved on
                    await self._jobs.retry_job(job)
            except AlreadyEnqueued:
                self.finish(job.id or 0)
        async with self._translated():
            await self._jobs.prune_stalled_workers(STALLED_S)
        return len(stalled)

    # --- how it is done ----------------------------------------------------------------------

    async def _delete_finished(self) -> None:
        finished = [*self._finished]
        async with self._translated():
            await self._app.connector.execute_query_async(
                "DELETE FROM procrastinate_jobs WHERE id = ANY (%(finished)s)", finished=finished
            )
        del self._finished[: len(finished)]  # not before: a living worker's are not retried
        if not self._finished:
            self._has_finished.clear()

    async def _defer(self, task: Task, connection: AsyncConnection[Any] | None) -> None:
        name = task.call.name or ""
        tool = self._tools.get(name)
        await self._app.configure_task(
            NAME,
            allow_unknown=True,
            queue=queue_of(name),
            queueing_lock=_lock(task),
            priority=PRIORITIES[tool.priority if tool else "normal"],
            connection=connection,
        ).defer_async(task_id=task.id)

    async def _configure(self, connection: AsyncConnection[Any]) -> None:
        await connection.execute(self._path, (False,))
        # What a crash of the server takes back are steps of tickets: they are made again.  Those
        # that are written with their task are as durable as that.
        await connection.execute("SET synchronous_commit TO off")

    @asynccontextmanager
    async def _translated(self, *ignored: type[Exception]) -> AsyncIterator[None]:
        """Errors of procrastinate as those of the store, but for what may be ignored."""
        try:
            with heeding_cancellation():
                yield
        except AlreadyEnqueued:
            raise
        except ConnectorException as error:
            cause = _cause(error)
            if not isinstance(cause, ignored):
                raise explain(self._address.place, cause) from error
        except (psycopg.Error, TimeoutError) as error:
            raise explain(self._address.place, error) from error


def _lock(task: Task) -> str:
    """Names one stay in the queue: each one ends with a claim, which raises the fence."""
    return f"{task.id}:{task.fence}"


def _cause(error: ConnectorException) -> Exception:
    return error.__cause__ if isinstance(error.__cause__, Exception) else error
