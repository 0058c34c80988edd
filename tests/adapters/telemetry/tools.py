"""Tools for observable events, with texts that telemetry must not contain."""

import asyncio
from typing import Final

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from taskmachine.adapters.tools.context import Context, SyncContext, form
from taskmachine.adapters.tools.registry import ToolError, Tools

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
