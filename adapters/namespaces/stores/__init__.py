"""Stores: how to open one by its URL, and how to write one (docs/howto/adapters.md)."""

from taskmachine.adapters.stores import (
    MAX_REPORTS,
    Caps,
    Conflict,
    Follower,
    KeptSession,
    Schema,
    Store,
    StoreError,
    Totals,
    Worker,
    check_caps,
    check_sessions,
    find_schema,
    is_kept,
    open_store,
)
from taskmachine.adapters.stores.followers import Followers
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.adapters.stores.records import (
    framed,
    read_entry,
    read_task,
    split_lines,
    write_record,
)

__all__ = [
    "MAX_REPORTS",
    "Caps",
    "Conflict",
    "Follower",
    "Followers",
    "KeptSession",
    "MemoryStore",
    "Schema",
    "Store",
    "StoreError",
    "Totals",
    "Worker",
    "check_caps",
    "check_sessions",
    "find_schema",
    "framed",
    "is_kept",
    "open_store",
    "read_entry",
    "read_task",
    "split_lines",
    "write_record",
]
