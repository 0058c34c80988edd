"""Whether what is asked all the time costs the same among a thousand tasks and a million.

Two schemas in one database.  Both answer with as many tasks to each question: of every ten tasks
seven have ended, one waits in the queue, one is worked on in its time and one beyond it.
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
"""As many as the upkeep of a runtime asks for."""

MOST_RATIO: Final = 1.5

WORKERS: Final = 10
"""However many tasks there are; and one more that was lost, with a batch of tasks."""

OF_OWNER: Final = 100
"""Tasks of each owner in the small schema; in the large one ten times as many."""

HOUR_MS: Final = 3_600_000
_COLUMNS: Final = "id, owner, created_at, version, is_live, deadline, is_queued, holder, record"


class Size(NamedTuple):
    """A schema, and how many tasks of how many owners are in it."""

    schema: str
    tasks: int
    owners: int


def sizes(few: int, many: int) -> tuple[Size, Size]:
    return (
        Size("few", few, max(1, few // OF_OWNER)),
        Size("many", many, max(1, many // (10 * OF_OWNER))),
    )


def made(size: Size, now: int) -> Iterator[Task]:
    """One in each millisecond, of one owner after the other: their tasks do not lie together."""
    for number in range(size.tasks):
        born = now - HOUR_MS - size.tasks + number
        owner = f"owner {number % size.owners}"
        kind = (number + number // size.owners) % 10
        ttl_ms = 1 if kind == 2 else 24 * HOUR_MS
        step = lifecycle.submit(new_id(), owner, a_call(), born, ttl_ms=ttl_ms)
        if kind == 0:
            yield step.task
            continue
        lost = kind == 2 and number >= size.tasks - BATCH * 10
        worker = "worker lost" if lost else f"worker {number % WORKERS}"
        task = lifecycle.start(step.task, born, worker=worker).task
        if kind < 3:
            yield task
        else:
            yield lifecycle.complete(task, born, DONE).task


async def filled(server: Server, size: Size) -> TaskService:
    """Their rows as the store would have written them; lines of history there are none."""
    store = await open_postgresql(f"{server.url(size.schema)}&pool_size=1")
    for number in range(WORKERS):
        await store.enlist(Worker(f"worker {number}", "elsewhere", 1))
    copy = f"COPY {size.schema}.tasks ({_COLUMNS}) FROM STDIN (FORMAT binary)"
    kinds = ["text", "text", "int8", "int8", "bool", "int8", "bool", "text", "bytea"]
    with psycopg.connect(server.url(), autocommit=True) as connection:
        with connection.cursor() as cursor, cursor.copy(copy.encode()) as rows:
            rows.set_types(kinds)
            for task in made(size, system_clock()):
                is_live, deadline, is_queued, holder, _ = columns_of(task)
                facts = (task.id, task.owner, task.created_at, task.version, bool(is_live))
                rows.write_row((*facts, deadline, bool(is_queued), holder, write_record(task)))
        connection.execute(f"VACUUM (ANALYZE) {size.schema}.tasks".encode())
        connection.execute(f"ANALYZE {size.schema}.workers".encode())
        connection.execute("CHECKPOINT")  # or it would be taken while others are measured
    return service_on(store)


class Asked:
    """One schema, and every question to it: about any of its tasks, or any of its owners."""

    def __init__(self, size: Size, service: TaskService, known: Sequence[tuple[str, str]]) -> None:
        self._size = size
        self._known = known
        self._now = system_clock()
        self._batch = min(BATCH, size.tasks // 10)
        self.service = service
        self.questions: Mapping[str, Act] = {
            "get": self._get,
            f"a page of {PAGE}": self._page,
            f"{BATCH} whose time is over": self._overdue,
            f"{BATCH} of the queue": self._queued,
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
        assert len(await self.service.store.queued(BATCH)) == self._batch

    async def _orphans(self) -> None:
        assert len(await self.service.store.orphans(BATCH)) == self._batch


async def measure_scale(server: Server, few: int, many: int, rounds: int, calls: int) -> list[Row]:
    """Rounds in turn; of each question the round of the median ratio.  Prints the plans."""
    both = sizes(few, many)
    asked = []
    for size in both:
        service = await filled(server, size)
        known = server.execute(f"SELECT owner, id FROM {size.schema}.tasks")
        asked.append(Asked(size, service, known))
    of_few, of_many = asked
    rows = []
    for what, many_act in of_many.questions.items():
        few_act = of_few.questions[what]
        for act in (few_act, many_act):
            await timed(calls, act)  # statements are prepared, pages of the indexes are there
        pairs = [(await timed(calls, few_act), await timed(calls, many_act)) for _ in range(rounds)]
        small, large = median_pair(pairs)
        label = f"{what}, of {many:,} / of {few:,}"
        rows.append(Row(label, large, floor=small.wall, most_ratio=MOST_RATIO))
    for size in both:
        print(*explained(server, size), sep="\n", flush=True)
    for size, each in zip(both, asked, strict=True):
        await each.service.store.close()
        server.execute(f"DROP SCHEMA {size.schema} CASCADE")
    return rows


def median_pair(pairs: Sequence[tuple[Cost, Cost]]) -> tuple[Cost, Cost]:
    """Floor and cost, in the round of the median ratio."""
    return sorted(pairs, key=lambda pair: pair[1].wall / pair[0].wall)[len(pairs) // 2]


def explained(server: Server, size: Size) -> Iterator[str]:
    """What the server does for a get and for a page."""
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
