"""How late tasks wake that sleep in great number, and how often the store is read meanwhile.

`python -m tests.benchmarks.sleeping --tasks 100000 --seconds 180`; with `--postgresql` on a server
of its own.  The tasks are due at even intervals.
"""

import argparse
import asyncio
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any, Final

from taskmachine.adapters.cli.bench.figures import percentile
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import RuntimeConfig, new_id, start_runtime, system_clock
from taskmachine.adapters.stores import Caps, Store, open_store
from taskmachine.adapters.tools.registry import Tools
from taskmachine.protocol.jsonvalue import encode_json
from taskmachine.statemachine import Call, lifecycle
from tests.adapters.stores.postgres_server import running

__all__ = ["main"]

WRITTEN_PER_S: Final = 1_000
"""The first task is due after the last was written, at this rate."""

AT_ONCE: Final = 500
READS: Final = ("load", "queued", "due", "held", "orphans", "overdue", "history", "browse")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.sleeping", description=__doc__
    )
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--postgresql", action="store_true")
    options = parser.parse_args(arguments)
    if options.postgresql:
        with running() as server:
            asyncio.run(measure(server.new_url(), options.tasks, options.seconds))
    else:
        with tempfile.TemporaryDirectory() as folder:
            url = f"sqlite:{Path(folder, 'tasks.db')}"
            asyncio.run(measure(url, options.tasks, options.seconds))


async def measure(url: str, tasks: int, seconds: float) -> None:
    store = await open_store(url)
    late_ms: list[int] = []
    woken = asyncio.Event()
    tools = Tools()

    @tools.task()
    async def sleeper(due_at: int) -> str:
        late_ms.append(system_clock() - due_at)
        if len(late_ms) == tasks:
            woken.set()
        return "awake"

    reads: Counter[str] = Counter()
    limits = Limits(caps=Caps(10**9, 10**9, 10**9, 10**9))
    count_reads(store, reads)
    runtime = await start_runtime(store, tools, RuntimeConfig(limits=limits))
    try:
        awake = await reads_per_s(reads, min(10, seconds))
        first = system_clock() + round(tasks / WRITTEN_PER_S * 1_000) + 5_000
        await write(store, tasks, first, seconds)
        spare_s = (first - system_clock()) / 1_000
        assert spare_s > 0, f"the tasks were written {-spare_s:.0f} s too late"
        asleep = await reads_per_s(reads, spare_s)
        async with asyncio.timeout(seconds + 120):
            await woken.wait()
    finally:
        await runtime.stop()
        await store.close()
    print(f"{awake:10.1f} reads per second with no task")
    print(f"{asleep:10.1f} reads per second with {tasks:,} asleep")
    for part in (0.5, 0.99, 1):
        print(f"{percentile(late_ms, part):10,.0f} ms late, p{part * 100:g}")
    print(f"{tasks:10,} tasks woke within {seconds:g} s on {store.kind}")


async def write(store: Store, tasks: int, first: int, seconds: float) -> None:
    """Write tasks that are due at even intervals from `first` on."""

    async def put(number: int) -> None:
        due_at = first + round(number * seconds * 1_000 / tasks)
        call = Call("tools/call", "sleeper", encode_json({"due_at": due_at}))
        now = system_clock()
        step = lifecycle.submit(new_id(), "alice", call, now, ttl_ms=86_400_000, due_at=due_at)
        await store.adopt(step.task, [step.entry])

    for start in range(0, tasks, AT_ONCE):
        await asyncio.gather(*map(put, range(start, min(start + AT_ONCE, tasks))))


def count_reads(store: Store, reads: Counter[str]) -> None:
    """Count the calls of the methods that read."""

    def count_and_call(name: str, read: Any, *arguments: Any) -> Any:
        reads[name] += 1
        return read(*arguments)

    for name in READS:
        setattr(store, name, partial(count_and_call, name, getattr(store, name)))


async def reads_per_s(reads: Counter[str], seconds: float) -> float:
    before = reads.total()
    await asyncio.sleep(seconds)
    return (reads.total() - before) / seconds


if __name__ == "__main__":
    main()
