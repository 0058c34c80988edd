"""Where the tests of all engines open a runtime: an engine and a store."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path

from taskmachine.adapters.engines.procrastinate.opening import for_replicas, for_workers
from taskmachine.adapters.runtime.engine import MakeEngine
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import Runtime, RuntimeConfig, open_runtime
from taskmachine.adapters.runtime.testing.contract import NewRuntimePlace, RuntimePlace
from taskmachine.adapters.tools.registry import Tools
from tests.adapters.stores.postgres_server import Server

__all__ = ["alone", "on_sqlite", "with_worker"]


def alone(url: str, engine: MakeEngine) -> RuntimePlace:
    """Return a place where one process does everything."""
    return lambda tools, limits: open_runtime(
        url, tools, RuntimeConfig(engine=engine, limits=limits)
    )


def on_sqlite(folder: Path, engine: MakeEngine) -> NewRuntimePlace:
    numbers = count()
    return lambda: alone(f"sqlite:{folder / str(next(numbers))}", engine)


def with_worker(server: Server) -> RuntimePlace:
    """Return a place where a worker runs the tasks of a replica; the limits are the worker's."""
    url = server.new_url()

    @asynccontextmanager
    async def place(tools: Tools, limits: Limits) -> AsyncIterator[Runtime]:
        async with (
            open_runtime(url, tools, RuntimeConfig(engine=for_replicas)) as replica,
            open_runtime(url, tools, RuntimeConfig(engine=for_workers, limits=limits)),
        ):
            yield replica

    return place
