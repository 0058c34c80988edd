"""Kills servers and starts others on the same file, and gathers what they said."""

import asyncio
import os
import random
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

import attrs

from taskmachine.adapters.stores import open_store
from tests.crashes.evidence import Evidence, Failed, Line, Settled, read, see
from tests.crashes.nursery import Nursery
from tests.crashes.victim import Mode, Order

__all__ = ["Figures", "campaign"]

LIFE_S: Final = 0.3
"""Of a process that has begun, at most."""

PATIENCE_S: Final = 30.0
"""For a process that should begin at once."""

SETTLED_S: Final = 90.0
"""Until a process that creates nothing has done all that was left."""

SAMPLE: Final = 100
"""Tasks that are looked up after a kill, besides the newest ones."""

_LINES: Final = ((0, 3), (4, 40), (40, 200))
"""After how many lines a process dies: while it begins, early, or in full work."""


@attrs.define
class Figures:
    """What a campaign was made of."""

    kills: int = 0
    kills_at_start: int = 0
    """Before the process had told anybody anything."""
    kills_beside_another: int = 0
    stops: int = 0
    looks: int = 0


class Victim:
    """A process that lives, and what it has said."""

    def __init__(self, nursery: Nursery, order: Order) -> None:
        self._nursery = nursery
        self._pid, self._input, output = nursery.bear(order)
        self._lines: list[Line] = []
        self._more = asyncio.Condition()
        self._reading = asyncio.create_task(self._read(output))

    async def begins(self) -> bool:
        """Wait for its first line; False if it ends, or takes too long, without it."""
        return await self._comes(lambda: bool(self._lines), PATIENCE_S)

    async def says(self, lines: int, within_s: float) -> None:
        """Wait for so many more lines, at most so long."""
        enough = len(self._lines) + lines
        await self._comes(lambda: len(self._lines) >= enough, within_s)

    async def settles(self) -> bool:
        """Wait until it has nothing to do any more."""
        return await self._comes(
            lambda: any(isinstance(line, Settled) for line in self._lines), SETTLED_S
        )

    async def _comes(self, is_there: Callable[[], bool], within_s: float) -> bool:
        try:
            async with asyncio.timeout(within_s), self._more:
                await self._more.wait_for(lambda: is_there() or self._reading.done())
        except TimeoutError:
            return False
        return is_there()

    async def kill(self) -> Sequence[Line]:
        """All that it ever said.  Once this returns nobody finds the process any more."""
        os.kill(self._pid, signal.SIGKILL)
        return await self._gone(signal.SIGKILL)

    async def stop(self) -> Sequence[Line]:
        """Gracefully: all that it ever said."""
        return await self._gone(0)

    async def _gone(self, expected: int) -> Sequence[Line]:
        os.close(self._input)
        await self._reading
        status = self._nursery.bury(self._pid)
        if status != expected:
            self._lines.append(Failed(f"a process ended with {status} instead of {expected}"))
        return self._lines

    async def _read(self, output: int) -> None:
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(output, "rb", 0)
        )
        async for line in reader:
            if line.endswith(b"\n"):
                async with self._more:
                    self._lines.append(read(line))
                    self._more.notify_all()
        transport.close()
        async with self._more:
            self._more.notify_all()


class Campaign:
    """Many lives on one file."""

    def __init__(self, folder: Path, seed: int, figures: Figures) -> None:
        self.evidence = Evidence()
        self._url = f"sqlite:{folder / 'tasks.db'}"
        self._log = folder / "victims.log"
        self._random = random.Random(seed)
        self._figures = figures
        self._lives = 0
        self._nursery = Nursery(self._log)
        self._alive: list[Victim] = []
        self._looked_up = 0

    async def run(self, kills: int) -> None:
        """Kill so often, then let one process finish what is left."""
        try:
            for _ in range(kills):
                await self._kill_one()
            for victim in self._alive:
                self._keep(await victim.kill())
            await self._settle()
        finally:
            self._nursery.close()
        await self._take_stock()

    def _new_life(self, mode: Mode = "work") -> Victim:
        self._lives += 1
        seed = self._random.randrange(2**32)
        return Victim(self._nursery, Order(self._url, seed, f"v{self._lives}", mode))

    async def _kill_one(self) -> None:
        """One of one or two processes; the other one lives on into the next round."""
        chance = self._random
        while len(self._alive) < (2 if chance.random() < 0.25 else 1):
            self._alive.append(self._new_life())
        victim = chance.choice(self._alive)
        lines = chance.randint(*chance.choice(_LINES))
        if not lines:
            self._spin(0.1)  # somewhere in its first steps, or before them
        elif await victim.begins():
            await victim.says(lines, LIFE_S)
            self._spin(0.004)
        else:
            self.evidence.complaints.append("a process did not begin")
        self._alive.remove(victim)
        said = await victim.kill()
        self._keep(said)
        self._figures.kills += 1
        self._figures.kills_at_start += len(said) <= 1
        self._figures.kills_beside_another += bool(self._alive)
        if self._alive and chance.random() < 0.02:
            self._keep(await self._alive.pop().stop())
            self._figures.stops += 1
        if chance.random() < 0.6:  # else the next process finds the file as it was left
            await self._look()

    def _spin(self, most_s: float) -> None:
        """A moment that no scheduler rounds."""
        until = time.perf_counter() + self._random.random() * most_s
        while time.perf_counter() < until:
            pass

    def _keep(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self.evidence.add(line)

    async def _look(self) -> None:
        """See for ourselves what a killed process left behind."""
        self._figures.looks += 1
        made = list(self.evidence.made.values())
        newest, self._looked_up = made[self._looked_up :], len(made)
        older = self._random.sample(made, min(SAMPLE, len(made)))
        store = await open_store(self._url)
        try:
            for one in {made.task_id: made for made in (*newest, *older)}.values():
                since = time.monotonic_ns()
                task = await store.load(one.task_id)
                if task is None:
                    self.evidence.missing.append(one)
                else:
                    self.evidence.add(see(task, since))
                    self.evidence.histories[task.id] = await store.history(task.id)
        finally:
            await store.close()

    async def _settle(self) -> None:
        victim = self._new_life("settle")
        if await victim.settles():
            self._keep(await victim.stop())
        else:
            self.evidence.complaints.append(f"not settled after {SETTLED_S:g} s")
            self._keep(await victim.kill())

    async def _take_stock(self) -> None:
        evidence = self.evidence
        store = await open_store(self._url)
        try:
            async for task, entries in store.export():
                evidence.tasks[task.id] = task
                evidence.entries[task.id] = entries
                evidence.add(see(task, time.monotonic_ns()))
            evidence.workers = len(await store.workers())
            evidence.complaints += await store.check()  # type: ignore[attr-defined]
        finally:
            await store.close()
        log = self._log.read_text()
        if "Traceback" in log:
            evidence.complaints.append(f"a process failed: {log[log.index('Traceback') :][:4_000]}")


async def campaign(folder: Path, kills: int, seed: int, figures: Figures) -> Evidence:
    """What was seen of so many kills on one file in an empty folder."""
    run = Campaign(folder, seed, figures)
    await run.run(kills)
    return run.evidence
