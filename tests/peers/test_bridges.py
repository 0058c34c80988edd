"""An official SDK server with our extension satisfies the same judges as our own server."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.peers.checked import Checked, check
from tests.peers.conformance import NOT_APPLICABLE, Suite, table
from tests.peers.installed import Unavailable
from tests.peers.serving import command, serving

pytestmark = [pytest.mark.slow, pytest.mark.peers]


def test_the_official_suite_finds_nothing_wrong_with_its_tasks(tmp_path: Path) -> None:
    try:
        suite = Suite()
    except Unavailable as error:
        pytest.skip(str(error))
    runs = [
        run for run in suite.runs() if run.revision is None and run.scenario not in NOT_APPLICABLE
    ]
    assert len(runs) == 10
    with serving("sdk", tmp_path) as server:
        before = server.names()
        verdicts = suite.judge(server.url, runs)
        assert server.names() == before, "it is still the server that it was"
    assert not [verdict for verdict in verdicts if verdict.wrong], table(verdicts)
    assert sum(verdict.count("SUCCESS") for verdict in verdicts) == 44


def checked(transport: str, folder: Path) -> tuple[int, Mapping[str, Any]]:
    if transport == "stdio":
        return check(Checked(lambda: command("sdk", "--stdio"), frozenset()), folder)
    with serving("sdk", folder) as server:
        return check(server.url, folder)


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_the_tester_finds_nothing_broken(transport: str, tmp_path: Path) -> None:
    status, report = checked(transport, tmp_path)
    if status:  # repeated, because answers may be late on a busy machine
        again = tmp_path / "again"
        again.mkdir()
        status, report = checked(transport, again)
    failed = [f for run in report["runs"] for f in run["findings"] if f["verdict"] == "fail"]
    assert (status, failed) == (0, [])
    assert {run["revision"] for run in report["runs"]} == {"2025-11-25", "2026-07-28"}
    for run in report["runs"]:
        assert run["exercised"] / run["observable"] > 0.7
