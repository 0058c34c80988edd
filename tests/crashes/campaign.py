"""Kills servers, restarts them on the same store file, and collects their messages."""

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
from tests.crashes.evidence import Evidence, Failed, Line, Settled, observation_of, read
from tests.crashes.fork_server import ForkServer
from tests.crashes.victim import Mode, Order

__all__ = ["Figures", "campaign"]

KILL_AFTER_S: Final = 0.3
"""Time from a process's first message to its kill, at most."""

START_S: Final = 30.0
"""Bound for the start of a process."""

SETTLED_S: Final = 90.0
"""Bound for the last process, which creates nothing, to finish all open work."""

SAMPLE: Final = 100
"""Older tasks to read after a kill, besides the newest ones."""

_LINES: Final = ((0, 3), (4, 40), (40, 200))
"""Messages of a process before its kill: at start-up, early, or under full load."""


@attrs.define
class Figures:
    """The figures of a campaign."""

    kills: int = 0
    kills_at_start: int = 0
    """Kills before the second message."""
    kills_beside_another: int = 0
    stops: int = 0
    reads: int = 0


class Victim:
    """A running process and its messages."""

    def __init__(self, fork_server: ForkServer, order: Order) -> None:
        self._fork_server = fork_server
        self._pid, self._input, output = fork_server.fork(order)
        self._lines: list[Line] = []
        self._more = asyncio.Condition()
        self._reading = asyncio.create_task(self._read(output))

    async def started(self) -> bool:
        """Wait for the first message; return False if it does not come in time."""
        return await self._wait_for(lambda: bool(self._lines), START_S)

    async def receive(self, lines: int, within_s: float) -> None:
        """Wait for that many more messages, for at most that time."""
        enough = len(self._lines) + lines
        await self._wait_for(lambda: len(self._lines) >= enough, within_s)

    async def settled(self) -> bool:
        """Wait until the process has no more work; return False if that takes too long."""
        return await self._wait_for(
            lambda: any(isinstance(line, Settled) for line in self._lines), SETTLED_S
        )

    async def _wait_for(self, condition: Callable[[], bool], within_s: float) -> bool:
        try:
            async with asyncio.timeout(within_s), self._more:
                await self._more.wait_for(lambda: condition() or self._reading.done())
        except TimeoutError:
            return False
        return condition()

    async def kill(self) -> Sequence[Line]:
        """Kill the process, wait for its end and return all its messages."""
        os.kill(self._pid, signal.SIGKILL)
        return await self._ended(signal.SIGKILL)

    async def stop(self) -> Sequence[Line]:
        """Stop the process gracefully and return all its messages."""
        return await self._ended(0)

    async def _ended(self, expected: int) -> Sequence[Line]:
        os.close(self._input)
        await self._reading
        status = self._fork_server.wait(self._pid)
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
    """Many processes, one after the other or two at once, on one store file."""

    def __init__(self, folder: Path, seed: int, figures: Figures) -> None:
        self.evidence = Evidence()
        self._url = f"sqlite:{folder / 'tasks.db'}"
        self._log = folder / "victims.log"
        self._steps = folder / "steps.jsonl"
        self._random = random.Random(seed)
        self._figures = figures
        self._started = 0
        self._fork_server = ForkServer(self._log)
        self._alive: list[Victim] = []
        self._looked_up = 0

    async def run(self, kills: int) -> None:
        """Kill that many processes, then let one finish all open work."""
        try:
            for _ in range(kills):
                await self._kill_one()
            for victim in self._alive:
                self._keep(await victim.kill())
            await self._settle()
        finally:
            self._fork_server.close()
        await self._take_stock()

    def _start(self, mode: Mode = "work") -> Victim:
        self._started += 1
        seed = self._random.randrange(2**32)
        order = Order(self._url, seed, f"v{self._started}", mode, str(self._steps))
        return Victim(self._fork_server, order)

    async def _kill_one(self) -> None:
        """Kill one of one or two processes; the other one stays up for the next round."""
        chance = self._random
        while len(self._alive) < (2 if chance.random() < 0.25 else 1):
            self._alive.append(self._start())
        victim = chance.choice(self._alive)
        lines = chance.randint(*chance.choice(_LINES))
        if not lines:
            self._spin(0.1)  # at or before its first steps
        elif await victim.started():
            await victim.receive(lines, KILL_AFTER_S)
            self._spin(0.004)
        else:
            self.evidence.complaints.append(f"a process did not start within {START_S:g} s")
        self._alive.remove(victim)
        said = await victim.kill()
        self._keep(said)
        self._figures.kills += 1
        self._figures.kills_at_start += len(said) <= 1
        self._figures.kills_beside_another += bool(self._alive)
        if self._alive and chance.random() < 0.02:
            self._keep(await self._alive.pop().stop())
            self._figures.stops += 1
        if chance.random() < 0.6:  # otherwise the next process opens the file first
            await self._look()

    def _spin(self, most_s: float) -> None:
        """Busy-wait for a random time, more precisely than a sleep."""
        until = time.perf_counter() + self._random.random() * most_s
        while time.perf_counter() < until:
            pass

    def _keep(self, lines: Iterable[Line]) -> None:
        for line in lines:
            self.evidence.add(line)

    async def _look(self) -> None:
        """Read tasks from the store after a kill."""
        self._figures.reads += 1
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
                    self.evidence.add(observation_of(task, since))
                    self.evidence.histories[task.id] = await store.history(task.id)
        finally:
            await store.close()

    async def _settle(self) -> None:
        victim = self._start("settle")
        if await victim.settled():
            self._keep(await victim.stop())
        else:
            self.evidence.complaints.append(f"not settled after {SETTLED_S:g} s")
            self._keep(await victim.kill())

    async def _take_stock(self) -> None:
        evidence = self.evidence
        self._keep(map(read, self._steps.read_bytes().splitlines()))
        store = await open_store(self._url)
        try:
            async for task, entries in store.export():
                evidence.tasks[task.id] = task
                evidence.entries[task.id] = entries
                evidence.add(observation_of(task, time.monotonic_ns()))
            evidence.workers = len(await store.workers())
            evidence.complaints += await store.check()  # type: ignore[attr-defined]
        finally:
            await store.close()
        log = self._log.read_text()
        if "Traceback" in log:
            evidence.complaints.append(f"a process failed: {log[log.index('Traceback') :][:4_000]}")


async def campaign(folder: Path, kills: int, seed: int, figures: Figures) -> Evidence:
    """Run a campaign on one store file in an empty folder and return the evidence."""
    run = Campaign(folder, seed, figures)
    await run.run(kills)
    return run.evidence
