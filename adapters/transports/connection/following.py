"""The tasks that a conversation hears of, and those that its requestor is told of unasked."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Final

from taskmachine.adapters.runtime.service import TaskService
from taskmachine.statemachine import Task

__all__ = ["REMEMBERED", "Following"]

REMEMBERED: Final = 1_000
"""Tasks of a conversation that its general stream, once there, is told of."""


class Following:
    """The followed tasks of one conversation.

    `tell` is called with the id and each version of a followed task, and with None when it is gone.
    """

    def __init__(
        self, service: TaskService, owner: str, tell: Callable[[str, Task | None], None]
    ) -> None:
        # Ordered, as the oldest are forgotten: in a dict what is first is found ever more slowly.
        self.made: OrderedDict[str, None] = OrderedDict()
        """Those of the remembered tasks that may still have something to tell."""
        self._service = service
        self._owner = owner
        self._tell = tell
        self._known: OrderedDict[str, None] = OrderedDict()
        self._leaves: dict[str, Callable[[], None]] = {}
        self._current: list[dict[str, Task]] = []

    def remember(self, task: Task) -> None:
        """The general stream, once there, is told of this task, and by nobody else."""
        for tasks in (self._known, self.made) if task.is_live else (self._known,):
            tasks[task.id] = None
            if len(tasks) > REMEMBERED:
                tasks.popitem(last=False)

    def knows(self, task_id: str) -> bool:
        """Whether that one is remembered."""
        return task_id in self._known

    def begin(self, task_id: str) -> None:
        """Hear of what is committed to a task from now on."""
        if task_id not in self._leaves:
            hear = partial(self._hear, task_id)
            self._leaves[task_id] = self._service.store.follow(task_id, hear)

    async def follow(self, task_id: str) -> Task:
        """Hear of a task from now on, until it has ended; as it is.  `NotFound`."""
        self.begin(task_id)
        # Read after following: what happened in between is not missed.
        task = await self._service.get(self._owner, task_id)
        self._hear(task_id, task)
        return task

    @contextmanager
    def current(self) -> Iterator[dict[str, Task]]:
        """Followed tasks that are put there by their ids are always as they are, in this block.

        So what happens to the first while the last is read is not missed.
        """
        tasks: dict[str, Task] = {}
        self._current.append(tasks)
        try:
            yield tasks
        finally:
            self._current = [other for other in self._current if other is not tasks]

    def close(self) -> None:
        """Hear of nothing any more."""
        for leave in self._leaves.values():
            leave()
        self._leaves.clear()

    def _hear(self, task_id: str, task: Task | None) -> None:
        for tasks in self._current:
            if task is None:
                tasks.pop(task_id, None)
            elif task_id in tasks and tasks[task_id].version < task.version:
                tasks[task_id] = task
        self._tell(task_id, task)
        if (task is None or not task.is_live) and task_id in self._leaves:
            self._leaves.pop(task_id)()
            self.made.pop(task_id, None)
