"""The benchmarks run and print every figure; the tests ignore the values."""

import subprocess
import sys

import pytest

from tests.benchmarks import core, recorded_steps, runtime
from tests.oracle import REPOSITORY


def test_the_core_benchmark_prints_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    core.main(n=20)
    output = capsys.readouterr().out
    for what in ("fire an event", "tasks/get of 2025-11-25", "tasks/get of 2026-07-28", "1 MB of"):
        assert what in output


def test_the_runtime_benchmark_prints_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    runtime.main(["--quick"])
    output = capsys.readouterr().out
    for what in (
        "memory: create, start, complete, get",
        "memory: the same with 20 retained",
        "memory: get",
        "memory: a retained task",
        "memory: a page of 50",
        "memory, one caller: update",
        "SQLite, 32 callers: step",
        "SQLite, 32 callers: cycle",
        "SQLite, meanwhile: get, p99",
        "SQLite, one caller: provide_input",
    ):
        assert what in output


def test_the_benchmark_of_recorded_steps_prints_its_figure(
    capsys: pytest.CaptureFixture[str],
) -> None:
    recorded_steps.main(["--quick"])
    assert "SQLite, 32 tasks: recorded step" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.benchmarks
def test_the_postgresql_benchmark_prints_every_figure() -> None:
    command = [sys.executable, "-m", "tests.benchmarks.postgresql", "--quick"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=300)
    assert not done.stderr
    assert "not measured" not in done.stdout
    for what in ("get, of 2,000 / of 200", "tasks/get by the service", "1 worker: cycle"):
        assert what in done.stdout


@pytest.mark.slow
@pytest.mark.benchmarks
@pytest.mark.parametrize("more", [[], ["--postgresql"]], ids=["sqlite", "postgresql"])
def test_the_benchmark_of_sleeping_tasks_wakes_all_of_them(more: list[str]) -> None:
    command = [sys.executable, "-m", "tests.benchmarks.sleeping", "--tasks", "200", *more]
    done = subprocess.run(
        [*command, "--seconds", "2"], cwd=REPOSITORY, capture_output=True, text=True, timeout=300
    )
    assert not done.stderr
    for what in ("reads per second with 200 asleep", "late, p99", "200 tasks woke"):
        assert what in done.stdout
