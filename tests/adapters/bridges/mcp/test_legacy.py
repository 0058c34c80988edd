"""Official clients of 2025-11-25 live through whole tasks with an SDK server of today."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from tests.adapters.bridges.mcp.legacy_visitor import house
from tests.peers.installed import Unavailable
from tests.peers.lives import PEERS, judge

SERVER: Final = Path(__file__).with_name("legacy_server.py")
CLIENTS: Final = ("mcp_1", "fastmcp_3", "sdk_1", "ext_tasks_2025_11_25")


def live(target: Sequence[str]) -> None:
    """The whole lives of all clients, and nothing in them that the specification forbids."""
    commands = {}
    for name in CLIENTS:
        try:
            commands[name] = [*PEERS[name].command(), *target]
        except Unavailable:
            if name == "mcp_1":  # pip is what installs us, too
                raise
    with ThreadPoolExecutor(len(commands)) as pool:
        lives = dict(zip(commands, pool.map(_told, commands.values()), strict=True))
    for name, told in lives.items():
        steps = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
        assert not judge(PEERS[name], steps), f"{name}: {told[-3_000:]}"


def _told(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, timeout=90, check=True).stdout.decode()


def test_over_stdio() -> None:
    live([sys.executable, str(SERVER)])


@pytest.mark.filterwarnings("ignore:The sampling capability")  # it is one of 2025-11-25
def test_over_http() -> None:
    async def main() -> None:
        async with house() as home:
            await asyncio.to_thread(live, [home.url])

    asyncio.run(main())
