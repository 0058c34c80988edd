"""Servers for the commands of the pages."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.ports import free_port

__all__ = ["PATIENCE_S", "TASKMACHINE", "first_line_of", "served"]

TASKMACHINE: Final = str(Path(sys.executable).with_name("taskmachine"))
PATIENCE_S: Final = 60.0


@contextmanager
def served(folder: Path, *options: str) -> Iterator[str]:
    """Start a server and yield its address."""
    address = f"127.0.0.1:{free_port()}"
    with _running(
        folder, TASKMACHINE, "serve", "--http", address, "--log-level", "error", *options
    ) as server:
        assert server.stderr is not None
        assert address in server.stderr.readline()
        yield address


def first_line_of(folder: Path, *command: str) -> str:
    """Return the first line of a command on standard error."""
    with _running(folder, *command) as process:
        assert process.stderr is not None
        return process.stderr.readline().strip()


@contextmanager
def _running(folder: Path, *command: str) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        command,
        cwd=folder,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()
