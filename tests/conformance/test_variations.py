"""The tester reports nothing for behaviour that the specification allows."""

import pytest

from tests.conformance.runs import Job, Pool, variation_jobs
from tests.conformance.test_bugs import TIMEOUT_S

pytestmark = [pytest.mark.slow, pytest.mark.bugs]


@pytest.mark.parametrize("job", variation_jobs(), ids=str)
def test_nothing_is_found(job: Job, running: Pool) -> None:
    outcome = running.start(job).result(TIMEOUT_S)
    assert not outcome.complaints, "\n".join(outcome.complaints)
