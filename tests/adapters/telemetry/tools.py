"""Servers and runtimes that are observed, with texts that telemetry must not contain."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from taskmachine.adapters.runtime.runtime import Runtime, RuntimeConfig, open_runtime
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.questions import form
from taskmachine.adapters.tools.registry import ToolError, Tools
from taskmachine.adapters.tools.retries import exponential
from taskmachine.adapters.tools.sync_context import SyncContext
from tests.adapters.telemetry.exporters import Telemetry
from tests.adapters.transports.wire import NEW, OLD, Caller, callers, serving

NAME: Final = {"type": "object", "properties": {"name": {"type": "string"}}}


class Observed:
    """Tools that record their own spans."""

    def __init__(self, tracers: TracerProvider) -> None:
        self.tools = Tools()
        self.begun = asyncio.Event()
        tracer = tracers.get_tracer("tool author")

        @self.tools.task()
        async def greet(name: str) -> str:
            with tracer.start_as_current_span("inside"):
                return f"Hello, {name}!"

        @self.tools.task()
        def greet_in_thread(name: str, ctx: SyncContext) -> str:
            with tracer.start_as_current_span("inside a thread"):
                return f"Hello, {name}!"

        @self.tools.task()
        async def ask(ctx: Context) -> str:
            answer = await ctx.ask("name", form("Who are you?", NAME))
            return f"Hello, {answer.content['name']}!"

        @self.tools.task()
        async def ask_and_park(ctx: Context) -> str:
            answer = await ctx.ask("name", form("Who are you?", NAME), park=True)
            return f"Hello, {answer.content['name']}!"

        @self.tools.task(retries=1, backoff=exponential(first=0, jitter=False))
        async def import_orders(ctx: Context) -> int:
            """Fetch in a step; fail once; count in a block."""
            orders = await ctx.step("fetch", fetch, "secret")
            if ctx.attempt == 1:
                raise RuntimeError("secret")
            async with ctx.step("count") as step:
                with tracer.start_as_current_span("inside a block"):
                    step.result = len(orders)
            return int(step.result)

        async def fetch(text: str) -> list[str]:
            with tracer.start_as_current_span("inside a step"):
                return [text]

        @self.tools.task()
        async def spoil(ctx: Context) -> None:
            await ctx.step("spoil", refuse, "secret")

        def refuse(text: str) -> None:
            with tracer.start_as_current_span("inside a thread of a step"):
                raise RuntimeError(text)

        @self.tools.task()
        async def crash(text: str) -> str:
            raise RuntimeError(text)

        @self.tools.task()
        async def fail(text: str) -> str:
            raise ToolError(text)

        @self.tools.task()
        async def wait() -> str:
            assert trace.get_current_span() is not trace.INVALID_SPAN
            self.begun.set()
            await asyncio.Event().wait()
            raise AssertionError("never set")

        @self.tools.task(timeout=0.001)
        async def dawdle() -> str:
            await asyncio.Event().wait()
            raise AssertionError("never set")


@asynccontextmanager
async def observing(
    revision: str = NEW, **settings: Any
) -> AsyncIterator[tuple[Telemetry, Observed, Caller]]:
    """Serve the tools and yield a client of that revision."""
    telemetry = Telemetry()
    observed = Observed(telemetry.tracers)
    async with (
        serving(observed.tools, observer=telemetry.observer, **settings) as url,
        callers(url) as [caller],
    ):
        if revision == OLD:
            await caller.introduce()
        yield telemetry, observed, caller


@asynccontextmanager
async def observing_runtime(**config: Any) -> AsyncIterator[tuple[Telemetry, Observed, Runtime]]:
    telemetry = Telemetry()
    observed = Observed(telemetry.tracers)
    settings = RuntimeConfig(observer=telemetry.observer, **config)
    async with open_runtime("memory:", observed.tools, settings) as runtime:
        yield telemetry, observed, runtime
