"""Install peers into private environments, once each."""

import re
import shutil
import subprocess
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

__all__ = ["NotInstalled", "install_node", "install_python", "slug"]

PATIENCE_S: Final = 600
READY: Final = "installed"
"""A file that marks a complete installation; an incomplete one is repeated."""


_AS_FOLDER: Final = str.maketrans("/@", "--")


class NotInstalled(Exception):
    """A peer could not be installed, with the reason."""


def slug(requirement: str) -> str:
    """Return the folder name of a requirement."""
    return re.sub(r"\[.*\]", "", requirement).replace("==", "-").strip("@").translate(_AS_FOLDER)


def install_python(folder: Path, requirement: str, *more: str) -> str:
    """Return the interpreter of an environment with the requirement, created if needed."""
    place = folder / slug(requirement)
    python = place / "bin" / "python"
    if not (place / READY).exists():
        shutil.rmtree(place, ignore_errors=True)
        venv.create(place, with_pip=True)
        _run([str(python), "-m", "pip", "install", "-q", requirement, *more], requirement)
        (place / READY).touch()
    return str(python)


def install_node(folder: Path, requirement: str) -> tuple[str, Path]:
    """Return the path of node and the folder with `node_modules`."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise NotInstalled("node or npm is not installed")
    place = folder / slug(requirement)
    if not (place / READY).exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        quiet = ["--silent", "--no-audit", "--no-fund"]
        _run([npm, "install", *quiet, "--prefix", str(place), requirement], requirement)
        (place / READY).touch()
    return node, place


def _run(command: Sequence[str], requirement: str) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(f"{requirement} was not installed: {error}") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith(("ERROR", "npm"))]
        why = (lines or done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise NotInstalled(f"{requirement} was not installed: {why[:160]}")
