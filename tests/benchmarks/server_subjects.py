"""What is measured: our server, and those of others, each installed into a folder of its own."""

import shutil
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import attrs

from tests.benchmarks.peers import PYTHON, TYPESCRIPT
from tests.benchmarks.server_dialogs import TEXT, TOOL
from tests.oracle import REPOSITORY

__all__ = ["FASTMCP", "FLOOR", "Subject", "command_of_ours", "ours", "peers"]

FASTMCP: Final = "fastmcp[tasks]==4.1.2"

FLOOR: Final = (sys.executable, "-m", "tests.benchmarks.server_floor")

PEERS: Final = REPOSITORY / ".peers"
SCRIPTS: Final = REPOSITORY / "tests" / "benchmarks" / "peers"

CONFIGURATION: Final = """\
[transport]
lookups_per_second = 1000000000
lookups_burst = 1000000000

[limits.caps]
live_of_owner = 1000000000
live = 1000000000
retained_of_owner = 1000000000
retained = 1000000000
"""


@attrs.frozen
class Subject:
    name: str
    revision: str
    path: str
    command: Callable[[Path], Sequence[str]]
    """What starts it, with a new folder for what it writes."""
    store: str = ""
    """Of ours: `memory` or `sqlite`."""


def ours() -> Iterator[Subject]:
    for store in ("memory", "sqlite"):
        for revision in ("2025-11-25", "2026-07-28"):

            def command(folder: Path, store: str = store) -> Sequence[str]:
                return command_of_ours(folder, store)

            yield Subject(f"ours, {store}", revision, "/mcp", command, store)


def command_of_ours(folder: Path, store: str) -> Sequence[str]:
    configuration = folder / "taskmachine.toml"
    configuration.write_text(CONFIGURATION)
    url = "memory:" if store == "memory" else f"sqlite:{folder / 'tasks.db'}"
    return (
        *(str(Path(sys.executable).with_name("taskmachine")), "serve"),
        *("--http", "127.0.0.1:0", "--store", url),
        *("--tools", "tests.benchmarks.server_tools:TOOLS", "--config", str(configuration)),
        *("--log-level", "warning"),  # as quiet as the others: by default each move has a line
    )


def peers() -> Iterator[Subject]:
    """Installed, unless they are there."""
    python = _python("bench-python-sdk", PYTHON)
    yield _peer(PYTHON, "2025-11-25", "/mcp/", python, "server_python_sdk.py")
    python = _python("bench-fastmcp", FASTMCP)
    yield _peer(FASTMCP, "2026-07-28", "/mcp", python, "server_fastmcp.py")
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        print(f"{TYPESCRIPT}: not measured, no node", file=sys.stderr)
        return
    folder = PEERS / "bench-typescript-sdk"
    if not (folder / "node_modules").exists():
        install = [npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder)]
        subprocess.run([*install, TYPESCRIPT], check=True)
    script = "server_typescript_sdk.mjs"
    yield _peer(TYPESCRIPT, "2025-11-25", "/mcp", node, script, str(folder))


def _python(folder: str, requirement: str) -> str:
    python = PEERS / folder / "bin" / "python"
    if not python.exists():
        venv.create(PEERS / folder, with_pip=True)
        install = [str(python), "-m", "pip", "install", "-q", requirement, "uvloop", "httptools"]
        subprocess.run(install, check=True)
    return str(python)


def _peer(name: str, revision: str, path: str, program: str, script: str, *more: str) -> Subject:
    command = (program, str(SCRIPTS / script), *more, TOOL, TEXT)
    return Subject(name, revision, path, lambda folder: command)
