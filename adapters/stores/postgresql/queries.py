"""Every statement of the PostgreSQL store, for any schema of a database.

`@` stands for the schema, which `in_schema` inserts.  No name depends on the `search_path`, which
connection poolers may reset.  Related changes are one statement where possible: one round trip and
one transaction.  Rows are locked in one order, tasks before counts before totals, which prevents
deadlocks.
"""

from functools import lru_cache
from typing import Final

__all__ = ["in_schema"]

CHUNK: Final = 100
"""Number of tasks of an export that one statement reads."""

SHARDS: Final = 16
"""Number of rows that count the tasks of an owner, and the tasks in total.

With a single row, concurrent transactions that create or end tasks would wait for each other.
"""

LOAD: Final = "SELECT id, record FROM @tasks WHERE id = ANY (%s::text[])"
STARTING_WITH: Final = "SELECT record FROM @tasks WHERE id >= %s AND id < %s ORDER BY id LIMIT %s"
PAGE: Final = """
    SELECT record FROM @tasks WHERE owner = %s AND (created_at, id) < (%s::bigint, %s)
    ORDER BY created_at DESC, id DESC LIMIT %s"""
BROWSE: Final = """
    SELECT record FROM @tasks WHERE (created_at, id) < (%s::bigint, %s)
    ORDER BY created_at DESC, id DESC LIMIT %s"""
QUEUED: Final = """
    SELECT record FROM @tasks WHERE queued_at <= %s::bigint ORDER BY queued_at, id LIMIT %s"""
DUE: Final = """
    SELECT record FROM @tasks WHERE queued_at BETWEEN 0 AND %s::bigint
    ORDER BY queued_at, id LIMIT %s"""
HELD: Final = "SELECT record FROM @tasks WHERE holder = %s ORDER BY created_at, id LIMIT %s"
# Iterates over holders instead of tasks, as there are few workers.  The inner limit prevents the
# planner from reading all held tasks.
ORPHANS: Final = """
    WITH RECURSIVE holders (id) AS (
        SELECT min(holder) FROM @tasks WHERE holder IS NOT NULL
        UNION ALL
        SELECT (SELECT min(holder) FROM @tasks WHERE holder > holders.id)
        FROM holders WHERE holders.id IS NOT NULL
    )
    SELECT record FROM holders CROSS JOIN LATERAL (
        SELECT record FROM @tasks WHERE holder = holders.id ORDER BY created_at, id LIMIT %s
    ) AS task
    WHERE NOT EXISTS (SELECT 1 FROM @workers AS worker WHERE worker.id = holders.id) LIMIT %s"""
OVERDUE: Final = """
    SELECT record FROM @tasks WHERE is_live AND deadline <= %s::bigint
    ORDER BY deadline, id LIMIT %s"""
FORGETTABLE: Final = """
    SELECT record FROM @tasks WHERE NOT is_live AND deadline <= %s::bigint
    ORDER BY deadline, id LIMIT %s"""
HISTORY: Final = "SELECT record FROM @history WHERE task_id = %s ORDER BY seq"
# One statement sees one snapshot, so a task and its history agree.
EXPORT: Final = """
    SELECT id, record,
        ARRAY(SELECT line.record FROM @history AS line WHERE line.task_id = task.id ORDER BY seq)
    FROM @tasks AS task WHERE id > %s ORDER BY id LIMIT %s"""
# Those of these tasks whose version differs from the known one, which is 0 for no task.
NEWS: Final = """
    SELECT asked.id, task.record
    FROM unnest(%s::text[], %s::bigint[]) AS asked (id, version)
    LEFT JOIN @tasks AS task ON task.id = asked.id COLLATE "C"
    WHERE coalesce(task.version, 0) <> asked.version"""

# The function checks key and caps and stores the task in one round trip; see `schema`.
ADD: Final = """
    SELECT is_added, same, is_known, live_of_owner, live_in_all, retained_of_owner,
        retained_in_all, is_near_of_owner, is_near_in_all
    FROM @add_task(
        %(id)s, %(owner)s, %(created_at)s::bigint, %(key)s, %(version)s::bigint, %(is_live)s,
        %(deadline)s::bigint, %(queued_at)s::bigint, %(holder)s, %(is_waiting)s, %(record)s,
        %(seqs)s::bigint[], %(lines)s::bytea[], %(shard)s::smallint, %(caps)s::bigint[],
        %(locks)s::bigint[], %(alone_of_owner)s, %(alone_in_all)s
    )"""
_LINES: Final = """
    lines AS (
        INSERT INTO @history (task_id, seq, record)
        SELECT %(id)s::text, line.seq, line.record
        FROM changed, unnest(%(seqs)s::bigint[], %(lines)s::bytea[]) AS line (seq, record)
    )"""
_CHANGED: Final = f"""
    WITH changed AS (
        UPDATE @tasks SET version = %(version)s::bigint, is_live = %(is_live)s,
            deadline = %(deadline)s::bigint, queued_at = %(queued_at)s::bigint, holder = %(holder)s,
            is_waiting = %(is_waiting)s, record = %(record)s
        WHERE id = %(id)s AND version = %(expected)s::bigint AND is_live = %(was_live)s
        RETURNING owner
    ), {_LINES}"""
MOVE: Final = f"{_CHANGED} SELECT 1 FROM changed"
MOVE_AND_COUNT: Final = f"""{_CHANGED}, of_owner AS (
        UPDATE @counts AS counts SET live = counts.live + %(live)s::bigint
        FROM changed WHERE counts.owner = changed.owner AND counts.shard = %(shard)s::smallint
        RETURNING 1
    ), in_all AS (
        UPDATE @totals AS totals SET live = totals.live + %(live)s::bigint
        FROM of_owner WHERE totals.shard = %(shard)s::smallint
    )
    SELECT 1 FROM changed"""
DELETE: Final = """
    WITH gone AS (
        DELETE FROM @tasks WHERE id = %(id)s AND version = %(expected)s::bigint
        RETURNING owner, is_live
    ), of_owner AS (
        UPDATE @counts AS counts
        SET live = counts.live - gone.is_live::int, retained = counts.retained - 1
        FROM gone WHERE counts.owner = gone.owner AND counts.shard = %(shard)s::smallint
        RETURNING gone.is_live
    ), in_all AS (
        UPDATE @totals AS totals
        SET live = totals.live - of_owner.is_live::int, retained = totals.retained - 1
        FROM of_owner WHERE totals.shard = %(shard)s::smallint
    )
    SELECT 1 FROM gone"""
DELETE_HISTORY: Final = "DELETE FROM @history WHERE task_id = %s"
DELETE_MESSAGES: Final = "DELETE FROM @messages WHERE task_id = %s"
DELETE_COUNTS: Final = "DELETE FROM @counts WHERE owner = %s AND shard = %s AND retained = 0"
TOTALS: Final = """
    SELECT sum(live)::bigint,
        (SELECT count(*) FROM @tasks WHERE is_waiting AND is_live),
        sum(retained)::bigint
    FROM @totals"""
"""Reads all shards, and one index entry per waiting task; the cap of live tasks limits them."""
RETAINED: Final = "SELECT sum(retained)::bigint FROM @totals"

ENLIST: Final = """
    INSERT INTO @workers (id, host, pid, beat) VALUES (%s, %s, %s::bigint, %s::bigint)
    ON CONFLICT (id) DO UPDATE SET host = excluded.host, pid = excluded.pid, beat = excluded.beat"""
BEAT: Final = "UPDATE @workers SET beat = beat + 1 WHERE id = %s"
STRIKE: Final = "DELETE FROM @workers WHERE id = %s"
WORKERS: Final = "SELECT id, host, pid, beat FROM @workers"
"""Reads the whole table, which has one row per process."""

# Until the end of the transaction no other one can add messages of this task or delete it.
LOCK_TASK: Final = "SELECT 1 FROM @tasks WHERE id = %s FOR NO KEY UPDATE"
ENQUEUE: Final = "INSERT INTO @messages (task_id, message) VALUES (%s, %s)"
DROP_MESSAGES: Final = """
    DELETE FROM @messages WHERE task_id = %(id)s AND seq <= (
        SELECT seq FROM @messages WHERE task_id = %(id)s
        ORDER BY seq DESC OFFSET %(maximum)s LIMIT 1
    )"""
DEQUEUE: Final = """
    DELETE FROM @messages WHERE task_id = %(id)s AND seq = ANY (ARRAY(
        SELECT seq FROM @messages WHERE task_id = %(id)s ORDER BY seq LIMIT %(limit)s
    ))
    RETURNING seq, message"""

SESSION: Final = "SELECT key, body, until FROM @sessions WHERE key = %s"
# Every transaction that adds or deletes sessions locks this row first.
SESSIONS: Final = "SELECT sessions FROM @session_count FOR NO KEY UPDATE"
COUNT_SESSIONS: Final = "UPDATE @session_count SET sessions = sessions + %s"
ADD_SESSION: Final = "INSERT INTO @sessions (body, until, key) VALUES (%s, %s::bigint, %s)"
REPLACE_SESSION: Final = "UPDATE @sessions SET body = %s, until = %s::bigint WHERE key = %s"
END_SESSION: Final = "DELETE FROM @sessions WHERE key = %s"
DUE_SESSIONS: Final = """
    SELECT key FROM @sessions WHERE until <= %s::bigint ORDER BY until, key LIMIT %s"""
FORGET_SESSIONS: Final = f"DELETE FROM @sessions WHERE key = ANY (ARRAY({DUE_SESSIONS}))"

SECRET: Final = "SELECT value FROM @meta WHERE name = 'secret'"
NEW_SECRET: Final = "UPDATE @meta SET value = %s WHERE name = 'secret'"

# Held until the end of the transaction, so it also works behind a connection pooler.
LOCK: Final = "SELECT pg_advisory_xact_lock(%s::bigint)"

# A hint may be lost, so it need not be durable.
HINT: Final = """
    SELECT set_config('synchronous_commit', 'off', true), pg_notify(%s, hint)
    FROM unnest(%s::text[]) AS hint"""


@lru_cache(1_000)
def in_schema(statement: str, schema: str) -> bytes:
    """Insert the name of the schema, which needs no quotes."""
    return statement.replace("@", f"{schema}.").encode()
