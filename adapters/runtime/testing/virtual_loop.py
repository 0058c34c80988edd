"""A simulated event loop: time is virtual, and a seed chooses the order of callbacks.

When no callback is ready, time jumps to the next timer.  There are no sockets, threads or signals.
Every callback belongs to the simulated `Process` that its context names, so a process can be killed
between two callbacks (the rest never happens, not even a `finally`) or paused for a while, like a
machine that swaps or a laptop that sleeps.

asyncio guarantees that callbacks of one loop run in the order in which they became ready.  A
process is one loop, so each process keeps that guarantee, and the seed chooses which process
runs next.  A `wild` loop takes any ready callback: it tests code that must not rely on any order.
"""

import asyncio
import contextlib
import contextvars
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from random import Random
from typing import Any, Final, TypeVar, TypeVarTuple

__all__ = ["PROCESS", "Process", "Stuck", "VirtualLoop"]

_T = TypeVar("_T")
_Ts = TypeVarTuple("_Ts")

MAX_STEPS: Final = 200_000
"""Callbacks in one instant of virtual time; more of them are an endless loop."""


class Stuck(Exception):
    """The loop can make no progress: no timer is left, or callbacks repeat endlessly."""


class Process:
    """A simulated process.  Code that runs in `context` belongs to it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.is_paused = False
        self.paused_s = 0.0
        self.tasks: list[asyncio.Task[Any]] = []
        """Every task that was started in it, kept to avoid garbage collection."""
        self.on_death: list[Callable[[], None]] = []
        self.ready: deque[asyncio.Handle] = deque()
        self._context = contextvars.copy_context()
        self._context.run(PROCESS.set, self)

    @property
    def context(self) -> contextvars.Context:
        return self._context.copy()


PROCESS: contextvars.ContextVar[Process] = contextvars.ContextVar("PROCESS")


class VirtualLoop(asyncio.BaseEventLoop):
    """Call `run` once, then `close`."""

    def __init__(self, random: Random, *, wild: bool = False) -> None:
        super().__init__()
        self._random = random
        self._is_wild = wild
        self._now = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle, Process]] = []
        self._count = 0
        self._is_over = False
        self.outside = Process("outside")
        self._processes = [self.outside]
        self.escaped: list[str] = []
        """Exceptions that were not caught."""
        self.exits = 0
        """Number of processes that exited by SystemExit."""
        self.set_debug(False)
        self.set_task_factory(self._new_task)
        self.set_exception_handler(self._note)

    def new_process(self, name: str) -> Process:
        process = Process(name)
        self._processes.append(process)
        return process

    # --- interface of an event loop ----------------------------------------------------------

    def time(self) -> float:
        return self._now

    def call_soon(
        self,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        if context is None:
            context = contextvars.copy_context()
        handle = asyncio.Handle(callback, args, self, context)
        process = context.get(PROCESS, self.outside)
        if not process.is_dead and not self._is_over:
            process.ready.append(handle)
        return handle

    def call_at(
        self,
        when: float,
        callback: Callable[[*_Ts], object],
        *args: *_Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        if context is None:
            context = contextvars.copy_context()
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._count += 1
        entry = (when, self._count, timer, context.get(PROCESS, self.outside))
        heapq.heappush(self._timers, entry)
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Leave the timer in the queue; `_pass_time` skips it."""

    def _new_task(
        self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any
    ) -> "asyncio.Task[Any]":
        task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
        context = options.get("context") or contextvars.copy_context()
        context.get(PROCESS, self.outside).tasks.append(task)
        return task

    def _note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.escaped.append(f"{context['message']}: {context.get('exception')!r}")

    # --- failures of processes ---------------------------------------------------------------

    def kill(self, process: Process) -> None:
        """Kill a process: none of its callbacks runs any more."""
        process.is_dead = True
        process.ready.clear()
        for act in process.on_death:
            act()

    def pause(self, process: Process, seconds: float) -> None:
        """Pause a process; its due callbacks run afterwards."""
        if process.is_dead or process.is_paused:
            return

        def wake() -> None:
            process.is_paused = False
            process.paused_s += seconds

        process.is_paused = True
        self.call_later(seconds, wake, context=self.outside.context)

    # --- running -----------------------------------------------------------------------------

    def run(self, main: Coroutine[Any, Any, _T]) -> _T:
        """Run until `main` is done; raise `Stuck` if it cannot finish."""
        with self._running():
            task = self.create_task(main, context=self.outside.context)
            moment, steps = self._now, 0
            while not task.done():
                self._step()
                steps = steps + 1 if self._now == moment else 0
                moment = self._now
                if steps > MAX_STEPS:
                    raise Stuck(f"{steps} callbacks at {moment} s, and time does not pass")
        return task.result()

    def _step(self) -> None:
        able = [p for p in self._processes if p.ready and not p.is_paused]
        while not able:
            self._pass_time()
            able = [p for p in self._processes if p.ready and not p.is_paused]
        process = able[int(self._random.random() * len(able))] if len(able) > 1 else able[0]
        if self._is_wild and len(process.ready) > 1:
            process.ready.rotate(-int(self._random.random() * len(process.ready)))
        handle = process.ready.popleft()
        if handle.cancelled():
            return
        try:
            handle._run()
        except SystemExit:
            if process is self.outside:
                raise
            self.exits += 1
            self.kill(process)

    def _pass_time(self) -> None:
        if not self._timers:
            raise Stuck(f"nothing left to do at {self._now} s")
        self._now = max(self._now, self._timers[0][0])
        while self._timers and self._timers[0][0] <= self._now:
            _, _, timer, process = heapq.heappop(self._timers)
            if not timer.cancelled() and not process.is_dead:
                process.ready.append(timer)

    @contextlib.contextmanager
    def _running(self) -> Generator[None]:
        before = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(before)

    # --- shutdown ----------------------------------------------------------------------------

    def unretrieved(self, process: Process) -> list[str]:
        """Return exceptions of tasks that were never retrieved, which asyncio would log later."""
        return [
            f"exception of a task was never retrieved: {task!r}"
            for task in process.tasks
            if task.done() and not task.cancelled() and getattr(task, "_log_traceback", False)
        ]

    def close(self) -> None:
        """Close all unfinished tasks silently.

        Their `finally` blocks run, but callbacks that they schedule do not.
        """
        self._is_over = True
        with self._running():
            self.set_task_factory(self._new_task_after_close)
            for process in self._processes:
                for task in process.tasks:
                    if not task.done():
                        task._log_destroy_pending = False  # type: ignore[attr-defined]
                        _close(task.get_coro())
                    elif not task.cancelled():
                        task.exception()  # marks it as retrieved
                process.tasks.clear()
                process.ready.clear()
                process.on_death.clear()
        self._processes.clear()
        self._timers.clear()
        super().close()

    def _new_task_after_close(
        self, loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any
    ) -> "asyncio.Future[Any]":
        coroutine.close()
        return self.create_future()


def _close(coroutine: Any) -> None:
    for _ in range(100):  # a `finally` that awaits suspends again
        try:
            coroutine.close()
        except (Exception, asyncio.CancelledError):  # noqa: BLE001  the process is dead
            continue
        return
