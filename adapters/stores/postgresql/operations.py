"""The writes of the PostgreSQL store, one function for each kind.

Each is one transaction, which is rolled back if it raises.
"""

import zlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import attrs
from psycopg import AsyncConnection

from taskmachine.adapters.stores import (
    Caps,
    Conflict,
    KeptSession,
    check_caps,
    check_sessions,
    is_kept,
)
from taskmachine.adapters.stores.postgresql import queries as sql
from taskmachine.adapters.stores.postgresql.connections import Row, Session
from taskmachine.adapters.stores.postgresql.schema import lock_key
from taskmachine.adapters.stores.records import (
    MAX_INTEGER,
    call_key,
    columns_of,
    read_task,
    write_record,
)
from taskmachine.statemachine import Entry, State, Task

__all__ = [
    "Change",
    "Joining",
    "adopt",
    "adopt_secret",
    "commit",
    "create",
    "dequeue",
    "end_sessions",
    "enqueue",
    "keep_session",
]

Joining = Callable[[AsyncConnection[Any], Task], Awaitable[None]]
"""Called within the transaction in which a task enters the queue."""


@attrs.define(eq=False, init=False)
class Change:
    """A version of a task with its new history entries, encoded before taking a connection."""

    task: Task
    facts: dict[str, Any]
    joining: Joining | None

    def __init__(self, task: Task, entries: Sequence[Entry], joining: Joining | None) -> None:
        record = write_record(task)
        lines = [line for line in entries if is_kept(line)]
        is_live, deadline, queued_at, holder, is_waiting = columns_of(task)
        self.task = task
        self.facts = {
            "id": task.id,
            "owner": task.owner,
            "created_at": task.created_at,
            "key": call_key(task),
            "version": task.version,
            "is_live": bool(is_live),
            "deadline": deadline,
            "queued_at": queued_at,
            "holder": holder,
            "is_waiting": bool(is_waiting),
            "record": record,
            "seqs": [line.seq for line in lines],
            "lines": [write_record(line) for line in lines],
            "shard": zlib.crc32(task.id.encode()) % sql.SHARDS,
        }
        was_queued = bool(entries) and entries[0].source.duties.is_queued
        self.joining = joining if task.is_queued and not was_queued else None


_NO_CAPS: Final = Caps(MAX_INTEGER, MAX_INTEGER, MAX_INTEGER, MAX_INTEGER)


# --- tasks -------------------------------------------------------------------------------------


async def create(session: Session, change: Change, caps: Caps) -> Task | None:
    """Store a new task, or return the one of the same owner and key."""
    alone_of_owner = alone_in_all = False
    while True:
        facts = {
            **change.facts,
            "caps": [min(cap, MAX_INTEGER) for cap in attrs.astuple(caps)],
            "locks": [
                lock_key(session.schema, "tasks"),
                lock_key(session.schema, "tasks", change.task.owner),
            ],
            "alone_of_owner": alone_of_owner,
            "alone_in_all": alone_in_all,
        }
        is_added, same, is_known, *counts, is_near_of_owner, is_near_in_all = await _add(
            session, change, facts
        )
        if is_added:
            return None
        if same is not None:
            return read_task(same)
        if alone_of_owner >= is_near_of_owner and alone_in_all >= is_near_in_all:
            check_caps(caps, *counts)
            if is_known:
                raise Conflict(f"task {change.task.id} exists already")
            # Another process has just stored a task of this id or key: try again.
        alone_of_owner |= is_near_of_owner
        alone_in_all |= is_near_in_all


async def _add(session: Session, change: Change, facts: dict[str, Any]) -> Row:
    if change.joining is None:
        ((*answer,),) = await session.rows(sql.ADD, facts)
        return tuple(answer)
    async with session.transaction():
        ((*answer,),) = await session.rows(sql.ADD, facts)
        if answer[0]:
            await change.joining(session.connection, change.task)
    return tuple(answer)


async def adopt(session: Session, change: Change) -> None:
    """Store a new task, ignoring the caps."""
    async with session.transaction():
        if await create(session, change, _NO_CAPS) is not None:
            raise Conflict(f"the key of task {change.task.id} is in use")


async def commit(session: Session, change: Change, expected: int) -> None:
    """Replace a version of a task, or delete the task with its history and messages."""
    task, facts = change.task, {**change.facts, "expected": expected}
    if task.state is State.REMOVED:
        async with session.transaction():
            if not await session.rows(sql.DELETE, facts):
                raise Conflict(f"task {task.id} is not at version {expected}")
            # From here on no other transaction can add to them.
            await session.send(sql.DELETE_HISTORY, (task.id,))
            await session.send(sql.DELETE_MESSAGES, (task.id,))
            await session.send(sql.DELETE_COUNTS, (task.owner, facts["shard"]))
    elif change.joining is None:
        await _move(session, facts, expected)
    else:
        async with session.transaction():
            await _move(session, facts, expected)
            await change.joining(session.connection, task)


async def _move(session: Session, facts: dict[str, Any], expected: int) -> None:
    for was_live in (True, False):  # finished tasks hardly ever move, except to be deleted
        live = facts["is_live"] - was_live
        move = {**facts, "was_live": was_live, "live": live}
        if await session.rows(sql.MOVE_AND_COUNT if live else sql.MOVE, move):
            return
    raise Conflict(f"task {facts['id']} is not at version {expected}")


async def adopt_secret(session: Session, secret: bytes) -> None:
    """Replace the secret of an empty store."""
    async with session.transaction():
        await session.send(sql.LOCK, (lock_key(session.schema, "tasks"),))
        row = await session.row(sql.RETAINED)
        if row is None or row[0]:
            raise Conflict("there are tasks already")
        await session.send(sql.NEW_SECRET, (secret,))


# --- messages and sessions ---------------------------------------------------------------------


async def enqueue(session: Session, task_id: str, message: bytes, maximum: int) -> int:
    async with session.transaction():
        if not await session.rows(sql.LOCK_TASK, (task_id,)):
            return 0
        await session.send(sql.ENQUEUE, (task_id, message))
        return await session.count(sql.DROP_MESSAGES, {"id": task_id, "maximum": maximum})


async def dequeue(session: Session, task_id: str, limit: int) -> Sequence[bytes]:
    taken = await session.rows(sql.DEQUEUE, {"id": task_id, "limit": limit})
    return [bytes(message) for _, message in sorted(taken)]


async def keep_session(session: Session, kept: KeptSession, maximum: int) -> None:
    facts = kept.body, kept.until, kept.key
    if await session.count(sql.REPLACE_SESSION, facts):
        return
    async with session.transaction():
        ((there,),) = await session.rows(sql.SESSIONS)
        # Again under the lock, as another process may have stored it meanwhile.
        if await session.count(sql.REPLACE_SESSION, facts):
            return
        check_sessions(there, maximum)
        await session.send(sql.ADD_SESSION, facts)
        await session.send(sql.COUNT_SESSIONS, (1,))


async def end_sessions(session: Session, statement: str, parameters: Sequence[Any]) -> int:
    """Run a statement that deletes sessions; return how many it deleted."""
    async with session.transaction():
        await session.rows(sql.SESSIONS)
        ended = await session.count(statement, parameters)
        if ended:
            await session.send(sql.COUNT_SESSIONS, (-ended,))
    return ended
