"""The contract of engines: the built-in ones pass it, and broken ones fail it."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import attrs
import pytest

from taskmachine.adapters.engines.local import LocalEngine
from taskmachine.adapters.engines.procrastinate.opening import for_replicas, for_workers
from taskmachine.adapters.runtime.engine import MakeEngine, PeriodicJob
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import Runtime, RuntimeConfig, open_runtime
from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.runtime.testing.contract import (
    EngineContract,
    NewRuntimePlace,
    RuntimePlace,
)
from taskmachine.adapters.tools.registry import Tools
from tests.adapters.stores.postgres_server import Server


def on_sqlite(folder: Path, engine: MakeEngine) -> NewRuntimePlace:
    numbers = count()

    def new_place() -> RuntimePlace:
        url = f"sqlite:{folder / str(next(numbers))}"
        return lambda tools, limits: open_runtime(
            url, tools, RuntimeConfig(engine=engine, limits=limits)
        )

    return new_place


class TestLocal(EngineContract):
    @pytest.fixture
    def new_place(self, tmp_path: Path) -> NewRuntimePlace:
        return on_sqlite(tmp_path, LocalEngine)


class TestProcrastinate(EngineContract):
    @pytest.fixture
    def new_place(self, server: Server) -> NewRuntimePlace:
        def new_place() -> RuntimePlace:
            url = server.new_url()

            @asynccontextmanager
            async def place(tools: Tools, limits: Limits) -> AsyncIterator[Runtime]:
                async with (
                    open_runtime(url, tools, RuntimeConfig(engine=for_replicas)) as replica,
                    open_runtime(url, tools, RuntimeConfig(engine=for_workers, limits=limits)),
                ):
                    yield replica

            return place

        return new_place


# --- the kit itself: each of these engines has a bug that it must find ----------------------------


class Idle(LocalEngine):
    async def start(self) -> None: ...

    @property
    def periodic_jobs(self) -> Mapping[str, PeriodicJob]:
        return {}


class Unbounded(LocalEngine):
    """Runs every task without regard to the limit."""

    def __init__(self, service: TaskService, *rest: Any) -> None:
        service.limits = attrs.evolve(service.limits, concurrency=64)
        super().__init__(service, *rest)


class Obstinate(LocalEngine):
    """Does not release its tasks at shutdown."""

    async def shutdown(self, grace_s: float | None = None) -> None: ...


@pytest.mark.parametrize(
    ("engine", "found_by"),
    [
        (Idle, EngineContract.test_a_task_is_run_once_and_its_outcome_is_stored),
        (Idle, EngineContract.test_an_error_of_a_tool_is_an_outcome),
        (Idle, EngineContract.test_a_tool_that_takes_too_long_is_stopped),
        (Idle, EngineContract.test_a_cancellation_reaches_the_tool_and_is_final),
        (Idle, EngineContract.test_a_tool_that_waits_resumes_with_the_answer),
        (Idle, EngineContract.test_a_tool_that_parks_is_run_again_with_the_answer),
        (Unbounded, EngineContract.test_no_more_tools_run_than_the_limit_says),
        (Obstinate, EngineContract.test_a_stopped_runtime_returns_unfinished_tasks_to_the_queue),
    ],
)
def test_the_kit_finds_an_engine_with_a_bug(
    engine: MakeEngine,
    found_by: Callable[[EngineContract, NewRuntimePlace], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("taskmachine.adapters.runtime.testing.contract.PATIENCE_S", 1.0)
    with pytest.raises((AssertionError, TimeoutError)):
        found_by(EngineContract(), on_sqlite(tmp_path, engine))
