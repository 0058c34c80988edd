"""Time limits of tasks: pure arithmetic over the task record, in milliseconds."""

from collections.abc import Mapping
from typing import Final

import attrs

from taskmachine.statemachine.table import State
from taskmachine.statemachine.task import Task

__all__ = ["Times"]

_SECOND: Final = 1_000
_HOUR: Final = 3_600 * _SECOND


@attrs.frozen
class Times:
    """Time limits of a server.  The defaults are the documented ones."""

    default_ttl_ms: int = _HOUR
    max_ttl_ms: int = 7 * 24 * _HOUR
    grace_ms: int = 60 * _SECOND
    """Time kept in reserve after the longest possible tool run, and after an expiry."""
    timeout_ms: int = 300 * _SECOND
    retention_ms: Mapping[State, int] = attrs.field(
        factory=lambda: {
            State.COMPLETED: 24 * _HOUR,
            State.FAILED: 24 * _HOUR,
            State.CANCELLED: _HOUR,
        }
    )
    """How long a finished task is kept if its requestor chose no ttl."""

    def ttl(self, asked_ms: int | None) -> int:
        """Return the ttl of a new task: the requested one, limited to `max_ttl_ms`."""
        return self.default_ttl_ms if asked_ms is None else min(asked_ms, self.max_ttl_ms)

    def to_work(self, task: Task, now: int) -> int:
        """Return the time before which the ttl must not end a tool run that starts now."""
        return now + task.timeout_ms + self.grace_ms

    def to_read(self, task: Task, now: int, end: State) -> int | None:
        """Return until when a task that ends now is kept; None if its requestor chose a ttl."""
        return None if task.is_ttl_chosen else now + self.retention_ms[end]

    def to_read_expired(self, now: int) -> int:
        """Return until when a task that expires now stays readable."""
        return now + self.grace_ms
