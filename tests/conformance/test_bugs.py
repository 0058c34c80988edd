"""The tester finds every planted bug, and nothing else."""

from typing import Final

import pytest

from tests.conformance.runs import Job, Pool, jobs

TIMEOUT_S: Final = 3_600.0
"""For all runs that precede a run in the queue."""

SAMPLE: Final = {
    "answers_get_with_a_stream",
}
"""Bugs of each kind that the fast lane runs: revisions, transports, tasks and base protocol."""

SLOW: Final = [pytest.mark.slow, pytest.mark.bugs]


@pytest.mark.parametrize(
    "job",
    [pytest.param(job, marks=() if job.name in SAMPLE else SLOW, id=str(job)) for job in jobs()],
)
def test_a_bug_is_found_and_nothing_else(job: Job, running: Pool) -> None:
    outcome = running.begin(job).result(TIMEOUT_S)
    assert not outcome.complaints, "\n".join(outcome.complaints)


def test_the_sample_exists() -> None:
    assert {job.name for job in jobs()} >= SAMPLE
