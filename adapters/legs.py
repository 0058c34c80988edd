"""One run of a tool, from its start to its end, whoever wants to know: a task or a plain call."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from taskmachine.adapters.claims import CannotAsk, Gone
from taskmachine.adapters.context import Context, Parked
from taskmachine.adapters.tools import Threads, Tool
from taskmachine.protocol.jsonrpc import INTERNAL_ERROR
from taskmachine.statemachine import Cause, Outcome

__all__ = ["PATIENCE_S", "Leg", "Stopwatch"]

log: Final = logging.getLogger("taskmachine")

PATIENCE_S: Final = 5.0
"""How long a tool that was stopped may take to end; then it is abandoned."""


class Stopwatch:
    """Rings when the time is over; it stands still while somebody else is waited for."""

    def __init__(self, seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.rung: asyncio.Future[None] = self._loop.create_future()
        self._left = seconds
        self._pauses = 0
        self._go()

    def _go(self) -> None:
        self._since = self._loop.time()
        self._timer = self._loop.call_later(self._left, self._ring)

    def _ring(self) -> None:
        if not self.rung.done():
            self.rung.set_result(None)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The timeout runs only while there is work."""
        self._pauses += 1
        if self._pauses == 1:
            self._timer.cancel()
            self._left -= self._loop.time() - self._since
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses and not self.rung.done():
                self._go()

    def stop(self) -> None:
        self._timer.cancel()
        self.rung.cancel()


class Leg:
    """A tool that has begun to run."""

    def __init__(
        self,
        tool: Tool,
        arguments: bytes,
        context: Context,
        threads: Threads,
        stopwatch: Stopwatch,
        timeout_s: float,
        raised: Callable[[BaseException], None],
    ) -> None:
        self._tool = tool
        self._context = context
        self._stopwatch = stopwatch
        self._timeout_s = timeout_s
        self._is_told = False
        self._running = asyncio.create_task(tool.run(arguments, context, threads, raised))

    async def outcome(self, lost: "asyncio.Future[Any] | None" = None) -> Outcome | Parked | None:
        """How it ended, or that its time is over; None if nobody wants to know any more.

        `CannotAsk` if a plain call ended with that.
        """
        awaited: set[asyncio.Future[Any]] = {self._running, self._stopwatch.rung}
        if lost is not None:
            awaited.add(lost)
        await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
        if self._running.done():
            self._is_told = True
            return self._ended()
        if lost is not None and lost.done():
            return None
        message = f"Tool '{self._tool.name}' took longer than {self._timeout_s:g} s."
        return Outcome(Cause.TIMED_OUT, message=message)

    def _ended(self) -> Outcome | Parked | None:
        try:
            return self._running.result()
        except Parked as parked:
            return parked
        except Gone:
            return None
        except CannotAsk as error:
            if self._context.task_id is None:
                raise
            log.warning("tool '%s' failed: %s", self._tool.name, error)
            return Outcome.of_error(INTERNAL_ERROR, f"Tool '{self._tool.name}' failed: {error}")
        except asyncio.CancelledError:
            return Outcome.of_error(INTERNAL_ERROR, f"Tool '{self._tool.name}' cancelled itself")

    async def stop(self, patience_s: float, on_end: Callable[[], None]) -> bool:
        """Stop the tool if it still runs, and clean up; whether it has ended.

        One that ignores this is abandoned: what it says in the end is dropped, and `on_end` is
        called then.
        """
        self._stopwatch.stop()
        if self._running.done() and not self._is_gone():
            self._drop(self._running)
            return True
        self._running.cancel()
        cleaning = asyncio.create_task(self._context.cancelled())
        _, unwilling = await asyncio.wait({self._running, cleaning}, timeout=patience_s)
        if cleaning in unwilling:
            cleaning.cancel()
            log.warning("a cleanup of tool '%s' takes too long, and is given up", self._tool.name)
        if self._running not in unwilling:
            self._drop(self._running)
            return True
        log.warning("tool '%s' ignores its cancellation, and is abandoned", self._tool.name)
        self._running.add_done_callback(self._drop)
        self._running.add_done_callback(lambda _: on_end())
        return False

    def _is_gone(self) -> bool:
        """Whether the tool ended since its context said that the task is lost: stopped, too."""
        return not self._running.cancelled() and isinstance(self._running.exception(), Gone)

    def _drop(self, running: "asyncio.Task[Outcome]") -> None:
        """Whatever came of it is taken note of, or asyncio would complain that nobody did."""
        if not running.cancelled() and running.exception() is None and not self._is_told:
            log.info("tool '%s' ended too late, and its outcome was dropped", self._tool.name)
