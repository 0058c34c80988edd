"""Whatever the specification allows is no finding."""

import pytest

from tests.conformance.runs import Job, Pool, variation_jobs

PATIENCE_S = 3_600.0


@pytest.mark.parametrize("job", variation_jobs(), ids=str)
def test_nothing_is_found(job: Job, running: Pool) -> None:
    outcome = running.begin(job).result(PATIENCE_S)
    assert not outcome.complaints, "\n".join(outcome.complaints)
