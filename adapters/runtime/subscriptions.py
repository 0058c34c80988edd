"""Subscriptions to changes of tasks, with a bounded buffer for each subscriber.

A slow subscriber loses the oldest versions, which `dropped` counts; the task itself can always be
read.  Other subscribers are not slowed down, and memory stays bounded.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial

from taskmachine.adapters.runtime.service import TaskService
from taskmachine.statemachine import LimitExceeded, NotFound, Task

__all__ = ["Subscription", "Subscriptions"]


class Subscription:
    """New versions of some tasks, in the order in which they arrived.

    Iterate it, or call `drain`.  It ends when all its tasks have ended, by `close`, or if it is
    not read for an hour.
    """

    def __init__(
        self, owner: str, known: Sequence[Task], buffer: int, on_drop: Callable[[], None]
    ) -> None:
        self.owner = owner
        self.known = known
        """The tasks of this owner, as they were when the subscription began."""
        self.dropped = 0
        self.is_closed = False
        self.read_at = asyncio.get_running_loop().time()
        self._live = {task.id for task in known if task.is_live}
        self._versions = {task.id: task.version for task in known}
        self._buffer: deque[Task] = deque(maxlen=buffer)
        self._changed = asyncio.Event()
        self._on_close: list[Callable[[], None]] = []
        self._on_drop = on_drop

    def on_version(self, task_id: str, task: Task | None) -> None:
        """Add a new version, or None for a removed task; outdated versions are ignored."""
        if task_id not in self._live:
            return
        if task is not None:
            if task.version <= self._versions[task_id]:
                return
            self._versions[task_id] = task.version
            if len(self._buffer) == self._buffer.maxlen:
                self.dropped += 1
                self._on_drop()
            self._buffer.append(task)
        if task is None or not task.is_live:
            self._live.discard(task_id)
        self._changed.set()

    def drain(self, limit: int) -> list[Task]:
        """Remove and return up to `limit` versions, oldest first."""
        self.read_at = asyncio.get_running_loop().time()
        return [self._buffer.popleft() for _ in range(min(limit, len(self._buffer)))]

    async def __aiter__(self) -> AsyncIterator[Task]:
        while True:
            self._changed.clear()
            while self._buffer and not self.is_closed:
                yield self.drain(1)[0]
            if self.is_closed or not self._live:
                return
            if not self._changed.is_set():
                await self._changed.wait()

    def on_close(self, act: Callable[[], None]) -> None:
        """Call `act` when the subscription is closed."""
        self._on_close.append(act)

    def close(self) -> None:
        """Stop following the tasks and end any iteration."""
        self.is_closed = True
        self._changed.set()
        for act in self._on_close:
            act()


class Subscriptions:
    """All subscriptions of one process."""

    def __init__(self, service: TaskService) -> None:
        self._service = service
        self._open: set[Subscription] = set()
        self._count: Counter[str] = Counter()

    async def subscribe(self, owner: str, task_ids: Iterable[str]) -> Subscription:
        """Subscribe to those of the tasks that belong to this owner; ignore the rest.

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
        subscription: Subscription | None = None

        def on_version(task_id: str, task: Task | None) -> None:
            if subscription is None:
                early.append((task_id, task))
            else:
                subscription.on_version(task_id, task)

        unfollow: list[Callable[[], None]] = []
        known = []
        try:
            for task_id in wanted:
                try:
                    # Follow before the final read, to miss no version; but only the owner's tasks.
                    await self._service.get(owner, task_id)
                    follower = partial(on_version, task_id)
                    unfollow.append(self._service.store.follow(task_id, follower))
                    known.append(await self._service.get(owner, task_id))
                except NotFound:
                    continue
        except BaseException:
            self._forget(owner)
            for act in unfollow:
                act()
            raise
        subscription = Subscription(owner, known, limits.buffer, self._service.dropped)
        for act in unfollow:
            subscription.on_close(act)
        subscription.on_close(partial(self._closed, subscription))
        self._open.add(subscription)
        for task_id, task in early:
            subscription.on_version(task_id, task)
        return subscription

    def close_idle(self) -> float:
        """Close subscriptions that are not read; return the pause until the next check."""
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
