"""How the followers of tasks learn what other processes have committed to the same file.

SQLite tells nobody, but it counts: `PRAGMA data_version` moves when another connection has
committed.  While anybody follows a task, that is looked at ten times a second; nobody follows,
nobody looks.  It is asked of the connection that writes, to which our own commits are no news,
and in the order of the writes, so that nobody is told an older version after a newer one.
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
    """Tells followers of what was committed, here or elsewhere.

    `load` reads a task at once; `ask` runs a look at the database after all writes before it.
    """

    def __init__(
        self,
        load: Callable[[str], Task | None],
        ask: Callable[[Callable[[Batch], News], Callable[[News], None]], Awaitable[News]],
    ) -> None:
        self._load = load
        self._ask = ask
        self._followers = Followers()
        self._known: dict[str, Task | None] = {}  # of each followed task: what was last told
        self._unseen: set[str] = set()  # followed since the last look
        self._data_version = -1
        self._polling: asyncio.Task[None] | None = None

    def follow(self, task_id: str, follower: Follower) -> Callable[[], None]:
        """See `Store.follow`."""
        if task_id not in self._known:
            self._known[task_id] = self._load(task_id)
            # A look may be under way that does not know of this one and swallows the change.
            self._unseen.add(task_id)
        leave_followers = self._followers.add(task_id, follower)

        def leave() -> None:
            leave_followers()
            if task_id not in self._followers.by_task:
                self._known.pop(task_id, None)
                self._unseen.discard(task_id)

        if self._polling is None:
            self._polling = asyncio.get_running_loop().create_task(self._poll())
        return leave

    def tell(self, task: Task) -> None:
        """Pass on a version that was committed here."""
        if task.id in self._known:
            self._tell(task.id, None if task.state is State.REMOVED else task)

    def _tell(self, task_id: str, task: Task | None) -> None:
        if task_id in self._known:
            self._known[task_id] = task
            self._followers.tell(task_id, task)

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
                await self._ask(look, self._tell_foreign)
            except StoreError:
                self._unseen |= unseen & self._known.keys()  # the next look may succeed

    def _look(self, batch: Batch, versions: Mapping[str, int], unseen: set[str]) -> News:
        """On the thread of the writer."""
        (data_version,) = batch.execute("PRAGMA data_version").fetchone()
        if data_version == self._data_version:
            versions = {task_id: versions[task_id] for task_id in unseen}
        news = reread(batch, versions)
        self._data_version = data_version  # not before: a look that failed has seen nothing
        return news

    def _tell_foreign(self, news: News) -> None:
        for task_id, task in news.items():
            known = self._known.get(task_id)
            if known is None or task is None:
                is_news = known is not task
            else:
                is_news = task.version > known.version
            if is_news:
                self._tell(task_id, task)
