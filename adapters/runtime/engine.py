"""Engines run the tools of tasks: their interface, and how one is found by name.

The `submitted` task in the store is the job, so no job is lost with the process of an engine.
"""

from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import entry_points
from typing import Protocol

from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.runtime.tool_runs import ToolRunner
from taskmachine.adapters.stores import Worker
from taskmachine.adapters.tools.registry import Tools
from taskmachine.statemachine import ConfigurationError

__all__ = ["Engine", "MakeEngine", "PeriodicJob", "find_engine"]

PeriodicJob = Callable[[], Awaitable[float]]
"""A function that the runtime calls again after the number of seconds that it returns."""


class Engine(Protocol):
    """Runs the tools of queued tasks, in this process or elsewhere."""

    async def start(self) -> None:
        """Start; `ConfigurationError` if the engine does not support this store."""

    @property
    def periodic_jobs(self) -> Mapping[str, PeriodicJob]:
        """Jobs that the runtime runs between start and shutdown, by the names used in logs."""

    async def shutdown(self, grace_s: float | None = None) -> None:
        """Claim nothing more, let tools finish for `grace_s` (default: 5 s), then stop them."""


MakeEngine = Callable[[TaskService, Tools, ToolRunner, Callable[[], Worker]], Engine]
"""Makes an engine for the tasks of a service and its tools; the last argument makes workers."""


def find_engine(name: str) -> MakeEngine:
    """Return the engine `local`, `procrastinate`, or one that another package provides.

    Packages register engines under the entry point group `taskmachine.engines`.
    """
    known = {point.name: point for point in entry_points(group="taskmachine.engines")}
    if name not in known:
        raise ConfigurationError(f"engine must be one of {', '.join(sorted(known))}, got '{name}'")
    make: MakeEngine = known[name].load()
    return make
