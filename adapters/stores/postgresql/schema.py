"""The tables of the PostgreSQL store, and their migration.

They have a separate schema, so they can share a database with other programs.  Its table `meta`
identifies the schema as ours and contains the version.
"""

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from typing import Final

from psycopg import errors

from taskmachine.adapters.stores import Schema
from taskmachine.adapters.stores.postgresql import queries as sql
from taskmachine.adapters.stores.postgresql.connections import Address, Session, connect
from taskmachine.adapters.stores.postgresql.faults import translated
from taskmachine.statemachine import ConfigurationError

__all__ = ["VERSION", "found", "lock_key", "prepare"]

VERSION: Final = 1

_APPLICATION: Final = b"taskmachine 0.1.0"
_DEVELOPMENT: Final = (b"taskmachine", b"taskmachine 0.1")
"""The marks of tables that were created before 0.1.0."""

_WAIT_MS: Final = 60_000
"""How long a migration may take, and how long other processes wait for it."""

# Far from a cap, transactions that create tasks share the locks and do not wait for each other: at
# most as many tasks as there are connections are not counted yet.  Closer to a cap, a transaction
# is repeated with an exclusive lock, so that the cap is exact.  The locks are taken in one order
# and before any read: each statement sees what was committed before it began.
_ADD_TASK: Final = """CREATE FUNCTION @add_task(
        id text, owner text, created_at bigint, call_key text, version bigint, is_live boolean,
        deadline bigint, queued_at bigint, holder text, is_waiting boolean, record bytea,
        seqs bigint[], lines bytea[], shard smallint, caps bigint[], locks bigint[],
        alone_of_owner boolean, alone_in_all boolean,
        OUT is_added boolean, OUT same bytea, OUT is_known boolean,
        OUT live_of_owner bigint, OUT live_in_all bigint,
        OUT retained_of_owner bigint, OUT retained_in_all bigint,
        OUT is_near_of_owner boolean, OUT is_near_in_all boolean
    ) LANGUAGE plpgsql AS $$
    #variable_conflict use_column
    DECLARE
        creating bigint := current_setting('max_connections');
    BEGIN
        is_added := false;
        IF alone_in_all THEN
            PERFORM pg_advisory_xact_lock(locks[1]);
        ELSE
            PERFORM pg_advisory_xact_lock_shared(locks[1]);
        END IF;
        IF alone_of_owner THEN
            PERFORM pg_advisory_xact_lock(locks[2]);
        ELSE
            PERFORM pg_advisory_xact_lock_shared(locks[2]);
        END IF;
        IF add_task.call_key IS NOT NULL THEN
            SELECT task.record INTO same FROM @tasks AS task
            WHERE task.owner = add_task.owner AND task.call_key = add_task.call_key;
            IF FOUND THEN
                RETURN;
            END IF;
        END IF;
        SELECT EXISTS (SELECT 1 FROM @tasks AS task WHERE task.id = add_task.id) INTO is_known;
        SELECT coalesce(sum(counts.live), 0), coalesce(sum(counts.retained), 0)
        INTO live_of_owner, retained_of_owner
        FROM @counts AS counts WHERE counts.owner = add_task.owner;
        SELECT sum(totals.live), sum(totals.retained) INTO live_in_all, retained_in_all
        FROM @totals AS totals;
        is_near_of_owner := caps[1] - live_of_owner <= creating
            OR caps[3] - retained_of_owner <= creating;
        is_near_in_all := caps[2] - live_in_all <= creating
            OR caps[4] - retained_in_all <= creating;
        IF is_known OR (is_near_of_owner AND NOT alone_of_owner)
            OR (is_near_in_all AND NOT alone_in_all)
            OR live_of_owner >= caps[1] OR live_in_all >= caps[2]
            OR retained_of_owner >= caps[3] OR retained_in_all >= caps[4]
        THEN
            RETURN;
        END IF;
        INSERT INTO @tasks VALUES (
            add_task.id, add_task.owner, add_task.created_at, add_task.call_key,
            add_task.version, add_task.is_live, add_task.deadline, add_task.queued_at,
            add_task.holder, add_task.is_waiting, add_task.record
        ) ON CONFLICT DO NOTHING;
        IF NOT FOUND THEN
            RETURN;
        END IF;
        INSERT INTO @history SELECT add_task.id, line.seq, line.record
        FROM unnest(seqs, lines) AS line (seq, record);
        INSERT INTO @counts AS counts
        VALUES (add_task.owner, add_task.shard, add_task.is_live::int, 1)
        ON CONFLICT (owner, shard) DO UPDATE
        SET live = counts.live + excluded.live, retained = counts.retained + 1;
        UPDATE @totals AS totals
        SET live = totals.live + add_task.is_live::int, retained = totals.retained + 1
        WHERE totals.shard = add_task.shard;
        is_added := true;
    END $$"""

# Ids and owners are sorted by code point, in any locale.  Partial indexes contain only the rows
# that are queried, so finished tasks do not slow down the queue.  A low fillfactor leaves room for
# the next version of frequently updated rows on the same page.
_MIGRATIONS: Final[Mapping[int, Iterable[str]]] = {
    1: (
        """CREATE TABLE @meta (name text PRIMARY KEY, value bytea NOT NULL)""",
        """CREATE TABLE @tasks (
            id text COLLATE "C" PRIMARY KEY,
            owner text COLLATE "C" NOT NULL,
            created_at bigint NOT NULL,
            call_key text COLLATE "C",
            version bigint NOT NULL,
            is_live boolean NOT NULL,
            deadline bigint,
            queued_at bigint,
            holder text COLLATE "C",
            is_waiting boolean NOT NULL,
            record bytea NOT NULL
        ) WITH (fillfactor = 80)""",
        "CREATE INDEX tasks_of_owner ON @tasks (owner, created_at DESC, id DESC)",
        "CREATE INDEX tasks_created ON @tasks (created_at DESC, id DESC)",
        "CREATE UNIQUE INDEX tasks_key ON @tasks (owner, call_key) WHERE call_key IS NOT NULL",
        "CREATE INDEX tasks_live ON @tasks (deadline, id) WHERE is_live",
        "CREATE INDEX tasks_ended ON @tasks (deadline, id) WHERE NOT is_live",
        "CREATE INDEX tasks_queued ON @tasks (queued_at, id) WHERE queued_at IS NOT NULL",
        "CREATE INDEX tasks_held ON @tasks (holder, created_at, id) WHERE holder IS NOT NULL",
        "CREATE INDEX tasks_waiting ON @tasks (is_waiting) WHERE is_waiting",
        """CREATE TABLE @history (
            task_id text COLLATE "C" NOT NULL, seq bigint NOT NULL, record bytea NOT NULL,
            PRIMARY KEY (task_id, seq)
        )""",
        """CREATE TABLE @messages (
            task_id text COLLATE "C" NOT NULL, seq bigint GENERATED ALWAYS AS IDENTITY,
            message bytea NOT NULL,
            PRIMARY KEY (task_id, seq)
        )""",
        """CREATE TABLE @counts (
            owner text COLLATE "C" NOT NULL, shard smallint NOT NULL,
            live bigint NOT NULL, retained bigint NOT NULL,
            PRIMARY KEY (owner, shard)
        ) WITH (fillfactor = 50)""",
        """CREATE TABLE @totals (
            shard smallint PRIMARY KEY, live bigint NOT NULL, retained bigint NOT NULL
        ) WITH (fillfactor = 10)""",
        f"INSERT INTO @totals SELECT n, 0, 0 FROM generate_series(0, {sql.SHARDS - 1}) AS n",
        """CREATE TABLE @workers (
            id text COLLATE "C" PRIMARY KEY, host text NOT NULL,
            pid bigint NOT NULL, beat bigint NOT NULL
        ) WITH (fillfactor = 50)""",
        """CREATE TABLE @sessions (
            key text COLLATE "C" PRIMARY KEY, body bytea NOT NULL, until bigint NOT NULL
        )""",
        "CREATE INDEX sessions_until ON @sessions (until, key)",
        "CREATE TABLE @session_count (sessions bigint NOT NULL) WITH (fillfactor = 10)",
        "INSERT INTO @session_count VALUES (0)",
        _ADD_TASK,
    ),
}
"""The statements that migrate to each version from the previous one."""

_SCHEMA_EXISTS: Final = "SELECT to_regnamespace(%s) IS NOT NULL"
_TABLES: Final = """
    SELECT count(*) FROM pg_catalog.pg_class
    WHERE relnamespace = to_regnamespace(%s)::oid"""
_VERSION: Final = """
    SELECT (SELECT value FROM @meta WHERE name = 'application'),
        (SELECT value FROM @meta WHERE name = 'version')"""
_SET_META: Final = """
    INSERT INTO @meta (name, value) VALUES (%s, %s)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value"""
_MISSING_RIGHTS: Final = """
    SELECT DISTINCT lower(privilege) FROM pg_catalog.pg_class,
        unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS privilege
    WHERE relnamespace = to_regnamespace(%s)::oid AND relkind = 'r'
        AND NOT has_table_privilege(pg_class.oid, privilege)
    ORDER BY 1"""


async def prepare(address: Address) -> bytes:
    """Create or migrate the tables and return the secret.

    `ConfigurationError` if they belong to another program, are too new, or privileges are missing.
    Several processes may call this concurrently: one migrates, the others wait.
    """
    connection = await connect(address)
    session = Session(connection, address.schema)
    async with connection:
        with translated(address.place):
            try:
                if await _version(session, address) != VERSION:
                    await _migrate(session, address)
                missing = await session.rows(_MISSING_RIGHTS, (address.schema,))
                if not missing:
                    ((secret,),) = await session.rows(sql.SECRET)
                    return bytes(secret)
            except errors.InsufficientPrivilege as error:
                detail = str(error).splitlines()[0]
                raise ConfigurationError(
                    f"{address.place}: this user may not create or use the schema"
                    f" '{address.schema}': {detail}"
                ) from None
            raise ConfigurationError(
                f"{address.place}: this user lacks privileges on the tables in the schema"
                f" '{address.schema}': {', '.join(right for (right,) in missing)}"
            )


async def found(address: Address) -> Schema:
    """Return the schema version of the database and the newest one, without any change."""
    connection = await connect(address)
    async with connection:
        with translated(address.place):
            return Schema(await _version(Session(connection, address.schema), address), VERSION)


def lock_key(schema: str, *of: str) -> int:
    """Return the key of an advisory lock; all programs in a database share the keys."""
    name = "\0".join(("taskmachine", schema, *of)).encode(errors="surrogatepass")
    return int.from_bytes(hashlib.blake2b(name, digest_size=8).digest(), signed=True)


async def _migrate(session: Session, address: Address) -> None:
    async with session.transaction():
        await session.send(
            "SELECT set_config('statement_timeout', %(ms)s, true),"
            " set_config('lock_timeout', %(ms)s, true)",
            {"ms": str(_WAIT_MS)},
        )
        await session.send(sql.LOCK, (lock_key(address.schema, "migration"),))
        # Read under the lock, as another process may have migrated the tables meanwhile.
        version = await _version(session, address)
        if version == 0:
            ((exists,),) = await session.rows(_SCHEMA_EXISTS, (address.schema,))
            if not exists:  # the user may lack the privilege to create schemas
                await session.send(f"CREATE SCHEMA {address.schema}")
        for number in range(version + 1, VERSION + 1):
            for statement in _MIGRATIONS[number]:
                await session.send(statement)
        if version == 0:
            await session.send(_SET_META, ("application", _APPLICATION))
            await session.send(_SET_META, ("secret", secrets.token_bytes(32)))
        if version != VERSION:
            await session.send(_SET_META, ("version", b"%d" % VERSION))


async def _version(session: Session, address: Address) -> int:
    """Return the schema version, or 0 if there are no tables."""
    ((tables,),) = await session.rows(_TABLES, (address.schema,))
    if tables == 0:
        return 0
    try:
        async with session.transaction():  # may be a savepoint: an error must not end the outer one
            ((application, version),) = await session.rows(_VERSION)
    except (errors.UndefinedTable, errors.UndefinedColumn):
        application = version = None
    if application in _DEVELOPMENT:
        raise ConfigurationError(
            f"the schema '{address.schema}' in {address.place} was created by a development version"
            " before 0.1.0, which is not supported: choose another one by ?schema=NAME"
        )
    if application != _APPLICATION or version is None or not version.isdigit():
        raise ConfigurationError(
            f"the schema '{address.schema}' in {address.place} belongs to another program:"
            " choose another one by ?schema=NAME"
        )
    if int(version) > VERSION:
        raise ConfigurationError(
            f"{address.place} has schema version {int(version)}, but this version of taskmachine"
            f" supports up to {VERSION}: upgrade taskmachine"
        )
    return int(version)
