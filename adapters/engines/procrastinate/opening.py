"""Entry points of the engine procrastinate, which runs tools in separate worker processes.

It requires the extra `procrastinate`, which is imported only when the engine is used.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from taskmachine.adapters.runtime.engine import Engine
from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.runtime.tool_runs import ToolRunner
from taskmachine.adapters.stores import Worker
from taskmachine.adapters.tools.registry import Tools
from taskmachine.statemachine import ConfigurationError

__all__ = ["for_replicas", "for_workers"]


def for_replicas(
    service: TaskService,
    tools: Tools,
    runner: ToolRunner,
    new_worker: Callable[[], Worker],
) -> Engine:
    """Return an engine that runs no tools and writes a ticket for each queued task."""
    with _installed():
        from taskmachine.adapters.engines.procrastinate.engines import ReplicaEngine
    return ReplicaEngine(service, tools)


def for_workers(
    service: TaskService,
    tools: Tools,
    runner: ToolRunner,
    new_worker: Callable[[], Worker],
) -> Engine:
    """Return an engine that fetches tickets of any replica for these tools and runs them."""
    with _installed():
        from taskmachine.adapters.engines.procrastinate.engines import WorkerEngine
    return WorkerEngine(service, tools, runner, new_worker)


@contextmanager
def _installed() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(
            f"the engine procrastinate requires the package {error.name or 'procrastinate'}:"
            " pip install 'taskmachine[procrastinate]'"
        ) from error
