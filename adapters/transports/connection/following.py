"""The tasks that a conversation follows, and those that its general stream reports.

A read of a database can return after a later version was committed and notified here, and a
notification can arrive after a read has returned a later version.  The requestor must see neither:
it would be asked an answered question again, or get the end of a task twice.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import attrs

from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.transports.connection.lookups import Lookups
from taskmachine.statemachine import NotFound, Task

__all__ = ["REMEMBERED", "Following"]

REMEMBERED: Final = 1_000
"""Maximum number of tasks of a conversation that its general stream reports once opened."""


@attrs.define(eq=False)
class _Followed:
    version: int
    """The newest version that was read or notified."""
    unfollow: Callable[[], None]


class Following:
    """The followed tasks of one conversation.

    `on_change` gets the id and each version of a followed task, and None when it is removed; never
    an older version after a newer one.
    """

    def __init__(
        self,
        service: TaskService,
        owner: str,
        on_change: Callable[[str, Task | None], None],
        lookups: Lookups | None,
    ) -> None:
        # OrderedDict: finding the first key of a dict slows down as keys are removed.
        self.live: OrderedDict[str, None] = OrderedDict()
        """The remembered tasks that have not ended, as far as is known."""
        self._service = service
        self._owner = owner
        self._on_change = on_change
        self._lookups = lookups
        self._known: OrderedDict[str, None] = OrderedDict()
        self._followed: dict[str, _Followed] = {}
        self._collections: list[dict[str, Task | None]] = []

    def remember(self, task: Task) -> None:
        """Report this task on the general stream once it is opened."""
        for tasks in (self._known, self.live) if task.is_live else (self._known,):
            tasks[task.id] = None
            if len(tasks) > REMEMBERED:
                tasks.popitem(last=False)

    def is_remembered(self, task_id: str) -> bool:
        """Return whether the general stream reports this task."""
        return task_id in self._known

    def begin(self, task_id: str, version: int = 0) -> None:
        """Follow a task from this version on, without reading it."""
        if task_id not in self._followed:
            unfollow = self._service.store.follow(task_id, partial(self._on_version, task_id))
            self._followed[task_id] = _Followed(version, unfollow)

    async def follow(self, task_id: str) -> Task:
        """Follow a task until it ends, and return its current state; `NotFound`."""
        self.begin(task_id)
        # Read after following, so that no change in between is missed.
        return await self.newest(self._service.get(self._owner, task_id))

    async def follow_all(self, task_ids: Sequence[str]) -> list[Task]:
        """Follow these tasks; return the current state of those that the owner has."""
        known: dict[str, Task] = {}
        with self._collected() as arrived:
            for task_id in task_ids:
                try:
                    if self._lookups is not None:
                        self._lookups.begin()
                    await self._service.get(self._owner, task_id)
                    known[task_id] = await self.follow(task_id)
                except NotFound:
                    if self._lookups is not None:
                        self._lookups.missed()
        # The first tasks may have changed while the last ones were read.
        newest = (arrived.get(task_id, task) for task_id, task in known.items())
        return [task for task in newest if task is not None]

    async def newest(self, reading: Awaitable[Task]) -> Task:
        """Return the task that is being read, or a newer version that arrives meanwhile.

        `NotFound` if it is removed meanwhile.
        """
        with self._collected() as arrived:
            task = await reading
            self._on_version(task.id, task)
        newest = arrived.get(task.id, task)
        if newest is None:
            raise NotFound(task.id)
        return newest

    def close(self) -> None:
        """Stop following all tasks."""
        for followed in self._followed.values():
            followed.unfollow()
        self._followed.clear()

    @contextmanager
    def _collected(self) -> Iterator[dict[str, Task | None]]:
        """Collect the newest version of each followed task that arrives within the block."""
        arrived: dict[str, Task | None] = {}
        self._collections.append(arrived)
        try:
            yield arrived
        finally:
            self._collections = [other for other in self._collections if other is not arrived]

    def _on_version(self, task_id: str, task: Task | None) -> None:
        followed = self._followed.get(task_id)
        if followed is None or (task is not None and task.version < followed.version):
            return
        if task is not None:
            followed.version = task.version
        for arrived in self._collections:
            arrived[task_id] = task
        self._on_change(task_id, task)
        if (task is None or not task.is_live) and self._followed.pop(task_id, None) is not None:
            followed.unfollow()
            self.live.pop(task_id, None)
