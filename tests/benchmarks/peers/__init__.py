"""The task stores of the two official SDKs, each doing the same cycle in a process of its own."""

import json
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["Peer", "measure_peers"]

PYTHON: Final = "mcp==1.30.0"
TYPESCRIPT: Final = "@modelcontextprotocol/sdk@1.32.2"

_HERE: Final = Path(__file__).parent


class Peer(NamedTuple):
    """Microseconds of one cycle; None if it could not be measured, and `name` says why."""

    name: str
    empty_us: float | None = None
    full_us: float | None = None


def measure_peers(folder: Path, retained: int) -> list[Peer]:
    """Install the peers into a folder, unless they are there, and let each measure itself."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", PYTHON], check=True)
    peers = [_run(PYTHON, [str(python), str(_HERE / "python_sdk.py"), str(retained)])]
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return [*peers, Peer(f"{TYPESCRIPT}: not measured, no node")]
    if not (folder / "node_modules").exists():
        install = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
        subprocess.run([*install, TYPESCRIPT], check=True)
    script = str(_HERE / "typescript_sdk.mjs")
    return [*peers, _run(TYPESCRIPT, [node, script, str(retained), str(folder.resolve())])]


def _run(name: str, command: Sequence[str]) -> Peer:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=sys.stderr, check=True)
    figures = json.loads(done.stdout)
    return Peer(name, figures["empty"], figures["full"])
