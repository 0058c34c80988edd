"""The lifespan of `Tools`: what its tools share in a runtime, such as a database pool."""

import asyncio
import inspect
import logging
import os
import traceback
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Final

from taskmachine.adapters.tools.errors import LifespanFailed
from taskmachine.statemachine import ConfigurationError

__all__ = ["Lifespan", "LifespanFunction", "check_lifespan"]

log: Final = logging.getLogger("taskmachine")

LEAVE_S: Final = 5.0
"""How long a lifespan may take to end before it is cancelled."""

LifespanFunction = Callable[[Any], AbstractAsyncContextManager[Any]]
"""Called with the `Tools`; its `async with` block lasts as long as the runtime."""


def check_lifespan(function: LifespanFunction) -> None:
    """Raise ConfigurationError unless the function can be called with the `Tools`."""
    if not callable(function):
        kind = type(function).__name__
        raise ConfigurationError(f"lifespan must be a function, not {kind}: {_FORM}")
    place = _place(function)
    if inspect.isasyncgenfunction(function) or inspect.iscoroutinefunction(function):
        raise ConfigurationError(f"{place} is not a context manager: write {_FORM}")
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise ConfigurationError(f"{place} must take one argument: write {_FORM}") from None


_FORM: Final = "@asynccontextmanager above `async def lifespan(tools): ... yield ...`"


class Lifespan:
    """The lifespan of the tools in one runtime; `function` is called with `tools`.

    It runs in an asyncio task of its own: task groups, for instance, must be left by the task that
    entered them, and a runtime may be stopped by another task than the one that started it.
    """

    def __init__(self, function: LifespanFunction | None, tools: object) -> None:
        self._function = function
        self._tools = tools
        self._entered: asyncio.Future[Any] | None = None
        self._running: asyncio.Task[None] | None = None
        self._leaving = asyncio.Event()

    def value(self) -> Any:
        """Return what the lifespan yielded; ConfigurationError without one."""
        if self._entered is None:
            raise ConfigurationError("ctx.lifespan has no value: use Tools(lifespan=...)")
        return self._entered.result()

    async def enter(self) -> None:
        """Run the function up to its `yield`; `LifespanFailed` if it raises."""
        if self._function is None:
            return
        self._entered = asyncio.get_running_loop().create_future()
        self._running = asyncio.create_task(
            self._run(self._function, self._entered), name="lifespan of the tools"
        )
        try:
            await asyncio.shield(self._entered)
        except asyncio.CancelledError:
            self._running.cancel()
            await self.leave()
            raise

    async def leave(self) -> None:
        """Run the rest of the function, for `LEAVE_S` at most."""
        if self._running is None:
            return
        self._leaving.set()
        _, unfinished = await asyncio.wait({self._running}, timeout=LEAVE_S)
        if unfinished:
            log.error("%s took more than %g s to end", _place(self._function), LEAVE_S)
            self._running.cancel()
            await asyncio.wait({self._running}, timeout=LEAVE_S)

    async def _run(self, function: LifespanFunction, entered: "asyncio.Future[Any]") -> None:
        try:
            async with function(self._tools) as value:
                entered.set_result(value)
                await self._leaving.wait()
        except (Exception, SystemExit) as error:
            words = " ".join(f"{type(error).__name__}: {error}".split())
            failed = LifespanFailed(f"{_place(function, error)} failed: {words}")
            failed.__cause__ = error
            if entered.done():
                log.error("%s", failed, exc_info=error)
            else:
                entered.set_exception(failed)
        finally:
            entered.cancel()  # no effect unless the function was cancelled before its `yield`


def _place(function: object, error: BaseException | None = None) -> str:
    """Return file, line and name of a function; the line where it raised the error, if any."""
    name = getattr(function, "__qualname__", repr(function))
    code = getattr(inspect.unwrap(function), "__code__", None)  # type: ignore[arg-type]
    if code is None:
        return f"lifespan '{name}'"
    line = code.co_firstlineno
    for frame, number in traceback.walk_tb(None if error is None else error.__traceback__):
        if frame.f_code.co_filename == code.co_filename:
            line = number
    return f"{os.path.relpath(code.co_filename)}:{line}: lifespan '{name}'"
