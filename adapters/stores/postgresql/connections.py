"""Connections to a PostgreSQL server: where it is, a bounded number of them, and their loss.

The server may go away at any moment and come back.  Whoever needs a connection meanwhile waits a
few seconds for one, and is then told that there is none.
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
    "heeding_cancellation",
    "make_pool",
    "read_url",
]

POOL_SIZE: Final = 10
MAX_WAITING: Final = 10_000
"""Operations; beyond it something is wrong with the server, and memory would be next."""

WAIT_S: Final = 5.0
"""How long an operation waits for a connection."""

STATEMENT_MS: Final = 5_000
ANSWER_S: Final = 15.0
"""How long a server may be silent that has not closed the connection."""

ATTEMPTS: Final = 5
"""Of what the server has undone itself, since others were in the way."""

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
# A pooler gave us another connection to the server than the one that has prepared the statement.
_UNPREPARED: Final = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)

T = TypeVar("T")
Row = tuple[Any, ...]
Parameters = Sequence[Any] | Mapping[str, Any]


@attrs.frozen
class Address:
    """Where the tables are."""

    conninfo: str = attrs.field(repr=False)
    place: str
    """For sentences; it has no password."""
    schema: str
    pool_size: int


def read_url(url: str) -> Address:
    """`postgresql://USER:PASSWORD@HOST:PORT/DATABASE`, with what libpq knows behind a `?`.

    Beyond that `schema` (default: taskmachine) and `pool_size`.  No sentence repeats the URL, as
    it may have a password.
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
            "the schema of the store must be up to 50 small letters, digits and underscores,"
            f" and not begin with a digit or pg_: '{schema}'"
        )
    size = ours.get("pool_size", str(POOL_SIZE))
    if not re.fullmatch("[1-9][0-9]{0,3}", size):
        raise ConfigurationError(f"the pool_size of the store must be 1 to 9999, not '{size}'")
    where = f"{given.get('host') or 'localhost'}:{given.get('port') or 5432}"
    name = given.get("dbname") or given.get("user")
    place = f"database '{name}' at {where}" if name else f"the database at {where}"
    return Address(make_conninfo("", **{**_DEFAULTS, **given}), place, schema, int(size))


async def connect(address: Address) -> AsyncConnection[Row]:
    """One connection, to be closed by the caller.

    `ConfigurationError` or `StoreError` if there is none.
    """
    try:
        connection = await AsyncConnection.connect(address.conninfo, autocommit=True)
    except psycopg.OperationalError as error:
        raise refusal(address.place, error) from None
    try:
        with translated(address.place):
            await _configure(connection)
    except BaseException:  # somebody may have stopped waiting
        await connection.close()
        raise
    return connection


async def _configure(connection: AsyncConnection[Row]) -> None:
    await connection.execute(_SETTINGS)


Configure = Callable[[AsyncConnection[Row]], Awaitable[None]]


def make_pool(address: Address, size: int, more: Configure | None = None) -> "AsyncConnectionPool":
    """Up to so many connections, to be opened by the caller; `more` prepares each of them."""

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
        # The pool doubles its pauses until then; whoever asks afterwards makes it begin anew.
        reconnect_timeout=WAIT_S - 1,
    )


@contextmanager
def heeding_cancellation() -> Iterator[None]:
    """Whoever is stopped in this block is stopped at its end, at the latest.

    psycopg stands on `asyncio.wait_for`, which may lose that before Python 3.12.
    """
    task = asyncio.current_task()
    before = task.cancelling() if task is not None else 0
    yield
    if task is not None and task.cancelling() > before:
        raise asyncio.CancelledError


@attrs.frozen(eq=False)
class Session:
    """A connection for a while, with statements on the tables of one schema."""

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
        """How many rows it has written."""
        cursor = await self.connection.execute(in_schema(statement, self.schema), parameters)
        return cursor.rowcount

    async def send(self, statement: str, parameters: Parameters = ()) -> None:
        """Its answer is of no interest."""
        await self.connection.execute(in_schema(statement, self.schema), parameters)

    def transaction(self) -> AbstractAsyncContextManager[Any]:
        return self.connection.transaction()


class Connections:
    """A bounded number of connections, made when they are needed, and again when they break."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._prepares = True
        self._pool = make_pool(address, address.pool_size)

    async def open(self) -> None:
        await self._pool.open()

    async def close(self) -> None:
        await self._pool.close(WAIT_S)

    async def run(self, act: Callable[[Session], Awaitable[T]], *, reads: bool = False) -> T:
        """What `act` answers; `StoreError` if it cannot be done.

        It is called again if the server has undone it, and what only `reads` also when the
        connection broke over it.
        """
        attempt = 0
        while True:
            attempt += 1
            try:
                with heeding_cancellation():
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
        connection = await self._living()
        try:
            if not self._prepares:
                connection.prepare_threshold = None
            return await act(Session(connection, self.address.schema))
        finally:
            await self._pool.putconn(connection)

    async def _living(self) -> AsyncConnection[Row]:
        while True:
            connection = await self._pool.getconn()
            if not _has_something_to_say(connection):
                return connection
            await connection.close()
            await self._pool.putconn(connection)


def _is_loss(error: Exception) -> bool:
    """Whether a connection broke that there was."""
    if isinstance(error, (errors.AdminShutdown, errors.CrashShutdown)):
        return True
    is_of_pool = isinstance(error, (PoolTimeout, TooManyRequests))
    return isinstance(error, psycopg.OperationalError) and error.sqlstate is None and not is_of_pool


def _has_something_to_say(connection: AsyncConnection[Row]) -> bool:
    """An idle connection is silent, unless the server has ended it: that is seen for nothing."""
    if connection.closed:
        return True
    ready = select.poll()
    ready.register(connection.fileno(), select.POLLIN)
    return bool(ready.poll(0))
