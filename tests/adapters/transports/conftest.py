"""Servers that are gone when a test is over."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.adapters.transports.pipes import Client

Start = Callable[..., Client]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts servers on one store, one after the other or side by side."""
    clients: list[Client] = []

    def start(*arguments: str, tools: str = "demo", is_not_reading: bool = False) -> Client:
        clients.append(Client(tmp_path, *arguments, tools=tools, is_not_reading=is_not_reading))
        return clients[-1]

    yield start
    for client in clients:
        client.close()
