"""Whether processes have ended that others started."""

import time
from pathlib import Path
from typing import Final

__all__ = ["assert_gone", "is_alive"]

WITHIN_S: Final = 10.0


def is_alive(pid: int) -> bool:
    """A child of a child may be dead and not buried yet."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def assert_gone(*pids: int) -> None:
    """Wait until a killed process has exited."""
    deadline = time.monotonic() + WITHIN_S
    while left := [pid for pid in pids if is_alive(pid)]:
        assert time.monotonic() < deadline, f"{left} still live"
        time.sleep(0.01)
