"""Tasks that are run by workers elsewhere: procrastinate, on the PostgreSQL database of the store.

What it is made of needs the extra `procrastinate`, and is imported when somebody uses it.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from taskmachine.adapters.runtime.engine import Engine
from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.stores import Worker
from taskmachine.adapters.tools.registry import Threads, Tool
from taskmachine.statemachine import ConfigurationError

__all__ = ["for_replicas", "for_workers"]


def for_replicas(
    service: TaskService,
    tools: Mapping[str, Tool],
    threads: Threads,
    new_worker: Callable[[], Worker],
) -> Engine:
    """Runs no task itself: each one that enters the queue gets a ticket there."""
    with _installed():
        from taskmachine.adapters.engines.procrastinate.engines import ReplicaEngine
    return ReplicaEngine(service, tools)


def for_workers(
    service: TaskService,
    tools: Mapping[str, Tool],
    threads: Threads,
    new_worker: Callable[[], Worker],
) -> Engine:
    """Takes tickets for these tools, from whatever replica, and runs them."""
    with _installed():
        from taskmachine.adapters.engines.procrastinate.engines import WorkerEngine
    return WorkerEngine(service, tools, threads, new_worker)


@contextmanager
def _installed() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(
            f"the engine procrastinate needs the package {error.name or 'procrastinate'}:"
            " pip install 'taskmachine[procrastinate]'"
        ) from error
