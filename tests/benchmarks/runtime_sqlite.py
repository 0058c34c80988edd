"""The cost of durable steps: many callers compared with bare `sqlite3`, and one caller alone."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from taskmachine.adapters.cli.bench.figures import percentile
from taskmachine.adapters.runtime.runtime import new_id
from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.stores import Store
from taskmachine.adapters.stores.records import columns_of, framed, write_record
from taskmachine.adapters.stores.sqlite import queries as sql
from taskmachine.adapters.stores.sqlite import schema as sqlite_schema
from taskmachine.adapters.stores.sqlite.store import open_sqlite
from taskmachine.protocol.operations import Advance, Amend
from taskmachine.statemachine import Progress, Reply, Task, lifecycle
from taskmachine.statemachine.lifecycle import Step
from tests.benchmarks.rounds import Act, Cost, Row, timed
from tests.benchmarks.runtime_work import DONE, OWNER, Scale, a_call, begun, cycle, service_on

__all__ = ["measure_latency", "measure_sqlite"]

CALLERS: Final = 32
FLOOR_SHARE: Final = 0.4
"""Minimum share of the rate of bare `sqlite3`."""

UPDATE: Final = """
    UPDATE tasks SET version = ?, record = ?, history = CAST(history || ? AS BLOB)
    WHERE rowid = ?"""

Statement = tuple[str, Sequence[Any]]
Pair = tuple[Cost, Cost]


def measure_sqlite(scale: Scale, folder: Path) -> Iterator[Row]:
    steps: list[Pair] = []
    cycles: list[Pair] = []
    late: list[list[float]] = []
    for _ in range(scale.file_rounds):
        cost, late_us = asyncio.run(step_round(folder, scale.steps))
        late.append(late_us)
        steps.append((cost, bare_round(folder, *bare_step_rows(scale.steps))))
        cost = asyncio.run(cycle_round(folder, scale.steps))
        cycles.append((cost, bare_round(folder, *bare_cycle_rows(scale.steps))))
    for what, pairs in (("step", steps), ("cycle", cycles)):
        # Disk speed varies: compare pairs measured in a row, and take the median ratio.
        cost, floor = sorted(pairs, key=lambda pair: pair[0].wall / pair[1].wall)[len(pairs) // 2]
        rates = f"{1e6 / cost.wall:,.0f}/s / sqlite3 {1e6 / floor.wall:,.0f}/s"
        label = f"SQLite, {CALLERS} callers: {what}, {rates}"
        yield Row(label, cost, floor=floor.wall, most_ratio=1 / FLOOR_SHARE)
    for part in (0.5, 0.99):
        least = min(percentile(late_us, part) for late_us in late)
        yield Row(f"SQLite, meanwhile: get, p{part * 100:g}", Cost(least, 0), most=10_000)
    yield from asyncio.run(
        measure_latency(scale, "SQLite", lambda: open_sqlite(f"sqlite:{folder / new_id()}.db"))
    )


# --- many callers ----------------------------------------------------------------------------


async def step_round(folder: Path, steps: int) -> tuple[Cost, list[float]]:
    """Measure steps, and the delay of a concurrent reader's `get` calls."""
    service = service_on(await open_sqlite(f"sqlite:{folder / new_id()}.db"))
    tasks = await asyncio.gather(*(begun(service) for _ in range(CALLERS)))
    late_us: list[float] = []

    async def read() -> None:
        while True:
            due = time.perf_counter() + 0.002
            await asyncio.sleep(0.002)
            await service.get(OWNER, tasks[0].id)
            late_us.append((time.perf_counter() - due) * 1e6)

    reading = asyncio.create_task(read())
    cost = await in_parallel([moving(service, task) for task in tasks], steps)
    reading.cancel()
    await asyncio.wait({reading})
    await service.store.close()
    return cost, late_us or [0.0]


def moving(service: TaskService, task: Task) -> Act:
    return lambda: service.move(task.id, lambda task, now: (report(task, now),))


def report(task: Task, now: int) -> Step:
    return lifecycle.report(task, now, message=f"step {task.version}")


async def cycle_round(folder: Path, cycles: int) -> Cost:
    service = service_on(await open_sqlite(f"sqlite:{folder / new_id()}.db"))
    cost = await in_parallel([lambda: cycle(service)] * CALLERS, cycles)
    await service.store.close()
    return cost


async def in_parallel(acts: Sequence[Act], each: int) -> Cost:
    cost = await timed(1, lambda: asyncio.gather(*(timed(each, act) for act in acts)))
    count = len(acts) * each
    return Cost(cost.wall / count, cost.cpu / count)


# --- the floor -------------------------------------------------------------------------------


def bare_round(
    folder: Path, before: Sequence[Statement], batches: Sequence[Sequence[Statement]], count: int
) -> Cost:
    """Write the same rows with bare `sqlite3` and the same settings; return the cost per row."""
    path = folder / f"{new_id()}.db"
    sqlite_schema.prepare(path)
    connection = sqlite_schema.connect(path)

    def write(batch: Sequence[Statement]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        for statement, parameters in batch:
            connection.execute(statement, parameters)
        connection.execute("COMMIT")

    write(before)
    wall, cpu = time.perf_counter(), time.process_time()
    for batch in batches:
        write(batch)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    connection.close()
    return Cost(wall / count * 1e6, cpu / count * 1e6)


BareRound = tuple[list[Statement], list[list[Statement]], int]


def bare_step_rows(steps: int) -> BareRound:
    """One task per caller; each batch moves all of them."""
    last = [submitted() for _ in range(CALLERS)]
    before = [inserted(step) for step in last]
    batches: list[list[Statement]] = []
    for now in range(steps):
        last = [report(step.task, now) for step in last]
        batches.append(
            [
                (UPDATE, (step.task.version, write_record(step.task), line_of(step), row_id))
                for row_id, step in enumerate(last, 1)
            ]
        )
    return before, batches, steps * CALLERS


def bare_cycle_rows(cycles: int) -> BareRound:
    batches = []
    for number in range(cycles):
        new = [submitted() for _ in range(CALLERS)]
        begun = [lifecycle.start(step.task, 1, worker="worker", until=1) for step in new]
        ended = [lifecycle.complete(step.task, 2, DONE, until=86_400_000) for step in begun]
        batches.append([inserted(step) for step in new])
        for steps in (begun, ended):
            first = number * CALLERS + 1
            batches.append([moved(step, row_id) for row_id, step in enumerate(steps, first)])
    return [], batches, cycles * CALLERS


def submitted() -> Step:
    return lifecycle.submit(new_id(), OWNER, a_call(), 0, ttl_ms=3_600_000)


def inserted(step: Step) -> Statement:
    task = step.task
    facts = (task.id, OWNER, task.created_at, None, task.version)
    return sql.INSERT, (*facts, *columns_of(task), write_record(task), line_of(step))


def moved(step: Step, row_id: int) -> Statement:
    task = step.task
    return sql.MOVE, (*columns_of(task), task.version, write_record(task), line_of(step), row_id)


def line_of(step: Step) -> bytes:
    return framed(write_record(step.entry))


# --- one caller ------------------------------------------------------------------------------


async def measure_latency(
    scale: Scale, name: str, open_store: Callable[[], Awaitable[Store]]
) -> list[Row]:
    """Measure the 99th percentile of each operation in the best round."""
    service = service_on(await open_store())
    rounds = [await latency_round(service, scale.calls) for _ in range(scale.file_rounds)]
    await service.store.close()
    return [
        Row(f"{name}, one caller: {what}, p99", Cost(min(took[what] for took in rounds), 0), most)
        for what, most in (
            ("update", 10_000),
            ("progress", 5_000),
            ("request_input", 10_000),
            ("provide_input", 10_000),
        )
    ]


async def latency_round(service: TaskService, n: int) -> dict[str, float]:
    took_us: dict[str, list[float]] = {}
    for _ in range(n):
        task_id = (await begun(service)).id
        for what, operation in (
            ("update", Amend(task_id, b'{"note":"x"}')),
            ("progress", Advance(task_id, Progress(1, 10))),
            ("request_input", Amend(task_id, asks=True)),
            ("provide_input", Amend(task_id, input=Reply(b'{"text":"y"}'))),
        ):
            start = time.perf_counter()
            await service.perform(OWNER, operation)
            took_us.setdefault(what, []).append((time.perf_counter() - start) * 1e6)
    return {what: percentile(took, 0.99) for what, took in took_us.items()}
