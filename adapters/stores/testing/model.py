"""The model of a store, part of the test kit: dicts and lists, sorted on each query."""

from collections.abc import Sequence

import attrs

from taskmachine.adapters.stores import (
    Caps,
    Conflict,
    KeptSession,
    Totals,
    Worker,
    check_caps,
    check_sessions,
    is_kept,
)
from taskmachine.protocol.sealing import Position
from taskmachine.statemachine import (
    Entry,
    State,
    Task,
)

__all__ = ["Model", "age"]


class Model:
    """A store without regard to time and space, whose answers are the expected ones."""

    def __init__(self) -> None:
        self.tasks: dict[str, Task] = {}
        self.entries: dict[str, list[Entry]] = {}
        self.messages: dict[str, list[bytes]] = {}
        self.registered: dict[str, Worker] = {}
        self.sessions: dict[str, KeptSession] = {}
        self.following: dict[int, str] = {}
        self.told: dict[int, list[Task | None]] = {}

    def create(self, task: Task, entries: Sequence[Entry], caps: Caps) -> Task:
        if task.call.key is not None and (same := self._same_call(task)):
            return same[0]
        stored = list(self.tasks.values())
        live = [other for other in stored if not other.is_terminal]
        check_caps(
            caps,
            sum(other.owner == task.owner for other in live),
            len(live),
            sum(other.owner == task.owner for other in stored),
            len(stored),
        )
        self.adopt(task, entries)
        return task

    def adopt(self, task: Task, entries: Sequence[Entry]) -> None:
        if task.id in self.tasks or (task.call.key is not None and self._same_call(task)):
            raise Conflict
        self.tasks[task.id] = task
        self.entries[task.id] = list(filter(is_kept, entries))
        self.messages[task.id] = []
        self._tell(task)

    def commit(self, task: Task, entries: Sequence[Entry], expected: int) -> None:
        if task.id not in self.tasks or self.tasks[task.id].version != expected:
            raise Conflict
        self.tasks[task.id] = task
        self.entries[task.id] += filter(is_kept, entries)
        if task.state is State.REMOVED:
            del self.tasks[task.id], self.entries[task.id], self.messages[task.id]
        self._tell(task)

    def load(self, task_id: str) -> Task | None:
        return self.tasks.get(task_id)

    def page(self, owner: str, after: Position | None, limit: int) -> Sequence[Task]:
        return [task for task in self.browse(after, len(self.tasks)) if task.owner == owner][:limit]

    def browse(self, after: Position | None, limit: int) -> Sequence[Task]:
        newest = sorted(self.tasks.values(), key=age, reverse=True)
        if after is not None:
            newest = [task for task in newest if age(task) < (after.created_at, after.task_id)]
        return newest[:limit]

    def totals(self) -> Totals:
        live = [task for task in self.tasks.values() if not task.is_terminal]
        waiting = [task for task in live if task.state is State.INPUT_REQUIRED]
        return Totals(len(live), len(waiting), len(self.tasks))

    def queued(self, now: int, limit: int) -> Sequence[Task]:
        queue = [task for task in self.tasks.values() if task.state is State.SUBMITTED]
        at_once = sorted((task for task in queue if task.due_at is None), key=age)
        return [*at_once, *self.due(now, len(queue))][:limit]

    def due(self, now: int, limit: int) -> Sequence[Task]:
        queue = [task for task in self.tasks.values() if task.state is State.SUBMITTED]
        due = [(task.due_at, task.id, task) for task in queue if task.due_at is not None]
        return [task for due_at, _, task in sorted(due) if due_at <= now][:limit]

    def held(self, worker: str) -> Sequence[Task]:
        return [task for task in self._live(is_live=True) if task.worker == worker]

    def orphans(self) -> Sequence[Task]:
        held = [task for task in self._live(is_live=True) if task.worker is not None]
        return [task for task in held if task.worker not in self.registered]

    def overdue(self, now: int, limit: int) -> Sequence[Task]:
        return _due(self._live(is_live=True), now)[:limit]

    def forgettable(self, now: int, limit: int) -> Sequence[Task]:
        return _due(self._live(is_live=False), now)[:limit]

    def history(self, task_id: str) -> Sequence[Entry]:
        return self.entries.get(task_id, [])

    def register_worker(self, worker: Worker) -> None:
        self.registered[worker.id] = worker

    def beat(self, worker_id: str) -> bool:
        if worker_id not in self.registered:
            return False
        worker = self.registered[worker_id]
        self.registered[worker_id] = attrs.evolve(worker, beat=worker.beat + 1)
        return True

    def remove_worker(self, worker_id: str) -> None:
        self.registered.pop(worker_id, None)

    def enqueue(self, task_id: str, message: bytes, maximum: int) -> int:
        if task_id not in self.tasks:
            return 0
        messages = [*self.messages[task_id], message]
        self.messages[task_id] = messages[max(0, len(messages) - maximum) :]
        return len(messages) - len(self.messages[task_id])

    def dequeue(self, task_id: str, limit: int) -> Sequence[bytes]:
        messages = self.messages.get(task_id, [])
        taken = messages[:limit]
        del messages[:limit]
        return taken

    def keep_session(self, session: KeptSession, maximum: int) -> None:
        if session.key not in self.sessions:
            check_sessions(len(self.sessions), maximum)
        self.sessions[session.key] = session

    def session(self, key: str) -> KeptSession | None:
        return self.sessions.get(key)

    def end_session(self, key: str) -> None:
        self.sessions.pop(key, None)

    def forget_sessions(self, now: int, limit: int) -> int:
        due = sorted((s.until, s.key) for s in self.sessions.values() if s.until <= now)[:limit]
        for _, key in due:
            del self.sessions[key]
        return len(due)

    def follow(self, number: int, task_id: str) -> None:
        self.following[number] = task_id
        self.told[number] = []

    def unfollow(self, number: int) -> None:
        del self.following[number]

    def _same_call(self, task: Task) -> list[Task]:
        return [other for other in self.tasks.values() if _identity(other) == _identity(task)]

    def _live(self, *, is_live: bool) -> list[Task]:
        return [task for task in self.tasks.values() if task.is_terminal != is_live]

    def _tell(self, task: Task) -> None:
        for number, task_id in self.following.items():
            if task_id == task.id:
                self.told[number].append(self.tasks.get(task_id))


def age(task: Task) -> tuple[int, str]:
    return task.created_at, task.id


def _identity(task: Task) -> tuple[str | None, ...]:
    return task.owner, task.call.method, task.call.name, task.call.key


def _due(tasks: list[Task], now: int) -> list[Task]:
    due = [(task.deadline, task.id, task) for task in tasks if task.deadline is not None]
    return [task for deadline, _, task in sorted(due, key=lambda d: d[:2]) if deadline <= now]
