"""A minute and a half under fire: nothing is lost, nothing ends twice, nobody waits for ever."""

import asyncio
from pathlib import Path
from typing import Final

from tests.chaos.__main__ import figures
from tests.chaos.campaign import Plan, campaign
from tests.chaos.judge import verdict
from tests.chaos.transcript import transcript
from tests.seed import SEED

PLAN: Final = Plan(tasks=400, seconds=50, seed=SEED)

FEWEST: Final = {
    "SIGKILL of a worker": 1,
    "SIGKILL of a replica": 1,
    "SIGSTOP of a": 1,
    "PostgreSQL restarted": 1,
    "connections cut": 1,
}
"""A run in which nothing went wrong shows nothing."""


def test_chaos_changes_nothing(tmp_path: Path) -> None:
    print(f"TASKMACHINE_SEED={SEED}")
    report = asyncio.run(campaign(PLAN, tmp_path))
    wrong = verdict(report.evidence)
    print(figures(report, wrong))
    assert wrong == [], transcript(report.evidence, wrong)
    for kind, fewest in FEWEST.items():
        count = sum(number for name, number in report.faults.items() if name.startswith(kind))
        assert count >= fewest, f"{kind}: {report.faults}"
    assert len(report.evidence.tasks) >= PLAN.tasks // 20, "too little was done to show anything"
