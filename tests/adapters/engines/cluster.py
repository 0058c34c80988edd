"""Replicas and workers on one database, each with a store of its own, as on machines of their own.

They share a process with the test, and nothing else.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count

import attrs

from taskmachine.adapters.engines.procrastinate.opening import for_replicas, for_workers
from taskmachine.adapters.runtime.engine import MakeEngine
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import (
    Runtime,
    RuntimeConfig,
    Surroundings,
    open_runtime,
    system_clock,
)
from taskmachine.adapters.runtime.waiting import wait_for
from taskmachine.adapters.tools.registry import Tools
from taskmachine.protocol.operations import Answer, Cancel, Create
from taskmachine.statemachine import Reply, State, Task
from tests.adapters.memory_service import call
from tests.adapters.stores.postgres_server import Server

__all__ = [
    "PATIENCE_S",
    "Cluster",
    "answer",
    "cancel",
    "cluster_on",
    "create",
    "ended",
    "reached",
    "until",
]

PATIENCE_S = 20.0
ADA = {"name": Reply(b'{"action":"accept","content":{"name":"Ada"}}')}
OWNER = "alice"


@attrs.define
class Cluster:
    """Replicas and workers that a test can add and stop."""

    server: Server
    url: str
    stack: AsyncExitStack
    machines: "count[int]" = attrs.field(factory=lambda: count(1))

    async def replica(self, tools: Tools) -> Runtime:
        return await self.stack.enter_async_context(self.machine(tools, for_replicas))

    async def worker(self, tools: Tools, concurrency: int = 8) -> Runtime:
        return await self.stack.enter_async_context(self.machine(tools, for_workers, concurrency))

    @asynccontextmanager
    async def machine(
        self,
        tools: Tools,
        engine: MakeEngine,
        concurrency: int = 8,
        clock: Callable[[], int] = system_clock,
    ) -> AsyncIterator[Runtime]:
        # No process number means anything on another machine.
        host = f"machine {next(self.machines)}"
        world = Surroundings(clock=clock, host=host, is_dead=lambda _: False)
        limits = Limits(concurrency=concurrency)
        async with open_runtime(
            self.url, tools, RuntimeConfig(engine=engine, limits=limits, world=world)
        ) as runtime:
            yield runtime

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        """Return the rows of a query; `@` stands for the schema."""
        return self.server.execute(statement.replace("@", f"{self.url.rpartition('=')[2]}."))


@asynccontextmanager
async def cluster_on(server: Server, url: str | None = None) -> AsyncIterator[Cluster]:
    """Yield a cluster on an empty schema, or on this URL."""
    logging.getLogger("taskmachine").setLevel(logging.INFO)
    async with asyncio.timeout(3 * PATIENCE_S), AsyncExitStack() as stack:
        yield Cluster(server, url or server.new_url(), stack)


async def create(runtime: Runtime, tool: str, arguments: bytes = b"{}") -> Task:
    return await runtime.create(OWNER, Create(call(tool, arguments)))


async def ended(runtime: Runtime, task: Task) -> Task:
    return await runtime.service.collect(OWNER, task.id, PATIENCE_S)


async def answer(runtime: Runtime, task: Task) -> None:
    await runtime.service.perform(OWNER, Answer(task.id, ADA))


async def cancel(runtime: Runtime, task: Task) -> None:
    await runtime.service.perform(OWNER, Cancel(task.id))


async def reached(runtime: Runtime, task: Task, state: State) -> Task:
    return await wait_for(
        runtime.service.store, task.id, lambda task: task.state is state, PATIENCE_S
    )


async def until(is_so: Callable[[], bool]) -> None:
    """Poll until the condition holds."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0.02)
