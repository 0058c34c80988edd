"""Ends of tasks that a general stream has told, so that whoever comes back hears each once."""

import re
from collections import OrderedDict

import attrs

from taskmachine.adapters.transports.connection.following import REMEMBERED

__all__ = ["LastEvent", "ToldEnds"]


@attrs.frozen
class LastEvent:
    """Up to where a client knows a stream, which may be one of another process."""

    stream: str
    number: int

    @property
    def told_at(self) -> int | None:
        """When it was told on a general stream, by whatever process; None if it is of none."""
        begun = re.match(r"g([0-9]{1,15})-", self.stream)
        return None if begun is None else int(begun[1]) + self.number


class ToldEnds:
    """Of one session, in this process: the events that told them."""

    def __init__(self) -> None:
        self._events: OrderedDict[str, LastEvent] = OrderedDict()

    def add(self, task_id: str, event: LastEvent) -> None:
        """That event tells how that task has ended."""
        self._events[task_id] = event
        if len(self._events) > REMEMBERED:
            self._events.popitem(last=False)

    def is_known(self, task_id: str, stream: str, last: LastEvent | None) -> bool:
        """Whether a client that reads this stream, and knows `last`, need not be told again."""
        event = self._events.get(task_id)
        if event is None or event.stream == stream:
            return event is not None
        return last is not None and event.stream == last.stream and event.number <= last.number
