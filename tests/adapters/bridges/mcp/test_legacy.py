"""Official clients of 2025-11-25 run whole tasks on a current SDK server."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from tests.adapters.bridges.mcp.legacy_client import serving_legacy
from tests.adapters.bridges.mcp.serving import bounded
from tests.peers.client_runs import PEERS, judge
from tests.peers.installed import Unavailable

pytestmark = [pytest.mark.slow, pytest.mark.peers]

SERVER: Final = Path(__file__).with_name("legacy_server.py")
CLIENTS: Final = ("mcp_1", "fastmcp_3", "sdk_1", "ext_tasks_2025_11_25")


def run_clients(target: Sequence[str]) -> None:
    """Run all clients and check that the specification allows everything they receive."""
    commands = {}
    for name in CLIENTS:
        try:
            commands[name] = [*PEERS[name].command(), *target]
        except Unavailable:
            if name == "mcp_1":  # pip installs taskmachine, too
                raise
    with ThreadPoolExecutor(len(commands)) as pool:
        runs = dict(zip(commands, pool.map(_output, commands.values()), strict=True))
    for name, output in runs.items():
        steps = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
        assert not judge(PEERS[name], steps), f"{name}: {output[-3_000:]}"


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, timeout=90, check=True).stdout.decode()


def test_over_stdio() -> None:
    run_clients([sys.executable, str(SERVER)])


@pytest.mark.filterwarnings("ignore:The sampling capability")  # part of 2025-11-25
@bounded
async def test_over_http() -> None:
    async with serving_legacy() as server:
        await asyncio.to_thread(run_clients, [server.url])
