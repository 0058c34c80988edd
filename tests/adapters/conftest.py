"""What the tests of adapters share: coroutines as tests, and one PostgreSQL."""

import inspect
from collections.abc import Iterator

import pytest

from tests.adapters.memory_service import run
from tests.adapters.stores.postgres_server import Server, running


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function; it may leave no asyncio task."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One for all tests, as it takes seconds to make."""
    with running() as server:
        yield server
