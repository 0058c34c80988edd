"""The harness works; how fast it is today is no matter for a test."""

import pytest

from tests.benchmarks import core, runtime


def test_the_harness_measures_everything(capsys: pytest.CaptureFixture[str]) -> None:
    core.main(n=20)
    output = capsys.readouterr().out
    for what in ("fire an event", "tasks/get of 2025-11-25", "tasks/get of 2026-07-28", "1 MB of"):
        assert what in output


def test_the_harness_of_the_runtime_measures_everything(
    capsys: pytest.CaptureFixture[str],
) -> None:
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
