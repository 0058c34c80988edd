"""The official peers in the versions of `pins.toml`, installed once and used again.

They live in `.peers/`, which git does not see; remove it to have them installed anew.
"""

import fcntl
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.oracle import REPOSITORY

__all__ = ["PINS", "Unavailable", "node_folder", "python_of"]

CACHE: Final = REPOSITORY / ".peers"
PINS: Final = tomllib.loads((Path(__file__).parent / "pins.toml").read_text())
_PATIENCE_S: Final = 240


class Unavailable(Exception):
    """A peer could not be installed, and why."""


@contextmanager
def _alone_with(name: str) -> Iterator[None]:
    """Several test runs want the same at the same time: one installs it, the others wait."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed
        yield


def node_folder(name: str) -> Path:
    """The folder with the `node_modules` of these packages; its node is in `.bin`."""
    with _alone_with(name):
        return _node_folder(name)


def _node_folder(name: str) -> Path:
    folder, pins = CACHE / name, [f"{k}@{v}" for k, v in PINS["npm"][name].items()]
    if _is_there(folder, pins):
        return folder
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable("there is no npm")
    folder.mkdir(parents=True)
    (folder / "package.json").write_text('{"private": true}')
    quiet = ["--loglevel=error", "--no-audit", "--no-fund", "--no-package-lock"]
    # Where nobody answers it would try for minutes, for each package.
    soon = ["--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"]
    return _install(folder, [npm, "install", "--prefix", str(folder), *quiet, *soon, *pins], pins)


def python_of(name: str) -> Path:
    """The interpreter of an environment with these packages; in any version if none is said."""
    pins = [f"{k}=={v}" if v else k for k, v in PINS["python"][name].items()]
    folder = CACHE / name
    python = folder / "bin" / "python"
    with _alone_with(name):
        if not _is_there(folder, pins):
            venv.create(folder, with_pip=True)
            _install(folder, [str(python), "-m", "pip", "install", "-q", *pins], pins)
    return python


def _is_there(folder: Path, pins: Sequence[str]) -> bool:
    """Whether these were installed to the end; what else is there is removed."""
    note = folder / "installed"
    if note.exists() and note.read_text().split() == list(pins):
        return True
    shutil.rmtree(folder, ignore_errors=True)
    return False


def _install(folder: Path, command: Sequence[str], pins: Sequence[str]) -> Path:
    print("installing", *pins, file=sys.stderr, flush=True)
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{' '.join(pins)}: not installed in {_PATIENCE_S} s") from None
    except subprocess.CalledProcessError as error:
        said = [line for line in error.stderr.decode().splitlines() if "error" in line.lower()]
        words = " ".join([line for line in said if "log of this run" not in line][-2:])
        raise Unavailable(f"{' '.join(pins)}: {words[:300] or 'no reason given'}") from None
    (folder / "installed").write_text("\n".join(pins))
    return folder
