"""Hypothesis compares every store with a simple model, and detects bugs planted in each store.

The machine is part of the store test kit: `taskmachine.adapters.stores.testing.machine`.
"""

import itertools
import os
import secrets
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.adapters.stores.postgresql.connections import read_url
from taskmachine.adapters.stores.sqlite.schema import prepare
from taskmachine.adapters.stores.testing.machine import NewPlace, Place, StoreMachine
from tests.adapters.stores.postgres_server import Server, running
from tests.adapters.stores.test_postgresql import CheckedStore as CheckedPostgreSQLStore
from tests.adapters.stores.test_sqlite import SHARED_MEMORY
from tests.adapters.stores.test_sqlite import CheckedStore as CheckedSQLiteStore
from tests.lifecycle.planted_bugs import PLANTED, STORE_BUGS

STORES: dict[str, Any] = {
    "memory": MemoryStore,
    "sqlite": CheckedSQLiteStore,
    "postgresql": CheckedPostgreSQLStore,
}
"""SQLite and PostgreSQL compare their indexes with their records when they are closed."""

Places = Callable[[Any], NewPlace]
"""Returns where a store of this class keeps its tasks."""


@pytest.fixture(scope="module")
def database() -> Iterator[Server]:
    with running() as database:
        yield database


@pytest.fixture(params=STORES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def places(kind: str, request: pytest.FixtureRequest) -> Iterator[Places]:
    numbers = itertools.count()
    # The machine commits thousands of times: prefer a folder in memory to one on a disk.
    folder = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else None
    files = tempfile.TemporaryDirectory(dir=folder)

    def in_memory(store: Any) -> NewPlace:
        async def open_place() -> Any:
            return store(secrets.token_bytes(32))

        return lambda: open_place

    def in_files(store: Any) -> NewPlace:
        def new_place() -> Place:
            path = Path(files.name, f"{next(numbers)}.db")

            async def open_place() -> Any:
                prepare(path)
                return store(path)

            return open_place

        return new_place

    def in_schemas(store: Any) -> NewPlace:
        def new_place() -> Place:
            address = read_url(request.getfixturevalue("database").new_url())
            return lambda: store.open_at(address)

        return new_place

    with files:
        yield {"memory": in_memory, "sqlite": in_files, "postgresql": in_schemas}[kind]


def machine_on(new_place: NewPlace, kind: str) -> type[StoreMachine]:
    class MachineOnStore(StoreMachine):
        def __init__(self) -> None:
            super().__init__(new_place, persists=kind != "memory")

    return MachineOnStore


def test_a_store_answers_as_the_model_does(kind: str, places: Places) -> None:
    usual = settings()
    # After each step the machine sends about thirty queries: over a socket that takes time.
    examples = max(1, usual.max_examples // (5 if kind == "postgresql" else 1))
    run_state_machine_as_test(
        machine_on(places(STORES[kind]), kind), settings=settings(usual, max_examples=examples)
    )


@pytest.mark.slow
@pytest.mark.lifecycle
@pytest.mark.parametrize("bug", STORE_BUGS)
def test_a_planted_bug_is_detected(bug: str, kind: str, places: Places) -> None:
    broken = type("BrokenStore", (STORES[kind],), {})
    STORE_BUGS[bug](broken)
    with pytest.raises(AssertionError):
        run_state_machine_as_test(machine_on(places(broken), kind), settings=PLANTED)
