"""One run of a tool, from its start to its end, whoever wants to know: a task or a plain call."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import attrs

from taskmachine.adapters.tools.context import Context, Parked
from taskmachine.adapters.tools.errors import CannotAsk, Gone
from taskmachine.adapters.tools.registry import Threads, Tool
from taskmachine.protocol.jsonrpc import INTERNAL_ERROR
from taskmachine.statemachine import Cause, Outcome

__all__ = ["PATIENCE_S", "Leg", "Stopwatch", "nobody"]

log: Final = logging.getLogger("taskmachine")

PATIENCE_S: Final = 5.0
"""How long a tool that was stopped may take to end; then it is abandoned."""


class Stopwatch:
    """Rings when the time is over; it stands still while somebody else is waited for."""

    def __init__(self, seconds: float, ring: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._ring = ring
        self._left = seconds
        self._pauses = 0
        self._is_over = False
        self._since = self._loop.time()
        self._timer = self._loop.call_later(seconds, self._rings)

    def _rings(self) -> None:
        self._is_over = True
        self._ring()

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
            if not self._pauses and not self._is_over:
                self._since = self._loop.time()
                self._timer = self._loop.call_later(self._left, self._rings)

    def stop(self) -> None:
        """It will not ring any more."""
        self._is_over = True
        self._timer.cancel()
        self._ring = nobody


def nobody() -> None:
    """To be told: what is over must not keep, in a circle, what a call carries."""


@attrs.define(eq=False)
class Leg:
    """A tool that is run in one asyncio task, where nobody watches it: others call `stop`.

    A second task that watches the first would cost 60 us of 300 for a whole task, and the outcome
    of a short tool would be known three rounds of the event loop later, in which its caller asks
    for it in vain.
    """

    _tool: Tool
    _arguments: bytes
    _context: Context
    _threads: Threads
    _raised: Callable[[BaseException], None]
    is_given_up: bool = False
    """Whether the outcome of the tool is dropped."""
    is_gone: bool = False
    """Whether the tool ended since its context said that the task is lost."""
    _running: "asyncio.Task[Any] | None" = None

    def begin(self) -> "asyncio.Task[Outcome | Parked | None]":
        """Run it in a task of its own."""
        running = self._running = asyncio.create_task(self.run())
        return running

    async def run(self) -> Outcome | Parked | None:
        """Run the tool in the current task of asyncio, and return how it ended.

        None if the run was stopped or the task was lost.  `CannotAsk` if a plain call ended so.
        """
        self._running = asyncio.current_task()
        ended: Outcome | Parked | None = None
        try:
            ended = await self._tool.run(
                self._arguments, self._context, self._threads, self._raised
            )
        except Parked as parked:
            ended = parked
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
            log.info("tool '%s' ended too late, and its outcome was dropped", self._tool.name)
        return None

    def overtime(self, timeout_s: float) -> Outcome:
        """What is said of a tool whose time is over."""
        message = f"Tool '{self._tool.name}' took longer than {timeout_s:g} s."
        return Outcome(Cause.TIMED_OUT, message=message)

    async def stop(self, patience_s: float, on_end: Callable[[], None]) -> bool:
        """Stop the tool if it still runs, and clean up; whether it has ended.

        One that ignores this is abandoned: what it says in the end is dropped, and `on_end` is
        called then.
        """
        running = self._running
        assert running is not None, "it has begun"
        self.is_given_up = True
        if running.done() and not self.is_gone:
            _take_note(running)
            return True
        running.cancel()
        await self.clean_up(patience_s, running)
        if running.done():
            _take_note(running)
            return True
        log.warning("tool '%s' ignores its cancellation, and is abandoned", self._tool.name)
        running.add_done_callback(_take_note)
        running.add_done_callback(lambda _: on_end())
        return False

    async def clean_up(self, patience_s: float, *others: "asyncio.Task[Any]") -> None:
        """Do what the tool wants to be done when it was stopped, while others may end."""
        cleaning = asyncio.create_task(self._context.cancelled())
        _, unwilling = await asyncio.wait({cleaning, *others}, timeout=patience_s)
        if cleaning in unwilling:
            cleaning.cancel()
            log.warning("a cleanup of tool '%s' takes too long, and is given up", self._tool.name)


def _take_note(running: "asyncio.Task[Any]") -> None:
    """Of whatever came of it, or asyncio would complain that nobody did."""
    if not running.cancelled():
        running.exception()
