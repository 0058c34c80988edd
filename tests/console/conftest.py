"""One server and one browser for the tests of a module."""

from collections.abc import Iterator

import pytest

from tests.console.browser import Browser, browsing
from tests.console.house import House, opened


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    with opened(tmp_path_factory.mktemp("house")) as house:
        yield house


@pytest.fixture
def browser() -> Iterator[Browser]:
    with browsing() as browser:
        yield browser
