"""The fault injector.  Kinds and times follow from a seed; targets depend on the fleet's state."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from tests.chaos.fleet import Fleet, Member
from tests.chaos.postgres import Database

__all__ = ["Faults"]

STOPPED_S: Final = (17.0, 25.0)
"""As long as a lease, or longer: the worker resumes after its task was given to another one."""

KILLS_S: Final = (0.5, 5.0)
STOPS_S: Final = (5.0, 20.0)
RESTARTS_S: Final = (5.0, 40.0)
CUTS_S: Final = (0.3, 3.0)
AWAY_S: Final = 2.0
"""The database stays down for at most this long."""
UNSPARED: Final = 0.2
"""Share of the kills that may hit the last replica or worker, or one that is stopped.  With more,
a slow machine would rarely have a process that is up, and no pause would ever end."""
RESUMED: Final = "SIGCONT after that"


class Faults:
    """Injects faults into a fleet and its database until cancelled."""

    def __init__(self, fleet: Fleet, database: Database, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self._fleet = fleet
        self._database = database
        self._seed = seed
        self._resuming: set[asyncio.Task[None]] = set()
        self._restarting: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Inject faults of every kind until cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind, pause_s in (
                (self._kill, KILLS_S),
                (self._stop, STOPS_S),
                (self._restart, RESTARTS_S),
                (self._cut, CUTS_S),
            ):
                group.create_task(self._repeat(kind, pause_s))

    async def heal(self) -> None:
        """Resume all stopped processes and wait until the database is back."""
        for resuming in self._resuming:
            resuming.cancel()
        for member in self._fleet.members:
            member.proxy.is_refusing = False
            if member.is_stopped:
                self.counts[RESUMED] += 1
                member.resume()
        if self._restarting is not None:
            await self._restarting

    async def _repeat(
        self,
        inject: Callable[[random.Random], Awaitable[None]],
        pause_s: tuple[float, float],
    ) -> None:
        chance = random.Random(f"{self._seed} {inject.__name__}")
        await asyncio.sleep(pause_s[0])  # so that every kind occurs in a short run
        while True:
            await inject(chance)
            await asyncio.sleep(chance.uniform(*pause_s))

    async def _kill(self, chance: random.Random) -> None:
        members = self._fleet.members
        if chance.random() > UNSPARED:
            spared = [m for m in members if m.is_stopped or self._is_last(m)]
            members = [member for member in members if member not in spared] or members
        member = chance.choice(members)
        self.counts["SIGKILL of a " + member.name[:-1]] += 1
        if not member.is_ready:
            self.counts["  while it started"] += 1
        member.kill()

    def _is_last(self, member: Member) -> bool:
        """Return whether no other process of its kind is up."""
        replicas, workers = self._fleet.replicas, self._fleet.workers
        kind = replicas if member in replicas else workers
        return not any(m.is_ready and not m.is_stopped for m in kind if m is not member)

    async def _stop(self, chance: random.Random) -> None:
        replicas, workers = self._fleet.replicas, self._fleet.workers
        kind = workers if workers and chance.random() < 0.7 else replicas
        fit = [member for member in kind if member.is_ready and not member.is_stopped]
        if not fit or sum(member.is_stopped for member in kind) >= len(kind) // 2:
            return  # half of each kind stays up to do the work
        member = chance.choice(fit)
        self.counts[f"SIGSTOP of a {member.name[:-1]}"] += 1
        member.stop()
        resuming = asyncio.create_task(self._resume(member, chance.uniform(*STOPPED_S)))
        self._resuming.add(resuming)
        resuming.add_done_callback(self._resuming.discard)

    async def _resume(self, member: Member, after_s: float) -> None:
        await asyncio.sleep(after_s)
        if member.is_stopped:  # otherwise it was killed in the meantime
            self.counts[RESUMED] += 1
            member.resume()

    async def _restart(self, chance: random.Random) -> None:
        mode = chance.choice(("fast", "immediate"))
        away_s = chance.choice((0.0, chance.uniform(0, AWAY_S)))
        self.counts[f"PostgreSQL restarted ({mode})"] += 1
        self._restarting = asyncio.create_task(self._back(mode, away_s))
        await asyncio.shield(self._restarting)

    async def _back(self, mode: str, away_s: float) -> None:
        await self._database.stop("fast" if mode == "fast" else "immediate")
        await asyncio.sleep(away_s)
        await self._database.start()

    async def _cut(self, chance: random.Random) -> None:
        proxy = chance.choice(self._fleet.members).proxy
        match chance.choice(("now", "before an answer", "and refused")):
            case "now":
                self.counts["connections cut"] += proxy.cut()
            case "before an answer":
                self.counts["connections cut before an answer"] += 1
                proxy.cut_before_answer()
            case _:
                self.counts["connections cut and refused for a while"] += proxy.cut()
                proxy.is_refusing = True
                await asyncio.sleep(chance.uniform(0.1, 1.5))
                proxy.is_refusing = False
