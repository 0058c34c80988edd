"""Virtual time for tests of tools, which may also use threads."""

import asyncio
import contextvars
from collections import Counter
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from random import Random
from typing import Any, Final, TypeVar, TypeVarTuple

from taskmachine.adapters.runtime.testing.virtual_loop import PROCESS, Process, Stuck, VirtualLoop

__all__ = ["TestLoop", "run"]

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

THREAD_S: Final = 60.0
"""Real seconds that a thread may work before the test fails."""


def run(main: Coroutine[Any, Any, _T], *, timeout: float = 3600.0) -> _T:
    """Run a coroutine on virtual time, like `asyncio.run`: a sleep of an hour takes no time.

    There are no sockets and subprocesses.  `Stuck` if `main` needs more than `timeout` virtual
    seconds, so a test that waits for something that never happens ends soon.
    """
    loop = TestLoop(Random(0))

    async def limited() -> _T:
        async with asyncio.timeout(timeout) as limit:
            try:
                return await main
            except asyncio.CancelledError:
                if limit.expired():
                    raise Stuck(f"the test takes more than {timeout:g} s of virtual time") from None
                raise

    try:
        return loop.run(limited())
    finally:
        loop.close()


class TestLoop(VirtualLoop):
    """Time stands still while a thread works for a live process."""

    __test__ = False  # not a test of pytest

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.set_exception_handler(None)  # log exceptions that were not caught
        self._arrived: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
        self._working: Counter[Process] = Counter()

    @contextmanager
    def thread_works(self) -> Generator[None]:
        """Stop the time for this block, in which a thread works for this process."""
        process = PROCESS.get(self.outside)
        self._working[process] += 1
        try:
            yield
        finally:
            self._working[process] -= 1

    async def thread_waits(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Await a coroutine for a thread that waits for it."""
        process = PROCESS.get(self.outside)
        self._working[process] -= 1
        try:
            return await coroutine
        finally:
            self._working[process] += 1

    def call_soon_threadsafe(
        self,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        context = context or contextvars.copy_context()
        self._arrived.put((callback, args, context))
        return asyncio.Handle(callback, args, self, context)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*_Ts], _T], *args: *_Ts
    ) -> asyncio.Future[_T]:
        process = PROCESS.get(self.outside)
        self._working[process] += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(lambda _: self._working.subtract([process]))
        return future

    def _step(self) -> None:
        while not self._arrived.empty():
            self._accept(*self._arrived.get())
        super()._step()

    def _pass_time(self) -> None:
        if not any(n > 0 and not process.is_dead for process, n in self._working.items()):
            super()._pass_time()
            return
        try:
            self._accept(*self._arrived.get(timeout=THREAD_S))
        except Empty:
            raise Stuck(f"a thread works for more than {THREAD_S:g} s") from None

    def _accept(
        self, callback: Callable[..., object], args: Any, context: contextvars.Context
    ) -> None:
        self.call_soon(callback, *args, context=context)
