"""A store in a PostgreSQL database, for any number of processes and machines.

Each write is one transaction on one of a few connections; the server combines concurrent commits
into one write to its disk.  Requires the extra `postgresql`.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import attrs

from taskmachine.adapters.stores import Caps, Follower, KeptSession, StoreError, Totals, Worker
from taskmachine.adapters.stores.postgresql import operations
from taskmachine.adapters.stores.postgresql import queries as sql
from taskmachine.adapters.stores.postgresql.connections import (
    MAX_WAITING,
    Address,
    Connections,
    Session,
)
from taskmachine.adapters.stores.postgresql.lookups import Lookups
from taskmachine.adapters.stores.postgresql.operations import Joining
from taskmachine.adapters.stores.postgresql.schema import VERSION, prepare
from taskmachine.adapters.stores.postgresql.watch import Watch
from taskmachine.adapters.stores.records import MAX_INTEGER, read_entry, read_task
from taskmachine.protocol.sealing import Position
from taskmachine.statemachine import Entry, Task

__all__ = ["Joining", "PostgreSQLStore"]

T = TypeVar("T")
_Run = Callable[[Session], Awaitable[T]]

_NEWEST: Final = Position(MAX_INTEGER, "")


class PostgreSQLStore:
    """A store on tables that `open_at` has prepared."""

    kind = "postgresql"

    def __init__(self, address: Address, secret: bytes) -> None:
        self._secret = secret
        self._connections = Connections(address)
        self._lookups = Lookups(self._connections)
        self._lanes: dict[str, list[asyncio.Future[None]]] = {}
        self._writes: set[asyncio.Task[Any]] = set()
        self._watch = Watch(self._connections, self._lanes)
        self._joining: Joining | None = None
        self._is_open = True

    @classmethod
    async def open_at(cls, address: Address) -> "PostgreSQLStore":
        store = cls(address, await prepare(address))
        await store._connections.open()
        return store

    @property
    def address(self) -> Address:
        """The location of the tables, for components with tables in the same schema."""
        return self._connections.address

    @property
    def schema_version(self) -> int:
        """The schema version of the tables, which were migrated when they were opened."""
        return VERSION

    def join(self, joining: Joining | None) -> None:
        """Call `joining` in each transaction in which a task enters the queue.

        It receives the connection, which is inside the transaction, and the new version of the
        task; its writes are committed if and only if the task is.  If it raises, the transaction
        is rolled back.
        """
        self._joining = joining

    # --- tasks -------------------------------------------------------------------------------

    async def create(self, task: Task, entries: Sequence[Entry], caps: Caps) -> Task:
        change = operations.Change(task, entries, self._joining)
        run = partial(operations.create, change=change, caps=caps)

        def notify(known: Task | None) -> None:
            if known is None:
                self._watch.notify(task)

        return await self._write(task.id, run, notify) or task

    async def load(self, task_id: str) -> Task | None:
        self._check_open()
        record = None if "\0" in task_id else await self._lookups.load(task_id)
        task = None if record is None else read_task(record)
        self._watch.remember(task_id, task)
        return task

    async def commit(self, task: Task, entries: Sequence[Entry], expected: int) -> None:
        change = operations.Change(task, entries, self._joining)
        run = partial(operations.commit, change=change, expected=expected)
        await self._write(task.id, run, lambda _: self._watch.notify(task))

    def follow(self, task_id: str, follower: Follower) -> Callable[[], None]:
        self._check_open()
        return self._watch.follow(task_id, follower)

    async def page(self, owner: str, after: Position | None, limit: int) -> Sequence[Task]:
        after = after or _NEWEST
        return await self._tasks(sql.PAGE, owner, after.created_at, after.task_id, limit)

    async def browse(self, after: Position | None, limit: int) -> Sequence[Task]:
        after = after or _NEWEST
        return await self._tasks(sql.BROWSE, after.created_at, after.task_id, limit)

    async def queued(self, now: int, limit: int) -> Sequence[Task]:
        return await self._tasks(sql.QUEUED, now, limit)

    async def due(self, now: int, limit: int) -> Sequence[Task]:
        return await self._tasks(sql.DUE, now, limit)

    async def held(self, worker: str, limit: int) -> Sequence[Task]:
        return await self._tasks(sql.HELD, worker, limit)

    async def orphans(self, limit: int) -> Sequence[Task]:
        return await self._tasks(sql.ORPHANS, limit, limit)

    async def overdue(self, now: int, limit: int) -> Sequence[Task]:
        return await self._tasks(sql.OVERDUE, now, limit)

    async def forgettable(self, now: int, limit: int) -> Sequence[Task]:
        return await self._tasks(sql.FORGETTABLE, now, limit)

    async def totals(self) -> Totals:
        return Totals(*(await self._rows(sql.TOTALS))[0])

    async def history(self, task_id: str) -> Sequence[Entry]:
        return [read_entry(record) for (record,) in await self._rows(sql.HISTORY, task_id)]

    # --- workers and messages ----------------------------------------------------------------

    async def register_worker(self, worker: Worker) -> None:
        await self._count(sql.ENLIST, *attrs.astuple(worker))

    async def beat(self, worker_id: str) -> bool:
        return await self._count(sql.BEAT, worker_id) == 1

    async def remove_worker(self, worker_id: str) -> None:
        await self._count(sql.STRIKE, worker_id)

    async def workers(self) -> Sequence[Worker]:
        return [Worker(*row) for row in await self._rows(sql.WORKERS)]

    async def enqueue(self, task_id: str, message: bytes, maximum: int) -> int:
        if "\0" in task_id:
            return 0
        run = partial(operations.enqueue, task_id=task_id, message=message, maximum=maximum)
        return await self._write(None, run)

    async def dequeue(self, task_id: str, limit: int) -> Sequence[bytes]:
        if "\0" in task_id:
            return ()
        return await self._write(None, partial(operations.dequeue, task_id=task_id, limit=limit))

    # --- sessions ----------------------------------------------------------------------------

    async def keep_session(self, session: KeptSession, maximum: int) -> None:
        await self._write(None, partial(operations.keep_session, kept=session, maximum=maximum))

    async def session(self, key: str) -> KeptSession | None:
        rows = await self._rows(sql.SESSION, key)
        return KeptSession(*rows[0]) if rows else None

    async def end_session(self, key: str) -> None:
        end = partial(operations.end_sessions, statement=sql.END_SESSION, parameters=(key,))
        await self._write(None, end)

    async def forget_sessions(self, now: int, limit: int) -> int:
        if not await self._rows(sql.DUE_SESSIONS, now, 1):  # usually none: takes no lock
            return 0
        parameters = (now, limit)
        end = partial(operations.end_sessions, statement=sql.FORGET_SESSIONS, parameters=parameters)
        return await self._write(None, end)

    # --- the whole store ---------------------------------------------------------------------

    async def secret(self) -> bytes:
        self._check_open()
        return self._secret

    async def adopt_secret(self, secret: bytes) -> None:
        await self._write(None, partial(operations.adopt_secret, secret=secret))
        self._secret = secret

    async def export(self) -> AsyncIterator[tuple[Task, Sequence[Entry]]]:
        after: str | None = ""
        while after is not None:
            rows = await self._rows(sql.EXPORT, after, sql.CHUNK)
            after = rows[-1][0] if len(rows) == sql.CHUNK else None
            for _, record, lines in rows:
                yield read_task(record), [read_entry(line) for line in lines]

    async def adopt(self, task: Task, entries: Sequence[Entry]) -> None:
        run = partial(operations.adopt, change=operations.Change(task, entries, None))
        await self._write(task.id, run, lambda _: self._watch.notify(task))

    async def close(self) -> None:
        is_first, self._is_open = self._is_open, False
        while self._writes:
            await asyncio.wait(self._writes)
        await self._lookups.close()
        if is_first:
            await self._watch.close()
            await self._connections.close()

    # --- beyond the contract -----------------------------------------------------------------

    async def starting_with(self, prefix: str, limit: int) -> Sequence[Task]:
        """Return tasks whose id begins with `prefix`, by id, for operators."""
        return await self._tasks(sql.STARTING_WITH, prefix, prefix + chr(sys.maxunicode), limit)

    # --- internals ---------------------------------------------------------------------------

    async def _tasks(self, statement: str, *parameters: Any) -> Sequence[Task]:
        return [read_task(record) for (record,) in await self._rows(statement, *parameters)]

    async def _rows(self, statement: str, *parameters: Any) -> list[Any]:
        self._check_open()
        if any(isinstance(value, str) and "\0" in value for value in parameters):
            return []  # PostgreSQL cannot store such a text, so there is nothing to find

        async def read(session: Session) -> list[Any]:
            return await session.rows(statement, parameters)

        return await self._connections.run(read, reads=True)

    async def _count(self, statement: str, *parameters: Any) -> int:
        async def write(session: Session) -> int:
            return await session.count(statement, parameters)

        return await self._write(None, write)

    async def _write(
        self, task_id: str | None, run: _Run[T], then: Callable[[T], None] | None = None
    ) -> T:
        """Return the answer of an operation once it is durable; cancellation does not stop it.

        Operations on one task run in order, and `then` is called with each answer before the next
        operation begins.
        """
        self._check_open()
        if len(self._writes) >= MAX_WAITING:
            raise StoreError(f"the store is too busy: {MAX_WAITING} operations wait for it")
        write = asyncio.get_running_loop().create_task(self._write_in_turn(task_id, run, then))
        self._writes.add(write)
        write.add_done_callback(self._ended)
        return await asyncio.shield(write)

    def _ended(self, write: asyncio.Task[Any]) -> None:
        self._writes.discard(write)
        if not write.cancelled():
            write.exception()  # retrieved here, as the caller may have been cancelled

    async def _write_in_turn(
        self, task_id: str | None, run: _Run[T], then: Callable[[T], None] | None
    ) -> T:
        if task_id is None:
            return await self._connections.run(run)
        turn = asyncio.get_running_loop().create_future()
        lane = self._lanes.setdefault(task_id, [])
        lane.append(turn)
        try:
            if lane[0] is not turn:
                await turn
            answer = await self._connections.run(run)
            if then is not None:
                then(answer)
            return answer
        finally:
            lane.remove(turn)
            if not lane:
                del self._lanes[task_id]
            elif not lane[0].done():
                lane[0].set_result(None)

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreError("the store is closed")
