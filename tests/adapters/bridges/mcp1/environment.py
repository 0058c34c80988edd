"""An environment with `mcp` 1.x and the code under test, beside `mcp` 2."""

import os
import subprocess
from collections.abc import Mapping
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

import taskmachine.adapters
from tests.oracle import REPOSITORY
from tests.peers.installed import python_of

__all__ = ["run_with_mcp1", "variables"]

PATIENCE_S: Final = 120
PACKAGE: Final = Path(taskmachine.adapters.__file__).parents[1]


def variables(folder: Path) -> Mapping[str, str]:
    """Return variables with which a process finds our packages, our stores and the tests.

    Not by their folder, which may contain `mcp` 2.
    """
    ours, told = distribution("taskmachine"), folder / "taskmachine-0.dist-info"
    if not told.exists():
        told.mkdir(parents=True)
        (told / "METADATA").write_text("Metadata-Version: 2.1\nName: taskmachine\nVersion: 0\n")
        (told / "entry_points.txt").write_text(ours.read_text("entry_points.txt") or "")
        (folder / "taskmachine").symlink_to(PACKAGE)
    return {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{REPOSITORY}"}


def run_with_mcp1(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `python ARGUMENTS` in that environment."""
    return subprocess.run(
        [str(python_of("mcp_1_bridge")), *arguments],
        cwd=folder,
        env=variables(folder),
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
