"""Identify worker processes and check whether they are alive."""

import os
import socket
from pathlib import Path

from taskmachine.adapters.stores import Worker

__all__ = ["host", "is_dead"]


def host() -> str:
    """Return a name for the scope of process ids: boot id and pid namespace.

    Two containers on one machine use the same process ids for different processes.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:  # not Linux
        return socket.gethostname()


def is_dead(worker: Worker) -> bool:
    """Return True if the worker's process is certainly dead; False if on another host."""
    if worker.host != host():
        return False
    try:
        os.kill(worker.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # alive, but owned by another user
        return False
    return _is_zombie(worker.pid)


def _is_zombie(pid: int) -> bool:
    """Return True if the process is dead but was not reaped, which is common in containers."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:  # not Linux
        return False
    return status.rpartition(b")")[2].split()[0] == b"Z"  # the name may contain parentheses
