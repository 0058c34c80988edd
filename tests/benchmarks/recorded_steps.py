"""The cost of a recorded step on SQLite, compared with commits of bare `sqlite3`.

    python -m tests.benchmarks.recorded_steps [--quick]

32 tasks record their steps at the same time.  The floor writes the same records from one connection
with the same settings, one commit for each.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from taskmachine.adapters.runtime.runtime import Runtime, new_id, open_runtime
from taskmachine.adapters.stores.sqlite import schema
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.registry import Tools
from taskmachine.protocol.operations import Create
from taskmachine.statemachine import Call
from tests.benchmarks.rounds import HEADER, Cost, Row

__all__ = ["main"]

TASKS: Final = 32
LEAST_SHARE: Final = 0.4
"""Minimum share of the rate of bare `sqlite3`."""


async def fetch(number: int) -> str:
    return f"page {number}"


async def steps_round(folder: Path, steps: int) -> tuple[Cost, list[bytes]]:
    """Return the cost of a step, and the records of one task."""
    tools = Tools()
    begin, end = asyncio.Barrier(TASKS + 1), asyncio.Barrier(TASKS + 1)

    @tools.task
    async def record(ctx: Context) -> None:
        await begin.wait()
        for number in range(steps):
            await ctx.step(f"step {number}", fetch, number)
        await end.wait()

    async with open_runtime(f"sqlite:{folder / new_id()}.db", tools) as runtime:
        tasks = [await runtime.create("alice", Create(Call("tools/call", "record")))]
        for _ in range(TASKS - 1):
            await runtime.create("alice", Create(Call("tools/call", "record")))
        await begin.wait()
        wall, cpu = time.perf_counter(), time.process_time()
        await end.wait()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        records = await records_of(runtime, tasks[0].id)
    count = TASKS * steps
    return Cost(wall / count * 1e6, cpu / count * 1e6), records


async def records_of(runtime: Runtime, task_id: str) -> list[bytes]:
    history = await runtime.service.store.history(task_id)
    return [entry.data for entry in history if entry.data is not None]


def bare_round(folder: Path, records: Sequence[bytes]) -> Cost:
    """Return the cost of a commit that inserts a record."""
    connection = schema.connect(folder / f"{new_id()}.db")
    connection.execute("CREATE TABLE steps (task INTEGER, data BLOB)")
    wall, cpu = time.perf_counter(), time.process_time()
    for data in records:
        for task in range(TASKS):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO steps VALUES (?, ?)", (task, data))
            connection.execute("COMMIT")
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    connection.close()
    count = TASKS * len(records)
    return Cost(wall / count * 1e6, cpu / count * 1e6)


def main(arguments: Sequence[str]) -> None:
    rounds, steps = (1, 3) if "--quick" in arguments else (5, 60)
    pairs = []
    with tempfile.TemporaryDirectory() as name:
        for _ in range(rounds):
            cost, records = asyncio.run(steps_round(Path(name), steps))
            pairs.append((cost, bare_round(Path(name), records)))
    # Disk speed varies: compare pairs measured in a row, and take the median ratio.
    cost, floor = sorted(pairs, key=lambda pair: pair[0].wall / pair[1].wall)[len(pairs) // 2]
    label = f"SQLite, {TASKS} tasks: recorded step, {1e6 / cost.wall:,.0f}/s"
    print(HEADER)
    print(Row(label, cost, floor=floor.wall, most_ratio=1 / LEAST_SHARE))


if __name__ == "__main__":
    main(sys.argv[1:])
