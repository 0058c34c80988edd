"""The tester finds every planted bug, and nothing else."""

from typing import Final

import pytest

from tests.conformance.runs import Job, Pool, jobs

TIMEOUT_S: Final = 3_600.0
"""For all runs that precede a run in the queue."""

SAMPLE: Final = {
    # --- 2025-11-25 ---
    "CountsTaskIds",
    "CancelsTheTaskWithTheCall",
    "CancelsTaskWhenResultIsCancelled",
    "AnswersMissingSessionWith404",
    "lists_the_first_task_twice",
    "gets_foreign_tasks",
    # --- 2026-07-28 ---
    "DeletesTasksAfterFirstRead",
    "AcceptsStatesForOtherCalls",
    "BindsTasksToConnections",
    "DoesNotCompareParameterHeaders",
    "notifies_of_other_tasks",
    "omits_created_at",
}
"""Bugs of each kind that the fast lane runs: revisions, transports, tasks and base protocol."""

SLOW: Final = [pytest.mark.slow, pytest.mark.bugs]


@pytest.mark.parametrize(
    "job",
    [pytest.param(job, marks=() if job.name in SAMPLE else SLOW, id=str(job)) for job in jobs()],
)
def test_a_bug_is_found_and_nothing_else(job: Job, running: Pool) -> None:
    outcome = running.start(job).result(TIMEOUT_S)
    assert not outcome.complaints, "\n".join(outcome.complaints)


def test_the_sample_exists() -> None:
    assert {job.name for job in jobs()} >= SAMPLE
