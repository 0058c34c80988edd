"""How long things last: pure arithmetic over the record, in milliseconds."""

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
    """What is granted.  The defaults are the promised ones."""

    default_ttl_ms: int = _HOUR
    max_ttl_ms: int = 7 * 24 * _HOUR
    grace_ms: int = 60 * _SECOND
    """What remains after the longest possible leg of work, and after an expiry."""
    timeout_ms: int = 300 * _SECOND
    retention_ms: Mapping[State, int] = attrs.field(
        factory=lambda: {
            State.COMPLETED: 24 * _HOUR,
            State.FAILED: 24 * _HOUR,
            State.CANCELLED: _HOUR,
        }
    )
    """How long after its end a task is kept if nobody chose a ttl."""

    def ttl(self, asked_ms: int | None) -> int:
        """The ttl of a new task: what was asked for, up to the longest."""
        return self.default_ttl_ms if asked_ms is None else min(asked_ms, self.max_ttl_ms)

    def to_work(self, task: Task, now: int) -> int:
        """Work within its timeout is never killed by a ttl."""
        return now + task.timeout_ms + self.grace_ms

    def to_read(self, task: Task, now: int, end: State) -> int | None:
        """How long a task that ends now is kept; None if its ttl says so already."""
        return None if task.is_ttl_chosen else now + self.retention_ms[end]

    def to_read_expired(self, now: int) -> int:
        """An expired task says so for a while before it is forgotten."""
        return now + self.grace_ms
