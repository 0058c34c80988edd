"""Backups, checks, and the bytes of records."""

import asyncio
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import attrs
import msgspec
import pytest

from taskmachine.adapters.stores import KeptSession, StoreError
from taskmachine.adapters.stores.records import read_entry, read_task, write_record
from taskmachine.adapters.stores.sqlite.maintenance import back_up, problems
from taskmachine.adapters.stores.sqlite.store import SQLiteStore, open_sqlite
from taskmachine.adapters.stores.testing.scenes import created, ended, moved, started, submit
from taskmachine.statemachine import Call, ConfigurationError, Progress, State, lifecycle


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


async def fill(store: SQLiteStore) -> None:
    for number in range(5):
        await created(store, f"t{number}", call=Call("tools/call", key=str(number)))
    await moved(store, started(await created(store, "u")))
    await store.keep_session(KeptSession("s1", b"body", 10), 1)


async def write(store: SQLiteStore, name: str) -> None:
    for number in range(60):
        task = await created(store, f"{name}{number}")
        await store.keep_session(KeptSession(f"{name}{number}", b"body", number), 1_000)
        await moved(store, ended(task))


# --- backups -------------------------------------------------------------------------------------


def test_a_backup_is_one_moment_of_a_store_that_is_written_to(path: Path) -> None:
    async def run() -> None:
        store = await open_sqlite(f"sqlite:{path}")
        writers = [asyncio.create_task(write(store, name)) for name in "abcdef"]
        copies = [path.with_name(f"copy {number}.db") for number in range(3)]
        for copy in copies:
            await store.backup(copy)
        await asyncio.gather(*writers)
        for copy in copies:
            assert stat.S_IMODE(copy.stat().st_mode) == 0o600
            other = await open_sqlite(f"sqlite:{copy}")
            assert await other.check() == []
            assert await other.secret() == await store.secret()
            await other.close()
        await store.close()

    asyncio.run(run())


def test_a_backup_has_the_sessions(path: Path) -> None:
    async def run() -> None:
        store = await open_sqlite(f"sqlite:{path}")
        await fill(store)
        await store.backup(path.with_name("copy.db"))
        other = await open_sqlite(f"sqlite:{path.with_name('copy.db')}")
        await store.end_session("s1")
        assert await other.session("s1") == KeptSession("s1", b"body", 10)
        await other.close()
        await store.close()

    asyncio.run(run())


def test_a_backup_replaces_nothing(path: Path) -> None:
    async def run() -> None:
        store = await open_sqlite(f"sqlite:{path}")
        target = path.with_name("there")
        target.write_text("precious")
        with pytest.raises(ConfigurationError, match="exists: choose another file"):
            await store.backup(target)
        assert target.read_text() == "precious"
        with pytest.raises(ConfigurationError, match="cannot be created"):
            await store.backup(path.parent / "no" / "folder")
        await store.close()
        with pytest.raises(StoreError, match="the store is closed"):
            await store.backup(path.with_name("late"))

    asyncio.run(run())


def test_a_backup_that_fails_leaves_no_file(path: Path) -> None:
    path.write_text("no database" * 1_000)
    target = path.with_name("copy.db")
    with pytest.raises(StoreError, match="is not a SQLite database"):
        back_up(path, target)
    assert not target.exists()


# --- checks --------------------------------------------------------------------------------------

OTHER = "(SELECT history FROM tasks WHERE id = 't1')"
TWICE = "CAST(history || history AS BLOB)"
TORN = "substr(history, 1, length(history) - 1)"


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE counts SET live = live + 1", "The count of tasks of owner 'alice' is"),
        ("DELETE FROM counts", "The count of tasks of owner 'alice' is wrong."),
        ("UPDATE totals SET retained = 0", "The total count of tasks is wrong."),
        ("UPDATE totals SET sessions = 2", "The count of sessions is wrong."),
        ("DELETE FROM sessions", "The count of sessions is wrong."),
        ("UPDATE tasks SET record = x'ff' WHERE id = 't1'", "Task t1 cannot be read"),
        ("UPDATE tasks SET deadline = 5 WHERE id = 't1'", "The columns of task t1 do not agree"),
        ("UPDATE tasks SET holder = 'w' WHERE id = 't1'", "The columns of task t1 do not agree"),
        ("UPDATE tasks SET id = 'x' WHERE id = 't1'", "The columns of task x do not agree"),
        ("UPDATE tasks SET owner = 'bob' WHERE id = 't1'", "The columns of task t1 do not agree"),
        ("UPDATE tasks SET history = x'' WHERE id = 't1'", "The history of task t1 does not end"),
        (f"UPDATE tasks SET history = {OTHER} WHERE id = 'u'", "Line 1 of the history of task u"),
        (f"UPDATE tasks SET history = {TWICE} WHERE id = 'u'", "of the history of task u does not"),
        (f"UPDATE tasks SET history = {TORN} WHERE id = 'u'", "of the history of task u cannot"),
        ("UPDATE tasks SET history = x'00000001' WHERE id = 'u'", "Line 1 of the history of task"),
        ("INSERT INTO messages VALUES ('no', 1, x'00')", "Messages belong to task no"),
        ("DROP TABLE totals", "no such table: totals."),
    ],
)
def test_a_check_finds(path: Path, statement: str, problem: str) -> None:
    async def run() -> None:
        store = await open_sqlite(f"sqlite:{path}")
        await fill(store)
        assert await store.check() == []
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(statement)
        found = await store.check()
        assert any(problem in sentence for sentence in found), found
        assert all(sentence.endswith(".") for sentence in found)
        await store.close()

    asyncio.run(run())


def test_a_check_of_a_store_that_is_written_to_finds_nothing(path: Path) -> None:
    async def run() -> None:
        store = await open_sqlite(f"sqlite:{path}")
        writers = [asyncio.create_task(write(store, name)) for name in "abcdef"]
        checks = 0
        while not all(writer.done() for writer in writers):
            assert await store.check() == []
            checks += 1
        assert checks > 1
        await asyncio.gather(*writers)
        await store.close()

    asyncio.run(run())


def test_a_check_finds_damage_of_the_file(path: Path) -> None:
    async def run() -> None:
        store = await open_sqlite(f"sqlite:{path}")
        await fill(store)
        await store.close()

    asyncio.run(run())
    content = bytearray(path.read_bytes())
    for page in range(2, len(content) // 4096):
        content[page * 4096 : page * 4096 + 40] = b"\xff" * 40
    path.write_bytes(content)
    found = problems(path)
    assert "damaged" in found[0]
    assert all("\n" not in sentence for sentence in found)


# --- records -------------------------------------------------------------------------------------


def test_integers_of_any_size_are_kept() -> None:
    for token in (0, -1, 2**63, 2**64, -(2**63) - 1, 10**40):
        call = Call("tools/call", progress_token=token, answers=frozenset({"a"}))
        step = submit(call=call)
        task = attrs.evolve(step.task, progress=Progress(0.5), partial=b"\x00\xff")
        assert read_task(write_record(task)) == task
    entry = attrs.evolve(submit().entry, at=10**30)
    assert read_entry(write_record(entry)) == entry


def test_fields_that_were_not_written_take_their_defaults() -> None:
    call = {"method": "tools/call", "of a later version": 1}
    record = {"id": "t1", "owner": "alice", "call": call, "created_at": 1, "updated_at": 1}
    task = read_task(msgspec.msgpack.encode(record | {"of a later version": [1]}))
    assert task == attrs.evolve(
        lifecycle.submit("t1", "alice", Call("tools/call"), 1, ttl_ms=None).task,
        state=State.NEW,
        version=0,
    )


@pytest.mark.parametrize("data", [b"", b"\xff", b"{", b"{}", b"\x80", b"\x81\xa2id\x01", b"\xc1"])
def test_damaged_records_are_errors_of_the_store(data: bytes) -> None:
    with pytest.raises(StoreError):
        read_task(data)
    with pytest.raises(StoreError):
        read_entry(data)


def test_text_with_a_lone_surrogate_cannot_be_stored() -> None:
    with pytest.raises(StoreError):
        write_record(submit("\ud800").task)
