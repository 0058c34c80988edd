"""The harness works; how fast it is today is no matter for a test."""

import pytest

from tests.benchmarks import core


def test_the_harness_measures_everything(capsys: pytest.CaptureFixture[str]) -> None:
    core.main(n=20)
    output = capsys.readouterr().out
    for what in ("fire an event", "tasks/get of 2025-11-25", "tasks/get of 2026-07-28", "1 MB of"):
        assert what in output
