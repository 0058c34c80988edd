"""Which process is which, and whether it still lives."""

import os
import socket
from pathlib import Path

from taskmachine.adapters.stores import Worker

__all__ = ["host", "is_dead"]


def host() -> str:
    """Names the place in which a process number means something: boot and pid namespace.

    Two containers on one machine see different processes under the same numbers.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:  # not Linux
        return socket.gethostname()


def is_dead(worker: Worker) -> bool:
    """Whether the process of a worker is certainly gone; only the same host can tell."""
    if worker.host != host():
        return False
    try:
        os.kill(worker.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:  # it lives, and belongs to somebody else
        return False
    return _is_zombie(worker.pid)


def _is_zombie(pid: int) -> bool:
    """Dead, and its parent has not asked yet: common in containers."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:  # not Linux
        return False
    return status.rpartition(b")")[2].split()[0] == b"Z"  # the name before may hold anything
