"""One run of a tool, for a task or for a plain call."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import attrs

from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.errors import CannotAsk, Gone
from taskmachine.adapters.tools.registry import Threads, Tool
from taskmachine.adapters.tools.retries import Again
from taskmachine.adapters.tools.work import Parked, Work
from taskmachine.protocol.caller import Caller
from taskmachine.protocol.jsonrpc import INTERNAL_ERROR
from taskmachine.statemachine import Cause, Outcome

__all__ = ["STOP_TIMEOUT_S", "Ended", "Stopwatch", "ToolRun", "ToolRunner"]

log: Final = logging.getLogger("taskmachine")

Ended = Outcome | Parked | Again
"""How the function of a tool ended."""

STOP_TIMEOUT_S: Final = 5.0
"""How long a stopped tool may take to end before it is abandoned."""


class Stopwatch:
    """Calls `on_timeout` after a number of seconds, not counting pauses."""

    def __init__(self, seconds: float, on_timeout: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_timeout = on_timeout
        self._left = seconds
        self._pauses = 0
        self._is_over = False
        self._since = self._loop.time()
        self._timer = self._loop.call_later(seconds, self._time_out)

    def _time_out(self) -> None:
        self._is_over = True
        self._on_timeout()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause while the tool waits for answers."""
        self._pauses += 1
        if self._pauses == 1:
            self._timer.cancel()
            self._left -= self._loop.time() - self._since
        try:
            yield
        finally:
            self._pauses -= 1
            if not self._pauses and not self._is_over:
                self._since = self._loop.time()
                self._timer = self._loop.call_later(self._left, self._time_out)

    def stop(self) -> None:
        """Stop for good: `on_timeout` is never called."""
        self._is_over = True
        self._timer.cancel()
        self._on_timeout = _do_nothing


def _do_nothing() -> None:
    """Replace a callback to break a reference cycle that would keep a finished call alive."""


@attrs.define(eq=False)
class ToolRun:
    """A tool that runs in one asyncio task; `stop` ends it from another task.

    A second task to supervise the first would cost 60 us of the 300 us of a whole task, and delay
    the outcome of a short tool by three iterations of the event loop.
    """

    _tool: Tool
    _arguments: bytes
    _context: Context
    _threads: Threads
    _raised: Callable[[BaseException], None]
    is_given_up: bool = False
    """Whether the outcome of the tool is discarded."""
    is_gone: bool = False
    """Whether the tool ended because its context raised `Gone`."""
    _running: "asyncio.Task[Any] | None" = None

    def begin(self) -> "asyncio.Task[Ended | None]":
        """Run the tool in a new asyncio task."""
        running = self._running = asyncio.create_task(self.run())
        return running

    async def run(self) -> Ended | None:
        """Run the tool in the current asyncio task and return how it ended.

        None if the run was stopped or the task was lost.  A plain call may raise `CannotAsk`.
        """
        self._running = asyncio.current_task()
        ended: Ended | None = None
        try:
            ended = await self._tool.run(
                self._arguments, self._context, self._threads, self._raised
            )
        except (Parked, Again) as end:
            ended = end
        except Gone:
            self.is_gone = True
        except CannotAsk as error:
            if self._context.task_id is None:
                raise
            log.warning("tool '%s' failed: %s", self._tool.name, error)
            ended = Outcome.of_error(INTERNAL_ERROR, f"Tool '{self._tool.name}' failed: {error}")
        except asyncio.CancelledError:
            running = self._running
            if self.is_given_up or (running is not None and running.cancelling()):
                raise  # cancelled from outside: the event loop may be closing
            ended = Outcome.of_error(INTERNAL_ERROR, f"Tool '{self._tool.name}' cancelled itself")
        if not self.is_given_up:
            return ended
        if ended is not None:
            log.info("tool '%s' ended after it was stopped; outcome discarded", self._tool.name)
        return None

    def timed_out(self, timeout_s: float) -> Outcome:
        """Return the outcome of a tool that took too long."""
        message = f"Tool '{self._tool.name}' took longer than {timeout_s:g} s."
        return Outcome(Cause.TIMED_OUT, message=message)

    async def stop(self, timeout_s: float, on_end: Callable[[], None]) -> bool:
        """Stop the tool if it still runs, and run its cleanup; return True once it has ended.

        A tool that ignores its cancellation is abandoned: `on_end` is called when it ends, and its
        outcome is discarded.
        """
        running = self._running
        assert running is not None, "the run has begun"
        self.is_given_up = True
        if running.done() and not self.is_gone:
            _retrieve_exception(running)
            return True
        running.cancel()
        await self.clean_up(timeout_s, running)
        if running.done():
            _retrieve_exception(running)
            return True
        log.warning("tool '%s' ignored its cancellation; abandoning it", self._tool.name)
        running.add_done_callback(_retrieve_exception)
        running.add_done_callback(lambda _: on_end())
        return False

    async def clean_up(self, timeout_s: float, *others: "asyncio.Task[Any]") -> None:
        """Run the cleanup that the tool registered for its cancellation, while `others` end."""
        cleaning = asyncio.create_task(self._context.cancelled())
        _, unfinished = await asyncio.wait({cleaning, *others}, timeout=timeout_s)
        if cleaning in unfinished:
            cleaning.cancel()
            log.warning("cleanup of tool '%s' timed out", self._tool.name)


@attrs.frozen
class ToolRunner:
    """Prepares tool runs with what all runs of one runtime share.

    Unexpected errors are passed to `raised`; `lifespan` returns the value of the tools' lifespan.
    """

    threads: Threads
    raised: Callable[[BaseException], None]
    lifespan: Callable[[], Any]

    def prepare(self, tool: Tool, arguments: bytes, work: Work, caller: Caller) -> ToolRun:
        """Return a run of a tool, which has not begun yet."""
        context = Context(work, caller, self.lifespan, self.threads.run)
        return ToolRun(tool, arguments, context, self.threads, self.raised)


def _retrieve_exception(running: "asyncio.Task[Any]") -> None:
    """Retrieve the exception so that asyncio does not log it as unhandled."""
    if not running.cancelled():
        running.exception()
