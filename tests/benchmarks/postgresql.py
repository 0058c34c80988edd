"""The cost of tasks on PostgreSQL, compared with bare procrastinate.

`python -m tests.benchmarks.postgresql` exits 1 if a bound is exceeded.  It starts its own
PostgreSQL server with default settings and prints them.  The floor of a figure is the same
operation among few tasks, or procrastinate's own worker that runs an empty job.
"""

import argparse
import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from taskmachine.adapters.cli.bench.processes import NotStarted
from tests.adapters.stores.postgres_server import Server
from tests.benchmarks.postgresql_cycles import CLIENTS, CONCURRENCY, Failed, measure_cycles
from tests.benchmarks.postgresql_lookups import measure_lookups
from tests.benchmarks.postgresql_scale import measure_scale
from tests.benchmarks.postgresql_server import described, durable
from tests.benchmarks.rounds import HEADER, Row


class Scale(NamedTuple):
    """The amount of work."""

    few: int
    many: int
    scale_rounds: int
    calls: int
    """Calls of each query per round."""
    lookup_rounds: int
    seconds: float
    workers: Sequence[int]
    cycle_rounds: int
    warm: int
    """Warm-up cycles per turn."""
    cycles: int


FULL: Final = Scale(
    few=1_000,
    many=1_000_000,
    scale_rounds=15,
    calls=100,
    lookup_rounds=7,
    seconds=2,
    workers=(1, 2, 4),
    cycle_rounds=7,
    warm=100,
    cycles=1_000,
)
QUICK: Final = Scale(
    few=200,
    many=2_000,
    scale_rounds=1,
    calls=5,
    lookup_rounds=1,
    seconds=0.1,
    workers=(1,),
    cycle_rounds=1,
    warm=5,
    cycles=20,
)


def rows(server: Server, folder: Path, scale: Scale) -> Iterator[Row]:
    yield from asyncio.run(
        measure_scale(server, scale.few, scale.many, scale.scale_rounds, scale.calls)
    )
    yield from measure_lookups(server, folder, scale.lookup_rounds, scale.seconds)
    yield from measure_cycles(
        server, folder, scale.workers, scale.cycle_rounds, scale.warm, scale.cycles
    )


def explanation(server: Server) -> Iterator[str]:
    yield f"PostgreSQL: {described(server)}; load of the machine: {os.getloadavg()[0]:.1f}"
    yield "A cycle is a task from its creation to its end; its floor is a job of bare"
    yield f"procrastinate.  One process with {CLIENTS} callers creates, and workers run an empty"
    yield f"tool, {CONCURRENCY} at a time.  CPU does not include the processes of PostgreSQL."


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table and the plans; return 1 if a bound is exceeded or a turn failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.postgresql")
    parser.add_argument(
        "--quick", action="store_true", help="check that it works; the figures mean nothing"
    )
    scale = QUICK if parser.parse_args(arguments).quick else FULL
    broken = 0
    with durable() as server, tempfile.TemporaryDirectory() as folder:
        print(*explanation(server), HEADER, sep="\n", flush=True)
        try:
            for row in rows(server, Path(folder), scale):
                broken += not row.holds
                print(row, flush=True)
        except (Failed, NotStarted) as error:
            broken += 1
            print(f"not measured: {error}")
    return int(broken > 0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # to end the child processes
    sys.exit(main())
