"""The runtime: tools, a store, the service and an engine, started and stopped in order.

async with open_runtime("sqlite:tasks.db", tools) as runtime:
    task = await runtime.create("alice", Create(Call("tools/call", "greet", b'{"name": "Ada"}')))
    task = await runtime.service.collect("alice", task.id)
"""

import asyncio
import logging
import os
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import attrs

from taskmachine.adapters.runtime import processes
from taskmachine.adapters.runtime.engine import MakeEngine, PeriodicJob, find_engine
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.maintenance import (
    Leases,
    expire_overdue,
    recover,
    sweep,
    sweep_pause_s,
)
from taskmachine.adapters.runtime.observer import Observer
from taskmachine.adapters.runtime.plain_calls import PlainCalls
from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.runtime.subscriptions import Subscriptions
from taskmachine.adapters.runtime.tool_runs import ToolRunner
from taskmachine.adapters.stores import Store, Worker, open_store
from taskmachine.adapters.stores.supervision import run_periodically, stop_all
from taskmachine.adapters.tools.lifespan import Lifespan
from taskmachine.adapters.tools.registry import Threads, Tools
from taskmachine.protocol.caller import Caller
from taskmachine.protocol.errors import InvalidParams
from taskmachine.protocol.jsonvalue import decode_json
from taskmachine.protocol.operations import Create
from taskmachine.protocol.sealing import Sealer
from taskmachine.statemachine import Question, Task, Times

__all__ = ["Runtime", "RuntimeConfig", "Surroundings", "new_id", "open_runtime", "start_runtime"]


log: Final = logging.getLogger("taskmachine")

RECOVER_S: Final = 5.0
EXPIRE_S: Final = 0.5
"""How often to look for tasks past their deadline; an index makes the query cheap."""

COUNT_S: Final = 5.0
"""How often the observer receives the number of tasks."""


def new_id() -> str:
    """Return an unguessable id of 192 random bits."""
    return secrets.token_urlsafe(24)


def system_clock() -> int:
    """Return milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


@attrs.frozen
class Surroundings:
    """Clock, random ids and processes: the runtime's only dependencies on its environment."""

    clock: Callable[[], int] = system_clock
    new_id: Callable[[], str] = new_id
    host: str = attrs.field(factory=processes.host)
    pid: int = attrs.field(factory=os.getpid)
    is_dead: Callable[[Worker], bool] = processes.is_dead


@attrs.frozen
class RuntimeConfig:
    """Configuration of a runtime.  The defaults suit one process on one machine."""

    times: Times = attrs.field(factory=Times)
    limits: Limits = attrs.field(factory=Limits)
    engine: str | MakeEngine = "local"
    """The name of an engine (see `find_engine`), or a function that makes one."""
    observer: Observer | None = None
    world: Surroundings = attrs.field(factory=Surroundings)


class Runtime:
    """A running service with its engine, made by `open_runtime` or `start_runtime`."""

    def __init__(
        self,
        store: Store,
        sealer: Sealer,
        tools: Tools,
        config: RuntimeConfig | None = None,
    ) -> None:
        config = config or RuntimeConfig()
        world = config.world
        self.tools = tools
        self.service = TaskService(
            store,
            sealer,
            clock=world.clock,
            new_id=world.new_id,
            times=config.times,
            limits=config.limits,
            observer=config.observer,
        )
        self.subscriptions = Subscriptions(self.service)
        self._lifespan = Lifespan(tools.lifespan, tools)
        threads = Threads(2 * self.service.limits.concurrency)
        runner = ToolRunner(threads, self.service.raised, self._lifespan.value)
        self.plain_calls = PlainCalls(config.limits, runner, world.clock)
        make = find_engine(config.engine) if isinstance(config.engine, str) else config.engine
        self.engine = make(
            self.service, tools, runner, lambda: Worker(world.new_id(), world.host, world.pid)
        )
        self.service.on_full(partial(sweep, self.service))
        self._leases = Leases(world.is_dead)
        self._loops: list[asyncio.Task[None]] = []

    async def create(
        self,
        owner: str,
        wish: Create,
        questions: tuple[Question, ...] = (),
        *,
        caller: Caller | None = None,
    ) -> Task:
        """Create a task for a call of a tool, with the tool's timeout and poll interval.

        `questions` were asked and answered before.  `caller` has the owner's claims and scopes.
        """
        tool = self.tools.get(wish.call.name or "")
        if tool is None:
            raise InvalidParams(f"unknown tool {wish.call.name!r:.80}")
        timeout_ms = tool.timeout_ms
        if wish.metadata != b"{}":
            timeout_ms = _timeout_ms(wish.metadata, timeout_ms)
        return await self.service.create(
            owner,
            wish.call,
            ttl_ms=wish.ttl_ms,
            metadata=wish.metadata,
            timeout_ms=timeout_ms,
            is_repeatable=tool.is_repeatable,
            poll_interval_ms=tool.poll_interval_ms,
            questions=questions,
            tool_version=tool.version,
            caller=caller,
        )

    async def start(self) -> None:
        """Enter the lifespan of the tools; start the engine and the periodic jobs.

        They run until `stop`.  `LifespanFailed` if the lifespan raises an error.
        """
        await self._lifespan.enter()
        try:
            await self._start()
        except BaseException:
            await self._lifespan.leave()
            raise

    async def _start(self) -> None:
        if self.service.observer is not None:
            self.service.observer.began(self.tools, self.service.store.kind)
        await self.engine.start()
        for name, act in self.engine.periodic_jobs.items():
            self._repeat(name, act)
        self._repeat("recovery of lost workers", self._recover)
        self._repeat("expiry of tasks", self._expire)
        self._repeat("sweep", self._sweep)
        self._repeat("closing of idle subscriptions", self._close_idle)
        if self.service.observer is not None:
            self._repeat("count of tasks", self.count)

    async def stop(self, grace_s: float | None = None) -> None:
        """Stop: let tools finish for `grace_s` (default: 5 s), then stop them."""
        await stop_all(self._loops)
        try:
            await self.engine.shutdown(grace_s)
            await self.plain_calls.stopped()
        finally:
            await self._lifespan.leave()

    def _repeat(self, name: str, act: PeriodicJob) -> None:
        self._loops.append(asyncio.create_task(run_periodically(name, act), name=name))

    async def _recover(self) -> float:
        await recover(self.service, self._leases)
        return RECOVER_S

    async def _expire(self) -> float:
        await expire_overdue(self.service)
        return EXPIRE_S

    async def _sweep(self) -> float:
        began = time.perf_counter()
        removed = await sweep(self.service)
        duration_us = round((time.perf_counter() - began) * 1_000_000)
        pause_s = sweep_pause_s(removed)
        facts = {
            "event": "sweep",
            "count": removed,
            "duration_us": duration_us,
            "interval_s": pause_s,
            "store": self.service.store.kind,
        }
        log.info("sweep: %d tasks removed", removed, extra=facts)
        return pause_s

    async def count(self) -> float:
        """Report the number of tasks to the observer; return the pause until the next count."""
        if self.service.observer is not None:
            self.service.observer.counted(await self.service.store.totals())
        return COUNT_S

    async def _close_idle(self) -> float:
        return self.subscriptions.close_idle()


def _timeout_ms(metadata: bytes, longest: int) -> int:
    """Return the timeout that the creator requested, limited to that of the tool."""
    asked = decode_json(metadata).get("timeout")
    if not isinstance(asked, int) or isinstance(asked, bool) or asked < 1:
        return longest
    return min(asked, longest)


async def start_runtime(store: Store, tools: Tools, config: RuntimeConfig | None = None) -> Runtime:
    """Start a runtime on an open store."""
    runtime = Runtime(store, Sealer(await store.secret()), tools, config)
    await runtime.start()
    return runtime


@asynccontextmanager
async def open_runtime(
    url: str, tools: Tools, config: RuntimeConfig | None = None
) -> AsyncIterator[Runtime]:
    """Open the store at a URL and run a runtime on it; close both at the end of the block."""
    store = await open_store(url)
    try:
        runtime = await start_runtime(store, tools, config)
        try:
            yield runtime
        finally:
            await runtime.stop()
    finally:
        await store.close()
