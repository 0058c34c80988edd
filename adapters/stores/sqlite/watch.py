"""Notify followers of commits by other processes to the same file.

SQLite has no notifications, but `PRAGMA data_version` changes when another connection commits.
While any task is followed, it is polled ten times a second on the writer's connection, where this
process's own commits do not change it, and in the order of the writes, so that no follower gets an
older version after a newer one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from taskmachine.adapters.stores import Follower, StoreError
from taskmachine.adapters.stores.followers import Followers
from taskmachine.adapters.stores.sqlite.operations import reread
from taskmachine.adapters.stores.sqlite.writer import Batch
from taskmachine.statemachine import State, Task

__all__ = ["Watch"]

INTERVAL_S: Final = 0.1

News = Mapping[str, Task | None]


class Watch:
    """Notifies followers of versions committed by this process or others.

    `load` reads a task immediately; `ask` runs a read of the database after all earlier writes.
    """

    def __init__(
        self,
        load: Callable[[str], Task | None],
        ask: Callable[[Callable[[Batch], News], Callable[[News], None]], Awaitable[News]],
    ) -> None:
        self._load = load
        self._ask = ask
        self._followers = Followers()
        self._known: dict[str, Task | None] = {}  # the last notified version of each followed task
        self._unseen: set[str] = set()  # followed since the last poll
        self._data_version = -1
        self._polling: asyncio.Task[None] | None = None

    def follow(self, task_id: str, follower: Follower) -> Callable[[], None]:
        """See `Store.follow`."""
        if task_id not in self._known:
            self._known[task_id] = self._load(task_id)
            # A poll in progress does not include this task, but will reset the data version.
            self._unseen.add(task_id)
        remove = self._followers.add(task_id, follower)

        def unfollow() -> None:
            remove()
            if task_id not in self._followers.by_task:
                self._known.pop(task_id, None)
                self._unseen.discard(task_id)

        if self._polling is None:
            self._polling = asyncio.get_running_loop().create_task(self._poll())
        return unfollow

    def notify(self, task: Task) -> None:
        """Notify followers of a version that this process committed."""
        if task.id in self._known:
            self._notify(task.id, None if task.state is State.REMOVED else task)

    def _notify(self, task_id: str, task: Task | None) -> None:
        if task_id in self._known:
            self._known[task_id] = task
            self._followers.notify(task_id, task)

    def close(self) -> None:
        if self._polling is not None:
            self._polling.cancel()

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_S)
            if not self._known:
                self._polling = None
                return
            versions = {
                task_id: 0 if task is None else task.version
                for task_id, task in self._known.items()
            }
            unseen, self._unseen = self._unseen, set()
            try:
                look = partial(self._look, versions=versions, unseen=unseen)
                await self._ask(look, self._notify_foreign)
            except StoreError:
                self._unseen |= unseen & self._known.keys()  # the next poll may succeed

    def _look(self, batch: Batch, versions: Mapping[str, int], unseen: set[str]) -> News:
        """Read changed versions, on the thread of the writer."""
        (data_version,) = batch.execute("PRAGMA data_version").fetchone()
        if data_version == self._data_version:
            versions = {task_id: versions[task_id] for task_id in unseen}
        news = reread(batch, versions)
        self._data_version = data_version  # only after the read has succeeded
        return news

    def _notify_foreign(self, news: News) -> None:
        for task_id, task in news.items():
            known = self._known.get(task_id)
            if known is None or task is None:
                is_news = known is not task
            else:
                is_news = task.version > known.version
            if is_news:
                self._notify(task_id, task)
