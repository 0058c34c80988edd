"""Stores of an older version are migrated, those of a newer one and of development refused.

There is one version so far, so the next one is made up.
"""

import asyncio
import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import attrs
import pytest

from taskmachine.adapters.cli.main import main
from taskmachine.adapters.stores import (
    KeptSession,
    Schema,
    Store,
    StoreError,
    find_schema,
    open_store,
)
from taskmachine.adapters.stores.postgresql.connections import read_url
from taskmachine.adapters.stores.testing.scenes import created, moved, started, state_of, waiting
from taskmachine.statemachine import ConfigurationError
from tests.adapters.stores.postgres_server import Server
from tests.oracle import REPOSITORY

SESSION = KeptSession("s1", b"body", 10)


@attrs.frozen
class Place:
    """Where a store is, and its tables behind its back."""

    kind: str
    url: str
    server: Server | None = None

    def execute(self, statement: str) -> list[Any]:
        if self.server is not None:
            return self.server.execute(statement.replace("@", f"{read_url(self.url).schema}."))
        with closing(sqlite3.connect(self.url.removeprefix("sqlite:"))) as connection, connection:
            return connection.execute(statement.replace("@", "")).fetchall()

    @property
    def tables(self) -> set[str]:
        if self.server is None:
            found = self.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        else:
            schema = read_url(self.url).schema
            found = self.execute(f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}'")
        return {name for (name,) in found}

    @contextmanager
    def newer(self, monkeypatch: pytest.MonkeyPatch, *statements: str) -> Iterator[None]:
        """As if this program were the next version."""
        schema = import_module(f"taskmachine.adapters.stores.{self.kind}.schema")
        if self.server is None:
            statements = tuple(statement.replace("@", "") for statement in statements)
        with monkeypatch.context() as patch:
            patch.setattr(schema, "VERSION", 2)
            patch.setitem(schema._MIGRATIONS, 2, statements)
            yield


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return Place("sqlite", f"sqlite:{tmp_path / 'tasks.db'}")
    server: Server = request.getfixturevalue("server")
    return Place("postgresql", server.new_url(), server)


async def everything(store: Store) -> tuple[object, ...]:
    return (*await state_of(store), await store.secret(), await store.session("s1"))


def fill(url: str) -> tuple[object, ...]:
    """Fill a store with all kinds of rows, and return what can be read of them."""

    async def run() -> tuple[object, ...]:
        store = await open_store(url)
        await created(store, "t1")
        await moved(store, started(await created(store, "t2", "bob")))
        steps = waiting("t3")
        await store.adopt(steps[-1].task, [step.entry for step in steps])
        await store.keep_session(SESSION, 9)
        await store.enqueue("t2", b"message", 9)
        found = await everything(store)
        await store.close()
        return found

    return asyncio.run(run())


async def open_and_close(url: str) -> None:
    await (await open_store(url)).close()


def read(url: str) -> tuple[object, ...]:
    """All that was filled in, after several have opened the store at once."""

    async def run() -> tuple[object, ...]:
        await asyncio.gather(*(open_and_close(url) for _ in range(5)))
        store = await open_store(url)
        try:
            found = await everything(store)
            assert list(await store.dequeue("t2", 9)) == [b"message"]
            return found
        finally:
            await store.close()

    return asyncio.run(run())


def refusal(url: str, kind: type[Exception] = ConfigurationError) -> str:
    with pytest.raises(kind) as error:
        asyncio.run(open_and_close(url))
    assert "\n" not in str(error.value)
    return str(error.value)


def test_older_store_is_migrated_on_open_and_newer_store_is_refused(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = fill(place.url)
    check = ["store", "migrate", "--check", place.url]
    migration = (
        "ALTER TABLE @tasks ADD COLUMN colour text NOT NULL DEFAULT 'red'",
        "UPDATE @tasks SET colour = 'green' WHERE owner = 'bob'",
    )
    assert asyncio.run(find_schema(place.url)) == Schema(1, 1)
    with place.newer(monkeypatch, *migration):
        assert asyncio.run(find_schema(place.url)) == Schema(1, 2)
        assert main(check) == 1
        said = (
            "The schema has version 1. Opening the store with this program upgrades it to version 2"
        )
        assert capsys.readouterr().out.startswith(said)
        assert main([*check, "--json"]) == 1
        assert json.loads(capsys.readouterr().out) == {"schemaVersion": 1, "knownVersion": 2}
        assert asyncio.run(find_schema(place.url)) == Schema(1, 2), "it only looks"
        assert read(place.url) == before
        colours = place.execute("SELECT id, colour FROM @tasks ORDER BY id")
        assert colours == [("t1", "red"), ("t2", "green"), ("t3", "red")]
        assert asyncio.run(find_schema(place.url)) == Schema(2, 2)
        assert main(check) == 0
        assert capsys.readouterr().out == "The schema has version 2 and is up to date.\n"
    said = "has schema version 2, but this version of taskmachine supports up to 1: upgrade"
    assert said in refusal(place.url)
    assert main(check) == 2
    assert said in capsys.readouterr().err
    assert len(place.execute("SELECT colour FROM @tasks")) == 3, "it is left alone"


def test_a_new_store_has_the_newest_version(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with place.newer(monkeypatch, "CREATE TABLE @more (id int)"):
        fill(place.url)
        assert asyncio.run(find_schema(place.url)) == Schema(2, 2)
    assert "more" in place.tables


def test_an_older_store_can_be_copied_into_a_new_one(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fill(place.url)
    with place.newer(monkeypatch, "CREATE TABLE @more (id int)"):
        assert main(["store", "migrate", place.url, f"sqlite:{tmp_path / 'new.db'}"]) == 0
    with closing(sqlite3.connect(tmp_path / "new.db")) as connection:
        assert connection.execute("SELECT count(*) FROM tasks").fetchone() == (3,)


def test_a_migration_that_fails_changes_nothing(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, tables = fill(place.url), place.tables
    statements = ("CREATE TABLE @more (id int)", "ALTER TABLE @nothing ADD COLUMN x int")
    with place.newer(monkeypatch, *statements):
        assert "nothing" in refusal(place.url, StoreError)
    assert place.tables == tables
    assert asyncio.run(find_schema(place.url)) == Schema(1, 1)
    assert read(place.url) == before


def test_a_migration_whose_process_is_killed_changes_nothing(place: Place) -> None:
    before, tables = fill(place.url), place.tables
    command = [
        sys.executable,
        "-m",
        "tests.adapters.stores.killed_migration",
        place.kind,
        place.url,
    ]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (-signal.SIGKILL, "")
    assert read(place.url) == before, "after waiting for the lock, if the server still holds it"
    assert place.tables == tables
    assert asyncio.run(find_schema(place.url)) == Schema(1, 1)


@pytest.mark.parametrize("version", [1, 2, 5])
def test_a_store_of_a_development_version_is_refused_and_left_alone(
    place: Place, version: int, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(place.url)
    if place.server is None:
        place.execute(f"PRAGMA application_id = {int.from_bytes(b'tskm')}")
        place.execute(f"PRAGMA user_version = {version}")
    else:
        place.execute("UPDATE @meta SET value = 'taskmachine' WHERE name = 'application'")
        place.execute(f"UPDATE @meta SET value = '{version}' WHERE name = 'version'")
    for said in (refusal(place.url), refusal(place.url)):
        assert "by a development version before 0.1.0, which is not supported" in said
    assert main(["store", "migrate", "--check", place.url]) == 2
    assert "development version" in capsys.readouterr().err
    assert place.execute("SELECT count(*) FROM @tasks") == [(3,)]
