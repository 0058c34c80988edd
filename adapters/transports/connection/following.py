"""The tasks that a conversation follows, and those that its general stream reports."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from taskmachine.adapters.runtime.service import TaskService
from taskmachine.statemachine import Task

__all__ = ["REMEMBERED", "Following"]

REMEMBERED: Final = 1_000
"""Maximum number of tasks of a conversation that its general stream reports once opened."""


class Following:
    """The followed tasks of one conversation.

    `on_change` gets the id and each version of a followed task, and None when it is removed.
    """

    def __init__(
        self, service: TaskService, owner: str, on_change: Callable[[str, Task | None], None]
    ) -> None:
        # OrderedDict: finding the first key of a dict slows down as keys are removed.
        self.live: OrderedDict[str, None] = OrderedDict()
        """The remembered tasks that have not ended, as far as is known."""
        self._service = service
        self._owner = owner
        self._on_change = on_change
        self._known: OrderedDict[str, None] = OrderedDict()
        self._unfollow: dict[str, Callable[[], None]] = {}
        self._current: list[dict[str, Task]] = []

    def remember(self, task: Task) -> None:
        """Report this task on the general stream once it is opened."""
        for tasks in (self._known, self.live) if task.is_live else (self._known,):
            tasks[task.id] = None
            if len(tasks) > REMEMBERED:
                tasks.popitem(last=False)

    def is_remembered(self, task_id: str) -> bool:
        """Return whether the general stream reports this task."""
        return task_id in self._known

    def begin(self, task_id: str) -> None:
        """Follow a task without reading it."""
        if task_id not in self._unfollow:
            on_version = partial(self._on_version, task_id)
            self._unfollow[task_id] = self._service.store.follow(task_id, on_version)

    async def follow(self, task_id: str) -> Task:
        """Follow a task until it ends, and return its current state; `NotFound`."""
        self.begin(task_id)
        # Read after following, so that no change in between is missed.
        task = await self._service.get(self._owner, task_id)
        self._on_version(task_id, task)
        return task

    @contextmanager
    def current(self) -> Iterator[dict[str, Task]]:
        """Keep the followed tasks that the caller puts in the dict up to date within the block.

        So no change of the first task is missed while the last one is read.
        """
        tasks: dict[str, Task] = {}
        self._current.append(tasks)
        try:
            yield tasks
        finally:
            self._current = [other for other in self._current if other is not tasks]

    def close(self) -> None:
        """Stop following all tasks."""
        for unfollow in self._unfollow.values():
            unfollow()
        self._unfollow.clear()

    def _on_version(self, task_id: str, task: Task | None) -> None:
        for tasks in self._current:
            if task is None:
                tasks.pop(task_id, None)
            elif task_id in tasks and tasks[task_id].version < task.version:
                tasks[task_id] = task
        self._on_change(task_id, task)
        if (task is None or not task.is_live) and task_id in self._unfollow:
            self._unfollow.pop(task_id)()
            self.live.pop(task_id, None)
