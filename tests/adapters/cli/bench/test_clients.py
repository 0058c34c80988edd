"""Clients in this process take plausible measurements on our server."""

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from taskmachine.adapters.cli.bench import growth_client, load, wakeup_latency
from taskmachine.adapters.cli.bench.connection import WrongAnswer
from taskmachine.adapters.cli.bench.contestants import FLOOR, REVISIONS, command_of_ours
from taskmachine.adapters.cli.bench.growth import fill_server_command
from taskmachine.adapters.cli.bench.processes import Address, serving

LONG_S = 60.0
"""Enough for the maximum number of requests on the slowest machine."""

both = pytest.mark.parametrize("revision", REVISIONS)


@contextlib.contextmanager
def served(folder: Path) -> Iterator[Address]:
    with serving(command_of_ours(folder, "memory:"), folder / "output.txt") as address:
        yield address


@both
def test_loads_are_played_beside_the_floor(revision: str, tmp_path: Path) -> None:
    loads = [load.Load("get", 1), load.Load("task", 3), load.Load("task", 2, 5_000)]
    with served(tmp_path) as subject, serving(FLOOR, tmp_path / "floor.txt") as floor:
        job = load.Job(revision, "/mcp", subject, floor, loads, LONG_S, LONG_S, 4)
        figures = asyncio.run(load.play(job))
    assert figures.failed == ""
    get, task, large = figures.turns
    assert (get.subject.done, get.subject.sent) == (4, 4)
    assert (task.subject.done, large.subject.done) == (12, 8)
    assert task.subject.sent >= 24
    assert task.floor.done == task.floor.sent == 24, "before and after"
    assert all(turn.subject.server_s > 0 for turn in figures.turns)


def test_the_first_load_that_fails_is_the_last(tmp_path: Path) -> None:
    loads = [load.Load("get", 1), load.Load("get", 2, 10**7), load.Load("get", 1)]
    with served(tmp_path) as subject, serving(FLOOR, tmp_path / "floor.txt") as floor:
        job = load.Job("2025-11-25", "/mcp", subject, floor, loads, LONG_S, 0, 4)
        figures = asyncio.run(load.play(job))
    assert len(figures.turns) == 1
    assert figures.failed


@both
def test_waiters_are_woken_one_after_the_other(revision: str, tmp_path: Path) -> None:
    with served(tmp_path) as address:
        job = wakeup_latency.Job(revision, "/mcp", address.port, 5, 0, 0.05)
        delays = asyncio.run(wakeup_latency.play(job)).seconds
    assert len(delays) == 5
    assert all(0 < delay < wakeup_latency.EACH_S for delay in delays)


@both
def test_wakeup_client_measures_the_delay_of_each_status_change(
    revision: str, tmp_path: Path
) -> None:
    with served(tmp_path) as address:
        job = wakeup_latency.Job(revision, "/mcp", address.port, 0, 3, 0.5)
        delays = asyncio.run(wakeup_latency.play(job)).seconds
    assert len(delays) == 3
    assert all(0 < delay < wakeup_latency.EACH_S for delay in delays)


def test_wakeup_measurement_on_a_server_without_waiting_raises_wrong_answer(tmp_path: Path) -> None:
    with serving(FLOOR, tmp_path / "floor.txt") as floor, pytest.raises(WrongAnswer):
        asyncio.run(
            wakeup_latency.play(wakeup_latency.Job("2026-07-28", "/mcp", floor.port, 1, 0, 0.01))
        )


@both
def test_a_store_is_filled_from_within(revision: str, tmp_path: Path) -> None:
    has_pages = revision == "2025-11-25"
    with serving(fill_server_command("memory", tmp_path), tmp_path / "output.txt") as address:
        job = growth_client.Job(revision, "/mcp", address, [600, 1_300], 0, 0.01, has_pages, 3)
        steps = asyncio.run(growth_client.play(job))
    assert [step.size for step in steps.steps] == [600, 1_300]
    assert steps.steps[1].resident > steps.empty
    requests = {"create", "get", *(["page"] if has_pages else [])}
    assert steps.steps[0].costs_us.keys() == requests


def test_growth_by_requests_stops_at_its_time_limit(tmp_path: Path) -> None:
    with served(tmp_path) as address:
        sizes = [50, 10**7]
        job = growth_client.Job("2026-07-28", "/mcp", address, sizes, 5, 0.01, False, 3)
        steps = asyncio.run(growth_client.play(job))
    assert [step.size for step in steps.steps] == [50]
    assert steps.failed.startswith("10,000,000 tasks would have taken ")
    assert "extrapolated: 50 took" in steps.failed


def test_growth_that_is_too_slow_for_its_first_step_is_reported(tmp_path: Path) -> None:
    with served(tmp_path) as address:
        job = growth_client.Job("2026-07-28", "/mcp", address, [10**6], 0.2, 0.01, False, 3)
        steps = asyncio.run(growth_client.play(job))
    assert steps.steps == []
    assert steps.failed.startswith("1,000,000 tasks would have taken ")
