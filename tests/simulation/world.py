"""A simulated world: two or three servers on one store, clients, and a period of faults."""

import asyncio
import gc
import hashlib
import logging
from collections import Counter
from random import Random
from typing import Any, Final

import attrs

from taskmachine.adapters.runtime.runtime import Surroundings
from taskmachine.adapters.runtime.testing.virtual_loop import PROCESS, Stuck, VirtualLoop
from taskmachine.adapters.stores import Worker
from taskmachine.statemachine import Task
from tests.simulation.callers import Session
from tests.simulation.disk import Disk
from tests.simulation.faults import Clock, Faults
from tests.simulation.faulty_store import Injected, Notices
from tests.simulation.judge import complaints
from tests.simulation.node import Node, kill_here
from tests.simulation.toolbox import Boom, ToolLog

__all__ = ["Report", "World", "simulate"]

FAULTS_S: Final = 90.0
SETTLED_S: Final = 150.0
"""Every task must have ended this long after the last fault, without expiring: by then the last
pause has ended, the last lost lease has expired, and every question was answered."""
LEASE_IS_LOST_S: Final = 45.0
"""Time for the other processes to notice that one has ended, and for its successor to start."""


@attrs.frozen
class Report:
    """The result of a world."""

    seed: int
    wrong: list[str]
    counts: Counter[str]
    virtual_s: float
    digest: str
    """Hash of the history: the same for the same seed."""


class World:
    """A world that is determined by its seed."""

    def __init__(self, seed: int) -> None:
        def generator(of: str) -> Random:
            return Random(f"{seed} {of}")  # a text seed does not depend on PYTHONHASHSEED

        self._random = generator("world")
        self._ids = generator("ids")
        self.loop = VirtualLoop(generator("order"), wild=seed % 2 == 1)
        self.faults = Faults(generator("faults"))
        self.clock = Clock(self.loop.time)
        self.disk = Disk(self.clock, self.loop.time, self.faults.counts)
        self.tool_log = ToolLog(kill_here(self.loop), self._pause_here, self.disk.history)
        self.acknowledged: dict[str, Task] = {}
        self.keys: dict[tuple[str, str], str] = {}
        self.escaped: list[str] = []
        self._notices = Notices()
        self._is_stopping = False
        self._last_death = 0.0
        self.nodes: list[Node] = []
        self.all_nodes: list[Node] = []
        self._servers = self._random.choice((2, 3))
        self.sessions = [
            Session(self, owner, number, generator(f"session {number}"))
            for number, owner in enumerate(("ada", "ada", "bob", "eve"))
        ]

    # --- servers -----------------------------------------------------------------------------

    def random_node(self, random: Random) -> Node | None:
        up = [node for node in self.nodes if node.is_up]
        return random.choice(up) if up else None

    def _new_id(self) -> str:
        return f"{self._ids.getrandbits(64):016x}"

    def _is_dead(self, worker: Worker, host: str) -> bool:
        """Return whether a process on that host can see that the worker is dead."""
        if worker.host != host:
            return False
        return not any(node.owns(worker) for node in self.nodes)

    def _begin_node(self, host: str, pid: int) -> None:
        surroundings = Surroundings(
            self.clock, self._new_id, host, pid, lambda worker: self._is_dead(worker, host)
        )
        name = f"{host} {len(self.all_nodes)}"
        node = Node(
            name, self.loop, self.disk, self._notices, self.faults, self.tool_log, surroundings
        )
        self.nodes.append(node)
        self.all_nodes.append(node)
        node.process.on_death.append(lambda: self._died(node))
        node.start()

    def _died(self, node: Node) -> None:
        self.nodes.remove(node)
        self._last_death = self.loop.time()
        self.faults.counts["processes that ended"] += 1
        if self._is_stopping:
            return
        # A pid may be reused: then no process can see that this is a new one.
        pid = node.pid if self._random.random() < 0.2 else len(self.all_nodes)
        pause_s = self._random.choice((0.2, 3.0, 20.0))
        self.loop.call_later(
            pause_s, self._begin_node, node.host, pid, context=self.loop.outside.context
        )

    def _pause_here(self) -> None:
        if not self.faults.are_off:
            self.faults.counts["pauses"] += 1
            self.loop.pause(PROCESS.get(), LEASE_IS_LOST_S / 2)

    async def _inject_faults(self) -> None:
        """Inject faults of whole machines: crashes, pauses, clock jumps, outages."""
        random, faults = self._random, self.faults
        while not faults.are_off:
            await asyncio.sleep(random.expovariate(1 / faults.fault_every_s))
            if faults.are_off or not self.nodes:
                continue
            node = random.choice(self.nodes)
            match random.choice(("jump", "jump", "kill", "pause", "pause", "outage", "stop")):
                case "jump":
                    faults.counts["clock jumps"] += 1
                    self.clock.jump(random)
                case "kill":
                    faults.counts["crashes"] += 1
                    self.loop.kill(node.process)
                case "pause":
                    faults.counts["pauses"] += 1
                    self.loop.pause(node.process, random.uniform(1, 35))
                case "outage":
                    faults.counts["outages"] += 1
                    node.store.is_unavailable = True
                    await asyncio.sleep(random.uniform(1, 45))
                    node.store.is_unavailable = False
                case "stop":
                    faults.counts["stops"] += 1
                    self.loop.create_task(node.stop())

    # --- the run -----------------------------------------------------------------------------

    async def run(self) -> None:
        hosts = ["here", "here", self._random.choice(("here", "there"))]
        for pid, host in enumerate(hosts[-self._servers :]):
            self._begin_node(host, pid)
        callers = [self.loop.create_task(session.run()) for session in self.sessions]
        injecting = self.loop.create_task(self._inject_faults())
        await asyncio.sleep(FAULTS_S)
        self.faults.are_off = True
        ended_at = self.loop.time()
        injecting.cancel()
        await asyncio.gather(*callers)
        await asyncio.sleep(3)  # until the last slow operation has ended
        while any(node.process.is_paused for node in self.nodes):
            await asyncio.sleep(1)
        await asyncio.gather(*(session.finish(ended_at + SETTLED_S) for session in self.sessions))
        live = await self._live()
        self.disk.wrong += [f"task {task.id} is still {task.state}" for task in live]
        self.faults.counts["processes that gave up"] += self.loop.exits
        if not live:  # otherwise there is a violation already, and no end
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
        """Return overdue and orphaned tasks and dead workers."""
        store = self.disk.store
        found = [f"task {t.id} is overdue" for t in await store.overdue(self.clock() - 2_000, 9)]
        found += [f"task {task.id} is an orphan" for task in await store.orphans(9)]
        alive = {name for node in self.nodes for name in node.store.workers_here}
        found += [
            f"worker {worker.id} is dead and still registered"
            for worker in await store.workers()
            if worker.id not in alive
        ]
        return found


class _Errors(logging.Handler):
    """Collects errors in the log that no injected fault explains."""

    def __init__(self, escaped: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._escaped = escaped

    def emit(self, record: logging.LogRecord) -> None:
        error: Any = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, (Injected, Boom)):
            self._escaped.append(f"{record.getMessage()}: {error!r}")


def simulate(seed: int) -> Report:
    """Run and check the world of this seed."""
    log = logging.getLogger("taskmachine")
    level, propagates = log.level, log.propagate
    world = World(seed)
    handler = _Errors(world.escaped)
    log.addHandler(handler)
    log.setLevel(logging.ERROR)
    log.propagate = False
    collects = gc.isenabled()
    gc.disable()  # the run must not depend on when garbage is collected
    try:
        world.loop.run(world.run())
        wrong = complaints(world)
    except Stuck as stuck:
        wrong = [str(stuck)]
    finally:
        virtual_s = world.loop.time()
        world.loop.close()  # tools that were killed may log an error
        log.removeHandler(handler)
        log.setLevel(level)
        log.propagate = propagates
        if collects:
            gc.enable()
    digest = hashlib.sha256(repr(world.disk.history).encode()).hexdigest()
    return Report(seed, wrong, world.faults.counts, virtual_s, digest)
