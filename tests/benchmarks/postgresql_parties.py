"""The two parties of the cycle benchmark: taskmachine and bare procrastinate.

`python -m tests.benchmarks.postgresql_parties PARTY create URL SCHEMA CLIENTS` is the process that
creates tasks: each line of its input is a number of tasks, and it answers with a line when they
are durable.  `... procrastinate work URL SCHEMA CONCURRENCY` is procrastinate's own worker; that
of taskmachine is the command `taskmachine worker`.
"""

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import psycopg
import uvloop
from procrastinate import App, PsycopgConnector
from procrastinate.schema import SchemaManager
from psycopg import AsyncConnection

from taskmachine.adapters.cli.bench.requester import TEXT, TOOL
from taskmachine.adapters.cli.bench.tools import TOOLS
from taskmachine.adapters.engines.procrastinate.opening import for_replicas
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import RuntimeConfig, open_runtime
from taskmachine.adapters.stores import Caps
from taskmachine.adapters.stores.records import read_task
from taskmachine.protocol.operations import Create
from taskmachine.statemachine import Call, State
from tests.adapters.stores.postgres_server import Server
from tests.benchmarks.rounds import Act

__all__ = ["PARTIES", "POOL_SIZE", "Party"]

POOL_SIZE: Final = 10
"""Connections of each process: the default of the store."""

THIS: Final = (sys.executable, "-m", "tests.benchmarks.postgresql_parties")


class Party(NamedTuple):
    """The commands and queries of one party."""

    name: str
    is_ready: bytes
    """The output of a worker that is ready."""
    prepare: Callable[[Server, str], None]
    worker: Callable[[str, str, int], Sequence[str]]
    """Return the command line of a worker, from URL, schema and concurrency."""
    creating: Callable[[str, str], AbstractAsyncContextManager[Act]]
    left: str
    """A query: whether any task has not ended."""
    ended: Callable[[Server, str], int]
    """Return the number of successful tasks when all have ended."""

    def creator(self, url: str, schema: str, clients: int) -> Sequence[str]:
        return (*THIS, self.name, "create", url, schema, str(clients))


# --- ours ------------------------------------------------------------------------------------


def _our_worker(url: str, schema: str, concurrency: int) -> Sequence[str]:
    return (
        *(str(Path(sys.executable).with_name("taskmachine")), "worker"),
        *("--store", f"{url}&schema={schema}&pool_size={POOL_SIZE}"),
        *(
            "--tools",
            "taskmachine.adapters.cli.bench.tools:TOOLS",
            "--concurrency",
            str(concurrency),
        ),
        *("--log-level", "warning"),
    )


@asynccontextmanager
async def _our_creating(url: str, schema: str) -> AsyncIterator[Act]:
    """Create tasks as a replica does, without HTTP."""
    limits = Limits(caps=Caps(10**9, 10**9, 10**9, 10**9))
    store = f"{url}&schema={schema}&pool_size={POOL_SIZE}"
    numbers = itertools.count()
    async with open_runtime(
        store, TOOLS, RuntimeConfig(limits=limits, engine=for_replicas)
    ) as runtime:
        yield lambda: runtime.create(
            f"owner {next(numbers) % 32}", Create(Call("tools/call", TOOL))
        )


def _our_ended(server: Server, schema: str) -> int:
    tasks = [
        read_task(record) for (record,) in server.execute(f"SELECT record FROM {schema}.tasks")
    ]
    for task in tasks:
        assert task.state is State.COMPLETED, task
        assert task.outcome is not None
        assert task.outcome.result is not None
        assert TEXT.encode() in task.outcome.result
    return len(tasks)


OURS: Final = Party(
    "taskmachine",
    b"working with",
    lambda server, schema: None,
    _our_worker,
    _our_creating,
    "SELECT EXISTS (SELECT 1 FROM {schema}.tasks WHERE is_live)",
    _our_ended,
)


# --- procrastinate ---------------------------------------------------------------------------


def _app(url: str, schema: str) -> App:
    async def configure(connection: AsyncConnection[Any]) -> None:
        await connection.execute(f"SET search_path TO {schema}".encode())
        await connection.commit()

    app = App(connector=PsycopgConnector(conninfo=url, max_size=POOL_SIZE, configure=configure))

    @app.task(name=TOOL, queue=TOOL)
    async def done() -> str:
        return TEXT

    return app


def _prepare_bare(server: Server, schema: str) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
        connection.execute(f"SET search_path TO {schema}".encode())
        connection.execute(SchemaManager.get_schema().encode())


@asynccontextmanager
async def _bare_creating(url: str, schema: str) -> AsyncIterator[Act]:
    app = _app(url, schema)
    async with app.open_async():
        yield lambda: app.tasks[TOOL].defer_async()


async def _bare_work(url: str, schema: str, concurrency: int) -> None:
    app = _app(url, schema)
    async with app.open_async():
        print("ready", flush=True)
        await app.run_worker_async(queues=[TOOL], concurrency=concurrency, delete_jobs="successful")


def _bare_ended(server: Server, schema: str) -> int:
    """Successful jobs are deleted: subtract those left from those created."""
    ((count,),) = server.execute(
        f"SELECT (SELECT last_value FROM {schema}.procrastinate_jobs_id_seq)"
        f" - (SELECT count(*) FROM {schema}.procrastinate_jobs)"
    )
    return int(count)


BARE: Final = Party(
    "procrastinate",
    b"ready",
    _prepare_bare,
    lambda url, schema, concurrency: (
        *(*THIS, "procrastinate", "work"),
        *(url, schema, str(concurrency)),
    ),
    _bare_creating,
    "SELECT EXISTS (SELECT 1 FROM {schema}.procrastinate_jobs WHERE status IN ('todo', 'doing'))",
    _bare_ended,
)

PARTIES: Final = {party.name: party for party in (OURS, BARE)}


# --- the process that creates ----------------------------------------------------------------


async def _create(party: Party, url: str, schema: str, clients: int) -> None:
    async with party.creating(url, schema) as create:

        async def client(numbers: "itertools.count[int]", most: int) -> None:
            while next(numbers) < most:
                await create()

        print("ready", flush=True)
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            numbers = itertools.count()
            await asyncio.gather(*(client(numbers, int(line)) for _ in range(clients)))
            print("done", flush=True)


def main(name: str, what: str, url: str, schema: str, count: str) -> None:
    """Run a process on uvloop, like the commands of taskmachine."""
    if what == "work":
        uvloop.run(_bare_work(url, schema, int(count)))
    else:
        uvloop.run(_create(PARTIES[name], url, schema, int(count)))


if __name__ == "__main__":
    main(*sys.argv[1:])
