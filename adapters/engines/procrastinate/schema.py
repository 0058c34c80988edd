"""The tables of procrastinate, in the schema of the store.

So they are backed up with the tasks, and nobody else's workers see the tickets.  Migrations are
procrastinate's own; `meta` tells which one was the last.
"""

from pathlib import Path
from typing import Final

from procrastinate.schema import SchemaManager
from psycopg import errors

from taskmachine.adapters.stores.postgresql import queries as sql
from taskmachine.adapters.stores.postgresql.connections import Address, Session, connect
from taskmachine.adapters.stores.postgresql.faults import translated
from taskmachine.adapters.stores.postgresql.schema import lock_key
from taskmachine.statemachine import ConfigurationError

__all__ = ["prepare"]

_LAST: Final = "SELECT value FROM @meta WHERE name = 'procrastinate'"
_SET_LAST: Final = """
    INSERT INTO @meta (name, value) VALUES ('procrastinate', %s)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value"""


async def prepare(address: Address) -> None:
    """Make the tables, or bring them up to date; `ConfigurationError` if they are too new.

    Any number of processes may do so at once: one makes them, the others wait for it.
    """
    known = {path.name: path for path in Path(SchemaManager.get_migrations_path()).glob("*.sql")}
    newest = max(known)
    connection = await connect(address)
    session = Session(connection, address.schema)
    async with connection:
        with translated(address.place):
            if await _last(session) == newest:
                return
            try:
                async with session.transaction():
                    await session.send(sql.LOCK, (lock_key(address.schema, "procrastinate"),))
                    last = await _last(session)
                    if last is not None and last > newest:
                        raise ConfigurationError(
                            f"{address.place} has tables of a newer procrastinate ('{last}'), this"
                            f" one knows up to '{newest}': use the newer program that made them"
                        )
                    await session.send(f"SET LOCAL search_path TO {address.schema}")
                    scripts = (
                        [SchemaManager.get_schema()]
                        if last is None
                        else [known[name].read_text() for name in sorted(known) if name > last]
                    )
                    for script in scripts:
                        await connection.execute(script.encode())
                    await session.send(_SET_LAST, (newest.encode(),))
            except errors.InsufficientPrivilege as error:
                raise ConfigurationError(
                    f"{address.place} does not let this user make the tables of procrastinate"
                    f" in the schema '{address.schema}': {str(error).splitlines()[0]}"
                ) from None


async def _last(session: Session) -> str | None:
    row = await session.row(_LAST)
    return None if row is None else bytes(row[0]).decode()
