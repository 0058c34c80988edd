"""Bugs of retries, recorded steps and sleeps: the seeds of the first lane find each of them."""

from collections.abc import Callable

import pytest

from taskmachine.adapters.engines.local import LocalEngine
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.statemachine import lifecycle
from tests.lifecycle import planted_bugs
from tests.simulation.test_simulation import SEEDS
from tests.simulation.world import simulate


def a_requeue_loses_the_recorded_steps() -> None:
    planted_bugs.a_requeue_loses_the_recorded_steps(MemoryStore)


BUGS: list[tuple[Callable[[], None], str]] = [
    (
        planted_bugs.an_engine_runs_tasks_before_they_are_due,
        "no_task_starts_before_it_is_due",
    ),
    (
        a_requeue_loses_the_recorded_steps,
        "a_recorded_step_is_run_to_an_acknowledged_end_once",
    ),
    (a_requeue_loses_the_recorded_steps, "a_key_names_one_request_for_life"),
    (
        planted_bugs.a_lost_worker_records_a_step,
        "a_recorded_step_is_run_to_an_acknowledged_end_once",
    ),
]


@pytest.mark.parametrize(("bug", "invariant"), BUGS)
def test_it_is_found(
    bug: Callable[[], None], invariant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for owner, name in (
        (lifecycle, "start"), (lifecycle, "record"), (LocalEngine, "dispatch"),
        (MemoryStore, "history"),
    ):  # fmt: skip
        monkeypatch.setattr(owner, name, getattr(owner, name))  # restored afterwards
    bug()
    assert any(
        why.startswith(invariant) for seed in range(SEEDS) for why in simulate(seed).wrong
    ), f"{SEEDS} worlds keep {invariant}"
