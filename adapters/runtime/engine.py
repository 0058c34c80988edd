"""Where tools run: the contract that every engine fulfils, and how one is found by its name.

The job is the `submitted` task in the store, so an engine loses nothing when its process is lost.
"""

from collections.abc import Awaitable, Callable, Mapping
from importlib.metadata import entry_points
from typing import Protocol

from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.stores import Worker
from taskmachine.adapters.tools.registry import Threads, Tool
from taskmachine.statemachine import ConfigurationError

__all__ = ["Duty", "Engine", "MakeEngine", "find_engine"]

Duty = Callable[[], Awaitable[float]]
"""Has to be done again and again; it says after how many seconds."""


class Engine(Protocol):
    """Sees to it that somebody runs the tools of tasks, here or elsewhere."""

    async def start(self) -> None:
        """Before anything else.  `ConfigurationError` if it cannot work on this store."""

    @property
    def duties(self) -> Mapping[str, Duty]:
        """What the runtime keeps doing for it between start and shutdown, by name."""

    async def shutdown(self, grace_s: float | None = None) -> None:
        """Take nothing more, let the tools end for so long (default: 5 s), then stop them."""


MakeEngine = Callable[[TaskService, Mapping[str, Tool], Threads, Callable[[], Worker]], Engine]
"""An engine for the tasks of a service and these tools, run by a worker with a new name."""


def find_engine(name: str) -> MakeEngine:
    """`local`, `procrastinate`, or one that is installed.

    Others add theirs by the entry point group `taskmachine.engines`.
    """
    known = {point.name: point for point in entry_points(group="taskmachine.engines")}
    if name not in known:
        raise ConfigurationError(f"engine must be one of {', '.join(sorted(known))}, got '{name}'")
    make: MakeEngine = known[name].load()
    return make
