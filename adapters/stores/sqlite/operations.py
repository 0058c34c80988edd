"""The writes of the SQLite store, one function for each kind.

Each runs inside a transaction that it shares with other operations.  It checks before it writes,
so an operation that raises has written nothing.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from sqlite3 import IntegrityError

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
from taskmachine.adapters.stores.records import (
    MAX_INTEGER,
    call_key,
    columns_of,
    framed,
    read_task,
    write_record,
)
from taskmachine.adapters.stores.sqlite import queries as sql
from taskmachine.adapters.stores.sqlite.writer import Batch
from taskmachine.statemachine import Entry, Event, State, Task

__all__ = [
    "Change",
    "adopt",
    "adopt_secret",
    "beat",
    "commit",
    "create",
    "dequeue",
    "end_session",
    "enqueue",
    "forget_sessions",
    "keep_session",
    "register_worker",
    "remove_worker",
    "reread",
]


@attrs.define(eq=False, init=False)
class Change:
    """A version of a task with its new history entries, encoded on the caller's thread."""

    task: Task
    record: bytes
    lines: bytes
    steps: list[tuple[str, int, bytes]]
    """Recorded steps, in a table of their own: rewriting the history would copy them each time."""
    stays: bool
    """Whether the task stays in its state, so probably no index changes."""

    def __init__(self, task: Task, entries: Sequence[Entry]) -> None:
        self.task, self.record = task, write_record(task)
        self.lines, self.steps, self.stays = b"", [], bool(entries)
        last = 0
        for line in entries:
            if line.seq <= last:
                raise StoreError("history entries are not in order")
            last = line.seq
            if line.data is not None:
                self.steps.append((task.id, line.seq, write_record(line)))
            elif line.event is not Event.REPORT or is_kept(line):
                self.lines += framed(write_record(line))
            self.stays = self.stays and line.source is line.dest


def create(batch: Batch, change: Change, caps: Caps) -> Task | None:
    """Store a new task, or return the one of the same owner and key."""
    task = change.task
    if task.call.key is not None:
        known = batch.execute(sql.BY_KEY, (task.owner, call_key(task))).fetchone()
        if known is not None:
            return read_task(known[0])
    of_owner, in_all = batch.counts(task.owner), batch.counts(None)
    check_caps(caps, of_owner[0], in_all[0], of_owner[1], in_all[1])
    adopt(batch, change)
    return None


def adopt(batch: Batch, change: Change) -> None:
    """Store a new task."""
    task = change.task
    key = None if task.call.key is None else call_key(task)
    columns = columns_of(task)
    call = (task.id, task.owner, task.created_at, key)
    try:
        batch.execute(sql.INSERT, (*call, task.version, *columns, change.record, change.lines))
    except IntegrityError:
        raise Conflict(f"task {task.id} exists already, or its key is in use") from None
    if change.steps:
        _add_steps(batch, change)
    batch.count(task.owner, columns[0], 1)


def commit(batch: Batch, change: Change, expected: int) -> None:
    """Replace a version of a task, or delete the task with its history and messages."""
    task = change.task
    columns = columns_of(task)
    if change.stays:
        _, deadline, _, holder, _ = columns  # the others follow from state and `due_at`
        facts = (task.version, change.record, change.lines, task.id, expected, deadline, holder)
        if batch.execute(sql.REWRITE, facts).rowcount:
            if change.steps:
                _add_steps(batch, change)
            return
    stored = batch.execute(sql.STORED, (task.id,)).fetchone()
    if stored is None or stored[1] != expected:
        raise Conflict(f"task {task.id} is not at version {expected}")
    row_id, _, *before = stored
    if task.state is State.REMOVED:
        batch.execute(sql.DELETE, (row_id,))
        batch.execute(sql.DELETE_MESSAGES, (task.id, MAX_INTEGER))
        batch.execute(sql.DELETE_STEPS, (task.id,))
        batch.count(task.owner, -before[0], -1)
        return
    batch.execute(sql.MOVE, (*columns, task.version, change.record, change.lines, row_id))
    if change.steps:
        _add_steps(batch, change)
    if columns[0] != before[0]:
        batch.count(task.owner, columns[0] - before[0], 0)


def _add_steps(batch: Batch, change: Change) -> None:
    for step in change.steps:
        batch.execute(sql.ADD_STEP, step)


def adopt_secret(batch: Batch, secret: bytes) -> None:
    """Replace the secret of an empty store."""
    if batch.counts(None)[1]:
        raise Conflict("there are tasks already")
    batch.execute(sql.NEW_SECRET, (secret,))


def register_worker(batch: Batch, worker: Worker) -> None:
    batch.execute(sql.ENLIST, attrs.astuple(worker))


def beat(batch: Batch, worker_id: str) -> bool:
    return batch.execute(sql.BEAT, (worker_id,)).rowcount == 1


def remove_worker(batch: Batch, worker_id: str) -> None:
    batch.execute(sql.STRIKE, (worker_id,))


def enqueue(batch: Batch, task_id: str, message: bytes, maximum: int) -> int:
    """Append a message; the numbers of a task's messages have no gaps."""
    if batch.execute(sql.STORED, (task_id,)).fetchone() is None:
        return 0
    last = (batch.execute(sql.LAST_MESSAGE, (task_id,)).fetchone()[0] or 0) + 1
    batch.execute(sql.ENQUEUE, (task_id, last, message))
    first = batch.execute(sql.FIRST_MESSAGE, (task_id,)).fetchone()[0]
    dropped = max(0, last - first + 1 - maximum)
    if dropped:
        batch.execute(sql.DELETE_MESSAGES, (task_id, first + dropped - 1))
    return int(dropped)


def dequeue(batch: Batch, task_id: str, limit: int) -> Sequence[bytes]:
    taken = batch.execute(sql.MESSAGES, (task_id, limit)).fetchall()
    if taken:
        batch.execute(sql.DELETE_MESSAGES, (task_id, taken[-1][0]))
    return [message for _, message in taken]


def keep_session(batch: Batch, session: KeptSession, maximum: int) -> None:
    facts = session.body, session.until, session.key
    if batch.execute(sql.REPLACE_SESSION, facts).rowcount:
        return
    check_sessions(batch.execute(sql.SESSIONS).fetchone()[0], maximum)
    batch.execute(sql.ADD_SESSION, facts)
    batch.execute(sql.COUNT_SESSIONS, (1,))


def end_session(batch: Batch, key: str) -> None:
    ended = batch.execute(sql.END_SESSION, (key,)).rowcount
    batch.execute(sql.COUNT_SESSIONS, (-ended,))


def forget_sessions(batch: Batch, now: int, limit: int) -> int:
    forgotten = batch.execute(sql.FORGET_SESSIONS, (now, limit)).rowcount
    batch.execute(sql.COUNT_SESSIONS, (-forgotten,))
    return forgotten


def reread(batch: Batch, versions: Mapping[str, int]) -> Mapping[str, Task | None]:
    """Return those of these tasks whose version differs (0 for no task), or None if removed.

    Damaged tasks are omitted, so that changes of other tasks are still noticed.
    """
    stored: dict[str, int] = {}
    task_ids = [*versions]
    for start in range(0, len(task_ids), sql.CHUNK):
        chunk = task_ids[start : start + sql.CHUNK]
        padding = [None] * (sql.CHUNK - len(chunk))
        stored.update(batch.execute(sql.VERSIONS, (*chunk, *padding)).fetchall())
    news: dict[str, Task | None] = {}
    for task_id, version in versions.items():
        if stored.get(task_id, 0) != version:
            row = batch.execute(sql.LOAD, (task_id,)).fetchone()
            with suppress(StoreError):
                news[task_id] = None if row is None else read_task(row[0])
    return news
