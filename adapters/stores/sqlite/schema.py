"""The tables of the SQLite store, and their migration.

The version of the schema is the file's `user_version`; `application_id` marks the file as ours.
"""

import os
import secrets
import sqlite3
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from taskmachine.adapters.stores import Schema, StoreError
from taskmachine.adapters.stores.sqlite.faults import translated
from taskmachine.statemachine import ConfigurationError

__all__ = ["APPLICATION_ID", "VERSION", "connect", "found", "prepare"]

APPLICATION_ID: Final = int.from_bytes(b"tmc1")
VERSION: Final = 1

_DEVELOPMENT_IDS: Final = (int.from_bytes(b"tskm"), int.from_bytes(b"tmac"))
"""The application ids of files that were written before 0.1.0."""

_MAGIC: Final = b"SQLite format 3\0"

BUSY_MS: Final = 5_000
"""How long to wait for the lock of another process."""

_SETTINGS: Final = (
    "synchronous = FULL",  # acknowledged writes survive a power failure
    "cache_size = -16000",  # kilobytes
    "wal_autocheckpoint = 4000",  # pages: frequently written ones are checkpointed less often
)

CHECKED_AT_OPEN: Final = 64 * 1024 * 1024
"""Files up to this size, in bytes, are checked for damage when they are opened."""

# `call_key` is null for calls without a key.  Partial indexes contain only the rows that are
# queried, so finished tasks do not slow down the queue.
_MIGRATIONS: Final[Mapping[int, Iterable[str]]] = {
    1: (
        """CREATE TABLE tasks (
            id TEXT NOT NULL PRIMARY KEY,
            owner TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            call_key TEXT,
            version INTEGER NOT NULL,
            is_live INTEGER NOT NULL,
            deadline INTEGER,
            queued_at INTEGER,
            holder TEXT,
            is_waiting INTEGER NOT NULL,
            record BLOB NOT NULL,
            history BLOB NOT NULL
        )""",
        "CREATE INDEX tasks_of_owner ON tasks (owner, created_at DESC, id DESC)",
        "CREATE INDEX tasks_created ON tasks (created_at DESC, id DESC)",
        "CREATE UNIQUE INDEX tasks_key ON tasks (owner, call_key) WHERE call_key IS NOT NULL",
        "CREATE INDEX tasks_live ON tasks (deadline, id) WHERE is_live = 1",
        "CREATE INDEX tasks_ended ON tasks (deadline, id) WHERE is_live = 0",
        "CREATE INDEX tasks_queued ON tasks (queued_at, id) WHERE queued_at IS NOT NULL",
        "CREATE INDEX tasks_held ON tasks (holder, created_at, id) WHERE holder IS NOT NULL",
        "CREATE INDEX tasks_waiting ON tasks (is_waiting) WHERE is_waiting = 1",
        """CREATE TABLE steps (
            task_id TEXT NOT NULL, seq INTEGER NOT NULL, record BLOB NOT NULL,
            PRIMARY KEY (task_id, seq)
        ) WITHOUT ROWID""",
        """CREATE TABLE messages (
            task_id TEXT NOT NULL, seq INTEGER NOT NULL, message BLOB NOT NULL,
            PRIMARY KEY (task_id, seq)
        ) WITHOUT ROWID""",
        """CREATE TABLE counts (
            owner TEXT NOT NULL PRIMARY KEY, live INTEGER NOT NULL, retained INTEGER NOT NULL
        ) WITHOUT ROWID""",
        """CREATE TABLE totals (
            id INTEGER PRIMARY KEY, live INTEGER NOT NULL, retained INTEGER NOT NULL,
            sessions INTEGER NOT NULL
        )""",
        "INSERT INTO totals VALUES (0, 0, 0, 0)",
        """CREATE TABLE workers (
            id TEXT NOT NULL PRIMARY KEY, host TEXT NOT NULL,
            pid INTEGER NOT NULL, beat INTEGER NOT NULL
        ) WITHOUT ROWID""",
        """CREATE TABLE sessions (
            key TEXT NOT NULL PRIMARY KEY, body BLOB NOT NULL, until INTEGER NOT NULL
        ) WITHOUT ROWID""",
        "CREATE INDEX sessions_until ON sessions (until, key)",
        "CREATE TABLE meta (name TEXT NOT NULL PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    ),
}
"""The statements that migrate to each version from the previous one."""


def connect(path: Path) -> sqlite3.Connection:
    """Open a connection that any thread may use, but only one at a time."""
    connection = sqlite3.connect(
        path, timeout=BUSY_MS / 1_000, isolation_level=None, check_same_thread=False
    )
    try:
        for setting in _SETTINGS:
            connection.execute(f"PRAGMA {setting}")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def prepare(path: Path) -> None:
    """Create or migrate the file.

    `ConfigurationError` if it is not a database, belongs to another program, or is too new.
    """
    try:
        if not path.parent.is_dir():
            raise ConfigurationError(
                f"{path} cannot be created: the folder {path.parent} does not exist"
            )
        if path.exists() and not path.is_file():
            raise ConfigurationError(f"{path} is not a regular file")
        # Readable by its owner only, as it contains the secret; SQLite would use the umask.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {error.strerror}") from error
    with translated(path):
        try:
            with closing(connect(path)) as connection:
                _prepare(connection, path)
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_NOTADB:
                raise
            # SQLite reports the same error if the first page of a database is damaged.
            with path.open("rb") as file:
                if file.read(len(_MAGIC)) == _MAGIC:
                    raise StoreError(f"{path} is damaged: restore it from a backup") from error
            raise ConfigurationError(f"{path} is not a SQLite database") from error


def found(path: Path) -> Schema:
    """Return the schema version of the file and the newest one, without any change."""
    with translated(path):
        try:
            # `rw` does not create the file, but can read its write-ahead log.
            with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=rw", uri=True)) as there:
                return Schema(_check_ours(there, path), VERSION)
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_NOTADB:
                raise
            raise ConfigurationError(f"{path} is not a SQLite database") from error


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    _check_ours(connection, path)
    if path.stat().st_size <= CHECKED_AT_OPEN:
        (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            detail = " ".join(verdict.split())
            raise StoreError(f"{path} is damaged; restore it from a backup: {detail}")
    if _write_ahead(connection) != "wal":
        raise StoreError(f"{path}: the file system does not support WAL mode; use a local disk")
    connection.execute("BEGIN IMMEDIATE")
    # Read under the lock, as another process may have migrated the file meanwhile.
    version = _check_ours(connection, path)
    for number in range(version + 1, VERSION + 1):
        for statement in _MIGRATIONS[number]:
            connection.execute(statement)
    if version == 0:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        secret = secrets.token_bytes(32)
        connection.execute("INSERT INTO meta (name, value) VALUES ('secret', ?)", (secret,))
    if version != VERSION:
        connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def _check_ours(connection: sqlite3.Connection, path: Path) -> int:
    """Return the schema version, or 0 if the file is empty."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    tables = connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
    if not tables and version == application == 0:
        return 0
    if application in _DEVELOPMENT_IDS:
        raise ConfigurationError(
            f"{path} was written by a development version before 0.1.0, which is not supported:"
            " choose another file"
        )
    if application != APPLICATION_ID:
        raise ConfigurationError(f"{path} is a database of another program")
    if version > VERSION:
        raise ConfigurationError(
            f"{path} has schema version {version}, but this version of taskmachine supports up to"
            f" {VERSION}: upgrade taskmachine"
        )
    if version < 1:
        raise StoreError(f"{path} is damaged; restore it from a backup: it has no schema version")
    return int(version)


def _write_ahead(connection: sqlite3.Connection) -> str:
    """Switch to WAL mode and return the resulting journal mode.

    SQLite's busy timeout does not apply to a change of the mode, so this waits for the lock.
    """
    deadline = time.monotonic() + BUSY_MS / 1_000
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            return str(mode)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
