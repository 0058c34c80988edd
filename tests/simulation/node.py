"""One simulated server: a process with the real runtime, and its calls."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import Runtime, RuntimeConfig, Surroundings, start_runtime
from taskmachine.adapters.runtime.testing.virtual_loop import PROCESS, VirtualLoop
from taskmachine.adapters.stores import Worker
from taskmachine.statemachine import State, Times
from tests.simulation.disk import Disk
from tests.simulation.faults import Faults
from tests.simulation.faulty_store import FaultyStore, Injected, Notices
from tests.simulation.toolbox import TOOL_LOG, TOOLS, ToolLog

__all__ = ["LIMITS", "TIMES", "Disconnected", "Node"]

_T = TypeVar("_T")

TIMES: Final = Times(
    default_ttl_ms=600_000,
    grace_ms=30_000,
    retention_ms={State.COMPLETED: 60_000, State.FAILED: 60_000, State.CANCELLED: 30_000},
)
LIMITS: Final = Limits(concurrency=6, page=4)

_REST_S: Final = 20.0
"""After a stop every asyncio task ends within this time, also one that ignores cancellation."""


class Disconnected(Exception):
    """The server ended, and with it the connection."""


class Node:
    """A server that runs from `start` to a crash or `stop`."""

    def __init__(
        self,
        name: str,
        loop: VirtualLoop,
        disk: Disk,
        notices: Notices,
        faults: Faults,
        tool_log: ToolLog,
        world: Surroundings,
    ) -> None:
        self.process = loop.new_process(name)
        self.process.on_death.append(self._disconnect_all)
        self.store = FaultyStore(disk, notices, faults, loop, self.process)
        self.host = world.host
        self.pid = world.pid
        self.leaks: list[str] = []
        self.stop_took_s = 0.0
        self._loop = loop
        self._tool_log = tool_log
        self._world = world
        self._runtime: Runtime | None = None
        self._is_stopping = False
        self._calls: dict[asyncio.Task[Any], asyncio.Future[Any]] = {}

    @property
    def is_up(self) -> bool:
        """Whether it accepts calls; a paused server accepts them and answers later."""
        return self._runtime is not None and not self.process.is_dead and not self._is_stopping

    def start(self) -> None:
        self._spawn(self._start())

    async def _start(self) -> None:
        while self._runtime is None:
            try:
                self._runtime = await start_runtime(
                    self.store, TOOLS, RuntimeConfig(times=TIMES, limits=LIMITS, world=self._world)
                )
            except Injected:
                await asyncio.sleep(1)

    async def stop(self) -> None:
        """Stop the runtime as after SIGTERM and wait for the end of the process."""
        if self._is_stopping or self._runtime is None or self.process.is_dead:
            return
        self._is_stopping = True
        gone: asyncio.Future[None] = self._loop.create_future()
        self.process.on_death.append(lambda: gone.set_result(None))
        self._spawn(self._stop(self._runtime))
        await gone

    async def _stop(self, runtime: Runtime) -> None:
        began = self._loop.time() - self.process.paused_s
        await runtime.stop()
        self.stop_took_s = self._loop.time() - self.process.paused_s - began
        for call in self._calls:
            call.cancel()
        await asyncio.sleep(_REST_S)
        me = asyncio.current_task()
        self.leaks = [repr(t) for t in self.process.tasks if not t.done() and t is not me]
        self.leaks += self._loop.unretrieved(self.process)
        self._loop.kill(self.process)

    async def call(
        self, act: Callable[[Runtime], Awaitable[_T]], give_up_s: float | None = None
    ) -> _T:
        """Make a call; raise `Disconnected` if the server ends first or the caller gives up."""
        assert self._runtime is not None, "only a node that is up is called"
        answer: asyncio.Future[_T] = self._loop.create_future()

        async def serve(runtime: Runtime) -> _T:
            return await act(runtime)

        call = self._spawn(serve(self._runtime))
        self._calls[call] = answer
        call.add_done_callback(self._hand_over)
        if give_up_s is not None:
            self._loop.call_later(give_up_s, call.cancel)
        return await answer

    def _hand_over(self, call: "asyncio.Task[Any]") -> None:
        answer = self._calls.pop(call, None)
        if answer is None or answer.done():
            return
        if call.cancelled():
            answer.set_exception(Disconnected())
        elif (error := call.exception()) is not None:
            answer.set_exception(error)
        else:
            answer.set_result(call.result())

    def _disconnect_all(self) -> None:
        for answer in self._calls.values():
            if not answer.done():
                answer.set_exception(Disconnected())
        self._calls.clear()

    def _spawn(self, coroutine: Any) -> "asyncio.Task[Any]":
        context = self.process.context
        context.run(TOOL_LOG.set, self._tool_log)
        return self._loop.create_task(coroutine, context=context)

    def owns(self, worker: Worker) -> bool:
        return (worker.host, worker.pid) == (self.host, self.pid)


def kill_here(loop: VirtualLoop) -> Callable[[], None]:
    """Return a function that kills the process that calls it."""
    return lambda: loop.kill(PROCESS.get())
