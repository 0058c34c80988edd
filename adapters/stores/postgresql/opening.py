"""A store in a PostgreSQL database, by its URL: `postgresql://USER@HOST/DATABASE`.

What it is made of needs the extra `postgresql`, and is imported when somebody opens one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from taskmachine.adapters.stores import Schema
from taskmachine.statemachine import ConfigurationError

if TYPE_CHECKING:
    from taskmachine.adapters.stores.postgresql.store import PostgreSQLStore

__all__ = ["find_schema", "open_postgresql"]


async def open_postgresql(url: str) -> "PostgreSQLStore":
    """The store in that database, whose tables are made if there are none.

    `ConfigurationError` if they are not for us, `StoreError` if they cannot be used now.
    """
    with _installed():
        from taskmachine.adapters.stores.postgresql.connections import read_url
        from taskmachine.adapters.stores.postgresql.store import PostgreSQLStore
    return await PostgreSQLStore.open_at(read_url(url))


async def find_schema(url: str) -> Schema:
    """What opening would find in that database; changes nothing."""
    with _installed():
        from taskmachine.adapters.stores.postgresql.connections import read_url
        from taskmachine.adapters.stores.postgresql.schema import found
    return await found(read_url(url))


@contextmanager
def _installed() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(
            f"PostgreSQL needs the package {error.name or 'psycopg'}:"
            " pip install 'taskmachine[postgresql]'"
        ) from error
