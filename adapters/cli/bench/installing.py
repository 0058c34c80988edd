"""Peers in private environments: a folder for each, made once."""

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
"""A file that is there when everything is: whoever was interrupted begins again."""


_AS_FOLDER: Final = str.maketrans("/@", "--")


class NotInstalled(Exception):
    """Why a peer cannot be measured here."""


def slug(requirement: str) -> str:
    """A name for its folder."""
    return re.sub(r"\[.*\]", "", requirement).replace("==", "-").strip("@").translate(_AS_FOLDER)


def install_python(folder: Path, requirement: str, *more: str) -> str:
    """The interpreter of an environment that has it."""
    place = folder / slug(requirement)
    python = place / "bin" / "python"
    if not (place / READY).exists():
        shutil.rmtree(place, ignore_errors=True)
        venv.create(place, with_pip=True)
        _run([str(python), "-m", "pip", "install", "-q", requirement, *more], requirement)
        (place / READY).touch()
    return str(python)


def install_node(folder: Path, requirement: str) -> tuple[str, Path]:
    """The path of node, and the folder that has `node_modules`."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise NotInstalled("there is no node, or no npm")
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
