"""Who wants to know of new versions, inside one process."""

import logging
from collections.abc import Callable, Iterable
from typing import Final

from taskmachine.adapters.stores import Follower
from taskmachine.statemachine import Task

__all__ = ["Followers"]

_logger: Final = logging.getLogger(__name__)


class Followers:
    """Callbacks by task.  Tell them on the thread of the event loop only."""

    def __init__(self) -> None:
        self._by_task: dict[str, dict[object, Follower]] = {}

    def add(self, task_id: str, follower: Follower) -> Callable[[], None]:
        """Returns what takes it out again; calling that twice does no harm."""
        token = object()
        self._by_task.setdefault(task_id, {})[token] = follower

        def leave() -> None:
            followers = self._by_task.get(task_id, {})
            followers.pop(token, None)
            if not followers:
                self._by_task.pop(task_id, None)

        return leave

    @property
    def task_ids(self) -> Iterable[str]:
        """The tasks that somebody follows."""
        return self._by_task.keys()

    def tell(self, task: Task) -> None:
        """Followers may come and go while they are told.

        One that raises is logged: what was committed is committed, and the others want to know.
        """
        if task.id not in self._by_task:
            return
        for token, follower in tuple(self._by_task[task.id].items()):
            if token not in self._by_task.get(task.id, {}):
                continue  # one that was told before it took this one out
            try:
                follower(task)
            except Exception:
                _logger.exception("a follower of task %s failed", task.id)
