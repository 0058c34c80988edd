"""The contract of engines: the built-in ones pass it, and broken ones fail it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest

from taskmachine.adapters.engines.local import LocalEngine
from taskmachine.adapters.runtime.engine import MakeEngine, PeriodicJob
from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.runtime.testing.contract import EngineContract, NewRuntimePlace
from tests.adapters.engines.places import on_sqlite, with_worker
from tests.adapters.stores.postgres_server import Server


class TestLocal(EngineContract):
    @pytest.fixture
    def new_place(self, tmp_path: Path) -> NewRuntimePlace:
        return on_sqlite(tmp_path, LocalEngine)


class TestProcrastinate(EngineContract):
    @pytest.fixture
    def new_place(self, server: Server) -> NewRuntimePlace:
        return lambda: with_worker(server)


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


class Greedy(LocalEngine):
    """Lets one owner take every place."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._worker.has_room_for = lambda owner: self._worker.has_room  # type: ignore[method-assign]


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
        (Greedy, EngineContract.test_no_owner_takes_every_place),
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
