"""What the tests of adapters share: coroutines as tests, and one PostgreSQL."""

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
    names = inspect.signature(pyfuncitem.obj).parameters
    pyfuncitem.funcargs["runner"](
        pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names})
    )
    return True


@pytest.fixture(autouse=True)
def runner() -> Callable[[Coroutine[Any, Any, None]], None]:
    """Return what runs a coroutine; a module with a clock of its own has its own."""
    return run


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One for all tests, as it takes seconds to make."""
    with running() as server:
        yield server
