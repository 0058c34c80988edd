"""A small world: two or three servers on one disk, callers, bad weather, and then a clear sky."""

import asyncio
import gc
import hashlib
import logging
from collections import Counter
from random import Random
from typing import Any, Final

import attrs

from taskmachine.adapters.runtime.runtime import Surroundings
from taskmachine.adapters.runtime.testing.virtual_loop import Stuck, VirtualLoop
from taskmachine.adapters.stores import Worker
from taskmachine.statemachine import Task
from tests.simulation.callers import Session
from tests.simulation.disk import Disk
from tests.simulation.faulty_store import Injected, Wire
from tests.simulation.judge import complaints
from tests.simulation.node import Node, die_here
from tests.simulation.toolbox import Bench, Boom
from tests.simulation.weather import Clock, Weather

__all__ = ["Report", "World", "simulate"]

STORM_S: Final = 90.0
SETTLED_S: Final = 150.0
"""Every task has ended so long after the weather has cleared, and not only because its ttl is
over: the last pause is over, the last lease was lost, and every question was answered."""
LEASE_IS_LOST_S: Final = 45.0
"""When others have noticed at the latest that a process is gone, and another one is up."""


@attrs.frozen
class Report:
    """How a world went."""

    seed: int
    wrong: list[str]
    counts: Counter[str]
    virtual_s: float
    digest: str
    """Of the whole history: the same for the same seed."""


class World:
    """Everything in it follows from the seed."""

    def __init__(self, seed: int) -> None:
        def dice(of: str) -> Random:
            return Random(f"{seed} {of}")  # a text seed does not depend on PYTHONHASHSEED

        self._random = dice("world")
        self._ids = dice("ids")
        self.loop = VirtualLoop(dice("order"), wild=seed % 2 == 1)
        self.weather = Weather(dice("weather"))
        self.clock = Clock(self.loop.time)
        self.disk = Disk(self.clock, self.loop.time, self.weather.counts)
        self.bench = Bench(die_here(self.loop))
        self.acknowledged: dict[str, Task] = {}
        self.keys: dict[tuple[str, str], str] = {}
        self.escaped: list[str] = []
        self._wire = Wire()
        self._is_stopping = False
        self._last_death = 0.0
        self.nodes: list[Node] = []
        self.all_nodes: list[Node] = []
        self._servers = self._random.choice((2, 3))
        self.sessions = [
            Session(self, owner, number, dice(f"session {number}"))
            for number, owner in enumerate(("ada", "ada", "bob", "eve"))
        ]

    # --- servers -----------------------------------------------------------------------------

    def some_node(self, random: Random) -> Node | None:
        up = [node for node in self.nodes if node.is_up]
        return random.choice(up) if up else None

    def _new_id(self) -> str:
        return f"{self._ids.getrandbits(64):016x}"

    def _is_dead(self, worker: Worker, host: str) -> bool:
        """What a process on that host can know."""
        if worker.host != host:
            return False
        return not any(node.owns(worker) for node in self.nodes)

    def _begin_node(self, host: str, pid: int) -> None:
        surroundings = Surroundings(
            self.clock, self._new_id, host, pid, lambda worker: self._is_dead(worker, host)
        )
        name = f"{host} {len(self.all_nodes)}"
        node = Node(name, self.loop, self.disk, self._wire, self.weather, self.bench, surroundings)
        self.nodes.append(node)
        self.all_nodes.append(node)
        node.process.on_death.append(lambda: self._died(node))
        node.start()

    def _died(self, node: Node) -> None:
        self.nodes.remove(node)
        self._last_death = self.loop.time()
        self.weather.counts["processes that ended"] += 1
        if self._is_stopping:
            return
        # Numbers are used again: then nobody can tell that the process is another one.
        pid = node.pid if self._random.random() < 0.2 else len(self.all_nodes)
        pause_s = self._random.choice((0.2, 3.0, 20.0))
        self.loop.call_later(
            pause_s, self._begin_node, node.host, pid, context=self.loop.outside.context
        )

    async def _make_trouble(self) -> None:
        """What happens to whole machines."""
        random, weather = self._random, self.weather
        while not weather.is_clear:
            await asyncio.sleep(random.expovariate(1 / weather.trouble_every_s))
            if weather.is_clear or not self.nodes:
                continue
            node = random.choice(self.nodes)
            match random.choice(("jump", "jump", "kill", "pause", "pause", "outage", "stop")):
                case "jump":
                    weather.counts["clock jumps"] += 1
                    self.clock.jump(random)
                case "kill":
                    weather.counts["crashes"] += 1
                    self.loop.kill(node.process)
                case "pause":
                    weather.counts["pauses"] += 1
                    self.loop.pause(node.process, random.uniform(1, 35))
                case "outage":
                    weather.counts["outages"] += 1
                    node.store.is_out = True
                    await asyncio.sleep(random.uniform(1, 45))
                    node.store.is_out = False
                case "stop":
                    weather.counts["stops"] += 1
                    self.loop.create_task(node.stop())

    # --- the course of things ----------------------------------------------------------------

    async def run(self) -> None:
        hosts = ["here", "here", self._random.choice(("here", "there"))]
        for pid, host in enumerate(hosts[-self._servers :]):
            self._begin_node(host, pid)
        callers = [self.loop.create_task(session.run()) for session in self.sessions]
        trouble = self.loop.create_task(self._make_trouble())
        await asyncio.sleep(STORM_S)
        self.weather.is_clear = True
        cleared_at = self.loop.time()
        trouble.cancel()
        await asyncio.gather(*callers)
        await asyncio.sleep(3)  # the last slow operation is over
        while any(node.process.is_paused for node in self.nodes):
            await asyncio.sleep(1)
        await asyncio.gather(*(session.finish(cleared_at + SETTLED_S) for session in self.sessions))
        live = await self._live()
        self.disk.wrong += [f"task {task.id} is still {task.state}" for task in live]
        self.weather.counts["processes that gave up"] += self.loop.exits
        if not live:  # else it is wrong already, and may go on for ever
            await asyncio.sleep(max(0, self._last_death + LEASE_IS_LOST_S - self.loop.time()))
            await asyncio.gather(*(session.check_health() for session in self.sessions))
            self.disk.wrong += await self._left_over()
        self._is_stopping = True
        stopping = list(self.nodes)
        await asyncio.gather(*(node.stop() for node in stopping))
        self.disk.wrong += [
            f"{node.process.name} took {node.stop_took_s} s to stop"
            for node in stopping
            if node.stop_took_s > 7
        ]

    async def _live(self) -> list[Task]:
        return [task for task in await self.disk.store.browse(None, 10**6) if not task.is_terminal]

    async def _left_over(self) -> list[str]:
        """What nobody has taken care of."""
        store = self.disk.store
        found = [f"task {t.id} is overdue" for t in await store.overdue(self.clock() - 2_000, 9)]
        found += [f"task {task.id} is an orphan" for task in await store.orphans(9)]
        alive = {name for node in self.nodes for name in node.store.workers_here}
        found += [
            f"worker {worker.id} is dead and enlisted"
            for worker in await store.workers()
            if worker.id not in alive
        ]
        return found


class _Errors(logging.Handler):
    """Errors that the runtime logs, and that no fault explains."""

    def __init__(self, escaped: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._escaped = escaped

    def emit(self, record: logging.LogRecord) -> None:
        error: Any = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, (Injected, Boom)):
            self._escaped.append(f"{record.getMessage()}: {error!r}")


def simulate(seed: int) -> Report:
    """Run the world of this seed, and judge it."""
    log = logging.getLogger("taskmachine")
    level, propagates = log.level, log.propagate
    world = World(seed)
    handler = _Errors(world.escaped)
    log.addHandler(handler)
    log.setLevel(logging.ERROR)
    log.propagate = False
    collects = gc.isenabled()
    gc.disable()  # nothing in here may depend on when garbage is collected
    try:
        world.loop.run(world.run())
        wrong = complaints(world)
    except Stuck as stuck:
        wrong = [str(stuck)]
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagates
        virtual_s = world.loop.time()
        world.loop.close()
        if collects:
            gc.enable()
    digest = hashlib.sha256(repr(world.disk.history).encode()).hexdigest()
    return Report(seed, wrong, world.weather.counts, virtual_s, digest)
