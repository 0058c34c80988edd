"""A server that is killed in the middle of its work costs nobody anything."""

from pathlib import Path

import pytest

from tests.wire_faults.kills import campaign


@pytest.mark.parametrize("with_token", [False, True], ids=["sessions", "tokens"])
def test_everybody_gets_their_result_once(with_token: bool, tmp_path: Path) -> None:
    outcome = campaign(tmp_path, tasks=24, kills=1, with_token=with_token)
    assert outcome.wrong == []
    assert outcome.completed == 24
    # Else nothing was shown: somebody waited, and something ran, when the server was killed.
    assert outcome.re_asked > 0
    assert outcome.lost_workers > 0
