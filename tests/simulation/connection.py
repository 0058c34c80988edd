"""The connection of one session to the servers, and the record of its calls."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import count
from random import Random
from typing import Final, Protocol, TypeVar

from taskmachine.adapters.runtime.runtime import Runtime
from taskmachine.adapters.stores import StoreError
from taskmachine.statemachine import NotFound, Task
from taskmachine.statemachine.invariants import Answered, Called, Missed, Saw
from tests.simulation.disk import Disk
from tests.simulation.faults import Clock, Faults
from tests.simulation.node import Disconnected, Node

__all__ = ["Connection", "SessionWorld"]

_T = TypeVar("_T")

_SLACK_S: Final = {True: 1.0, False: 15.0}
"""Extra time for an answer, with and without faults."""


class SessionWorld(Protocol):
    """The part of the world that a session uses."""

    clock: Clock
    disk: Disk
    faults: Faults
    acknowledged: dict[str, Task]
    """The tasks whose creation was acknowledged."""
    keys: dict[tuple[str, str], str]

    def random_node(self, random: Random) -> Node | None: ...


class Connection:
    """Sends each call to a random server, like a load balancer."""

    def __init__(self, world: SessionWorld, owner: str, wire: str, random: Random) -> None:
        self.known: dict[str, Task] = {}
        """The tasks of this session, as last observed."""
        self.called_at = 0.0
        self.was_fault_free = False
        self.was_paused = False
        """The time of the last call, whether faults were off, and whether its server paused."""
        self._world = world
        self._disk = world.disk
        self._owner = owner
        self._wire = wire
        self._random = random
        self._calls = count()

    def record(self, task: Task, wire: str | None = None, *, pushed: bool = False) -> None:
        now = self._disk.now_ms()
        seen = Saw(now, self._owner, task.id, task.state, wire or self._wire, pushed, task.outcome)
        self._disk.history.append(seen)
        if task.owner != self._owner:
            self._disk.wrong.append(f"{self._owner} was shown task {task.id} of {task.owner}")
        elif wire is None:
            self.known[task.id] = task

    async def observe(
        self, task_id: str, act: Callable[[Runtime], Awaitable[Task]], seconds: float
    ) -> Task | None:
        """Make a call for a task and record the observation."""

        async def or_missed(runtime: Runtime) -> Task | None:
            try:
                return await act(runtime)
            except NotFound:
                if task_id not in self._disk.removed:
                    missed = Missed(self._disk.now_ms(), self._owner, task_id)
                    self._disk.history.append(missed)
                return None

        leaves = self._random.random() < 0.1 and not self._world.faults.are_off
        give_up_s = self._random.random() * 3 if leaves else None
        task = await self.ask(or_missed, seconds, give_up_s)
        if task is not None:
            self.record(task)
        elif task_id in self._disk.removed:
            self.known.pop(task_id, None)
        return task

    async def ask(
        self,
        act: Callable[[Runtime], Awaitable[_T]],
        seconds: float,
        give_up_s: float | None = None,
    ) -> _T | None:
        """Call a server; return None if the call failed because of a fault."""
        node = self._world.random_node(self._random)
        if node is None:
            await asyncio.sleep(1)
            return None
        call_id = f"{self._wire} call {next(self._calls)}"
        self.was_fault_free = self._world.faults.are_off
        bound_s = seconds + _SLACK_S[self.was_fault_free]
        called_at, paused_s = self._disk.now_ms(), node.process.paused_s
        self.called_at = called_at / 1_000
        was_paused = node.process.is_paused
        self._disk.history.append(Called(called_at, call_id, round(bound_s * 1_000)))
        answered_at = called_at
        try:
            result = await node.call(act, give_up_s)
            # The bound does not include pauses of the machine.
            paused_ms = round((node.process.paused_s - paused_s) * 1_000)
            answered_at = self._disk.now_ms() - paused_ms
            self.was_paused = was_paused or paused_ms > 0
        except (Disconnected, StoreError) as error:
            if self._world.faults.are_off and isinstance(error, StoreError):
                self._disk.wrong.append(f"{call_id} failed without a fault: {error!r}")
            return None
        except Exception as error:  # noqa: BLE001, no other error may reach a caller
            self._disk.wrong.append(f"{call_id} was answered by {error!r}")
            return None
        finally:
            self._disk.history.append(Answered(answered_at, call_id))
        return result
