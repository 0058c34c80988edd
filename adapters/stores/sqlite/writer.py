"""The writer thread of the SQLite store, with group commit.

A durable transaction costs a sync of the disk, however small it is.  So operations that arrive
while the disk is busy are collected and committed as one batch in the next transaction.  Callers
get their answers once the batch is on disk.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final, TypeVar

import attrs

from taskmachine.adapters.stores import StoreError
from taskmachine.adapters.stores.sqlite import queries as sql
from taskmachine.adapters.stores.sqlite.faults import explain
from taskmachine.statemachine import TaskmachineError

__all__ = ["Batch", "Writer"]

MAX_BATCH: Final = 256
MAX_WAITING: Final = 10_000
"""Maximum number of waiting operations, which bounds memory if the disk is too slow."""


class Batch:
    """A transaction that several operations share, with its counts of tasks.

    The counts (live, retained) per owner and in total are read once and written at the end of the
    transaction, instead of six times per task.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.execute = connection.execute
        self._stored: dict[str | None, tuple[int, int]] = {}
        self._added: dict[str | None, list[int]] = {}

    def counts(self, owner: str | None) -> tuple[int, int]:
        """Return the numbers of live and retained tasks of an owner, or in total for None."""
        if owner not in self._stored:
            query = (sql.TOTALS,) if owner is None else (sql.COUNTS, (owner,))
            self._stored[owner] = self.execute(*query).fetchone() or (0, 0)
        live, retained = self._stored[owner]
        more_live, more_retained = self._added.get(owner, (0, 0))
        return live + more_live, retained + more_retained

    def count(self, owner: str, live: int, retained: int) -> None:
        """Add to the counts of an owner and to the totals."""
        for whose in (owner, None):
            added = self._added.setdefault(whose, [0, 0])
            added[0] += live
            added[1] += retained

    def write_counts(self) -> None:
        """Write the counts that changed."""
        for owner, added in self._added.items():
            if owner is None:
                self.execute(sql.TOTAL, added)
            elif any(added):
                self.execute(sql.COUNT, (owner, *added))
                if added[1] < 0:
                    self.execute(sql.DELETE_COUNTS, (owner,))


T = TypeVar("T")
Run = Callable[[Batch], T]


@attrs.define(eq=False)
class _Operation:
    run: Run[Any]
    future: asyncio.Future[Any]
    then: Callable[[Any], None] | None
    writes: bool


_Answered = tuple[_Operation, Any, Exception | None]


class Writer:
    """Owns the connection and the thread.  To be used on the thread of the event loop only."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._loop = asyncio.get_running_loop()
        self._gathered: list[_Operation] = []
        self._waiting = 0
        self._is_open = True
        self._batches: SimpleQueue[list[_Operation] | None] = SimpleQueue()
        self._thread = Thread(target=self._work, name=f"writer of {path}", daemon=True)
        self._thread.start()

    def submit(
        self, run: Run[T], then: Callable[[T], None] | None = None, *, writes: bool = True
    ) -> "asyncio.Future[T]":
        """Return a future of the operation's answer, which is done once the write is durable.

        Cancelling the future does not stop the operation.  `then` is called with the answer before
        the future is done, in the order of submission.
        """
        if not self._is_open:
            raise StoreError("the store is closed")
        if self._waiting >= MAX_WAITING:
            raise StoreError(f"the store is too busy: {MAX_WAITING} operations wait for the disk")
        self._waiting += 1
        future: asyncio.Future[T] = self._loop.create_future()
        if not self._gathered:
            # All submissions of this iteration of the event loop go to the thread together.
            self._loop.call_soon(self._hand_over)
        self._gathered.append(_Operation(run, future, then, writes))
        return future

    async def close(self) -> None:
        """Close after all submitted operations are done."""
        if self._is_open:
            self._is_open = False
            self._hand_over()
            self._batches.put(None)
        await asyncio.to_thread(self._thread.join)

    def _hand_over(self) -> None:
        if self._gathered:
            self._batches.put(self._gathered)
            self._gathered = []

    def _deliver(self, answered: Sequence[_Answered]) -> None:
        self._waiting -= len(answered)
        for operation, answer, error in answered:
            if error is None and operation.then is not None:
                operation.then(answer)
            if operation.future.done():  # cancelled
                continue
            if error is None:
                operation.future.set_result(answer)
            else:
                operation.future.set_exception(error)

    # --- on the thread -----------------------------------------------------------------------

    def _work(self) -> None:
        is_last = False
        while not is_last:
            batch: list[_Operation] = []
            try:
                taken = self._batches.get()
                while taken is not None:
                    batch += taken
                    taken = self._batches.get_nowait()
                is_last = True
            except Empty:
                pass
            for start in range(0, len(batch), MAX_BATCH):
                self._answer(batch[start : start + MAX_BATCH])
        self._connection.close()  # the last connection to close checkpoints the WAL

    def _answer(self, batch: list[_Operation]) -> None:
        writes: list[_Operation] = []
        reads: list[_Operation] = []
        for operation in batch:
            (writes if operation.writes else reads).append(operation)
        answered = self._transact(writes) if writes else []
        for operation in reads:  # after the commit, so that they read nothing outdated
            answered.append(self._read(operation))
        # The event loop may be closed, together with all waiting callers.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._deliver, answered)

    def _transact(self, operations: list[_Operation]) -> list[_Answered]:
        answered: list[_Answered] = []
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            batch = Batch(self._connection)
            for operation in operations:
                try:
                    answered.append((operation, operation.run(batch), None))
                except TaskmachineError as error:  # only this operation, which has written nothing
                    answered.append((operation, None, error))
            batch.write_counts()
            self._connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001  the thread must not die while callers wait
            self._roll_back()
            if len(operations) > 1 and not isinstance(error, sqlite3.OperationalError):
                # An unsupported value or an existing row: retry each one to find the culprit.
                return [answer for each in operations for answer in self._transact([each])]
            return [(operation, None, explain(self._path, error)) for operation in operations]
        return answered

    def _read(self, operation: _Operation) -> _Answered:
        try:
            return operation, operation.run(Batch(self._connection)), None
        except Exception as error:  # noqa: BLE001  as above
            return operation, None, explain(self._path, error)

    def _roll_back(self) -> None:
        if self._connection.in_transaction:  # SQLite may have rolled back already
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
