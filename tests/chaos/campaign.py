"""One run: a fleet with a database, callers and faults; then recovery and the final state."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
import httpx
import msgspec

from taskmachine.adapters.stores import Store, StoreError, open_store
from taskmachine.protocol.jsonvalue import decode_json
from taskmachine.statemachine import Cause, Task
from tests.chaos.clients import Client, Pace
from tests.chaos.delivery import check_delivery
from tests.chaos.faults import Faults
from tests.chaos.fleet import OWNERS, Engine, Fleet
from tests.chaos.postgres import Database, database
from tests.chaos.record import AUDIT, Evidence, LogLine, Observation, now
from tests.chaos.tools import SILENT
from tests.chaos.wire import http_client
from tests.lifecycle.wire.observations import outcome_of_result

__all__ = ["Plan", "Report", "campaign"]

CLIENTS: Final = 16
"""Concurrent callers per owner."""

AUDIT_S: Final = 0.25
AUDITED: Final = 60
SETTLED_S: Final = 90.0
"""Every task must have ended this long after the last fault: leases of lost workers expire,
the tickets of dead workers are requeued, and the tasks are run again."""

READ_AGAIN: Final = 60
MANY: Final = 10_000
FOR_EVER_MS: Final = 2**53
"""Later than every deadline, so that `overdue` returns all live tasks."""


@attrs.frozen
class Plan:
    """The size of a run."""

    tasks: int
    seconds: float
    seed: int
    replicas: int = 3
    workers: int = 5
    engine: Engine = "procrastinate"


@attrs.define
class Report:
    """The evidence and the figures of a run."""

    evidence: Evidence
    faults: Counter[str] = attrs.field(factory=Counter)
    settled_s: float = 0.0
    took_s: float = 0.0


async def campaign(plan: Plan, folder: Path) -> Report:
    """Run the plan; the logs of all processes are in the folder."""
    began = time.monotonic()
    evidence = Evidence()
    report = Report(evidence)
    async with database() as server, http_client() as http:
        fleet = Fleet(server, folder, plan.engine)
        try:
            await fleet.start(plan.replicas, plan.workers)
            known: dict[str, list[str]] = {}
            clients = [
                Client(owner, number, fleet, evidence, http, plan.seed, known)
                for number in range(CLIENTS)
                for owner in OWNERS
            ]
            store = await open_store(server.url(pool_size=2))
            try:
                run = _Run(plan, fleet, server, store, evidence, http, clients, report)
                await run.go()
            finally:
                await store.close()
        finally:
            await fleet.close()
        evidence.complaints += fleet.failures()
        report.faults += fleet.exits
    evidence.log_lines = [
        msgspec.json.decode(line, type=LogLine)
        for line in (folder / "runs.jsonl").read_bytes().splitlines()
    ]
    report.took_s = time.monotonic() - began
    return report


@attrs.frozen(eq=False)
class _Run:
    plan: Plan
    fleet: Fleet
    database: Database
    store: Store
    evidence: Evidence
    http: httpx.AsyncClient
    clients: list[Client]
    report: Report

    async def go(self) -> None:
        plan = self.plan
        faults = Faults(self.fleet, self.database, plan.seed)
        pace = Pace(plan.tasks, plan.seconds * 0.95)
        auditing = asyncio.create_task(self._audit())
        striking = asyncio.create_task(faults.run())
        running = [asyncio.create_task(client.run(pace)) for client in self.clients]
        await asyncio.wait(running, timeout=plan.seconds)
        pace.is_over = True
        striking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await striking
        await faults.heal()
        healed = time.monotonic()
        await self._settle(running)
        self.report.settled_s = time.monotonic() - healed
        auditing.cancel()
        self.report.faults = faults.counts
        await self._read_again()
        await check_delivery(self.fleet, self.evidence, self.http, plan.seed)
        await self._take_stock()

    # --- while it runs ---------------------------------------------------------------------------

    async def _audit(self) -> None:
        """Read the newest tasks from the database itself, without a server."""
        ended: dict[str, int] = {}
        while True:
            since = now()
            with contextlib.suppress(StoreError):
                for task in await self.store.browse(None, AUDITED):
                    if ended.get(task.id) != task.version:
                        self.evidence.observations.append(self._audited(task, since, now()))
                    if task.is_terminal:
                        ended[task.id] = task.version
            await asyncio.sleep(AUDIT_S)

    def _audited(self, task: Task, since: int, until: int) -> Observation:
        outcome = None
        if task.outcome is not None and task.outcome.cause is Cause.RESULT:
            assert task.outcome.result is not None
            outcome = outcome_of_result(decode_json(task.outcome.result))
        return Observation(
            since, until, self._owner(task), AUDIT, task.id, str(task.state), task.updated_at,
            outcome, task.message, task.version,
        )  # fmt: skip

    def _owner(self, task: Task) -> str:
        name = decode_json(task.call.arguments).get("name")
        return self.evidence.attempts.get(str(name), "unknown")

    # --- after the last fault --------------------------------------------------------------------

    async def _settle(self, running: list[asyncio.Task[None]]) -> None:
        """Wait until every task has ended and every client is done, for at most `SETTLED_S`."""
        by_owner = {client.owner: client for client in self.clients}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLED_S):
                await self.fleet.all_ready()
                while live := await self._live():
                    for task in live:
                        keys = [question.key for question in task.open_questions]
                        if keys and task.call.name != SILENT:
                            await by_owner[self._owner(task)].answer(task.id, keys)
                    await asyncio.sleep(0.5)
                await asyncio.wait(running)
        for one in running:
            if one.done():
                one.result()  # raise the error of a failed client
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _live(self) -> Sequence[Task]:
        return await self.store.overdue(FOR_EVER_MS, MANY)

    async def _read_again(self) -> None:
        by_owner: dict[str, list[str]] = {}
        for made in self.evidence.made[:: max(1, len(self.evidence.made) // READ_AGAIN)]:
            by_owner.setdefault(made.owner, []).append(made.task_id)
        firsts = {client.owner: client for client in reversed(self.clients)}
        await asyncio.gather(
            *(firsts[owner].read_again(task_ids) for owner, task_ids in by_owner.items())
        )

    async def _take_stock(self) -> None:
        async for task, entries in self.store.export():
            self.evidence.tasks[task.id] = task
            self.evidence.entries[task.id] = entries
