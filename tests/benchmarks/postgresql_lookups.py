"""Latency of `tasks/get` with 32 callers that repeat it without a pause.

Through the service, and through a replica over HTTP.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import uvloop

from taskmachine.adapters.cli.bench.connection import Connection
from taskmachine.adapters.cli.bench.contestants import CONFIGURATION
from taskmachine.adapters.cli.bench.dialogs import DIALOGS, Dialog
from taskmachine.adapters.cli.bench.figures import percentile
from taskmachine.adapters.cli.bench.processes import Address, serving
from taskmachine.adapters.cli.bench.requester import Frame
from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.stores.postgresql.opening import open_postgresql
from tests.adapters.stores.postgres_server import Server
from tests.benchmarks.rounds import Act, Cost, Row
from tests.benchmarks.runtime_work import OWNER, cycle, service_on

__all__ = ["measure_lookups"]

CALLERS: Final = 32
MOST_US: Final = 25_000
PATIENCE_S: Final = 30
REVISIONS: Final = ("2025-11-25", "2026-07-28")

Took = list[float]
"""Microseconds of each lookup."""


def measure_lookups(server: Server, folder: Path, rounds: int, seconds: float) -> Iterator[Row]:
    """Measure in alternating rounds; yield the medians of each round's percentiles."""
    with serving(_replica(server, folder), folder / "replica.txt") as replica:
        took = uvloop.run(_measure(server, replica, rounds, seconds))
    for what, each in took.items():
        rate = statistics.median(len(of_round) / seconds for of_round in each)
        middle, most = (
            statistics.median(percentile(of_round, part) for of_round in each)
            for part in (0.5, 0.99)
        )
        label = f"tasks/get {what}, {CALLERS} callers, {rate:,.0f}/s"
        yield Row(f"{label}: p50", Cost(middle, 0))
        yield Row(f"{label}: p99", Cost(most, 0), most=MOST_US)


def _replica(server: Server, folder: Path) -> Sequence[str]:
    configuration = folder / "taskmachine.toml"
    configuration.write_text(CONFIGURATION)
    return (
        *(str(Path(sys.executable).with_name("taskmachine")), "serve"),
        *("--http", "127.0.0.1:0", "--store", server.url("lookups_over_http")),
        *("--tools", "taskmachine.adapters.cli.bench.tools:TOOLS", "--config", str(configuration)),
        *("--log-level", "warning"),
    )


async def _measure(
    server: Server, replica: Address, rounds: int, seconds: float
) -> Mapping[str, list[Took]]:
    service = service_on(await open_postgresql(server.url("lookups")))
    callers: dict[str, Sequence[Act]] = {
        "by the service": await _of_service(service),
        **{f"over HTTP, {name}": await _of_replica(replica, name) for name in REVISIONS},
    }
    for acts in callers.values():
        await _load(acts, seconds / 5)
    took: dict[str, list[Took]] = {what: [] for what in callers}
    for _ in range(rounds):
        for what, acts in callers.items():
            took[what].append(await _load(acts, seconds))
    await service.store.close()
    return took


async def _of_service(service: TaskService) -> Sequence[Act]:
    for _ in range(CALLERS):
        await cycle(service)
    known = (await service.page(OWNER, limit=CALLERS)).tasks
    return [partial(service.get, OWNER, task.id) for task in known]


async def _of_replica(replica: Address, revision: str) -> Sequence[Act]:
    """Give each caller its own connection and a completed task."""
    acts: list[Act] = []
    loop = asyncio.get_running_loop()
    for _ in range(CALLERS):
        _, connection = await loop.create_connection(Connection, "127.0.0.1", replica.port)
        dialog = DIALOGS[revision](Frame(f"127.0.0.1:{replica.port}", "/mcp"))
        async with asyncio.timeout(PATIENCE_S):
            await connection.play(dialog.open())
            task_id = await connection.play(dialog.create())
            await connection.play(dialog.finish(task_id))
        acts.append(partial(_look_up, connection, dialog, task_id))
    return acts


async def _look_up(connection: Connection, dialog: Dialog, task_id: str) -> None:
    await connection.play(dialog.get(task_id))


async def _load(acts: Sequence[Act], seconds: float) -> Took:
    took: Took = []
    until = time.perf_counter() + seconds

    async def call(act: Act) -> None:
        while (start := time.perf_counter()) < until:
            await act()
            took.append((time.perf_counter() - start) * 1e6)

    async with asyncio.timeout(seconds + PATIENCE_S):
        await asyncio.gather(*(call(act) for act in acts))
    return took
