"""Complete tasks per second, from creation to end, compared with bare procrastinate.

One process creates tasks, and workers run an empty tool.  Each turn has a new schema and new
processes, and ends when every task has ended.
"""

import contextlib
import itertools
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import psycopg

from taskmachine.adapters.cli.bench.processes import processor_seconds
from tests.adapters.stores.postgres_server import Server
from tests.benchmarks.postgresql_parties import BARE, OURS, Party
from tests.benchmarks.postgresql_scale import median_pair
from tests.benchmarks.rounds import Cost, Row
from tests.oracle import REPOSITORY

__all__ = ["CLIENTS", "CONCURRENCY", "Failed", "measure_cycles"]

CLIENTS: Final = 32
CONCURRENCY: Final = 10
LEAST_SHARE: Final = 0.5
"""Minimum share of the rate of bare procrastinate."""

PATIENCE_S: Final = 120
STOP_S: Final = 15
POLL_S: Final = 0.005
PATH: Final = str(REPOSITORY)

_numbers: Final = itertools.count()


class Failed(Exception):
    """A process failed, or a task did not end."""


class Process:
    """A child process with its output in a file."""

    def __init__(self, command: Sequence[str], output: Path) -> None:
        self._output = output
        with output.open("wb") as written:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=written,
                stderr=subprocess.STDOUT,
                cwd=REPOSITORY,
                env={**os.environ, "PYTHONPATH": PATH},
            )

    @property
    def cpu_s(self) -> float:
        return processor_seconds(self._child.pid)

    def send_line(self, line: str) -> None:
        assert self._child.stdin is not None
        self._child.stdin.write(f"{line}\n".encode())
        self._child.stdin.flush()

    def has_written(self, text: bytes, times: int = 1) -> bool:
        written = self._output.read_bytes()
        if self._child.poll() is not None:
            raise Failed(written.decode(errors="replace").strip()[-500:] or "exited without output")
        return written.count(text) >= times

    def end(self) -> None:
        self._child.terminate()
        try:
            self._child.communicate(timeout=STOP_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.communicate()


@contextlib.contextmanager
def running(command: Sequence[str], folder: Path) -> Iterator[Process]:
    process = Process(command, folder / f"output-{next(_numbers)}.txt")
    try:
        yield process
    finally:
        process.end()


def wait_until(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            raise Failed(f"no progress for {PATIENCE_S} s")
        time.sleep(POLL_S)


def measure_cycles(
    server: Server, folder: Path, workers: Sequence[int], rounds: int, warm: int, count: int
) -> Iterator[Row]:
    """Measure both in alternating turns; yield the round of the median ratio."""
    for number in workers:
        pairs = [
            (
                measure_turn(server, folder, BARE, number, warm, count),
                measure_turn(server, folder, OURS, number, warm, count),
            )
            for _ in range(rounds)
        ]
        floor, cost = median_pair(pairs)
        rates = f"{1e6 / cost.wall:,.0f}/s / procrastinate {1e6 / floor.wall:,.0f}/s"
        workers_text = "1 worker" if number == 1 else f"{number} workers"
        label = f"{workers_text}: cycle, {rates}"
        yield Row(label, cost, floor=floor.wall, most_ratio=1 / LEAST_SHARE)


def measure_turn(
    server: Server, folder: Path, party: Party, workers: int, warm: int, count: int
) -> Cost:
    """Return the cost of one cycle; processor time of all processes except PostgreSQL."""
    schema = f"turn_{next(_numbers)}"
    party.prepare(server, schema)
    try:
        with contextlib.ExitStack() as stack:
            creator = stack.enter_context(
                running(party.creator(server.url(), schema, CLIENTS), folder)
            )
            command = party.worker(server.url(), schema, CONCURRENCY)
            processes = [stack.enter_context(running(command, folder)) for _ in range(workers)]
            connection = stack.enter_context(psycopg.connect(server.url(), autocommit=True))
            wait_until(lambda: creator.has_written(b"ready"))
            for process in processes:
                wait_until(lambda process=process: process.has_written(party.is_ready))  # type: ignore[misc]

            def has_ended(times: int) -> bool:
                if not creator.has_written(b"done", times):
                    return False
                row = connection.execute(party.left.format(schema=schema).encode()).fetchone()
                return row == (False,)

            def turn(number: int, times: int) -> Cost:
                cpu = sum(process.cpu_s for process in (creator, *processes))
                wall = time.perf_counter()
                creator.send_line(str(number))
                wait_until(lambda: has_ended(times))
                wall = time.perf_counter() - wall
                cpu = sum(process.cpu_s for process in (creator, *processes)) - cpu
                return Cost(wall / number * 1e6, cpu / number * 1e6)

            turn(warm, 1)
            cost = turn(count, 2)
        if (ended := party.ended(server, schema)) != warm + count:
            raise Failed(f"{party.name}: {ended} of {warm + count} have ended")
        return cost
    finally:
        server.execute(f"DROP SCHEMA {schema} CASCADE")
