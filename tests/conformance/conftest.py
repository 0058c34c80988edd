"""Runs of the tester, started together before the first test waits for one."""

from collections.abc import Iterator

import pytest

from tests.conformance.runs import Job, Pool, pool


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest) -> Iterator[Pool]:
    """Start the jobs of all selected tests of a module."""
    with pool() as started:
        for item in request.session.items:
            job = getattr(item, "callspec", None) and item.callspec.params.get("job")  # type: ignore[attr-defined]
            if isinstance(job, Job) and item.path == request.path:
                started.start(job)
        yield started
