"""The cost of the runtime, compared with floors and peers: `python -m tests.benchmarks.runtime`.

Exits 1 if a bound is exceeded.  `--peers` installs the task stores of the official SDKs into
`build/peers` and measures them in the same run.  The floor of a figure is the same operation
without load, a peer, or the bare `sqlite3` module.
"""

import argparse
import asyncio
import gc
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

from taskmachine.adapters.runtime.runtime import new_id, system_clock
from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.stores.memory import open_memory
from taskmachine.statemachine import State, lifecycle
from tests.benchmarks.peers import Peer, measure_peers
from tests.benchmarks.rounds import HEADER, Act, Cost, Row, race
from tests.benchmarks.runtime_sqlite import measure_latency, measure_sqlite
from tests.benchmarks.runtime_work import DONE, FULL, OWNER, QUICK, Scale, a_call, cycle, service_on

BUILD: Final = Path("build")


async def populated(n: int) -> TaskService:
    """Return a service with `n` completed tasks, one per millisecond of the past."""
    store = await open_memory("memory:")
    now = system_clock()
    for at in range(now - n, now):
        step = lifecycle.submit(new_id(), OWNER, a_call(), at, ttl_ms=86_400_000)
        ended = step.task.with_changes(state=State.COMPLETED, version=3, outcome=DONE)
        await store.adopt(ended, (step.entry,))
    return service_on(store)


async def measure_memory(scale: Scale, peers: Sequence[Peer]) -> list[Row]:
    full = await populated(scale.retained)
    known = (await full.page(OWNER)).tasks[0].id

    async def on_empty() -> Act:
        service = service_on(await open_memory("memory:"))
        return lambda: cycle(service)

    async def on_full() -> Act:
        return lambda: cycle(full)

    async def get() -> Act:
        return lambda: full.get(OWNER, known)

    alone, among_many, reading = await race(scale.rounds, scale.cycles, on_empty, on_full, get)
    retained = f"with {scale.retained:,} retained"
    rows = [
        Row("memory: create, start, complete, get", alone, most=120),
        Row(f"memory: the same {retained}", among_many, floor=alone.wall, most_ratio=1.3),
        Row("memory: get", reading, most=5),
    ]
    for peer in peers:
        rows.append(Row(f"memory: cycle / {peer.name}", alone, floor=peer.empty_us))
        rows.append(Row(f"    both {retained}", among_many, floor=peer.full_us))
    return rows


async def measure_pages(scale: Scale) -> list[Row]:
    few, many = await populated(min(1_000, scale.listed)), await populated(scale.listed)

    async def of_few() -> Act:
        return lambda: few.page(OWNER, limit=50)

    async def of_many() -> Act:
        return lambda: many.page(OWNER, limit=50)

    small, large = await race(scale.rounds, scale.cycles, of_few, of_many)
    what = f"memory: a page of 50, of {scale.listed:,} / of 1,000"
    return [Row(what, large, floor=small.wall, most_ratio=1.5)]


def kilobytes_per_task(n: int) -> float:
    """Measure the memory of a retained task; run it in a new process."""

    def resident() -> int:
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    async def grow() -> float:
        service = service_on(await open_memory("memory:"))
        await cycle(service)
        before = resident()
        for _ in range(n):
            await cycle(service)
        return (resident() - before) / n / 1_000

    return asyncio.run(grow())


def measure_size(scale: Scale) -> list[Row]:
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        size = pool.submit(kilobytes_per_task, scale.retained).result()
    return [Row("memory: a retained task with its history", Cost(size, 0), most=2.0, unit="KB")]


def rows(scale: Scale, with_peers: bool) -> Iterator[Row]:
    peers = measure_peers(BUILD / "peers", scale.retained) if with_peers else []
    yield from asyncio.run(measure_memory(scale, peers))
    yield from measure_size(scale)
    yield from asyncio.run(measure_pages(scale))
    yield from asyncio.run(measure_latency(scale, "memory", lambda: open_memory("memory:")))
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:  # on a disk, which /tmp may not be
        yield from measure_sqlite(scale, Path(folder))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if a bound is exceeded."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.runtime")
    parser.add_argument("--peers", action="store_true", help="also measure the official SDKs")
    parser.add_argument(
        "--quick", action="store_true", help="check that it works; the figures mean nothing"
    )
    options = parser.parse_args(arguments)
    print(HEADER)
    broken = 0
    for row in rows(QUICK if options.quick else FULL, options.peers):
        broken += not row.holds
        print(row, flush=True)
    return int(broken > 0)


if __name__ == "__main__":
    sys.exit(main())
