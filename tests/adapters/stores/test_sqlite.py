"""The SQLite store: the test kit, refusals, restarts, checks and backups."""

import asyncio
import itertools
import os
import sqlite3
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from taskmachine.adapters.stores import Caps, StoreError, open_store
from taskmachine.adapters.stores.sqlite import queries as sqlite_queries
from taskmachine.adapters.stores.sqlite import schema as sqlite_schema
from taskmachine.adapters.stores.sqlite.schema import VERSION, connect, prepare
from taskmachine.adapters.stores.sqlite.store import SQLiteStore, open_sqlite
from taskmachine.adapters.stores.testing.contract import NewPlace, PersistentStoreContract, Place
from taskmachine.statemachine import Call, ConfigurationError, lifecycle
from tests.oracle import REPOSITORY

SHARED_MEMORY = Path("/dev/shm")


class CheckedStore(SQLiteStore):
    """Looks through its file before it is closed."""

    has_been_checked = False

    async def close(self) -> None:
        if not self.has_been_checked:
            self.has_been_checked = True
            assert await self.check() == []
        await super().close()


async def open_checked(path: Path) -> CheckedStore:
    prepare(path)
    return CheckedStore(path)


class TestSQLiteStore(PersistentStoreContract):
    test_random_operations_agree_with_the_model = None  # type: ignore[assignment]  # tests/lifecycle

    @pytest.fixture
    def new_place(self) -> Iterator[NewPlace]:
        numbers = itertools.count()
        # Thousands of commits: where there is a disk of memory, nothing has to spin for them.
        folder = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
        with tempfile.TemporaryDirectory(dir=folder) as place:

            def new_place() -> Place:
                path = Path(place, f"{next(numbers)}.db")
                return lambda: open_checked(path)

            yield new_place


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tasks.db"


def make(path: Path) -> None:
    asyncio.run(_make(path))


async def _make(path: Path) -> None:
    store = await open_sqlite(f"sqlite:{path}")
    for number in range(50):
        step = lifecycle.submit(f"t{number}", "alice", Call("tools/call"), number, ttl_ms=9)
        await store.create(step.task, [step.entry], Caps())
    await store.close()


def refusal(path: Path, kind: type[Exception]) -> str:
    """Return the error message of opening a store."""
    with pytest.raises(kind) as error:
        asyncio.run(open_sqlite(f"sqlite:{path}"))
    text = str(error.value)
    assert str(path) in text
    assert "\n" not in text
    return text


# --- where it is ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url", ["sqlite:", "sqlite::memory:", "sqlite:a\0b", "sqlite", "sqlite://x.db"]
)
def test_a_url_without_a_file_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        asyncio.run(open_store(url))


@pytest.mark.parametrize("form", ["sqlite:{0}", "sqlite://{0}"])
def test_a_path_may_be_absolute(path: Path, form: str) -> None:
    async def run() -> None:
        store = await open_store(form.format(path))
        assert path.exists()
        await store.close()

    asyncio.run(run())


def test_a_path_may_be_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        store = await open_sqlite("sqlite:tasks.db")
        os.chdir("/")
        assert await store.check() == [], "it is found from wherever the process is by then"
        await store.close()

    monkeypatch.chdir(tmp_path)
    asyncio.run(run())
    assert [file.name for file in tmp_path.iterdir()] == ["tasks.db"]


def test_database_file_is_accessible_only_to_its_owner(path: Path) -> None:
    make(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


# --- what is refused -----------------------------------------------------------------------------


def test_a_missing_folder_and_a_folder_are_refused(tmp_path: Path) -> None:
    assert "the folder" in refusal(tmp_path / "no" / "tasks.db", ConfigurationError)
    assert "is not a regular file" in refusal(tmp_path, ConfigurationError)


@pytest.mark.parametrize("content", [b"hello", b"no database at all\n" * 1_000])
def test_file_that_is_not_a_database_is_refused_and_left_unchanged(
    path: Path, content: bytes
) -> None:
    path.write_bytes(content)
    assert "is not a SQLite database" in refusal(path, ConfigurationError)
    assert path.read_bytes() == content


@pytest.mark.parametrize("application", [0, 4711])
def test_the_database_of_another_program_is_refused_and_left_alone(
    path: Path, application: int
) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE tasks (id)")
        connection.execute(f"PRAGMA application_id = {application}")
    content = path.read_bytes()
    assert "another program" in refusal(path, ConfigurationError)
    assert path.read_bytes() == content


def test_a_newer_schema_is_refused_and_left_alone(path: Path) -> None:
    make(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    content = path.read_bytes()
    text = refusal(path, ConfigurationError)
    assert f"version {VERSION + 1}" in text
    assert f"up to {VERSION}" in text
    assert path.read_bytes() == content


def test_a_damaged_file_is_refused(path: Path) -> None:
    make(path)
    content = bytearray(path.read_bytes())
    for page in range(2, len(content) // 4096):
        content[page * 4096 : page * 4096 + 40] = b"\xff" * 40
    path.write_bytes(content)
    assert "is damaged" in refusal(path, StoreError)


def test_a_file_with_a_torn_first_page_is_refused(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0" + b"\1" * 5_000)
    assert "is damaged" in refusal(path, StoreError)


def test_a_truncated_file_is_refused(path: Path) -> None:
    make(path)
    path.write_bytes(path.read_bytes()[:5_000])
    assert "is damaged" in refusal(path, StoreError)


def test_a_file_of_ours_without_a_version_is_refused(path: Path) -> None:
    make(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 0")
    assert "is damaged" in refusal(path, StoreError)


@pytest.mark.parametrize("is_there", [False, True])
def test_a_locked_file_is_refused_in_the_end(
    path: Path, is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_there:
        make(path)
    monkeypatch.setattr(sqlite_schema, "BUSY_MS", 50)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        assert "is locked by another program" in refusal(path, StoreError)


def test_a_file_that_may_not_be_written_is_refused() -> None:
    """Run as a user other than root, who could write everything."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tasks.db")
        make(path)
        path.chmod(0o444)
        Path(folder).chmod(0o755)
        user = os.geteuid()
        if user == 0:
            os.seteuid(65534)
        try:
            with pytest.raises(StoreError, match="cannot be opened: Permission denied"):
                prepare(path)
        finally:
            os.seteuid(user)


# --- speed ---------------------------------------------------------------------------------------

STATEMENTS = {
    name: value
    for name, value in vars(sqlite_queries).items()
    if name.isupper() and isinstance(value, str)
}


@pytest.mark.parametrize("name", sorted(STATEMENTS.keys() - {"WORKERS"}))
def test_no_statement_reads_a_whole_table(path: Path, name: str) -> None:
    prepare(path)
    with closing(connect(path)) as connection:
        statement = STATEMENTS[name]
        values = (None,) * statement.count("?")
        plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", values).fetchall()
    steps = [step for *_, step in plan]
    # `holders` is the list that a statement makes itself, as long as there are workers.
    scans = [
        step
        for step in steps
        if "SCAN" in step and step not in ("SCAN holders", "SCAN CONSTANT ROW")
    ]
    assert scans == []
    assert not any("TEMP B-TREE" in step for step in steps), "everything is in order by itself"


def test_every_statement_of_the_store_is_looked_at() -> None:
    assert {"LOAD", "PAGE", "MOVE", "BY_KEY", "MESSAGES", "ORPHANS", "SESSIONS"} < STATEMENTS.keys()
    others = {"queries", "schema", "maintenance"}
    modules = {path.stem: path for path in (REPOSITORY / "adapters/stores/sqlite").glob("*.py")}
    assert others < modules.keys()
    for path in (path for name, path in modules.items() if name not in others):
        for word in ("SELECT ", "INSERT ", "UPDATE ", "DELETE "):
            assert word not in path.read_text(), f"{path.name} has a statement of its own"
