"""Every planted bug is found, and nothing else is."""

import pytest

from tests.conformance.runs import Job, Pool, jobs

PATIENCE_S = 3_600.0
"""For all runs that are before it in the queue."""


@pytest.mark.parametrize("job", jobs(), ids=str)
def test_the_bug_is_found_and_nothing_else(job: Job, running: Pool) -> None:
    outcome = running.begin(job).result(PATIENCE_S)
    assert not outcome.complaints, "\n".join(outcome.complaints)
