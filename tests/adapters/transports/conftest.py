"""Servers on stdio that end with the test, and a token file."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.transports.pipes import Client

Start = Callable[..., Client]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts servers on one store."""
    clients: list[Client] = []

    def start(*arguments: str, tools: str = "demo", is_not_reading: bool = False) -> Client:
        clients.append(Client(tmp_path, *arguments, tools=tools, is_not_reading=is_not_reading))
        return clients[-1]

    yield start
    for client in clients:
        client.close()


@pytest.fixture
def tokens(tmp_path: Path) -> dict[str, Any]:
    """Return `auth` settings with the tokens of alice (40 times a) and bob (40 times b)."""
    file = tmp_path / "tokens.toml"
    file.touch(0o600)
    file.write_text(f'alice = "{"a" * 40}"\nbob = "{"b" * 40}"\n')
    return {"kind": "tokens", "tokens": str(file)}
