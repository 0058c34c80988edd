"""The client and the task that most tests of a receiver begin with."""

from typing import Any

import pytest

from tests.protocol.memory_driver import MemoryDriver


@pytest.fixture
def peer(request: pytest.FixtureRequest) -> Any:
    """A client of the revision whose `Peer` the module imports."""
    return request.module.Peer(MemoryDriver())


@pytest.fixture
def task_id(peer: Any) -> str:
    created: str = peer.create()
    return created
