"""The lifetime of the runtime: from the first request until the event loop ends, or earlier.

The SDK has no lifespan for extensions: it enters the lifespan of a server for each pipe or
in-memory connection, and the end of one must not stop the tasks of other connections.  So a keeper
task runs the runtime.  When the loop ends, asyncio cancels the keeper, which then closes
everything.
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

__all__ = ["LoopRuntime", "Serving"]

log: Final = logging.getLogger("taskmachine")

LOOK_S: Final = 0.5
STILL_S: Final = 1.0
"""How long the event loop may be blocked before a warning."""


@attrs.frozen
class Serving:
    """A running runtime with its tools and owners."""

    runtime: Runtime
    tools: BridgedTools
    owners: Owners


@attrs.define(eq=False)
class _Kept:
    serving: "asyncio.Future[Serving]"
    keeper: "asyncio.Task[None]"
    stopping: asyncio.Event


class LoopRuntime:
    """Runs one runtime for each event loop that uses the server, usually one."""

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
        """Return the runtime, started if necessary; raise the reason if it cannot start."""
        return await asyncio.shield(self.start().serving)

    async def serving_or_error(self) -> Serving:
        """Like `serving`, but raise a generic error for clients; the reason is in the log."""
        try:
            return await self.serving()
        except Exception:  # noqa: BLE001  clients must not see the reason
            raise MCPError(INTERNAL_ERROR, "Internal error: tasks are unavailable") from None

    def start(self) -> _Kept:
        """Start the runtime in the background, if it is not running."""
        loop = asyncio.get_running_loop()
        kept = self._kept.get(loop)
        if kept is None or kept.stopping.is_set():
            ready: asyncio.Future[Serving] = loop.create_future()
            stopping = asyncio.Event()
            before = None if kept is None else kept.keeper
            keeper = loop.create_task(
                self._keep(ready, stopping, before), name="taskmachine runtime"
            )
            kept = self._kept[loop] = _Kept(ready, keeper, stopping)
        return kept

    @asynccontextmanager
    async def hold(self) -> AsyncIterator[None]:
        """Keep the runtime until the last such block in this loop ends."""
        loop = asyncio.get_running_loop()
        self._holders[loop] = self._holders.get(loop, 0) + 1
        try:
            yield
        finally:
            self._holders[loop] -= 1
            kept = self._kept.get(loop)
            if not self._holders[loop] and kept is not None:
                kept.stopping.set()
                await asyncio.wait({kept.keeper})

    async def _keep(
        self,
        ready: "asyncio.Future[Serving]",
        stopping: asyncio.Event,
        before: "asyncio.Task[None] | None",
    ) -> None:
        try:
            if before is not None:
                await asyncio.wait({before})
            async with self._opened() as serving:
                ready.set_result(serving)
                await _until(stopping)
        except Exception as error:
            if ready.done():
                log.exception("stopping the runtime failed")
            else:
                ready.set_exception(error)
                ready.exception()  # mark it as retrieved
                log.error("the runtime could not start: %s", error)
        finally:
            ready.cancel()
            loop = asyncio.get_running_loop()
            if self._kept[loop].serving is ready:  # unless another one has started
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


async def _until(stopping: asyncio.Event) -> None:
    """Wait for the stop signal, and warn if the event loop is blocked."""
    loop = asyncio.get_running_loop()
    while not stopping.is_set():
        due = loop.time() + LOOK_S
        try:
            async with asyncio.timeout_at(due):
                await stopping.wait()
        except TimeoutError:
            late = loop.time() - due
            if late > STILL_S:
                log.warning(
                    "the event loop was blocked for %.1f s: declare blocking tools with `def` "
                    "instead of `async def`, so that they run in a thread",
                    late,
                )
