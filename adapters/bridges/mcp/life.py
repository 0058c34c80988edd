"""How long the runtime lives: from the first request on, as long as the event loop, or less.

The SDK has no place where an extension could begin and end: it enters the lifespan of a server
for each connection that is a pipe or in memory, and the end of one must not stop the tasks of
another.  So the runtime has a keeper of its own.  When the loop ends, every task of it is
cancelled, and the keeper takes that as the sign to put everything away.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakKeyDictionary

import attrs
from mcp.shared.exceptions import MCPError

from taskmachine.adapters.bridges.mcp.bridged_tools import BridgedTools
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.observer import Observer
from taskmachine.adapters.runtime.runtime import Runtime, RuntimeConfig, start_runtime
from taskmachine.adapters.stores import Store, open_store
from taskmachine.adapters.transports.auth.owners import Owners
from taskmachine.protocol.jsonrpc import INTERNAL_ERROR
from taskmachine.statemachine import Times

__all__ = ["Life", "Serving"]

log: Final = logging.getLogger("taskmachine")

LOOK_S: Final = 0.5
STILL_S: Final = 1.0
"""How long the loop may stand still before somebody is told."""


@attrs.frozen
class Serving:
    """What there is while the runtime lives."""

    runtime: Runtime
    tools: BridgedTools
    owners: Owners


@attrs.define(eq=False)
class _Kept:
    serving: "asyncio.Future[Serving]"
    keeper: "asyncio.Task[None]"
    is_over: asyncio.Event


class Life:
    """One runtime for each event loop that the server runs in: most often there is one."""

    def __init__(
        self,
        url: str,
        tools_on: Callable[[Store], BridgedTools],
        times: Times | None,
        limits: Limits | None,
        observer: Observer | None,
    ) -> None:
        self._url = url
        self._tools_on = tools_on
        self._times = times
        self._limits = limits
        self._observer = observer
        self._kept: dict[asyncio.AbstractEventLoop, _Kept] = {}
        self._holders: WeakKeyDictionary[asyncio.AbstractEventLoop, int] = WeakKeyDictionary()

    async def serving(self) -> Serving:
        """The runtime, started if need be; what keeps it from starting is raised each time."""
        return await asyncio.shield(self.wake().serving)

    async def serving_or_error(self) -> Serving:
        """The same for whoever answers a request; the log has what kept it from starting."""
        try:
            return await self.serving()
        except Exception:  # noqa: BLE001  no word of it is for others
            raise MCPError(INTERNAL_ERROR, "Internal error: there are no tasks now") from None

    def wake(self) -> _Kept:
        """See to it that there is a runtime, soon."""
        loop = asyncio.get_running_loop()
        kept = self._kept.get(loop)
        if kept is None or kept.is_over.is_set():
            ready: asyncio.Future[Serving] = loop.create_future()
            is_over = asyncio.Event()
            before = None if kept is None else kept.keeper
            keeper = loop.create_task(self._keep(ready, is_over, before), name="the tasks' keeper")
            kept = self._kept[loop] = _Kept(ready, keeper, is_over)
        return kept

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Whoever is the last one to leave stops the runtime of this loop, if there is one."""
        loop = asyncio.get_running_loop()
        self._holders[loop] = self._holders.get(loop, 0) + 1
        try:
            yield
        finally:
            self._holders[loop] -= 1
            kept = self._kept.get(loop)
            if not self._holders[loop] and kept is not None:
                kept.is_over.set()
                await asyncio.wait({kept.keeper})

    async def _keep(
        self,
        ready: "asyncio.Future[Serving]",
        is_over: asyncio.Event,
        before: "asyncio.Task[None] | None",
    ) -> None:
        try:
            if before is not None:
                await asyncio.wait({before})
            async with self._opened() as serving:
                ready.set_result(serving)
                await _until(is_over)
        except Exception as error:
            if ready.done():
                log.exception("the tasks could not be put away")
            else:
                ready.set_exception(error)
                ready.exception()  # perhaps nobody waits
                log.error("there are no tasks: %s", error)
        finally:
            ready.cancel()
            loop = asyncio.get_running_loop()
            if self._kept[loop].serving is ready:  # nobody has begun another one
                del self._kept[loop]

    @asynccontextmanager
    async def _opened(self) -> AsyncIterator[Serving]:
        store = await open_store(self._url)
        try:
            tools = self._tools_on(store)
            await tools.look()
            owners = Owners(await store.secret())
            runtime = await start_runtime(
                store,
                tools,
                RuntimeConfig(
                    self._times or Times(), self._limits or Limits(), observer=self._observer
                ),
            )
            try:
                yield Serving(runtime, tools, owners)
            finally:
                await runtime.stop()
        finally:
            await store.close()


async def _until(is_over: asyncio.Event) -> None:
    """Wait for the end, and notice when something else keeps everybody waiting."""
    loop = asyncio.get_running_loop()
    while not is_over.is_set():
        due = loop.time() + LOOK_S
        try:
            async with asyncio.timeout_at(due):
                await is_over.wait()
        except TimeoutError:
            late = loop.time() - due
            if late > STILL_S:
                log.warning(
                    "the event loop stood still for %.1f s: a tool that is no coroutine function "
                    "would run in a thread",
                    late,
                )
