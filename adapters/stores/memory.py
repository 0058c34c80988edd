"""A store in the memory of this process.

Ordered indexes keep the cost of a read independent of the number of tasks.
"""

import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

import attrs
from sortedcontainers import SortedList

from taskmachine.adapters.stores import (
    Caps,
    Conflict,
    Follower,
    KeptSession,
    StoreError,
    Totals,
    Worker,
    check_caps,
    check_sessions,
    is_kept,
)
from taskmachine.adapters.stores.followers import Followers
from taskmachine.adapters.stores.records import Columns, columns_of
from taskmachine.protocol.sealing import Position
from taskmachine.statemachine import ConfigurationError, Entry, State, Task

__all__ = ["MemoryStore", "open_memory"]

_When = tuple[int, str]
"""A time, and the id of a task or the key of a session: unique and sorted by time."""

_ABSENT: Final[Columns] = 0, None, None, None, 0


async def open_memory(url: str) -> "MemoryStore":
    """Return a new, empty store; each call opens a separate one."""
    if url != "memory:":
        raise ConfigurationError(f"'{url}' is not the URL of a store: use exactly 'memory:'")
    return MemoryStore(secrets.token_bytes(32))


class MemoryStore:
    """A store of dicts and sorted lists.  Nothing is awaited, so every method is atomic."""

    kind = "memory"

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._is_open = True
        self._tasks: dict[str, Task] = {}
        self._histories: dict[str, list[Entry]] = {}
        self._keys: dict[tuple[str | None, ...], str] = {}
        self._created: SortedList[_When] = SortedList()
        self._created_by: dict[str, SortedList[_When]] = {}
        self._live_until: SortedList[_When] = SortedList()
        self._kept_until: SortedList[_When] = SortedList()
        self._live = 0
        self._waiting = 0
        self._live_of: dict[str, int] = {}
        self._queue: SortedList[_When] = SortedList()
        self._held: dict[str, dict[str, None]] = {}
        self._workers: dict[str, Worker] = {}
        self._messages: dict[str, deque[bytes]] = {}
        self._sessions: dict[str, KeptSession] = {}
        self._sessions_until: SortedList[_When] = SortedList()
        self._followers = Followers()

    async def create(self, task: Task, entries: Sequence[Entry], caps: Caps) -> Task:
        self._check_open()
        known = self._keys.get(_key(task)) if task.call.key is not None else None
        if known is not None:
            return self._tasks[known]
        owned = self._created_by.get(task.owner, ())
        check_caps(caps, self._live_of.get(task.owner, 0), self._live, len(owned), len(self._tasks))
        await self.adopt(task, entries)
        return task

    async def load(self, task_id: str) -> Task | None:
        self._check_open()
        return self._tasks.get(task_id)

    async def commit(self, task: Task, entries: Sequence[Entry], expected: int) -> None:
        self._check_open()
        stored = self._tasks.get(task.id)
        if stored is None or stored.version != expected:
            raise Conflict(f"task {task.id} is not at version {expected}")
        if task.state is State.REMOVED:
            self._index(stored, stored, None)
            self._forget(stored)
            self._followers.notify(task.id, None)
        else:
            self._tasks[task.id] = task
            self._histories[task.id] += filter(is_kept, entries)
            self._index(task, stored, task)
            self._followers.notify(task.id, task)

    def follow(self, task_id: str, follower: Follower) -> Callable[[], None]:
        self._check_open()
        return self._followers.add(task_id, follower)

    async def page(self, owner: str, after: Position | None, limit: int) -> Sequence[Task]:
        return self._newest(self._created_by.get(owner), after, limit)

    async def browse(self, after: Position | None, limit: int) -> Sequence[Task]:
        return self._newest(self._created, after, limit)

    async def queued(self, now: int, limit: int) -> Sequence[Task]:
        return self._until(self._queue, now, limit)

    async def due(self, now: int, limit: int) -> Sequence[Task]:
        return self._some(_due(self._queue, now, since=0), limit)

    async def held(self, worker: str, limit: int) -> Sequence[Task]:
        return self._some(self._held.get(worker, ()), limit)

    async def orphans(self, limit: int) -> Sequence[Task]:
        gone = (held for worker, held in self._held.items() if worker not in self._workers)
        return self._some((task_id for held in gone for task_id in held), limit)

    async def overdue(self, now: int, limit: int) -> Sequence[Task]:
        return self._until(self._live_until, now, limit)

    async def forgettable(self, now: int, limit: int) -> Sequence[Task]:
        return self._until(self._kept_until, now, limit)

    async def totals(self) -> Totals:
        self._check_open()
        return Totals(self._live, self._waiting, len(self._tasks))

    async def history(self, task_id: str) -> Sequence[Entry]:
        self._check_open()
        return tuple(self._histories.get(task_id, ()))

    async def register_worker(self, worker: Worker) -> None:
        self._check_open()
        self._workers[worker.id] = worker

    async def beat(self, worker_id: str) -> bool:
        self._check_open()
        worker = self._workers.get(worker_id)
        if worker is not None:
            self._workers[worker_id] = attrs.evolve(worker, beat=worker.beat + 1)
        return worker is not None

    async def remove_worker(self, worker_id: str) -> None:
        self._check_open()
        self._workers.pop(worker_id, None)

    async def workers(self) -> Sequence[Worker]:
        self._check_open()
        return tuple(self._workers.values())

    async def enqueue(self, task_id: str, message: bytes, maximum: int) -> int:
        self._check_open()
        if task_id not in self._tasks:
            return 0
        messages = self._messages.setdefault(task_id, deque())
        messages.append(message)
        dropped = max(0, len(messages) - maximum)
        for _ in range(dropped):
            messages.popleft()
        return dropped

    async def dequeue(self, task_id: str, limit: int) -> Sequence[bytes]:
        self._check_open()
        messages = self._messages.get(task_id, deque())
        return [messages.popleft() for _ in range(min(limit, len(messages)))]

    async def keep_session(self, session: KeptSession, maximum: int) -> None:
        self._check_open()
        before = self._sessions.get(session.key)
        if before is None:
            check_sessions(len(self._sessions), maximum)
        else:
            self._sessions_until.remove((before.until, session.key))
        self._sessions[session.key] = session
        self._sessions_until.add((session.until, session.key))

    async def session(self, key: str) -> KeptSession | None:
        self._check_open()
        return self._sessions.get(key)

    async def end_session(self, key: str) -> None:
        self._check_open()
        session = self._sessions.pop(key, None)
        if session is not None:
            self._sessions_until.remove((session.until, key))

    async def forget_sessions(self, now: int, limit: int) -> int:
        self._check_open()
        keys = [*islice(_due(self._sessions_until, now), limit)]
        for key in keys:
            await self.end_session(key)
        return len(keys)

    async def secret(self) -> bytes:
        self._check_open()
        return self._secret

    async def adopt_secret(self, secret: bytes) -> None:
        self._check_open()
        if self._tasks:
            raise Conflict("there are tasks already")
        self._secret = secret

    async def export(self) -> AsyncIterator[tuple[Task, Sequence[Entry]]]:
        for task_id in tuple(self._tasks):
            self._check_open()
            task = self._tasks.get(task_id)
            if task is not None:  # it may be deleted during the export
                yield task, tuple(self._histories[task_id])

    async def adopt(self, task: Task, entries: Sequence[Entry]) -> None:
        self._check_open()
        if task.id in self._tasks:
            raise Conflict(f"task {task.id} exists already")
        if task.call.key is not None and _key(task) in self._keys:
            raise Conflict(f"the key of task {task.id} is in use")
        self._tasks[task.id] = task
        self._histories[task.id] = [*filter(is_kept, entries)]
        if task.call.key is not None:
            self._keys[_key(task)] = task.id
        when = task.created_at, task.id
        self._created.add(when)
        self._created_by.setdefault(task.owner, SortedList()).add(when)
        self._index(task, None, task)
        self._followers.notify(task.id, task)

    async def close(self) -> None:
        self._is_open = False

    # --- the indexes -------------------------------------------------------------------------

    def _index(self, task: Task, before: Task | None, after: Task | None) -> None:
        """Update the indexes of columns that changed."""
        was = _ABSENT if before is None else columns_of(before)
        now = _ABSENT if after is None else columns_of(after)
        was_live, was_due, was_queued_at, had, was_waiting = was
        is_live, is_due, queued_at, has, is_waiting = now
        self._waiting += is_waiting - was_waiting
        if is_live != was_live:
            self._count_live(task.owner, is_live - was_live)
        if is_live != was_live or is_due != was_due:
            if was_due is not None:
                (self._live_until if was_live else self._kept_until).remove((was_due, task.id))
            if is_due is not None:
                (self._live_until if is_live else self._kept_until).add((is_due, task.id))
        if queued_at != was_queued_at:
            if was_queued_at is not None:
                self._queue.remove((was_queued_at, task.id))
            if queued_at is not None:
                self._queue.add((queued_at, task.id))
        if has != had:
            if had is not None:
                del self._held[had][task.id]
                if not self._held[had]:
                    del self._held[had]
            if has is not None:
                self._held.setdefault(has, {})[task.id] = None

    def _count_live(self, owner: str, change: int) -> None:
        self._live += change
        there = self._live_of.get(owner, 0) + change
        if there:
            self._live_of[owner] = there
        else:
            del self._live_of[owner]

    def _forget(self, task: Task) -> None:
        del self._tasks[task.id], self._histories[task.id]
        self._messages.pop(task.id, None)
        if task.call.key is not None:
            del self._keys[_key(task)]
        when = task.created_at, task.id
        self._created.remove(when)
        owned = self._created_by[task.owner]
        owned.remove(when)
        if not owned:
            del self._created_by[task.owner]

    def _newest(
        self, created: "SortedList[_When] | None", after: Position | None, limit: int
    ) -> Sequence[Task]:
        if created is None:
            return self._some((), limit)
        maximum = None if after is None else (after.created_at, after.task_id)
        found = created.irange(maximum=maximum, inclusive=(True, False), reverse=True)
        return self._some((task_id for _, task_id in found), limit)

    def _until(self, deadlines: "SortedList[_When]", now: int, limit: int) -> Sequence[Task]:
        return self._some(_due(deadlines, now), limit)

    def _some(self, task_ids: Iterable[str], limit: int) -> Sequence[Task]:
        self._check_open()
        return [self._tasks[task_id] for task_id in islice(task_ids, limit)]

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreError("the store is closed")


def _key(task: Task) -> tuple[str | None, ...]:
    return task.owner, task.call.method, task.call.name, task.call.key


def _due(times: "SortedList[_When]", now: int, since: int | None = None) -> Iterator[str]:
    """Return the names whose time is not after `now`, nor before `since`, the earliest first."""
    first = None if since is None else (since, "")
    due = times.irange(first, (now + 1, ""), inclusive=(True, False))
    return (name for _, name in due)
