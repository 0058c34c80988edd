"""Connections to a PostgreSQL server: its address, a bounded pool, and retries.

The server may become unavailable at any moment.  An operation that needs a connection meanwhile
waits a few seconds and then fails.
"""

import asyncio
import re
import select
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, urlencode

import attrs
import psycopg
from psycopg import AsyncConnection, errors
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from taskmachine.adapters.stores import StoreError
from taskmachine.adapters.stores.postgresql.faults import explain, refusal, translated
from taskmachine.adapters.stores.postgresql.queries import in_schema
from taskmachine.statemachine import ConfigurationError

__all__ = [
    "WAIT_S",
    "Address",
    "Connections",
    "Row",
    "Session",
    "connect",
    "make_pool",
    "read_url",
    "reraising_cancellation",
]

POOL_SIZE: Final = 10
MAX_WAITING: Final = 10_000
"""Maximum number of waiting operations, which bounds memory if the server is too slow."""

WAIT_S: Final = 5.0
"""How long an operation waits for a connection."""

STATEMENT_MS: Final = 5_000
ANSWER_S: Final = 15.0
"""How long to wait for the answer of a server that has not closed the connection."""

ATTEMPTS: Final = 5
"""Attempts of a transaction that the server rolls back because of conflicts."""

_DEFAULTS: Final = {
    "application_name": "taskmachine",
    "connect_timeout": "5",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "15000",
}

_SETTINGS: Final = f"""
    SELECT set_config('statement_timeout', '{STATEMENT_MS}', false),
        set_config('lock_timeout', '{STATEMENT_MS}', false),
        set_config('default_transaction_isolation', 'read committed', false),
        set_config('idle_in_transaction_session_timeout', '{STATEMENT_MS}', false)"""

_FORM: Final = "a PostgreSQL store is 'postgresql://USER@HOST/DATABASE'"

_UNDONE: Final = (errors.DeadlockDetected, errors.SerializationFailure)
# A connection pooler has switched to a server connection without the prepared statement.
_UNPREPARED: Final = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)

T = TypeVar("T")
Row = tuple[Any, ...]
Parameters = Sequence[Any] | Mapping[str, Any]


@attrs.frozen
class Address:
    """The location of the tables."""

    conninfo: str = attrs.field(repr=False)
    place: str
    """The name of the database in messages, without a password."""
    schema: str
    pool_size: int


def read_url(url: str) -> Address:
    """Parse `postgresql://USER:PASSWORD@HOST:PORT/DATABASE?OPTIONS`.

    Options are those of libpq, `schema` (default: taskmachine) and `pool_size`.  No error message
    repeats the URL, as it may contain a password.
    """
    front, _, query = url.partition("?")
    options = parse_qsl(query, keep_blank_values=True)
    ours = {name: value for name, value in options if name in ("schema", "pool_size")}
    theirs = urlencode([option for option in options if option[0] not in ours])
    try:
        given = conninfo_to_dict(f"{front}?{theirs}" if theirs else front)
        [int(port or 5432) for port in str(given.get("port", "")).split(",")]
    except (psycopg.ProgrammingError, ValueError):
        raise ConfigurationError(f"the URL of the store cannot be read: {_FORM}") from None
    schema = ours.get("schema", "taskmachine")
    if not re.fullmatch("[a-z_][a-z0-9_]{0,49}", schema) or schema.startswith("pg_"):
        raise ConfigurationError(
            "the schema of the store must be up to 50 lower-case letters, digits and underscores,"
            f" and must not begin with a digit or pg_: '{schema}'"
        )
    size = ours.get("pool_size", str(POOL_SIZE))
    if not re.fullmatch("[1-9][0-9]{0,3}", size):
        raise ConfigurationError(f"the pool_size of the store must be 1 to 9999, got '{size}'")
    where = f"{given.get('host') or 'localhost'}:{given.get('port') or 5432}"
    name = given.get("dbname") or given.get("user")
    place = f"database '{name}' at {where}" if name else f"the database at {where}"
    return Address(make_conninfo("", **{**_DEFAULTS, **given}), place, schema, int(size))


async def connect(address: Address) -> AsyncConnection[Row]:
    """Open a connection, which the caller must close.

    `ConfigurationError` or `StoreError` if that fails.
    """
    try:
        connection = await AsyncConnection.connect(address.conninfo, autocommit=True)
    except psycopg.OperationalError as error:
        raise refusal(address.place, error) from None
    try:
        with translated(address.place):
            await _configure(connection)
    except BaseException:  # including cancellation
        await connection.close()
        raise
    return connection


async def _configure(connection: AsyncConnection[Row]) -> None:
    await connection.execute(_SETTINGS)


Configure = Callable[[AsyncConnection[Row]], Awaitable[None]]


def make_pool(address: Address, size: int, more: Configure | None = None) -> "AsyncConnectionPool":
    """Return a closed pool of up to `size` connections; `more` configures each of them."""

    async def configure(connection: AsyncConnection[Row]) -> None:
        await connection.set_autocommit(True)
        await _configure(connection)
        if more is not None:
            await more(connection)

    return AsyncConnectionPool(
        address.conninfo,
        min_size=1,
        max_size=size,
        open=False,
        configure=configure,
        timeout=WAIT_S,
        max_waiting=MAX_WAITING,
        # The pool doubles its pauses up to this time; the next request restarts it.
        reconnect_timeout=WAIT_S - 1,
    )


@contextmanager
def reraising_cancellation() -> Iterator[None]:
    """Raise a cancellation that was lost in this block at its end.

    psycopg uses `asyncio.wait_for`, which may lose one before Python 3.12.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    yield
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError


@attrs.frozen(eq=False)
class Session:
    """A borrowed connection that runs statements on the tables of one schema."""

    connection: AsyncConnection[Row]
    schema: str

    async def rows(self, statement: str, parameters: Parameters = ()) -> list[Row]:
        cursor = await self.connection.execute(
            in_schema(statement, self.schema), parameters, binary=True
        )
        return await cursor.fetchall()

    async def row(self, statement: str, parameters: Parameters = ()) -> Row | None:
        rows = await self.rows(statement, parameters)
        return rows[0] if rows else None

    async def count(self, statement: str, parameters: Parameters = ()) -> int:
        """Run a statement and return the number of rows that it wrote."""
        cursor = await self.connection.execute(in_schema(statement, self.schema), parameters)
        return cursor.rowcount

    async def send(self, statement: str, parameters: Parameters = ()) -> None:
        """Run a statement and ignore its result."""
        await self.connection.execute(in_schema(statement, self.schema), parameters)

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        return self.connection.transaction()


class Connections:
    """A bounded number of connections, opened on demand and replaced when they break."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._prepares = True
        self._pool = make_pool(address, address.pool_size)

    async def open(self) -> None:
        await self._pool.open()

    async def close(self) -> None:
        await self._pool.close(WAIT_S)

    async def run(self, act: Callable[[Session], Awaitable[T]], *, reads: bool = False) -> T:
        """Run `act` on a connection and return its result; `StoreError` if it fails.

        It is retried if the server rolled it back, and with `reads` also if the connection broke.
        """
        attempt = 0
        while True:
            attempt += 1
            try:
                with reraising_cancellation():
                    async with asyncio.timeout(ANSWER_S):
                        return await self._once(act)
            except _UNPREPARED as error:
                if attempt == ATTEMPTS:
                    raise explain(self.address.place, error) from error
                self._prepares = False
            except PoolClosed:
                raise StoreError("the store is closed") from None
            except (psycopg.Error, OverflowError, UnicodeError, TimeoutError) as error:
                may_repeat = isinstance(error, _UNDONE) or (reads and _is_loss(error))
                if attempt == ATTEMPTS or not may_repeat:
                    raise explain(self.address.place, error) from error

    async def _once(self, act: Callable[[Session], Awaitable[T]]) -> T:
        connection = await self._live_connection()
        try:
            if not self._prepares:
                connection.prepare_threshold = None
            return await act(Session(connection, self.address.schema))
        finally:
            await self._pool.putconn(connection)

    async def _live_connection(self) -> AsyncConnection[Row]:
        while True:
            connection = await self._pool.getconn()
            if not _is_closed(connection):
                return connection
            await connection.close()
            await self._pool.putconn(connection)


def _is_loss(error: Exception) -> bool:
    """Return True if an established connection broke."""
    if isinstance(error, (errors.AdminShutdown, errors.CrashShutdown)):
        return True
    is_of_pool = isinstance(error, (PoolTimeout, TooManyRequests))
    return isinstance(error, psycopg.OperationalError) and error.sqlstate is None and not is_of_pool


def _is_closed(connection: AsyncConnection[Row]) -> bool:
    """Return True if either side has closed an idle connection, without a round trip.

    An idle connection has no data to read unless the server has closed it.
    """
    if connection.closed:
        return True
    ready = select.poll()
    ready.register(connection.fileno(), select.POLLIN)
    return bool(ready.poll(0))
