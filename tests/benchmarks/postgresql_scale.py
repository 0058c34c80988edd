"""The cost of frequent queries among a thousand and among a million tasks.

The two sizes are two schemas of one database, and each query returns as many tasks in both.  Of
every ten tasks seven have ended, one is queued, one runs in time and one is overdue.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import psycopg

from taskmachine.adapters.runtime.runtime import new_id, system_clock
from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.stores import Worker
from taskmachine.adapters.stores.postgresql import queries as sql
from taskmachine.adapters.stores.postgresql.opening import open_postgresql
from taskmachine.adapters.stores.records import MAX_INTEGER, columns_of, write_record
from taskmachine.statemachine import Task, lifecycle
from tests.adapters.stores.postgres_server import Server
from tests.benchmarks.rounds import Act, Cost, Row, timed
from tests.benchmarks.runtime_work import DONE, a_call, service_on

__all__ = ["measure_scale", "median_pair"]

PAGE: Final = 50
BATCH: Final = 100
"""The limit that the maintenance of a runtime uses."""

MOST_RATIO: Final = 1.5

WORKERS: Final = 10
"""Live workers in both schemas; one more is lost and holds a batch of tasks."""

OF_OWNER: Final = 100
"""Tasks per owner in the small schema; ten times as many in the large one."""

HOUR_MS: Final = 3_600_000
_COLUMNS: Final = """
    id, owner, created_at, version, is_live, deadline, queued_at, holder, is_waiting, record"""


class Size(NamedTuple):
    """A schema with its number of tasks and owners."""

    schema: str
    tasks: int
    owners: int


def sizes(few: int, many: int) -> tuple[Size, Size]:
    return (
        Size("few", few, max(1, few // OF_OWNER)),
        Size("many", many, max(1, many // (10 * OF_OWNER))),
    )


def tasks_of(size: Size, now: int) -> Iterator[Task]:
    """Yield one task per millisecond, owners in turn, so that an owner's rows are scattered."""
    for number in range(size.tasks):
        created = now - HOUR_MS - size.tasks + number
        owner = f"owner {number % size.owners}"
        kind = (number + number // size.owners) % 10
        ttl_ms = 1 if kind == 2 else 24 * HOUR_MS
        step = lifecycle.submit(new_id(), owner, a_call(), created, ttl_ms=ttl_ms)
        if kind == 0:
            yield step.task
            continue
        lost = kind == 2 and number >= size.tasks - BATCH * 10
        worker = "worker lost" if lost else f"worker {number % WORKERS}"
        task = lifecycle.start(step.task, created, worker=worker).task
        if kind < 3:
            yield task
        else:
            yield lifecycle.complete(task, created, DONE).task


async def populate(server: Server, size: Size) -> TaskService:
    """Insert the rows that the store would have written, without histories."""
    store = await open_postgresql(f"{server.url(size.schema)}&pool_size=1")
    for number in range(WORKERS):
        await store.register_worker(Worker(f"worker {number}", "elsewhere", 1))
    copy = f"COPY {size.schema}.tasks ({_COLUMNS}) FROM STDIN (FORMAT binary)"
    kinds = ["text", "text", "int8", "int8", "bool", "int8", "int8", "text", "bool", "bytea"]
    with psycopg.connect(server.url(), autocommit=True) as connection:
        with connection.cursor() as cursor, cursor.copy(copy.encode()) as rows:
            rows.set_types(kinds)
            for task in tasks_of(size, system_clock()):
                is_live, deadline, queued_at, holder, is_waiting = columns_of(task)
                indexed = (bool(is_live), deadline, queued_at, holder, bool(is_waiting))
                facts = (task.id, task.owner, task.created_at, task.version)
                rows.write_row((*facts, *indexed, write_record(task)))
        connection.execute(f"VACUUM (ANALYZE) {size.schema}.tasks".encode())
        connection.execute(f"ANALYZE {size.schema}.workers".encode())
        connection.execute("CHECKPOINT")  # so that none runs during a measurement
    return service_on(store)


class Queries:
    """The queries on one schema, with random tasks and owners."""

    def __init__(self, size: Size, service: TaskService, known: Sequence[tuple[str, str]]) -> None:
        self._size = size
        self._known = known
        self._now = system_clock()
        self._batch = min(BATCH, size.tasks // 10)
        self.service = service
        self.acts: Mapping[str, Act] = {
            "get": self._get,
            f"a page of {PAGE}": self._page,
            f"{BATCH} overdue": self._overdue,
            f"{BATCH} queued": self._queued,
            f"{BATCH} of a lost worker": self._orphans,
        }

    async def _get(self) -> None:
        await self.service.get(*random.choice(self._known))

    async def _page(self) -> None:
        owner = f"owner {random.randrange(self._size.owners)}"
        assert len((await self.service.page(owner, limit=PAGE)).tasks) == PAGE

    async def _overdue(self) -> None:
        assert len(await self.service.store.overdue(self._now, BATCH)) == self._batch

    async def _queued(self) -> None:
        assert len(await self.service.store.queued(0, BATCH)) == self._batch

    async def _orphans(self) -> None:
        assert len(await self.service.store.orphans(BATCH)) == self._batch


async def measure_scale(server: Server, few: int, many: int, rounds: int, calls: int) -> list[Row]:
    """Measure each query in alternating rounds, by the median ratio; print the query plans."""
    both = sizes(few, many)
    queries = []
    for size in both:
        service = await populate(server, size)
        known = server.execute(f"SELECT owner, id FROM {size.schema}.tasks")
        queries.append(Queries(size, service, known))
    of_few, of_many = queries
    rows = []
    for what, many_act in of_many.acts.items():
        few_act = of_few.acts[what]
        for act in (few_act, many_act):
            await timed(calls, act)  # prepare the statements and load the index pages
        pairs = [(await timed(calls, few_act), await timed(calls, many_act)) for _ in range(rounds)]
        small, large = median_pair(pairs)
        label = f"{what}, of {many:,} / of {few:,}"
        rows.append(Row(label, large, floor=small.wall, most_ratio=MOST_RATIO))
    for size in both:
        print(*explained(server, size), sep="\n", flush=True)
    for size, each in zip(both, queries, strict=True):
        await each.service.store.close()
        server.execute(f"DROP SCHEMA {size.schema} CASCADE")
    return rows


def median_pair(pairs: Sequence[tuple[Cost, Cost]]) -> tuple[Cost, Cost]:
    """Return floor and cost of the round with the median ratio."""
    return sorted(pairs, key=lambda pair: pair[1].wall / pair[0].wall)[len(pairs) // 2]


def explained(server: Server, size: Size) -> Iterator[str]:
    """Yield the query plans of a get and of a page."""
    ((known, owner),) = server.execute(f"SELECT id, owner FROM {size.schema}.tasks LIMIT 1")
    for what, statement, parameters in (
        ("get", sql.LOAD, ([known],)),
        (f"a page of {PAGE}", sql.PAGE, (owner, MAX_INTEGER, "", PAGE + 1)),
    ):
        yield f"{what}, of {size.tasks:,}:"
        explain = b"EXPLAIN (ANALYZE, BUFFERS, COSTS OFF) " + sql.in_schema(statement, size.schema)
        with psycopg.connect(server.url(), cursor_factory=psycopg.ClientCursor) as connection:
            lines = [line for (line,) in connection.execute(explain, parameters)]
        yield from (f"    {line}" for line in lines[: lines.index("Planning:")])
        yield f"    {lines[-1]}"
