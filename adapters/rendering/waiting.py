"""What a task waits for that no worker may claim yet, in plain words."""

import re
from collections.abc import Callable
from typing import Final

from taskmachine.adapters.rendering.values import moment
from taskmachine.protocol.timestamps import encode_timestamp
from taskmachine.statemachine import Task

__all__ = ["short_time", "waiting_text"]


def waiting_text(task: Task, write: Callable[[int], str]) -> str | None:
    """Return `sleeps until ...`, `attempt 2 of 6 from ...` or `starts at ...`; else None.

    `write` formats the time.
    """
    if task.due_at is None or not task.is_queued:
        return None
    at = write(task.due_at)
    if not task.fence:
        return f"starts at {at}"
    # A retry sets this message.  A sleep leaves it, with the time of an earlier retry.
    due = re.escape(encode_timestamp(task.due_at))
    failed = rf"Attempt {task.failures} of (\d+) failed.*; the next one begins at {due}\."
    retry = re.fullmatch(failed, task.message or "", re.DOTALL)
    if retry is None:
        return f"sleeps until {at}"
    return f"attempt {task.failures + 1} of {retry[1]} from {at}"


def short_time(milliseconds: int, now: int) -> str:
    """Return the time in UTC, with the date if it is a day or more away."""
    when = moment(milliseconds)
    return f"{when:%H:%M:%S}" if abs(milliseconds - now) < _DAY_MS else f"{when:%Y-%m-%d %H:%M}"


_DAY_MS: Final = 24 * 3_600_000
