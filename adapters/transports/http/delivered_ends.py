"""Track which terminal notifications a session's general stream has delivered.

A reconnecting client receives each of them once.
"""

import re
from collections import OrderedDict

import attrs

from taskmachine.adapters.transports.connection.following import REMEMBERED

__all__ = ["DeliveredEnds", "LastEvent"]


@attrs.frozen
class LastEvent:
    """The last event of a stream that a client received, perhaps from another process."""

    stream: str
    number: int

    @property
    def sent_at(self) -> int | None:
        """When a general stream sent it; None if another kind of stream did."""
        begun = re.match(r"g([0-9]{1,15})-", self.stream)
        return None if begun is None else int(begun[1]) + self.number


class DeliveredEnds:
    """The terminal notifications that this process sent for one session."""

    def __init__(self) -> None:
        self._events: OrderedDict[str, LastEvent] = OrderedDict()

    def add(self, task_id: str, event: LastEvent) -> None:
        """Record the event that reported the end of a task."""
        self._events[task_id] = event
        if len(self._events) > REMEMBERED:
            self._events.popitem(last=False)

    def has_delivered(self, task_id: str, stream: str, last: LastEvent | None) -> bool:
        """Return whether a client that reads `stream`, and has received `last`, has it."""
        event = self._events.get(task_id)
        if event is None or event.stream == stream:
            return event is not None
        return last is not None and event.stream == last.stream and event.number <= last.number
