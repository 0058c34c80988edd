"""One server and one browser for the tests of a module."""

from collections.abc import Iterator

import pytest

from tests.console.browser import Browser, browsing
from tests.console.console_process import ConsoleProcess, running_console


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleProcess]:
    with running_console(tmp_path_factory.mktemp("console")) as console:
        yield console


@pytest.fixture
def browser() -> Iterator[Browser]:
    with browsing() as browser:
        yield browser
