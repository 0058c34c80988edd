"""Third-party clients run whole tasks on a FastMCP server with our extension."""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from tests.peers.client_runs import PEERS, judge
from tests.peers.installed import Unavailable

pytestmark = [pytest.mark.slow, pytest.mark.peers]

# -P: the folder of the script contains a package `mcp`.
SERVER: Final = [sys.executable, "-P", str(Path(__file__).with_name("fastmcp_demo.py"))]
BUSY_S: Final = 120

# FastMCP turns any exception into an error result, as in a plain call.
CRASHES: Final[Mapping[str, Mapping[str, Callable[[Any], bool]]]] = {
    "2026-07-28": {"the task has a result": lambda step: step["status"] == "completed"},
    "2025-11-25": {"the task failed": lambda step: step["status"] == "failed"},
}


@pytest.mark.parametrize(
    ("name", "revision"), [("fastmcp_4", "2026-07-28"), ("mcp_1", "2025-11-25")]
)
def test_third_party_client_gets_answers_that_match_the_specification(
    name: str, revision: str
) -> None:
    peer = PEERS[name]
    try:
        client = peer.command()
    except Unavailable as error:
        pytest.skip(str(error))
    done = subprocess.run(
        [*client, *SERVER], capture_output=True, text=True, timeout=BUSY_S, check=False
    )
    steps = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    rules = {**peer.rules, "crash": CRASHES[revision]}
    assert not judge(attrs.evolve(peer, rules=rules), steps), done.stderr[-3_000:]
    assert done.returncode == 0, done.stderr[-3_000:]
