"""The PostgreSQL store: the test kit, refusals, and the creation of tables."""

import asyncio
import re
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing

import pytest

from taskmachine.adapters.cli.main import main
from taskmachine.adapters.stores import (
    Schema,
    StoreError,
    find_schema,
    open_store,
    without_password,
)
from taskmachine.adapters.stores.postgresql import queries as postgresql_queries
from taskmachine.adapters.stores.postgresql.connections import Session, read_url
from taskmachine.adapters.stores.postgresql.opening import open_postgresql
from taskmachine.adapters.stores.postgresql.queries import in_schema
from taskmachine.adapters.stores.postgresql.store import PostgreSQLStore
from taskmachine.adapters.stores.records import call_key, columns_of, read_task
from taskmachine.adapters.stores.testing.contract import NewPlace, PersistentStoreContract, Place
from taskmachine.adapters.stores.testing.scenes import created, moved, started
from taskmachine.statemachine import ConfigurationError
from tests.adapters.stores.concurrent_writers import write_concurrently
from tests.adapters.stores.postgres_server import Server
from tests.oracle import REPOSITORY


class CheckedStore(PostgreSQLStore):
    """Looks through its tables before it is closed."""

    async def close(self) -> None:
        try:
            if self._is_open:
                await self._connections.run(agree)
        finally:
            await super().close()


async def agree(session: Session) -> None:
    """Assert that derived columns and counts agree with the records."""
    rows = await session.rows(
        "SELECT id, owner, created_at, call_key, version, is_live, deadline, queued_at, holder,"
        " is_waiting, record FROM @tasks"
    )
    live: dict[str, int] = {}
    retained: dict[str, int] = {}
    for task_id, *row, record in rows:
        task = read_task(record)
        derived = (task.owner, task.created_at, call_key(task), task.version, *columns_of(task))
        assert (task_id, *row) == (task.id, *derived)
        live[task.owner] = live.get(task.owner, 0) + (not task.is_terminal)
        retained[task.owner] = retained.get(task.owner, 0) + 1
    counted = await session.rows(
        "SELECT owner, sum(live)::bigint, sum(retained)::bigint FROM @counts GROUP BY owner"
    )
    assert counted == [(owner, live[owner], retained[owner]) for owner, *_ in counted]
    assert {owner for owner, *_ in counted} == retained.keys()
    totals = await session.rows("SELECT sum(live)::bigint, sum(retained)::bigint FROM @totals")
    assert totals == [(sum(live.values()), sum(retained.values()))]
    sessions = "SELECT sessions, (SELECT count(*) FROM @sessions) FROM @session_count"
    ((counted_sessions, there),) = await session.rows(sessions)
    assert counted_sessions == there
    for table in ("history", "messages"):
        left = f"SELECT 1 FROM @{table} WHERE task_id NOT IN (SELECT id FROM @tasks)"
        assert await session.rows(left) == [], table


class TestPostgreSQLStore(PersistentStoreContract):
    test_random_operations_agree_with_the_model = None  # type: ignore[assignment]  # tests/lifecycle

    @pytest.fixture
    def new_place(self, server: Server) -> NewPlace:
        def new_place() -> Place:
            address = read_url(server.new_url())
            return lambda: CheckedStore.open_at(address)

        return new_place


@pytest.fixture
def url(server: Server) -> str:
    return server.new_url()


def schema_of(url: str) -> str:
    return read_url(url).schema


def opened(url: str) -> None:
    async def run() -> None:
        store = await open_store(url)
        await store.close()

    asyncio.run(run())


def refusal(url: str, kind: type[Exception] = ConfigurationError) -> str:
    """Return the error message of opening a store."""
    with pytest.raises(kind) as error:
        opened(url)
    text = str(error.value)
    assert "\n" not in text
    assert "hidden" not in text, "that is the password"
    return text


# --- where it is ---------------------------------------------------------------------------------


def test_both_names_of_the_scheme_are_known(url: str) -> None:
    opened(url)
    opened(url.replace("postgresql://", "postgres://"))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://u:hidden@h:port/db", "cannot be read"),
        ("postgresql://u:hidden@h/db?no_such_option=1", "cannot be read"),
        ("postgresql:u:hidden", "cannot be read"),
        ("postgresql://u:hidden@h/db?schema=a.b", "the schema of the store must be"),
        ("postgresql://u:hidden@h/db?schema=pg_mine", "the schema of the store must be"),
        ("postgresql://u:hidden@h/db?schema=", "the schema of the store must be"),
        ("postgresql://u:hidden@h/db?pool_size=0", "pool_size of the store must be"),
        ("postgresql://u:hidden@h/db?pool_size=many", "pool_size of the store must be"),
    ],
)
def test_a_url_that_names_no_place_is_refused(url: str, words: str) -> None:
    assert words in refusal(url)


def test_no_sentence_has_a_password() -> None:
    for url in ("postgresql://u:hidd@en@host/db?schema=s", "postgresql://host/db?password=hidden"):
        assert "hid" not in without_password(url)
        assert "host/db?" in without_password(url)
    with pytest.raises(ConfigurationError) as error:
        asyncio.run(open_store("postgre://u:hidden@host/db"))
    assert "hidden" not in str(error.value)


def test_missing_psycopg_error_names_the_extra_to_install() -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None; from taskmachine.adapters.cli.main import main;"
        " sys.exit(main(['tasks', 'list', '--store', 'postgresql://host/db']))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    words = "PostgreSQL requires the package psycopg: pip install 'taskmachine[postgresql]'"
    assert ended.stderr == f"taskmachine: error: {words}\n"


def test_tasks_are_found_by_the_beginning_of_their_id(url: str) -> None:
    async def run() -> None:
        store = await open_postgresql(url)
        for task_id in ("ab1", "ab2", "aB3", "ac4", "a_5"):
            await created(store, task_id)
        for prefix, found in (("ab", ["ab1", "ab2"]), ("a_", ["a_5"]), ("a\0", []), ("b", [])):
            assert [task.id for task in await store.starting_with(prefix, 9)] == found
        assert len(await store.starting_with("a", 3)) == 3
        await store.close()

    asyncio.run(run())


# --- what is refused -----------------------------------------------------------------------------


def test_a_server_that_is_not_there(server: Server) -> None:
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        said = refusal(f"postgresql://u:hidden@127.0.0.1:{port}/db", StoreError)
        assert said.startswith(f"database 'db' at 127.0.0.1:{port} cannot be reached: ")
        listening.listen()
        silent = f"postgresql://u:hidden@127.0.0.1:{port}/db?connect_timeout=1"
        assert "cannot be reached: " in refusal(silent, StoreError)
    assert "no_such_host.invalid" in refusal(
        "postgresql://u:hidden@no_such_host.invalid", StoreError
    )
    assert "at /nowhere:5432 cannot be reached: " in refusal(
        "postgresql://u:hidden@/db?host=/nowhere", StoreError
    )
    assert "does not exist" in refusal(server.url(database="nothing"))


def test_a_wrong_password(server: Server) -> None:
    server.execute("DROP ROLE IF EXISTS guarded")
    server.execute("CREATE ROLE guarded LOGIN PASSWORD 'right'")
    assert "refuses the password" in refusal(server.url(user="guarded:hidden"))
    assert "requires a password" in refusal(server.url(user="guarded"))
    assert "has no such user" in refusal(server.url(user="nobody"))


def test_missing_rights(server: Server) -> None:
    server.execute("CREATE ROLE humble LOGIN")
    url = server.new_url()
    of_humble = url.replace("postgres@", "humble@")
    name = schema_of(url)
    assert f"may not create or use the schema '{name}': permission denied" in refusal(of_humble)
    opened(url)
    assert "permission denied" in refusal(of_humble)
    server.execute(f"GRANT USAGE ON SCHEMA {name} TO humble")
    server.execute(f"GRANT SELECT, INSERT ON ALL TABLES IN SCHEMA {name} TO humble")
    assert refusal(of_humble).endswith(": delete, update")
    server.execute(f"GRANT UPDATE, DELETE ON ALL TABLES IN SCHEMA {name} TO humble")
    work(of_humble)


def test_role_without_create_privilege_can_use_its_given_schema(server: Server) -> None:
    server.execute("CREATE ROLE given LOGIN")
    url = server.new_url()
    server.execute(f"CREATE SCHEMA {schema_of(url)} AUTHORIZATION given")
    work(url.replace("postgres@", "given@"))


def work(url: str) -> None:
    """All that changes something."""

    async def run() -> None:
        store = await open_store(url)
        task = await moved(store, started(await created(store)))
        assert await store.enqueue("t1", b"message", 9) == 0
        assert list(await store.dequeue("t1", 9)) == [b"message"]
        assert await store.load("t1") == task
        await store.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE @orders (id int)",
        "CREATE TABLE @meta (id int)",
        "CREATE TABLE @meta (name text, value bytea)",
        "CREATE TABLE @meta AS SELECT 'application' AS name, 'another'::bytea AS value",
        "CREATE VIEW @tasks AS SELECT 1",
    ],
)
def test_tables_of_another_program_are_refused_and_left_unchanged(
    server: Server, statement: str
) -> None:
    url = server.new_url()
    name = schema_of(url)
    server.execute(f"CREATE SCHEMA {name}")
    server.execute(statement.replace("@", f"{name}."))
    assert f"the schema '{name}' in database 'postgres' at " in refusal(url)
    assert "belongs to another program" in refusal(url)
    tables = "SELECT count(*) FROM pg_class WHERE relnamespace = %s::regnamespace"
    assert server.execute(tables, (name,)) == [(1,)]


def test_store_ignores_tables_of_other_schemas(server: Server, url: str) -> None:
    server.execute("CREATE TABLE IF NOT EXISTS public.tasks (theirs int)")
    work(url)
    work(server.new_url())
    assert server.execute("SELECT count(*) FROM public.tasks") == [(0,)]


# --- how tables are made -------------------------------------------------------------------------


def test_ten_stores_can_open_an_empty_database_at_once(url: str) -> None:
    async def run() -> None:
        stores = await asyncio.gather(*(open_postgresql(url) for _ in range(10)))
        assert len({await store.secret() for store in stores}) == 1, "it was made once"
        await asyncio.gather(*(store.close() for store in stores))

    asyncio.run(run())


def test_processes_on_one_database_lose_nothing(url: str) -> None:
    async def run() -> None:
        store = await CheckedStore.open_at(read_url(url))
        for task_id in "abc":
            task = await store.load(task_id)
            assert task is not None
            assert task.version == 1 + 3 * 10
            seqs = [entry.seq for entry in await store.history(task_id)]
            assert seqs == list(range(1, task.version + 1))
        assert len(await store.browse(None, 9)) == 3
        await store.close()

    reports = write_concurrently(url, count=3, rounds=10)
    assert len({report["secret"] for report in reports}) == 1, "it was made once"
    asyncio.run(run())


def test_looking_makes_nothing(
    server: Server, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asyncio.run(find_schema(url)) == Schema(0, 1)
    for command in (["store", "migrate", "--check", url], ["tasks", "list", "--store", url]):
        assert main(command) == 2
        assert "no store found in postgresql://" in capsys.readouterr().err
    assert server.execute("SELECT to_regnamespace(%s)", (schema_of(url),)) == [(None,)]


def test_text_is_sorted_by_code_point_whatever_the_locale(server: Server, url: str) -> None:
    opened(url)
    others = server.execute(
        "SELECT relname || '.' || attname FROM pg_attribute"
        " JOIN pg_class ON pg_class.oid = attrelid AND relkind = 'r'"
        " JOIN pg_collation ON pg_collation.oid = attcollation AND collname <> 'C'"
        " WHERE relnamespace = %s::regnamespace ORDER BY 1",
        (schema_of(url),),
    )
    assert others == [("meta.name",), ("workers.host",)], "which is not sorted"


# --- speed ---------------------------------------------------------------------------------------

STATEMENTS: Mapping[str, str] = {
    name: value
    for name, value in vars(postgresql_queries).items()
    if re.fullmatch("[A-Z][A-Z_]+", name) and isinstance(value, str)
}

SMALL = {"totals", "session_count", "workers"}
"""Tables with a few rows, however many tasks there are."""

FILL = """
    INSERT INTO @tasks SELECT 't' || n, 'owner ' || n % 100, n, NULL, 1, n % 10 = 0, n,
        CASE WHEN n % 20 = 0 THEN n END,
        CASE WHEN n % 20 = 10 THEN 'w' || n % 7 END, false, 'x'
        FROM generate_series(1, 20000) AS n;
    INSERT INTO @history SELECT 't' || n, 1, 'x' FROM generate_series(1, 20000) AS n;
    INSERT INTO @messages (task_id, message)
        SELECT 't' || n, 'x' FROM generate_series(1, 9999) AS n;
    INSERT INTO @counts SELECT 'owner ' || n, n % 16, 1, 1 FROM generate_series(1, 9999) AS n;
    INSERT INTO @sessions SELECT 's' || n, 'x', n FROM generate_series(1, 9999) AS n;
    ANALYZE @tasks; ANALYZE @history; ANALYZE @messages; ANALYZE @counts; ANALYZE @sessions"""


@pytest.fixture(scope="module")
def filled(server: Server) -> str:
    """A schema with tables that are worth an index."""
    url = server.new_url()
    opened(url)
    for statement in FILL.split(";"):
        server.execute(statement.replace("@", f"{schema_of(url)}."))
    return schema_of(url)


def plan(server: Server, schema: str, statement: str) -> str:
    """Return the generic plan that PostgreSQL uses after the first executions."""
    names: dict[str, str] = {}

    def number(match: re.Match[str]) -> str:
        return names.setdefault(match[1] or f"#{match.start()}", f"${len(names) + 1}")

    text = re.sub(r"%(?:\((\w+)\))?s", number, in_schema(statement, schema).decode())
    lines: list[tuple[str]] = server.execute(f"EXPLAIN (GENERIC_PLAN, COSTS OFF) {text}")
    return "\n".join(line for (line,) in lines)


@pytest.mark.parametrize("name", sorted(STATEMENTS.keys() - {"ADD", "HINT", "LOCK"}))
def test_no_statement_reads_a_whole_table(server: Server, filled: str, name: str) -> None:
    found = plan(server, filled, STATEMENTS[name])
    scanned = set(re.findall(r"Seq Scan on (\w+)", found))
    assert scanned <= SMALL, found


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("LOAD", "tasks_pkey"),
        ("PAGE", "tasks_of_owner"),
        ("BROWSE", "tasks_created"),
        ("QUEUED", "tasks_queued"),
        ("DUE", "tasks_queued"),
        ("HELD", "tasks_held"),
        ("OVERDUE", "tasks_live"),
        ("FORGETTABLE", "tasks_ended"),
        ("EXPORT", "tasks_pkey"),
        ("HISTORY", "history_pkey"),
        ("DUE_SESSIONS", "sessions_until"),
    ],
)
def test_frequent_queries_read_an_index_in_order_without_sorting(
    server: Server, filled: str, name: str, index: str
) -> None:
    found = plan(server, filled, STATEMENTS[name])
    assert re.search(rf"Index (Only )?Scan using {index} on", found), found
    assert "Sort" not in found


def test_the_document_shows_the_plans(server: Server, filled: str) -> None:
    plans = [plan(server, filled, STATEMENTS[name]) for name in ("LOAD", "PAGE", "OVERDUE")]
    assert "\n\n".join(plans) in (REPOSITORY / "docs" / "howto" / "stores.md").read_text()


def test_every_statement_of_the_store_is_looked_at() -> None:
    assert {"LOAD", "PAGE", "ADD", "MOVE", "DEQUEUE", "ORPHANS"} < STATEMENTS.keys()
    others = {"queries", "schema", "connections"}
    modules = {path.stem: path for path in (REPOSITORY / "adapters/stores/postgresql").glob("*.py")}
    assert others < modules.keys()
    for path in (path for name, path in modules.items() if name not in others):
        for word in ("SELECT ", "INSERT ", "UPDATE ", "DELETE "):
            assert word not in path.read_text(), f"{path.name} has a statement of its own"
