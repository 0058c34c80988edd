"""pytest plugin: the fixture `open_server`, and `async def` tests with it on virtual time."""

import inspect
from typing import Any

import pytest

__all__: list[str] = []


@pytest.fixture(name="open_server")
def _open_server() -> Any:
    """`taskmachine.testing.open_server`; an `async def` test with it runs on virtual time."""
    from taskmachine.adapters.testing.server import open_server

    return open_server


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test with the fixture."""
    if "open_server" not in pyfuncitem.fixturenames or not inspect.iscoroutinefunction(
        pyfuncitem.obj
    ):
        return None
    from taskmachine.adapters.testing.loop import run

    names = pyfuncitem._fixtureinfo.argnames
    run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True
