"""Every statement of the SQLite store; none of them reads a whole table.

A test checks the query plan of each.  Statements that read everything are in `maintenance`.
"""

from typing import Final

CHUNK: Final = 100
"""Number of versions, or of exported tasks, that one statement reads."""

LOAD: Final = "SELECT record FROM tasks WHERE id = ?"
STARTING_WITH: Final = "SELECT record FROM tasks WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"
PAGE: Final = """
    SELECT record FROM tasks WHERE owner = ? AND (created_at, id) < (?, ?)
    ORDER BY created_at DESC, id DESC LIMIT ?"""
BROWSE: Final = """
    SELECT record FROM tasks WHERE (created_at, id) < (?, ?)
    ORDER BY created_at DESC, id DESC LIMIT ?"""
QUEUED: Final = """
    SELECT record FROM tasks WHERE queued_at <= ? ORDER BY queued_at, id LIMIT ?"""
DUE: Final = """
    SELECT record FROM tasks WHERE queued_at BETWEEN 0 AND ? ORDER BY queued_at, id LIMIT ?"""
HELD: Final = "SELECT record FROM tasks WHERE holder = ? ORDER BY created_at, id LIMIT ?"
# Iterates over holders instead of tasks, as there are few workers.
ORPHANS: Final = """
    WITH RECURSIVE holders (id) AS (
        SELECT min(holder) FROM tasks WHERE holder IS NOT NULL
        UNION ALL
        SELECT (SELECT min(holder) FROM tasks WHERE holder > holders.id)
        FROM holders WHERE holders.id IS NOT NULL
    )
    SELECT record FROM holders JOIN tasks ON tasks.holder = holders.id
    WHERE NOT EXISTS (SELECT 1 FROM workers WHERE workers.id = holders.id) LIMIT ?"""
OVERDUE: Final = """
    SELECT record FROM tasks WHERE is_live = 1 AND deadline <= ? ORDER BY deadline, id LIMIT ?"""
FORGETTABLE: Final = """
    SELECT record FROM tasks WHERE is_live = 0 AND deadline <= ? ORDER BY deadline, id LIMIT ?"""
EXPORT: Final = "SELECT id, record, history FROM tasks WHERE id > ? ORDER BY id LIMIT ?"
VERSIONS: Final = f"SELECT id, version FROM tasks WHERE id IN ({', '.join('?' * CHUNK)})"

STORED: Final = """
    SELECT rowid, version, is_live, deadline, queued_at, holder, is_waiting
    FROM tasks WHERE id = ?"""
BY_KEY: Final = "SELECT record FROM tasks WHERE owner = ? AND call_key = ?"
INSERT: Final = """
    INSERT INTO tasks
    (id, owner, created_at, call_key, version, is_live, deadline, queued_at, holder, is_waiting,
    record, history)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
REWRITE: Final = """
    UPDATE tasks SET version = ?, record = ?, history = CAST(history || ? AS BLOB)
    WHERE id = ? AND version = ? AND deadline IS ? AND holder IS ?"""
ADD_STEP: Final = "INSERT INTO steps (task_id, seq, record) VALUES (?, ?, ?)"
STEPS: Final = "SELECT record FROM steps WHERE task_id = ? ORDER BY seq"
DELETE_STEPS: Final = "DELETE FROM steps WHERE task_id = ?"
MOVE: Final = """
    UPDATE tasks
    SET is_live = ?, deadline = ?, queued_at = ?, holder = ?, is_waiting = ?, version = ?,
        record = ?, history = CAST(history || ? AS BLOB)
    WHERE rowid = ?"""
DELETE: Final = "DELETE FROM tasks WHERE rowid = ?"

HISTORY: Final = "SELECT history FROM tasks WHERE id = ?"

COUNTS: Final = "SELECT live, retained FROM counts WHERE owner = ?"
COUNT: Final = """
    INSERT INTO counts (owner, live, retained) VALUES (?, ?, ?)
    ON CONFLICT (owner) DO UPDATE
    SET live = live + excluded.live, retained = retained + excluded.retained"""
DELETE_COUNTS: Final = "DELETE FROM counts WHERE owner = ? AND retained = 0"
TOTALS: Final = "SELECT live, retained FROM totals WHERE id = 0"
WAITING: Final = "SELECT count(*) FROM tasks WHERE is_waiting = 1"
"""Reads one index entry per waiting task; the cap of live tasks limits them."""
TOTAL: Final = "UPDATE totals SET live = live + ?, retained = retained + ? WHERE id = 0"

ENLIST: Final = "INSERT OR REPLACE INTO workers (id, host, pid, beat) VALUES (?, ?, ?, ?)"
BEAT: Final = "UPDATE workers SET beat = beat + 1 WHERE id = ?"
STRIKE: Final = "DELETE FROM workers WHERE id = ?"
WORKERS: Final = "SELECT id, host, pid, beat FROM workers"
"""Reads the whole table, which has one row per process."""

FIRST_MESSAGE: Final = "SELECT min(seq) FROM messages WHERE task_id = ?"
LAST_MESSAGE: Final = "SELECT max(seq) FROM messages WHERE task_id = ?"
ENQUEUE: Final = "INSERT INTO messages (task_id, seq, message) VALUES (?, ?, ?)"
MESSAGES: Final = "SELECT seq, message FROM messages WHERE task_id = ? ORDER BY seq LIMIT ?"
DELETE_MESSAGES: Final = "DELETE FROM messages WHERE task_id = ? AND seq <= ?"

SESSION: Final = "SELECT key, body, until FROM sessions WHERE key = ?"
ADD_SESSION: Final = "INSERT INTO sessions (body, until, key) VALUES (?, ?, ?)"
REPLACE_SESSION: Final = "UPDATE sessions SET body = ?, until = ? WHERE key = ?"
END_SESSION: Final = "DELETE FROM sessions WHERE key = ?"
DUE_SESSIONS: Final = "SELECT key FROM sessions WHERE until <= ? ORDER BY until, key LIMIT ?"
FORGET_SESSIONS: Final = f"DELETE FROM sessions WHERE key IN ({DUE_SESSIONS})"
SESSIONS: Final = "SELECT sessions FROM totals WHERE id = 0"
COUNT_SESSIONS: Final = "UPDATE totals SET sessions = sessions + ? WHERE id = 0"

SECRET: Final = "SELECT value FROM meta WHERE name = 'secret'"
NEW_SECRET: Final = "UPDATE meta SET value = ? WHERE name = 'secret'"
