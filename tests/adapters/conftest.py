"""What tests on PostgreSQL share."""

from collections.abc import Iterator

import pytest

from tests.adapters.stores.postgres_server import Server, running


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One for all tests, as it takes seconds to make."""
    with running() as server:
        yield server
