"""Runs of the tester, begun together before the first test waits for one."""

from collections.abc import Iterator

import pytest

from tests.conformance.runs import Job, Pool, pool


@pytest.fixture(scope="session")
def running(request: pytest.FixtureRequest) -> Iterator[Pool]:
    """All jobs of the tests that were chosen."""
    with pool() as begun:
        for item in request.session.items:
            job = getattr(item, "callspec", None) and item.callspec.params.get("job")  # type: ignore[attr-defined]
            if isinstance(job, Job):
                begun.begin(job)
        yield begun
