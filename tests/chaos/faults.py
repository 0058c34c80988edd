"""What goes wrong, and when: all of it follows from a seed, but for who is in the way."""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from tests.chaos.fleet import Fleet, Member
from tests.chaos.postgres import Database

__all__ = ["Faults"]

STOPPED_S: Final = (17.0, 25.0)
"""Longer than a lease, and than it takes until others have noticed; or just as long."""

KILLS_S: Final = (0.5, 5.0)
STOPS_S: Final = (5.0, 20.0)
RESTARTS_S: Final = (5.0, 40.0)
CUTS_S: Final = (0.3, 3.0)
AWAY_S: Final = 2.0
"""How long a database stays away before it is started again, at most."""
UNSPARED: Final = 0.2
"""How often a kill may strike also the last replica or worker, or one that is stopped: on a slow
machine nobody would be there most of the time, and nobody would ever come back from a pause."""
WOKEN: Final = "SIGCONT after that"


class Faults:
    """Everything that is done to a fleet and its database, until it is called off."""

    def __init__(self, fleet: Fleet, database: Database, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self._fleet = fleet
        self._database = database
        self._seed = seed
        self._waking: set[asyncio.Task[None]] = set()
        self._restarting: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for kind, pause_s in (
                (self._kill, KILLS_S),
                (self._stop, STOPS_S),
                (self._restart, RESTARTS_S),
                (self._cut, CUTS_S),
            ):
                group.create_task(self._again_and_again(kind, pause_s))

    async def heal(self) -> None:
        """When it is over: back when the database is, and nobody is stopped."""
        for waking in self._waking:
            waking.cancel()
        for member in self._fleet.members:
            member.proxy.is_refusing = False
            if member.is_stopped:
                self.counts[WOKEN] += 1
                member.wake()
        if self._restarting is not None:
            await self._restarting

    async def _again_and_again(
        self,
        strike: Callable[[random.Random], Awaitable[None]],
        pause_s: tuple[float, float],
    ) -> None:
        chance = random.Random(f"{self._seed} {strike.__name__}")
        await asyncio.sleep(pause_s[0])  # so that each comes also in a short run
        while True:
            await strike(chance)
            await asyncio.sleep(chance.uniform(*pause_s))

    async def _kill(self, chance: random.Random) -> None:
        members = self._fleet.members
        if chance.random() > UNSPARED:
            spared = [m for m in members if m.is_stopped or self._is_last(m)]
            members = [member for member in members if member not in spared] or members
        member = chance.choice(members)
        self.counts["SIGKILL of a " + member.name[:-1]] += 1
        if not member.is_ready:
            self.counts["  of these while it began"] += 1
        member.kill()

    def _is_last(self, member: Member) -> bool:
        """Whether nobody else could do now what it does, or will do as soon as it is ready."""
        replicas, workers = self._fleet.replicas, self._fleet.workers
        kind = replicas if member in replicas else workers
        return not any(m.is_ready and not m.is_stopped for m in kind if m is not member)

    async def _stop(self, chance: random.Random) -> None:
        replicas, workers = self._fleet.replicas, self._fleet.workers
        kind = workers if workers and chance.random() < 0.7 else replicas
        fit = [member for member in kind if member.is_ready and not member.is_stopped]
        if not fit or sum(member.is_stopped for member in kind) >= len(kind) // 2:
            return  # somebody has to do the work
        member = chance.choice(fit)
        self.counts[f"SIGSTOP of a {member.name[:-1]}"] += 1
        member.stop()
        waking = asyncio.create_task(self._wake(member, chance.uniform(*STOPPED_S)))
        self._waking.add(waking)
        waking.add_done_callback(self._waking.discard)

    async def _wake(self, member: Member, after_s: float) -> None:
        await asyncio.sleep(after_s)
        if member.is_stopped:  # else it was killed meanwhile
            self.counts[WOKEN] += 1
            member.wake()

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
