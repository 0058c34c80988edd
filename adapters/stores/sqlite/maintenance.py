"""Check a SQLite file and back it up while other connections use it.

Both run on a separate thread and connection, and take time in proportion to the file size.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Final

from taskmachine.adapters.stores import StoreError
from taskmachine.adapters.stores.records import (
    call_key,
    columns_of,
    read_entry,
    read_task,
    split_lines,
)
from taskmachine.adapters.stores.sqlite import queries as sql
from taskmachine.adapters.stores.sqlite.faults import explain, translated
from taskmachine.adapters.stores.sqlite.schema import connect
from taskmachine.statemachine import ConfigurationError, State

__all__ = ["back_up", "problems"]

MAX_PROBLEMS: Final = 100
"""Maximum number of problems that a check reports."""

_TASKS: Final = """
    SELECT id, owner, created_at, call_key, version, is_live, deadline, queued_at, holder,
        is_waiting, history, record
    FROM tasks ORDER BY id"""
_OF_NO_TASK: Final = """
    SELECT DISTINCT task_id FROM {} WHERE task_id NOT IN (SELECT id FROM tasks)"""
_STEPS: Final = "SELECT count(*) FROM steps WHERE task_id = ?"


def back_up(source: Path, target: Path) -> None:
    """Write a consistent copy of the file; an incomplete copy is removed.

    `ConfigurationError` if the target exists or cannot be created.
    """
    try:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        raise ConfigurationError(f"{target} exists: choose another file") from None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{target} cannot be created: {error}") from None
    try:
        with (
            translated(source),
            closing(connect(source)) as original,
            translated(target),
            closing(sqlite3.connect(target)) as copy,
        ):
            original.backup(copy)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def problems(path: Path) -> list[str]:
    """Return up to `MAX_PROBLEMS` sentences, without any content of tasks."""
    with translated(path), closing(connect(path)) as connection:
        connection.execute("BEGIN")  # a snapshot of the file
        return list(islice(_problems(connection, path), MAX_PROBLEMS))


def _problems(connection: sqlite3.Connection, path: Path) -> Iterator[str]:
    try:
        for (verdict,) in connection.execute("PRAGMA integrity_check"):
            if verdict != "ok":
                yield f"The file is damaged: {' '.join(verdict.split())}."
        yield from _wrong_tasks(connection)
        yield from _wrong_counts(connection)
        for table in ("messages", "steps"):
            for (task_id,) in connection.execute(_OF_NO_TASK.format(table)):
                yield f"{table.capitalize()} belong to task {task_id}, which does not exist."
    except sqlite3.DatabaseError as error:
        yield f"{explain(path, error)}."


def _wrong_tasks(connection: sqlite3.Connection) -> Iterator[str]:
    for task_id, *row, history, record in connection.execute(_TASKS):
        try:
            task = read_task(record)
        except StoreError as error:
            yield f"Task {task_id} cannot be read: {error}."
            continue
        derived = (
            task.owner,
            task.created_at,
            call_key(task),
            task.version,
            *columns_of(task),
        )
        if task.id != task_id or tuple(row) != derived:
            yield f"The columns of task {task_id} do not agree with its record."
        if connection.execute(_STEPS, (task_id,)).fetchone() != (task.recorded,):
            yield f"The number of recorded steps of task {task_id} is wrong."
        yield from _wrong_history(task_id, history, task.state, task.version)


def _wrong_history(task_id: str, history: bytes, state: State, version: int) -> Iterator[str]:
    """Check that each entry begins where the previous one ended, and the last ends at the task.

    Reports may be missing, as they do not change the state.
    """
    at, seq = State.NEW, 0
    for number, line in enumerate(split_lines(history), start=1):
        try:
            entry = read_entry(line)
        except StoreError as error:
            yield f"Line {number} of the history of task {task_id} cannot be read: {error}."
            return
        if (entry.task_id, entry.source) != (task_id, at) or entry.seq <= seq:
            yield f"Line {number} of the history of task {task_id} does not continue the last one."
            return
        at, seq = entry.dest, entry.seq
    if at is not state or seq > version:
        yield f"The history of task {task_id} does not end in the state of the task."


def _wrong_counts(connection: sqlite3.Connection) -> Iterator[str]:
    real = {
        owner: (live, retained)
        for owner, live, retained in connection.execute(
            "SELECT owner, sum(is_live), count(*) FROM tasks GROUP BY owner"
        )
    }
    counted = {
        owner: (live, retained)
        for owner, live, retained in connection.execute("SELECT owner, live, retained FROM counts")
    }
    for owner in sorted(real.keys() | counted.keys()):
        if real.get(owner) != counted.get(owner):
            yield f"The count of tasks of owner {owner!r} is wrong."
    totals = connection.execute(sql.TOTALS).fetchone()
    if totals != (sum(live for live, _ in real.values()), sum(n for _, n in real.values())):
        yield "The total count of tasks is wrong."
    sessions = connection.execute("SELECT count(*) FROM sessions").fetchone()
    if sessions != connection.execute(sql.SESSIONS).fetchone():
        yield "The count of sessions is wrong."
