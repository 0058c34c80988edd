"""Checks that processes have ended which are not children of the test."""

import time
from pathlib import Path
from typing import Final

__all__ = ["assert_gone", "is_alive"]

WITHIN_S: Final = 10.0


def is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def assert_gone(*pids: int) -> None:
    """Wait for the end of processes that were killed."""
    deadline = time.monotonic() + WITHIN_S
    while left := [pid for pid in pids if is_alive(pid)]:
        assert time.monotonic() < deadline, f"still running: {left}"
        time.sleep(0.01)
