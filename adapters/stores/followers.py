"""Who wants to know of new versions, inside one process."""

import logging
from collections.abc import Callable
from typing import Final

from taskmachine.adapters.stores import Follower
from taskmachine.statemachine import Task

__all__ = ["Followers"]

_logger: Final = logging.getLogger(__name__)


class Followers:
    """Callbacks by task.  Tell them on the thread of the event loop only."""

    def __init__(self) -> None:
        self.by_task: dict[str, dict[object, Follower]] = {}
        """Only of tasks that have a follower."""

    def add(self, task_id: str, follower: Follower) -> Callable[[], None]:
        """Returns what takes it out again; calling that twice does no harm."""
        token = object()
        self.by_task.setdefault(task_id, {})[token] = follower

        def leave() -> None:
            followers = self.by_task.get(task_id, {})
            followers.pop(token, None)
            if not followers:
                self.by_task.pop(task_id, None)

        return leave

    def tell(self, task_id: str, task: Task | None) -> None:
        """Call the followers of a task, which may come and go meanwhile.

        One that raises is logged: the version is committed, and the others need to learn of it.
        """
        for token, follower in tuple(self.by_task.get(task_id, {}).items()):
            if token not in self.by_task.get(task_id, {}):
                continue  # one that was told before it took this one out
            try:
                follower(task)
            except Exception:
                _logger.exception("a follower of task %s failed", task_id)
