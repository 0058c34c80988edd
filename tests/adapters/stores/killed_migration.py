"""A process that is killed during a migration: `killed_migration KIND URL`.

It simulates a next version whose migration is killed after it has created a table.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from taskmachine.adapters.stores import open_store

__all__ = ["migration"]


def migration(table: str) -> Iterator[str]:
    yield f"CREATE TABLE {table} (id int)"
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    schema: Any = import_module(f"taskmachine.adapters.stores.{sys.argv[1]}.schema")
    schema.VERSION = 2
    schema._MIGRATIONS[2] = migration("more" if sys.argv[1] == "sqlite" else "@more")
    asyncio.run(open_store(sys.argv[2]))
