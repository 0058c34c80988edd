"""A client of a receiver of erlmcp."""

import pytest

from taskmachine.protocol.dialects.erlmcp.receiver import RECEIVER
from tests.protocol.erlmcp.client import Client, LimitedDriver


@pytest.fixture
def client() -> Client:
    driver = LimitedDriver()
    return Client(driver, driver.connect(RECEIVER))
