"""One run: a fleet with a database, callers, faults; then calm, and what is left."""

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
from tests.chaos.calm import everybody_is_told
from tests.chaos.clients import Client, Pace
from tests.chaos.faults import Faults
from tests.chaos.fleet import OWNERS, Engine, Fleet
from tests.chaos.postgres import Database, database
from tests.chaos.record import AUDIT, Evidence, Line, Look, now
from tests.chaos.tools import SILENT
from tests.chaos.wire import http_client
from tests.lifecycle.wire.observations import outcome_of_result

__all__ = ["Plan", "Report", "campaign"]

CLIENTS: Final = 16
"""Of each owner, at the same time."""

AUDIT_S: Final = 0.25
AUDITED: Final = 60
SETTLED_S: Final = 90.0
"""From the last fault until every task must have ended: leases of lost workers run out, tickets
of dead ones are found, and what was left undone is done."""

READ_AGAIN: Final = 60
MANY: Final = 10_000
FOR_EVER_MS: Final = 2**53
"""By then the time of every task is over that has not ended."""


@attrs.frozen
class Plan:
    """What to do."""

    tasks: int
    seconds: float
    seed: int
    replicas: int = 3
    workers: int = 5
    engine: Engine = "procrastinate"


@attrs.define
class Report:
    """What was done."""

    evidence: Evidence
    faults: Counter[str] = attrs.field(factory=Counter)
    settled_s: float = 0.0
    took_s: float = 0.0


async def campaign(plan: Plan, folder: Path) -> Report:
    """Run it; the logs of all processes are in the folder."""
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
        report.faults += fleet.leaves
    evidence.lines = [
        msgspec.json.decode(line, type=Line)
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
        living = [asyncio.create_task(client.live(pace)) for client in self.clients]
        await asyncio.wait(living, timeout=plan.seconds)
        pace.is_over = True
        striking.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await striking
        await faults.heal()
        healed = time.monotonic()
        await self._settle(living)
        self.report.settled_s = time.monotonic() - healed
        auditing.cancel()
        self.report.faults = faults.counts
        await self._read_again()
        await everybody_is_told(self.fleet, self.evidence, self.http, plan.seed)
        await self._take_stock()

    # --- while it runs ---------------------------------------------------------------------------

    async def _audit(self) -> None:
        """Look into the database behind the back of everybody: that is what is true."""
        ended: dict[str, int] = {}
        while True:
            since = now()
            with contextlib.suppress(StoreError):
                for task in await self.store.browse(None, AUDITED):
                    if ended.get(task.id) != task.version:
                        self.evidence.looks.append(self._audited(task, since, now()))
                    if task.is_terminal:
                        ended[task.id] = task.version
            await asyncio.sleep(AUDIT_S)

    def _audited(self, task: Task, since: int, until: int) -> Look:
        outcome = None
        if task.outcome is not None and task.outcome.cause is Cause.RESULT:
            assert task.outcome.result is not None
            outcome = outcome_of_result(decode_json(task.outcome.result))
        return Look(
            since, until, self._owner(task), AUDIT, task.id, str(task.state), task.updated_at,
            outcome, task.message, task.version,
        )  # fmt: skip

    def _owner(self, task: Task) -> str:
        name = decode_json(task.call.arguments).get("name")
        return self.evidence.attempts.get(str(name), "nobody")

    # --- when the faults are over ----------------------------------------------------------------

    async def _settle(self, living: list[asyncio.Task[None]]) -> None:
        """Until everything has ended and everybody is content, or the time for that is over."""
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
                await asyncio.wait(living)
        for one in living:
            if one.done():
                one.result()  # whoever failed says so
            one.cancel()
        await asyncio.gather(*living, return_exceptions=True)

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
