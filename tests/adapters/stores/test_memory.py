"""The store in memory, through the test kit."""

import asyncio

import pytest

from taskmachine.adapters.stores import open_store
from taskmachine.adapters.stores.memory import MemoryStore, open_memory
from taskmachine.adapters.stores.testing.contract import NewPlace, StoreContract
from taskmachine.statemachine import ConfigurationError


class TestMemoryStore(StoreContract):
    test_random_operations_agree_with_the_model = None  # type: ignore[assignment]  # tests/lifecycle

    @pytest.fixture
    def new_place(self) -> NewPlace:
        return lambda: lambda: open_memory("memory:")


def test_a_memory_store_is_found_by_its_url() -> None:
    assert isinstance(asyncio.run(open_store("memory:")), MemoryStore)


@pytest.mark.parametrize("url", ["memory:x", "memory", "nothing:", ""])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(ConfigurationError):
        asyncio.run(open_store(url))
