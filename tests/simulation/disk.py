"""The store that all simulated processes share, and the checks of every write.

Each write is checked when it is made, with the writing process and the previous version at hand.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from taskmachine.adapters.stores import Caps, Conflict
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.statemachine import Cause, Entry, Event, State, Task
from taskmachine.statemachine.invariants import Asked, Deferred
from taskmachine.statemachine.invariants import Event as Happened
from tests.simulation.faults import Clock

__all__ = ["Disk"]

MAX_LOSSES: Final = 3
"""A task fails after losing this many workers."""

_BY_WORKERS: Final = {Event.ASK, Event.COMPLETE, Event.REPORT}
"""Events that, in this world, only the worker that holds the task may cause."""

_NAMES: Final = {
    Event.REQUEUE: "requeues",
    Event.EXPIRE: "expiries",
    Event.PURGE: "purges",
    Event.ANSWER: "answers",
    Event.RESUME: "answers",
    Event.CANCEL: "cancellations",
}


class Disk:
    """One memory store, the history of the world, and the violations."""

    def __init__(self, clock: Clock, steady: Callable[[], float], counts: Counter[str]) -> None:
        self.store = MemoryStore(bytes(32))
        self.history: list[Happened] = []
        self.wrong: list[str] = []
        self.ended_at: dict[str, float] = {}
        self.removed: set[str] = set()
        self.versions: dict[str, int] = {}
        self.wishes: set[str] = set()
        """Tasks for which a client asked for cancellation."""
        self.doubts: set[tuple[str, int]] = set()
        """Claims whose commit failed for the worker although it was stored, by task and fence."""
        self.ends: list[Task] = []
        self._clock = clock
        self._steady = steady
        self._counts = counts

    def now_ms(self) -> int:
        """Return the time of a clock that does not jump, for bounds."""
        return round(self._steady() * 1_000)

    async def create(self, task: Task, entries: Sequence[Entry], caps: Caps) -> Task:
        stored = await self.store.create(task, entries, caps)
        if stored.id == task.id:
            self._note(task, entries)
        return stored

    async def commit(
        self, workers: set[str], task: Task, entries: Sequence[Entry], expected: int
    ) -> None:
        """Commit and check a write; `workers` are the ids of the writing process."""
        before = await self.store.load(task.id)
        try:
            await self.store.commit(task, entries, expected)
        except Conflict:
            self._counts["conflicts"] += 1
            raise
        assert before is not None, "otherwise the commit is a conflict"
        self._note(task, entries)
        if task.questions is not before.questions:
            self.history.extend(
                Asked(self.now_ms(), task.id, question.key, (question.method, question.params))
                for question in task.questions
            )
        self._count(before, task, entries)
        registered = {worker.id for worker in await self.store.workers()}
        is_lost = before.worker not in registered or (task.id, before.fence) in self.doubts
        if task.losses > before.losses and not is_lost:
            self.wrong.append(f"task {task.id} was taken from a live worker")
        for why in self._complaints(workers, before, task, entries):
            self.wrong.append(f"at {self._steady():.3f} s: task {task.id} {why}")

    def _note(self, task: Task, entries: Sequence[Entry]) -> None:
        self.history.extend(entries)
        self.versions[task.id] = task.version
        if task.is_queued and task.due_at is not None:
            self.history.append(Deferred(self.now_ms(), task.id, task.due_at))

    def _count(self, before: Task, after: Task, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self._counts[_NAMES.get(entry.event, "other moves")] += 1
        self._counts["recorded steps"] += after.recorded - before.recorded
        self._counts["retries"] += after.failures - before.failures
        self._counts["sleeps"] += after.due_at is not None and after.failures == before.failures
        self._counts["lost workers"] += after.losses - before.losses
        if before.is_waiting and before.worker and after.is_waiting and not after.worker:
            self._counts["parks"] += after.losses == before.losses
        if after.state is State.REMOVED:
            self.removed.add(after.id)
        elif after.is_terminal:
            assert after.outcome is not None, "a terminal task has an outcome"
            self._counts[f"ended: {after.outcome.cause}"] += 1
            self.ended_at[after.id] = self._steady()
            self.ends.append(after)

    def _complaints(
        self, workers: set[str], before: Task, after: Task, entries: Sequence[Entry]
    ) -> list[str]:
        found = []
        events = {entry.event for entry in entries}
        seqs = [entry.seq for entry in entries]
        if not seqs or seqs != list(range(before.version + 1, after.version + 1)):
            found.append(f"went from version {before.version} to {after.version} by {seqs}")
        cause = None if after.outcome is None else after.outcome.cause
        is_by_worker = events & _BY_WORKERS or cause in (Cause.ERROR, Cause.TIMED_OUT)
        # Another process releases a lost worker by a report that clears the worker.
        is_by_worker = is_by_worker and not (
            events == {Event.REPORT} and before.worker is not None and after.worker is None
        )
        if is_by_worker and Event.PURGE not in events and before.worker not in workers:
            found.append(f"was written by a process that does not hold it: {events}")
        if after.fence != before.fence + (Event.START in events):
            found.append(f"has the fence {after.fence} after {before.fence} by {events}")
        if not before.losses <= after.losses <= min(before.losses + 1, MAX_LOSSES):
            found.append(f"has {after.losses} lost workers after {before.losses}")
        deadline = before.deadline or 0
        if Event.EXPIRE in events and deadline > entries[0].at:
            found.append(f"expired {deadline - entries[0].at} ms too early")
        if Event.PURGE in events and deadline > self._clock.latest:
            found.append(f"was deleted {deadline - self._clock.latest} ms too early")
        if Event.START in events and (after.deadline or 0) < entries[0].at + after.timeout_ms:
            found.append("was started with too little time before its deadline")
        if Event.CANCEL in events and after.id not in self.wishes:
            found.append("was cancelled without a request")
        if before.outcome is not None and after.outcome != before.outcome:
            found.append(f"had the outcome {before.outcome}, now {after.outcome}")
        is_given_up = cause is Cause.WORKER_LOST and before.outcome is None
        if is_given_up and before.is_repeatable and before.losses + 1 < MAX_LOSSES:
            found.append(f"failed after only {before.losses} lost workers")
        known = {question.key: question for question in after.questions}
        for question in before.questions:
            if question.key not in known or not known[question.key].asks_the_same_as(question):
                found.append(f"lost the question '{question.key}'")
            elif not question.is_open and known[question.key] != question:
                found.append(f"changed the answer to '{question.key}'")
        if len({(q.method, q.params) for q in after.questions}) != len(after.questions):
            found.append("asks the same question under different keys")
        return found
