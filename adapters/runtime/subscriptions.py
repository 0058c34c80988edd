"""Being told of changes: one bounded buffer for each subscriber.

A subscriber that reads slowly loses the oldest news, and is told how many; the task itself can
always be read.  Nobody else is slowed down, and memory stays bounded.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial

from taskmachine.adapters.runtime.service import TaskService
from taskmachine.statemachine import LimitExceeded, NotFound, Task

__all__ = ["Subscription", "Subscriptions"]


class Subscription:
    """New versions of some tasks, in the order in which they became known.

    Iterate, or `drain` now and then.  It ends when all its tasks have ended, by `close`, or if
    nobody reads it for an hour.
    """

    def __init__(
        self, owner: str, known: Sequence[Task], buffer: int, on_drop: Callable[[], None]
    ) -> None:
        self.owner = owner
        self.known = known
        """The tasks that existed for this owner, as they were when it began."""
        self.dropped = 0
        self.is_closed = False
        self.read_at = asyncio.get_running_loop().time()
        self._live = {task.id for task in known if task.is_live}
        self._versions = {task.id: task.version for task in known}
        self._news: deque[Task] = deque(maxlen=buffer)
        self._changed = asyncio.Event()
        self._leaves: list[Callable[[], None]] = []
        self._on_drop = on_drop

    def hear(self, task_id: str, task: Task | None) -> None:
        """Take in a new version, or None for a task that is gone; older ones are dropped."""
        if task_id not in self._live:
            return
        if task is not None:
            if task.version <= self._versions[task_id]:
                return
            self._versions[task_id] = task.version
            if len(self._news) == self._news.maxlen:
                self.dropped += 1
                self._on_drop()
            self._news.append(task)
        if task is None or not task.is_live:
            self._live.discard(task_id)
        self._changed.set()

    def drain(self, limit: int) -> list[Task]:
        """Take up to so many, oldest first."""
        self.read_at = asyncio.get_running_loop().time()
        return [self._news.popleft() for _ in range(min(limit, len(self._news)))]

    async def __aiter__(self) -> AsyncIterator[Task]:
        while True:
            self._changed.clear()
            while self._news and not self.is_closed:
                yield self.drain(1)[0]
            if self.is_closed or not self._live:
                return
            if not self._changed.is_set():
                await self._changed.wait()

    def leave_by(self, leave: Callable[[], None]) -> None:
        self._leaves.append(leave)

    def close(self) -> None:
        """Hear no more; whoever iterates is done."""
        self.is_closed = True
        self._changed.set()
        for leave in self._leaves:
            leave()


class Subscriptions:
    """All subscribers of one process."""

    def __init__(self, service: TaskService) -> None:
        self._service = service
        self._open: set[Subscription] = set()
        self._count: Counter[str] = Counter()

    async def subscribe(self, owner: str, task_ids: Iterable[str]) -> Subscription:
        """Hear of those of the tasks that exist for this owner; the others are not mentioned.

        `LimitExceeded` for too many tasks or subscriptions.
        """
        wanted = list(dict.fromkeys(task_ids))
        limits = self._service.limits
        if len(wanted) > limits.watched:
            raise LimitExceeded(f"{limits.watched} tasks of one subscription", 0)
        if self._count[owner] >= limits.subscriptions:
            raise LimitExceeded(f"{limits.subscriptions} subscriptions", 1_000)
        self._count[owner] += 1
        early: list[tuple[str, Task | None]] = []
        hear: list[Callable[[str, Task | None], None]] = [lambda *news: early.append(news)]
        leaves = []
        known = []
        try:
            for task_id in wanted:
                try:
                    # Followed first, so that nothing happens unheard; but only one's own.
                    await self._service.get(owner, task_id)
                    follower = partial(lambda *news: hear[0](*news), task_id)
                    leaves.append(self._service.store.follow(task_id, follower))
                    known.append(await self._service.get(owner, task_id))
                except NotFound:
                    continue
        except BaseException:
            self._forget(owner)
            for leave in leaves:
                leave()
            raise
        subscription = Subscription(owner, known, limits.buffer, self._service.dropped)
        for leave in leaves:
            subscription.leave_by(leave)
        subscription.leave_by(lambda: self._closed(subscription))
        self._open.add(subscription)
        hear[0] = subscription.hear
        for task_id, task in early:
            subscription.hear(task_id, task)
        return subscription

    def close_idle(self) -> float:
        """Close those that nobody reads; when to look again."""
        idle_s = self._service.limits.idle_s
        now = asyncio.get_running_loop().time()
        for subscription in list(self._open):
            if now - subscription.read_at >= idle_s:
                subscription.close()
        return idle_s / 10

    def _closed(self, subscription: Subscription) -> None:
        if subscription in self._open:
            self._open.remove(subscription)
            self._forget(subscription.owner)

    def _forget(self, owner: str) -> None:
        self._count[owner] -= 1
        if not self._count[owner]:
            del self._count[owner]
