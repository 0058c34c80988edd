"""What the writer does to the database, one function for each kind of write.

Each runs inside a transaction that it shares with others.  It checks before it writes, so that
one that raises has written nothing.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from sqlite3 import Connection

import attrs

from taskmachine.adapters.stores import (
    Caps,
    Conflict,
    KeptSession,
    StoreError,
    Worker,
    check_caps,
    check_sessions,
    is_kept,
)
from taskmachine.adapters.stores import sqlite_queries as sql
from taskmachine.adapters.stores.columns import MAX_INTEGER, call_key, columns_of
from taskmachine.adapters.stores.records import read_task, write_record
from taskmachine.statemachine import Entry, State, Task

__all__ = [
    "Change",
    "adopt",
    "adopt_secret",
    "beat",
    "commit",
    "create",
    "dequeue",
    "end_session",
    "enlist",
    "enqueue",
    "forget_sessions",
    "keep_session",
    "reread",
    "strike",
]


@attrs.define(eq=False, init=False)
class Change:
    """A version of a task with its new lines of history, encoded where the caller waits."""

    task: Task
    record: bytes
    lines: Sequence[tuple[str, int, bytes]]
    stays: bool
    """Whether the task stays in its state, so that most likely no index has to change."""

    def __init__(self, task: Task, entries: Sequence[Entry]) -> None:
        self.task, self.record = task, write_record(task)
        self.lines = [(task.id, line.seq, write_record(line)) for line in entries if is_kept(line)]
        self.stays = bool(entries) and all(line.source is line.dest for line in entries)


def create(connection: Connection, change: Change, caps: Caps) -> Task | None:
    """The task that its owner has under the same key; None if the new one was stored."""
    task = change.task
    key = call_key(task)
    if key is not None:
        known = connection.execute(sql.BY_KEY, (task.owner, key)).fetchone()
        if known is not None:
            return read_task(known[0])
    of_owner = connection.execute(sql.COUNTS, (task.owner,)).fetchone() or (0, 0)
    in_all = connection.execute(sql.TOTALS).fetchone()
    check_caps(caps, of_owner[0], in_all[0], of_owner[1], in_all[1])
    adopt(connection, change)
    return None


def adopt(connection: Connection, change: Change) -> None:
    """Store a task that was not there."""
    task, key = change.task, call_key(change.task)
    if connection.execute(sql.STORED, (task.id,)).fetchone() is not None:
        raise Conflict(f"task {task.id} is known")
    if key is not None and connection.execute(sql.BY_KEY, (task.owner, key)).fetchone() is not None:
        raise Conflict(f"the key of task {task.id} is in use")
    columns = columns_of(task)
    connection.execute(
        sql.INSERT,
        (task.id, task.owner, task.created_at, key, task.version, *columns, change.record),
    )
    _append(connection, change)
    _count(connection, task.owner, columns[0], 1)


def commit(connection: Connection, change: Change, expected: int) -> None:
    """Replace a version of a task, or delete it with all that belongs to it."""
    task = change.task
    columns = columns_of(task)
    if change.stays:
        _, deadline, _, holder, _ = columns  # the others follow from the state
        facts = (task.version, change.record, task.id, expected, deadline, holder)
        if connection.execute(sql.REWRITE, facts).rowcount:
            _append(connection, change)
            return
    stored = connection.execute(sql.STORED, (task.id,)).fetchone()
    if stored is None or stored[1] != expected:
        raise Conflict(f"task {task.id} is not at version {expected}")
    row_id, _, *before = stored
    if task.state is State.REMOVED:
        connection.execute(sql.DELETE, (row_id,))
        connection.execute(sql.DELETE_HISTORY, (task.id,))
        connection.execute(sql.DELETE_MESSAGES, (task.id, MAX_INTEGER))
        _count(connection, task.owner, -before[0], -1)
        return
    connection.execute(sql.MOVE, (*columns, task.version, change.record, row_id))
    if columns[0] != before[0]:
        _count(connection, task.owner, columns[0] - before[0], 0)
    _append(connection, change)


def _append(connection: Connection, change: Change) -> None:
    for line in change.lines:  # mostly one, and `executemany` has more to prepare
        connection.execute(sql.APPEND, line)


def _count(connection: Connection, owner: str, live: int, retained: int) -> None:
    connection.execute(sql.COUNT, (owner, live, retained))
    if retained < 0:
        connection.execute(sql.DELETE_COUNTS, (owner,))
    connection.execute(sql.TOTAL, (live, retained))


def adopt_secret(connection: Connection, secret: bytes) -> None:
    """Only before there are tasks."""
    if connection.execute(sql.TOTALS).fetchone()[1]:
        raise Conflict("there are tasks already")
    connection.execute(sql.NEW_SECRET, (secret,))


def enlist(connection: Connection, worker: Worker) -> None:
    connection.execute(sql.ENLIST, attrs.astuple(worker))


def beat(connection: Connection, worker_id: str) -> bool:
    return connection.execute(sql.BEAT, (worker_id,)).rowcount == 1


def strike(connection: Connection, worker_id: str) -> None:
    connection.execute(sql.STRIKE, (worker_id,))


def enqueue(connection: Connection, task_id: str, message: bytes, maximum: int) -> int:
    """The numbers of the messages of a task have no gaps: taken in front, added at the end."""
    if connection.execute(sql.STORED, (task_id,)).fetchone() is None:
        return 0
    last = (connection.execute(sql.LAST_MESSAGE, (task_id,)).fetchone()[0] or 0) + 1
    connection.execute(sql.ENQUEUE, (task_id, last, message))
    first = connection.execute(sql.FIRST_MESSAGE, (task_id,)).fetchone()[0]
    dropped = max(0, last - first + 1 - maximum)
    if dropped:
        connection.execute(sql.DELETE_MESSAGES, (task_id, first + dropped - 1))
    return int(dropped)


def dequeue(connection: Connection, task_id: str, limit: int) -> Sequence[bytes]:
    taken = connection.execute(sql.MESSAGES, (task_id, limit)).fetchall()
    if taken:
        connection.execute(sql.DELETE_MESSAGES, (task_id, taken[-1][0]))
    return [message for _, message in taken]


def keep_session(connection: Connection, session: KeptSession, maximum: int) -> None:
    facts = session.body, session.until, session.key
    if connection.execute(sql.REPLACE_SESSION, facts).rowcount:
        return
    check_sessions(connection.execute(sql.SESSIONS).fetchone()[0], maximum)
    connection.execute(sql.ADD_SESSION, facts)
    connection.execute(sql.COUNT_SESSIONS, (1,))


def end_session(connection: Connection, key: str) -> None:
    ended = connection.execute(sql.END_SESSION, (key,)).rowcount
    connection.execute(sql.COUNT_SESSIONS, (-ended,))


def forget_sessions(connection: Connection, now: int, limit: int) -> int:
    forgotten = connection.execute(sql.FORGET_SESSIONS, (now, limit)).rowcount
    connection.execute(sql.COUNT_SESSIONS, (-forgotten,))
    return forgotten


def reread(connection: Connection, versions: Mapping[str, int]) -> Mapping[str, Task | None]:
    """Which of these tasks are at another version than this one (0 for none), or gone.

    What cannot be read is left out: it must not keep the others from being noticed.
    """
    stored: dict[str, int] = {}
    task_ids = [*versions]
    for start in range(0, len(task_ids), sql.CHUNK):
        chunk = task_ids[start : start + sql.CHUNK]
        padding = [None] * (sql.CHUNK - len(chunk))
        stored.update(connection.execute(sql.VERSIONS, (*chunk, *padding)).fetchall())
    news: dict[str, Task | None] = {}
    for task_id, version in versions.items():
        if stored.get(task_id, 0) != version:
            row = connection.execute(sql.LOAD, (task_id,)).fetchone()
            with suppress(StoreError):
                news[task_id] = None if row is None else read_task(row[0])
    return news
