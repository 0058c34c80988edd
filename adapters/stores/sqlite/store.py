"""A store in one file of this machine, for one or several processes (`sqlite:PATH`).

Writes go through the thread of `writer`.  Reads use a separate connection on the event loop: in WAL
mode they do not wait for writers, and they see every acknowledged write.
"""

import asyncio
import os
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import closing
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from taskmachine.adapters.stores import (
    Caps,
    Follower,
    KeptSession,
    Schema,
    StoreError,
    Totals,
    Worker,
)
from taskmachine.adapters.stores.records import MAX_INTEGER, read_entry, read_task, split_lines
from taskmachine.adapters.stores.sqlite import operations
from taskmachine.adapters.stores.sqlite import queries as sql
from taskmachine.adapters.stores.sqlite.faults import explain, translated
from taskmachine.adapters.stores.sqlite.maintenance import back_up, problems
from taskmachine.adapters.stores.sqlite.schema import VERSION, connect, found, prepare
from taskmachine.adapters.stores.sqlite.watch import Watch
from taskmachine.adapters.stores.sqlite.writer import Writer
from taskmachine.protocol.sealing import Position
from taskmachine.statemachine import ConfigurationError, Entry, Task

__all__ = ["SQLiteStore", "find_schema", "open_sqlite"]

_Exported = tuple[Task, Sequence[Entry]]

_NEWEST: Final = Position(MAX_INTEGER, "")


async def open_sqlite(url: str) -> "SQLiteStore":
    """Open the store in a file such as `sqlite:tasks.db`, which is created if necessary.

    `ConfigurationError` if the file is not a store, `StoreError` if it cannot be used now.
    """
    path = _path(url)
    await asyncio.to_thread(prepare, path)
    return SQLiteStore(path)


async def find_schema(url: str) -> Schema:
    """Return the schema versions of the file without any change."""
    return await asyncio.to_thread(found, _path(url))


def _path(url: str) -> Path:
    scheme, _, name = url.partition(":")
    if scheme != "sqlite" or not name or name == ":memory:" or "\0" in name:
        raise ConfigurationError(f"'{url}' names no file: a SQLite store is 'sqlite:PATH'")
    if name.startswith("//") and not name.startswith("///"):
        raise ConfigurationError(f"'{url}' names a host: did you mean sqlite:{name[2:]}?")
    return Path(name)


class SQLiteStore:
    """A store on a file that `open_sqlite` has prepared."""

    kind = "sqlite"

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()  # later connections must not depend on the working directory
        with translated(path):
            self._reader = connect(self._path)
            (self._secret,) = self._reader.execute(sql.SECRET).fetchone()
            self._writer = Writer(connect(self._path), path)
        self._watch = Watch(self._load, partial(self._writer.submit, writes=False))
        self._is_open = True

    @property
    def schema_version(self) -> int:
        """The schema version of the file, which was migrated when it was opened."""
        return VERSION

    async def create(self, task: Task, entries: Sequence[Entry], caps: Caps) -> Task:
        change = operations.Change(task, entries)

        def notify(known: Task | None) -> None:
            if known is None:
                self._watch.notify(task)

        run = partial(operations.create, change=change, caps=caps)
        return await self._writer.submit(run, notify) or task

    async def load(self, task_id: str) -> Task | None:
        return self._load(task_id)

    async def commit(self, task: Task, entries: Sequence[Entry], expected: int) -> None:
        change = operations.Change(task, entries)
        run = partial(operations.commit, change=change, expected=expected)
        await self._writer.submit(run, lambda _: self._watch.notify(task))

    def follow(self, task_id: str, follower: Follower) -> Callable[[], None]:
        self._check_open()
        return self._watch.follow(task_id, follower)

    async def page(self, owner: str, after: Position | None, limit: int) -> Sequence[Task]:
        after = after or _NEWEST
        return self._tasks(sql.PAGE, owner, after.created_at, after.task_id, limit)

    async def browse(self, after: Position | None, limit: int) -> Sequence[Task]:
        after = after or _NEWEST
        return self._tasks(sql.BROWSE, after.created_at, after.task_id, limit)

    async def queued(self, now: int, limit: int) -> Sequence[Task]:
        return self._tasks(sql.QUEUED, now, limit)

    async def due(self, now: int, limit: int) -> Sequence[Task]:
        return self._tasks(sql.DUE, now, limit)

    async def held(self, worker: str, limit: int) -> Sequence[Task]:
        return self._tasks(sql.HELD, worker, limit)

    async def orphans(self, limit: int) -> Sequence[Task]:
        return self._tasks(sql.ORPHANS, limit)

    async def overdue(self, now: int, limit: int) -> Sequence[Task]:
        return self._tasks(sql.OVERDUE, now, limit)

    async def forgettable(self, now: int, limit: int) -> Sequence[Task]:
        return self._tasks(sql.FORGETTABLE, now, limit)

    async def totals(self) -> Totals:
        ((live, retained),) = self._rows(sql.TOTALS)
        ((waiting,),) = self._rows(sql.WAITING)
        return Totals(live, waiting, retained)

    async def history(self, task_id: str) -> Sequence[Entry]:
        rows = self._rows(sql.HISTORY, task_id)
        return _entries(rows[0][0], self._rows(sql.STEPS, task_id)) if rows else ()

    async def register_worker(self, worker: Worker) -> None:
        await self._writer.submit(partial(operations.register_worker, worker=worker))

    async def beat(self, worker_id: str) -> bool:
        return await self._writer.submit(partial(operations.beat, worker_id=worker_id))

    async def remove_worker(self, worker_id: str) -> None:
        await self._writer.submit(partial(operations.remove_worker, worker_id=worker_id))

    async def workers(self) -> Sequence[Worker]:
        return [Worker(*row) for row in self._rows(sql.WORKERS)]

    async def enqueue(self, task_id: str, message: bytes, maximum: int) -> int:
        run = partial(operations.enqueue, task_id=task_id, message=message, maximum=maximum)
        return await self._writer.submit(run)

    async def dequeue(self, task_id: str, limit: int) -> Sequence[bytes]:
        if not self._rows(sql.MESSAGES, task_id, 1):  # usually empty: saves a write
            return ()
        return await self._writer.submit(partial(operations.dequeue, task_id=task_id, limit=limit))

    async def keep_session(self, session: KeptSession, maximum: int) -> None:
        run = partial(operations.keep_session, session=session, maximum=maximum)
        await self._writer.submit(run)

    async def session(self, key: str) -> KeptSession | None:
        rows = self._rows(sql.SESSION, key)
        return KeptSession(*rows[0]) if rows else None

    async def end_session(self, key: str) -> None:
        await self._writer.submit(partial(operations.end_session, key=key))

    async def forget_sessions(self, now: int, limit: int) -> int:
        if not self._rows(sql.DUE_SESSIONS, now, 1):  # usually none: saves a write
            return 0
        return await self._writer.submit(partial(operations.forget_sessions, now=now, limit=limit))

    async def secret(self) -> bytes:
        self._check_open()
        return bytes(self._secret)

    async def adopt_secret(self, secret: bytes) -> None:
        await self._writer.submit(partial(operations.adopt_secret, secret=secret))
        self._secret = secret

    async def export(self) -> AsyncIterator[tuple[Task, Sequence[Entry]]]:
        after: str | None = ""
        while after is not None:
            self._check_open()
            batch, after = await asyncio.to_thread(self._export_after, after)
            for pair in batch:
                yield pair

    async def adopt(self, task: Task, entries: Sequence[Entry]) -> None:
        change = operations.Change(task, entries)
        run = partial(operations.adopt, change=change)
        await self._writer.submit(run, lambda _: self._watch.notify(task))

    async def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._watch.close()
            self._reader.close()
        await self._writer.close()

    # --- beyond the contract -----------------------------------------------------------------

    async def backup(self, path: str | os.PathLike[str]) -> None:
        """Write a consistent copy to a new file without blocking readers and writers."""
        self._check_open()
        await asyncio.to_thread(back_up, self._path, Path(path))

    async def check(self) -> list[str]:
        """Check the whole file and return a sentence for each problem."""
        self._check_open()
        return await asyncio.to_thread(problems, self._path)

    async def starting_with(self, prefix: str, limit: int) -> Sequence[Task]:
        """Return tasks whose id begins with `prefix`, by id, for operators."""
        return self._tasks(sql.STARTING_WITH, prefix, prefix + chr(sys.maxunicode), limit)

    # --- reading -----------------------------------------------------------------------------

    def _load(self, task_id: str) -> Task | None:
        try:
            row = self._reader.execute(sql.LOAD, (task_id,)).fetchone()
        except (sqlite3.Error, UnicodeError) as error:
            self._check_open()
            raise explain(self._path, error) from error
        return None if row is None else read_task(row[0])

    def _tasks(self, statement: str, *parameters: Any) -> Sequence[Task]:
        return [read_task(record) for (record,) in self._rows(statement, *parameters)]

    def _rows(self, statement: str, *parameters: Any) -> list[Any]:
        self._check_open()
        with translated(self._path):
            return self._reader.execute(statement, parameters).fetchall()

    def _export_after(self, after: str) -> tuple[list[_Exported], str | None]:
        """Read one batch, on any thread; a single long read would let the WAL grow."""
        with translated(self._path), closing(connect(self._path)) as connection:
            connection.execute("BEGIN")  # tasks and steps of the same instant
            rows = connection.execute(sql.EXPORT, (after, sql.CHUNK)).fetchall()
            batch = []
            for task_id, record, history in rows:
                steps = connection.execute(sql.STEPS, (task_id,)).fetchall()
                batch.append((read_task(record), _entries(history, steps)))
        return batch, rows[-1][0] if len(rows) == sql.CHUNK else None

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreError("the store is closed")


def _entries(history: bytes, steps: Sequence[tuple[bytes]]) -> Sequence[Entry]:
    lines = [*split_lines(history), *(record for (record,) in steps)]
    return sorted(map(read_entry, lines), key=attrgetter("seq"))
