"""Long polling for the next version of a task, with a bound on waiting callers."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from starlette.types import Receive

from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.transports.http.disconnects import unless_gone
from taskmachine.statemachine import LimitExceeded, Task

__all__ = ["DEFAULT_MS", "LONGEST_MS", "WAITERS", "LongPolls", "decode_timeout"]

DEFAULT_MS: Final = 30_000
LONGEST_MS: Final = 60_000
WAITERS: Final = 100
"""Maximum number of waiting callers for each task in one process."""

_DIGITS: Final = re.compile(r"[0-9]+")  # `int` takes signs, spaces, underscores and more


def decode_timeout(values: Sequence[str]) -> float:
    """Return the `timeout` of a query in seconds, at most the longest; ValueError if malformed."""
    if not values:
        return DEFAULT_MS / 1_000
    [value] = values
    if not _DIGITS.fullmatch(value):
        raise ValueError(f"not a number of milliseconds: {value!r:.80}")
    digits = value.lstrip("0")
    # `int` raises for thousands of digits; such a timeout would be cut anyway.
    asked = LONGEST_MS if len(digits) > len(str(LONGEST_MS)) else int(digits or 0)
    return min(asked, LONGEST_MS) / 1_000


class LongPolls:
    """The waiting callers of one process."""

    def __init__(self, service: TaskService, waiters_per_task: int) -> None:
        self._service = service
        self._waiters_per_task = waiters_per_task
        self._waiting: Counter[str] = Counter()

    async def wait(self, owner: str, task: Task, timeout_s: float, receive: Receive) -> Task | None:
        """Return the next version, or the given one after the timeout, or None on a disconnect.

        `LimitExceeded` if too many callers wait, `NotFound` if the task is removed meanwhile.
        """
        if self._waiting[task.id] >= self._waiters_per_task:
            raise LimitExceeded(f"{self._waiters_per_task} waiting calls per task", 1_000)
        self._waiting[task.id] += 1
        try:
            change = self._service.wait(owner, task.id, after=task.version, timeout_s=timeout_s)
            return await unless_gone(receive, change)
        finally:
            self._waiting[task.id] -= 1
            if not self._waiting[task.id]:
                del self._waiting[task.id]
