"""Entry points of the PostgreSQL store: `postgresql://USER@HOST/DATABASE`.

It requires the extra `postgresql`, which is imported only when such a store is opened.
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
    """Open the store in a database; its tables are created if necessary.

    `ConfigurationError` if the schema is not a store, `StoreError` if it cannot be used now.
    """
    with _installed():
        from taskmachine.adapters.stores.postgresql.connections import read_url
        from taskmachine.adapters.stores.postgresql.store import PostgreSQLStore
    return await PostgreSQLStore.open_at(read_url(url))


async def find_schema(url: str) -> Schema:
    """Return the schema versions of the database without any change."""
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
            f"PostgreSQL requires the package {error.name or 'psycopg'}:"
            " pip install 'taskmachine[postgresql]'"
        ) from error
