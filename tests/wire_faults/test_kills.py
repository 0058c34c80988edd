"""Clients get every result although the server is killed while it works."""

from pathlib import Path

import pytest

from tests.wire_faults.kills import campaign


@pytest.mark.parametrize("with_token", [False, True], ids=["sessions", "tokens"])
@pytest.mark.parametrize(
    ("tasks", "kills"),  # a task that loses three workers fails
    [(24, 1), pytest.param(200, 2, marks=[pytest.mark.slow, pytest.mark.kills])],
)
def test_each_caller_gets_its_result_once(
    tasks: int, kills: int, with_token: bool, tmp_path: Path
) -> None:
    outcome = campaign(tmp_path, tasks=tasks, kills=kills, with_token=with_token)
    assert outcome.wrong == []
    assert outcome.completed == tasks
    # The kills interrupted waiting clients and running tasks.
    assert outcome.retries > 0
    assert outcome.lost_workers > 0
