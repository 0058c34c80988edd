"""Under faults no task is lost, none ends twice, and every waiting client is answered."""

import asyncio
from pathlib import Path
from typing import Final

import pytest

from tests.chaos.__main__ import figures
from tests.chaos.campaign import Plan, campaign
from tests.chaos.judge import verdict
from tests.chaos.transcript import transcript
from tests.seed import SEED

SHORT: Final = Plan(tasks=80, seconds=8, seed=SEED)
LONG: Final = Plan(tasks=400, seconds=50, seed=SEED)

FEWEST: Final = {
    "SIGKILL of a worker": 1,
    "SIGKILL of a replica": 1,
    "SIGSTOP of a": 1,
    "PostgreSQL restarted": 1,
    "connections cut": 1,
}
"""A long run without these faults proves nothing."""


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(SHORT, id="short"),
        pytest.param(LONG, id="long", marks=[pytest.mark.slow, pytest.mark.chaos]),
    ],
)
def test_faults_violate_no_guarantee(plan: Plan, tmp_path: Path) -> None:
    print(f"TASKMACHINE_SEED={SEED}")
    report = asyncio.run(campaign(plan, tmp_path))
    wrong = verdict(report.evidence)
    print(figures(report, wrong))
    assert wrong == [], transcript(report.evidence, wrong)
    assert len(report.evidence.tasks) >= plan.tasks // 20, "too few tasks"
    assert report.faults, "no fault was injected"
    for kind, fewest in FEWEST.items() if plan is LONG else ():
        count = sum(number for name, number in report.faults.items() if name.startswith(kind))
        assert count >= fewest, f"{kind}: {report.faults}"
