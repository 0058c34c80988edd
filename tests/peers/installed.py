"""The official peers in the versions of `pins.toml`, installed once and reused.

They are in `.peers/`, which git ignores; remove it to reinstall them.
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
    """A peer could not be installed, with the reason."""


@contextmanager
def _alone_with(name: str) -> Iterator[None]:
    """Lock an environment: one test run installs it, and concurrent runs wait."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # released on close
        yield


def node_folder(name: str) -> Path:
    """Return the folder with the `node_modules` of these packages; its node is in `.bin`."""
    with _alone_with(name):
        return _node_folder(name)


def _node_folder(name: str) -> Path:
    folder, pins = CACHE / name, [f"{k}@{v}" for k, v in PINS["npm"][name].items()]
    if _is_there(folder, pins):
        return folder
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable("npm is not installed")
    folder.mkdir(parents=True)
    (folder / "package.json").write_text('{"private": true}')
    quiet = ["--loglevel=error", "--no-audit", "--no-fund", "--no-package-lock"]
    # Without network access, npm would retry for minutes per package.
    soon = ["--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=5000"]
    return _install(folder, [npm, "install", "--prefix", str(folder), *quiet, *soon, *pins], pins)


def python_of(name: str) -> Path:
    """Return the interpreter of an environment with these packages; some are unpinned."""
    pins = [f"{k}=={v}" if v else k for k, v in PINS["python"][name].items()]
    folder = CACHE / name
    python = folder / "bin" / "python"
    with _alone_with(name):
        if not _is_there(folder, pins):
            venv.create(folder, with_pip=True)
            _install(folder, [str(python), "-m", "pip", "install", "-q", *pins], pins)
    return python


def _is_there(folder: Path, pins: Sequence[str]) -> bool:
    """Return whether the installation is complete; remove an incomplete one."""
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
