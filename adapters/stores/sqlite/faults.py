"""Errors of SQLite as store errors, worded for operators."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from taskmachine.adapters.stores import StoreError

__all__ = ["explain", "translated"]

_REASONS: Final = {
    sqlite3.SQLITE_BUSY: "is locked by another program",
    sqlite3.SQLITE_LOCKED: "is locked by another program",
    sqlite3.SQLITE_READONLY: "cannot be written to",
    sqlite3.SQLITE_PERM: "cannot be opened: permission denied",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened, or the files beside it cannot be written",
    sqlite3.SQLITE_CORRUPT: "is damaged: restore it from a backup",
    sqlite3.SQLITE_NOTADB: "is not a SQLite database",
    sqlite3.SQLITE_FULL: "cannot grow: the disk is full",
    sqlite3.SQLITE_IOERR: "cannot be read or written: the disk reports an error",
    sqlite3.SQLITE_TOOBIG: "cannot store a record of this size",
}


def explain(path: Path, error: Exception) -> StoreError:
    """Return an error as `StoreError`; the lowest byte of SQLite's code is the primary code."""
    code = getattr(error, "sqlite_errorcode", None)
    reason = _REASONS.get(-1 if code is None else code & 0xFF)
    return StoreError(f"{path} {reason}" if reason else f"{path} refused: {error}")


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise errors of `sqlite3` in this block as `StoreError`.

    It raises OverflowError and UnicodeError for values that SQLite does not support.
    """
    try:
        yield
    except (sqlite3.Error, OverflowError, UnicodeError) as error:
        raise explain(path, error) from error
