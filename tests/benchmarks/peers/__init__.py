"""The task stores of the two official SDKs, each measured in its own process."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from taskmachine.adapters.cli.bench.contestants import MCP_1, TYPESCRIPT
from taskmachine.adapters.cli.bench.installing import NotInstalled, install_node, install_python

__all__ = ["Peer", "measure_peers"]


_HERE: Final = Path(__file__).parent


class Peer(NamedTuple):
    """Microseconds of one cycle; None if not measured, with the reason in `name`."""

    name: str
    empty_us: float | None = None
    full_us: float | None = None


def measure_peers(folder: Path, retained: int) -> list[Peer]:
    """Install the peers into a folder if necessary, and run their measurements."""
    python = install_python(folder, MCP_1)
    peers = [_run(MCP_1, [python, str(_HERE / "python_sdk.py"), str(retained)])]
    try:
        node, place = install_node(folder, TYPESCRIPT)
    except NotInstalled as error:
        return [*peers, Peer(f"{TYPESCRIPT}: not measured, {error}")]
    script = str(_HERE / "typescript_sdk.mjs")
    return [*peers, _run(TYPESCRIPT, [node, script, str(retained), str(place.resolve())])]


def _run(name: str, command: Sequence[str]) -> Peer:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=sys.stderr, check=True)
    figures = json.loads(done.stdout)
    return Peer(name, figures["empty"], figures["full"])
