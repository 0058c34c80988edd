"""The tables of procrastinate, in the schema of the store.

There they are backed up together with the tasks, and workers of other applications do not see the
tickets.  Migrations are those of procrastinate; `meta` records the last one.  An index is added, by
which owners take turns.
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

__all__ = ["OWNER", "prepare"]

OWNER: Final = """(args->>'owner') COLLATE "C\""""
"""The owner of the task of a ticket, as in the index."""

_LAST: Final = "SELECT value FROM @meta WHERE name = 'procrastinate'"
_SET_LAST: Final = """
    INSERT INTO @meta (name, value) VALUES ('procrastinate', %s)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value"""
_HAS_TURNS: Final = "SELECT 1 WHERE to_regclass('@taskmachine_turns') IS NOT NULL"
_ADD_TURNS: Final = f"""
    CREATE INDEX IF NOT EXISTS taskmachine_turns
    ON @procrastinate_jobs (({OWNER}), priority DESC, id) WHERE status = 'todo'"""


async def prepare(address: Address) -> None:
    """Create or migrate the tables; `ConfigurationError` if they are too new.

    Several processes may call this concurrently: one migrates, the others wait.
    """
    known = {path.name: path for path in Path(SchemaManager.get_migrations_path()).glob("*.sql")}
    newest = max(known)
    connection = await connect(address)
    session = Session(connection, address.schema)
    async with connection:
        with translated(address.place):
            if await _last(session) == newest and await session.row(_HAS_TURNS) is not None:
                return
            try:
                async with session.transaction():
                    await session.send(sql.LOCK, (lock_key(address.schema, "procrastinate"),))
                    last = await _last(session)
                    if last is not None and last > newest:
                        raise ConfigurationError(
                            f"{address.place} has tables of a newer procrastinate ('{last}'); this"
                            f" version supports up to '{newest}': upgrade procrastinate"
                        )
                    await session.send(f"SET LOCAL search_path TO {address.schema}")
                    scripts = (
                        [SchemaManager.get_schema()]
                        if last is None
                        else [known[name].read_text() for name in sorted(known) if name > last]
                    )
                    for script in scripts:
                        await connection.execute(script.encode())
                    await session.send(_ADD_TURNS)
                    await session.send(_SET_LAST, (newest.encode(),))
            except errors.InsufficientPrivilege as error:
                raise ConfigurationError(
                    f"{address.place}: this user may not create the tables of procrastinate"
                    f" in the schema '{address.schema}': {str(error).splitlines()[0]}"
                ) from None


async def _last(session: Session) -> str | None:
    row = await session.row(_LAST)
    return None if row is None else bytes(row[0]).decode()
