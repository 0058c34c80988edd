"""Tickets: jobs of procrastinate, one for each queued task.

A ticket is written in the transaction that puts its task into the queue, fetched by one worker that
has the tool, and deleted once the task is claimed: from then on lease and fence protect the task.
A superfluous ticket is harmless, as its task cannot be claimed; a ticket of a lost worker is
retried.

This module uses procrastinate's `JobManager`, except to fetch: procrastinate orders jobs by
priority, here owners take turns.  Procrastinate's `Worker` is not used: it exits whenever the
database is briefly unavailable, after waiting for every running job.
"""

import asyncio
import hashlib
import logging
import re
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

import psycopg
from procrastinate import App, PsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException
from psycopg import AsyncConnection

from taskmachine.adapters.engines.fair_queue import priority_of
from taskmachine.adapters.engines.procrastinate.schema import OWNER, prepare
from taskmachine.adapters.stores import StoreError
from taskmachine.adapters.stores.postgresql.connections import (
    WAIT_S,
    Address,
    make_pool,
    reraising_cancellation,
)
from taskmachine.adapters.stores.postgresql.faults import explain
from taskmachine.adapters.tools.registry import Priority, Tools
from taskmachine.statemachine import Task

__all__ = ["Tickets", "queue_of"]

log: Final = logging.getLogger("taskmachine")

NAME: Final = "taskmachine"
PRIORITIES: Final[dict[Priority, int]] = {"low": -1, "normal": 0, "high": 1}

_WAITS: Final = "status = 'todo' AND queue_name = ANY (%(queues)s)"
_NEXT_OWNER: Final = f"""
    SELECT {OWNER} FROM procrastinate_jobs
    WHERE {_WAITS} AND {OWNER} > {{}} ORDER BY {OWNER} LIMIT 1"""
_FETCH: Final = f"""
    -- Steps from owner to owner, however many tickets an owner has.
    WITH RECURSIVE turns (owner) AS (
        ({_NEXT_OWNER.format("%(last)s::text")})
        UNION ALL
        SELECT ({_NEXT_OWNER.format("turns.owner")}) FROM turns
        WHERE turns.owner = ANY (%(skipped)s::text[])
    ), turn AS (
        SELECT owner FROM turns WHERE owner <> ALL (%(skipped)s::text[])
    ), job AS (
        SELECT id FROM procrastinate_jobs
        WHERE {_WAITS} AND {OWNER} = (SELECT owner FROM turn)
        ORDER BY priority DESC, id LIMIT 1 FOR UPDATE SKIP LOCKED
    ), fetched AS (
        UPDATE procrastinate_jobs SET status = 'doing', worker_id = %(worker)s
        FROM job WHERE procrastinate_jobs.id = job.id
        RETURNING procrastinate_jobs.id, args->>'task_id' AS task_id
    )
    SELECT turn.owner, fetched.id, fetched.task_id FROM turn LEFT JOIN fetched ON true"""
"""Fetch the first ticket of the next owner after `last`: no row if there is no such owner, no id if
other workers are fetching all of its tickets."""

STALLED_S: Final = 15.0
"""A worker without a heartbeat for this long has lost its tickets; the same as a lease."""

POOL_SIZE: Final = 3

GATHER_S: Final = 0.05
"""How long finished tickets are collected before they are deleted together."""


def queue_of(tool: str) -> str:
    """Return the queue of a tool, so that workers fetch only tickets that they can run.

    Its name must fit into the name of a PostgreSQL channel.
    """
    if re.fullmatch(r"[A-Za-z0-9_./-]{1,40}", tool):
        return tool
    return hashlib.blake2b(tool.encode(errors="surrogatepass"), digest_size=20).hexdigest()


class Tickets:
    """The tickets in one database."""

    def __init__(self, address: Address, tools: Tools) -> None:
        self._address = address
        self._tools = tools
        self._path = f"SELECT set_config('search_path', '{address.schema}', %s)"
        self._pool = make_pool(address, POOL_SIZE, self._configure)
        self._app = App(connector=PsycopgConnector())
        self._jobs = self._app.job_manager
        self._worker_id: int | None = None
        self._last_owner = ""
        self._hint = asyncio.Event()
        self._finished: list[int] = []
        self._has_finished = asyncio.Event()

    async def open(self) -> None:
        """Create the tables if necessary, and connect."""
        await prepare(self._address)
        await self._pool.open()
        await self._app.open_async(self._pool)

    async def close(self) -> None:
        """Disconnect; other workers retry tickets that are not finished."""
        if self._worker_id is not None:
            with suppress(StoreError):
                await self._delete_finished()
                async with self._translated():
                    await self._jobs.unregister_worker(self._worker_id)
        await self._app.close_async()
        await self._pool.close(WAIT_S)

    # --- writing them ------------------------------------------------------------------------

    async def write_within(self, connection: AsyncConnection[Any], task: Task) -> None:
        """Write a ticket in the transaction that puts its task into the queue.

        A task that is due later gets its ticket then, from any worker.
        """
        if task.due_at is not None:
            return
        try:
            # For this transaction only: the store may be behind a connection pooler.
            await connection.execute(self._path, (True,))
            await self._defer(task, connection)
        except ConnectorException as error:
            raise _cause(error) from error  # the store decides which errors it may retry

    async def write(self, task: Task) -> None:
        """Write a ticket for a queued task, unless it already has one."""
        async with self._translated():
            with suppress(AlreadyEnqueued):
                await self._defer(task, None)

    async def missing(self, tasks: Iterable[Task]) -> list[Task]:
        """Return those of these queued tasks that have no ticket."""
        by_lock = {_lock(task): task for task in tasks}
        if not by_lock:
            return []
        async with self._translated():
            rows = await self._app.connector.execute_query_all_async(
                "SELECT queueing_lock FROM procrastinate_jobs"
                " WHERE status IN ('todo', 'doing') AND queueing_lock = ANY (%(locks)s)",
                locks=[*by_lock],
            )
        there = {row["queueing_lock"] for row in rows}
        return [task for lock, task in by_lock.items() if lock not in there]

    # --- taking them -------------------------------------------------------------------------

    async def fetch(
        self, queues: Collection[str], skipped: Collection[str] = ()
    ) -> tuple[str, str, int] | None:
        """Return the id of the next task, its owner and the number of its ticket, or None.

        Owners take turns, except those to skip.
        """
        self._hint.clear()
        async with self._translated():
            if self._worker_id is None:
                self._worker_id = await self._jobs.register_worker()
            try:
                for start in dict.fromkeys((self._last_owner, "")):  # then from the beginning
                    if found := await self._fetch(queues, skipped, start):
                        self._last_owner = found[1]
                        return found
            except ConnectorException:
                self._worker_id = None  # it may have been pruned: register again
                raise
        return None

    def finish(self, number: int) -> None:
        """Mark a ticket as finished; it is deleted soon, together with others."""
        self._finished.append(number)
        self._has_finished.set()

    async def delete_finished(self) -> None:
        """Wait for finished tickets and delete them."""
        await self._has_finished.wait()
        await asyncio.sleep(GATHER_S)
        await self._delete_finished()

    def hint(self) -> None:
        """End `wait`, as there may be a ticket to fetch."""
        self._hint.set()

    async def wait(self, seconds: float) -> None:
        """Wait for a hint, such as the notification of a new ticket, at most for `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hint.wait()

    async def listen(self, queues: Collection[str]) -> None:
        """Receive notifications of new tickets, forever.  Without them `wait` times out."""

        async def on_notification(**_: Any) -> None:
            self.hint()

        async with self._translated():
            await self._jobs.listen_for_jobs(on_notification=on_notification, queues=queues)

    async def beat(self) -> None:
        """Send the heartbeat that protects fetched tickets."""
        if self._worker_id is not None:
            async with self._translated():
                await self._jobs.update_heartbeat(self._worker_id)

    async def retry_stalled(self) -> int:
        """Requeue tickets of lost workers; return how many."""
        async with self._translated():
            stalled = list(await self._jobs.get_stalled_jobs(seconds_since_heartbeat=STALLED_S))
        for job in stalled:
            try:
                async with self._translated(psycopg.errors.RaiseException):  # it was finished
                    await self._jobs.retry_job(job)
            except AlreadyEnqueued:
                self.finish(job.id or 0)
        async with self._translated():
            await self._jobs.prune_stalled_workers(STALLED_S)
        return len(stalled)

    # --- internals ---------------------------------------------------------------------------

    async def _fetch(
        self, queues: Collection[str], skipped: Collection[str], last: str
    ) -> tuple[str, str, int] | None:
        while True:
            rows = await self._app.connector.execute_query_all_async(
                _FETCH,
                queues=[*queues],
                skipped=[*skipped],
                last=last,
                worker=self._worker_id,
            )
            if not rows:
                return None
            [found] = rows
            if found["id"] is not None:
                return found["task_id"], found["owner"], found["id"]
            last = found["owner"]

    async def _delete_finished(self) -> None:
        finished = [*self._finished]
        async with self._translated():
            await self._app.connector.execute_query_async(
                "DELETE FROM procrastinate_jobs WHERE id = ANY (%(finished)s)", finished=finished
            )
        del self._finished[: len(finished)]  # only now: tickets of a live worker are not retried
        if not self._finished:
            self._has_finished.clear()

    async def _defer(self, task: Task, connection: AsyncConnection[Any] | None) -> None:
        name = task.call.name or ""
        await self._app.configure_task(
            NAME,
            allow_unknown=True,
            queue=queue_of(name),
            queueing_lock=_lock(task),
            priority=PRIORITIES[priority_of(task, self._tools.get(name))],
            connection=connection,
        ).defer_async(task_id=task.id, owner=task.owner)

    async def _configure(self, connection: AsyncConnection[Any]) -> None:
        await connection.execute(self._path, (False,))
        # A crash of the database may undo changes of tickets, which are then repeated.  A ticket
        # that is written with its task is as durable as the task.
        await connection.execute("SET synchronous_commit TO off")

    @asynccontextmanager
    async def _translated(self, *ignored: type[Exception]) -> AsyncIterator[None]:
        """Raise errors of procrastinate as errors of the store, except those to ignore."""
        try:
            with reraising_cancellation():
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
    """Return a name for one stay of a task in the queue; each claim raises the fence."""
    return f"{task.id}:{task.fence}"


def _cause(error: ConnectorException) -> Exception:
    return error.__cause__ if isinstance(error.__cause__, Exception) else error
