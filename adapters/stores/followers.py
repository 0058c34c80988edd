"""Callbacks for new versions of tasks inside one process."""

import logging
from collections.abc import Callable
from typing import Final

from taskmachine.adapters.stores import Follower
from taskmachine.statemachine import Task

__all__ = ["Followers"]

_logger: Final = logging.getLogger(__name__)


class Followers:
    """Callbacks by task.  To be used on the thread of the event loop only."""

    def __init__(self) -> None:
        self.by_task: dict[str, dict[object, Follower]] = {}
        """Contains only tasks that have a follower."""

    def add(self, task_id: str, follower: Follower) -> Callable[[], None]:
        """Add a follower; return a function that removes it and may be called twice."""
        token = object()
        self.by_task.setdefault(task_id, {})[token] = follower

        def remove() -> None:
            followers = self.by_task.get(task_id, {})
            followers.pop(token, None)
            if not followers:
                self.by_task.pop(task_id, None)

        return remove

    def notify(self, task_id: str, task: Task | None) -> None:
        """Call the followers of a task, which may add and remove followers meanwhile.

        An exception is only logged: the version is committed, and the remaining followers need it.
        """
        for token, follower in tuple(self.by_task.get(task_id, {}).items()):
            if token not in self.by_task.get(task_id, {}):
                continue  # an earlier follower has removed this one
            try:
                follower(task)
            except Exception:
                _logger.exception("a follower of task %s failed", task_id)
