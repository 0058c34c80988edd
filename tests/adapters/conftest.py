"""Shared by the tests of adapters: coroutines as tests, and one PostgreSQL."""

import inspect
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from tests.adapters.memory_service import run
from tests.adapters.stores.postgres_server import Server, running


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function with the fixture `runner`."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    fixtures: dict[str, Any] = pyfuncitem.funcargs
    names = inspect.signature(pyfuncitem.obj).parameters
    fixtures["runner"](pyfuncitem.obj(**{name: fixtures[name] for name in names}))
    return True


@pytest.fixture(autouse=True)
def runner() -> Callable[[Coroutine[Any, Any, None]], None]:
    """Return the function that runs a coroutine; a module with virtual time overrides it."""
    return run


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One for all tests, as it takes seconds to make."""
    with running() as server:
        yield server
