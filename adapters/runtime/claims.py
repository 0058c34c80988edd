"""Claims: operations of a worker on a task that it holds.  One claim is one tool run.

Every write carries the fence of the claim.  A worker that was paused and resumes after its task
was claimed by another worker or has ended gets `Gone` and changes nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import attrs

from taskmachine.adapters.runtime.service import TaskService
from taskmachine.adapters.stores import StoreError
from taskmachine.adapters.tools.errors import CannotAsk, Gone
from taskmachine.adapters.tools.retries import Again
from taskmachine.protocol.dialects.dialect import kind_of
from taskmachine.protocol.timestamps import encode_timestamp
from taskmachine.statemachine import (
    Cause,
    IllegalTransition,
    LimitExceeded,
    NotDue,
    NotFound,
    Outcome,
    Progress,
    Question,
    Reply,
    StaleFence,
    State,
    Task,
    lifecycle,
)
from taskmachine.statemachine.lifecycle import Step

__all__ = ["MAX_LOSSES", "Claim", "claim", "give_back"]

MAX_LOSSES: Final = 3
"""A repeatable task fails once it has lost this many workers."""


async def claim(service: TaskService, task_id: str, worker: str) -> "Claim | None":
    """Claim a queued task for a worker; return None if it is no longer queued."""
    try:
        task, _ = await service.move(task_id, lambda task, now: (service.start(task, now, worker),))
    except (IllegalTransition, NotDue, NotFound):
        return None
    return Claim(service, task)


async def give_back(service: TaskService, seen: Task, *, lost: bool, why: str) -> None:
    """Release a task from a worker that is lost or stops: requeue it, or fail it.

    A task that is not repeatable fails, and so does one that has lost too many workers.  Questions
    stay open: the last answer requeues the task.
    """

    def take(task: Task, now: int) -> Sequence[Step]:
        if (task.worker, task.fence) != (seen.worker, seen.fence):
            return ()  # another process has already released it
        if not task.is_repeatable or (lost and task.losses + 1 >= MAX_LOSSES):
            outcome = Outcome(Cause.WORKER_LOST, message=why)
            until = service.times.to_read(task, now, State.FAILED)
            return (lifecycle.fail(task, now, outcome, until=until),)
        return (lifecycle.requeue(task, now, lost=lost, note=why),)

    try:
        await service.move(seen.id, take)
    except NotFound:
        return


@attrs.frozen
class Claim:
    """A worker's claim on a task; `task` is the version that claimed it."""

    service: TaskService
    task: Task

    def is_held(self, task: Task) -> bool:
        """Return True unless this version shows that the claim was lost.

        Versions before the claim are ignored.  Where its duties stop workers, a task has no worker.
        """
        is_ours = task.fence == self.task.fence and task.worker == self.task.worker
        return is_ours or task.version < self.task.version

    async def is_lost(self) -> bool:
        """Return True if the stored task shows that the claim was lost; False if unreadable."""
        with suppress(StoreError):
            task = await self.service.store.load(self.task.id)
            return task is None or not self.is_held(task)
        return False

    async def report(self, *, progress: Progress | None = None, message: str | None = None) -> None:
        """Report progress or a message; progress that does not grow is dropped."""
        if message is not None:
            message = message[: self.service.limits.message_chars]

        def step(task: Task, now: int) -> Sequence[Step]:
            return (
                lifecycle.report(
                    task, now, progress=progress, message=message, fence=self.task.fence
                ),
            )

        await self._move(step)

    async def ask(
        self, questions: Sequence[Question], *, partial: bytes | None = None
    ) -> Mapping[str, Reply]:
        """Ask questions that were not asked before; return the answers that exist already.

        `CannotAsk` for an undeclared kind, `KeyReused` for a different request under a used key,
        `LimitExceeded` for too many questions.
        """
        for question in questions:
            if kind_of(question) not in self.task.call.answers:
                raise CannotAsk(kind_of(question))
        keys = {question.key for question in questions}

        def step(task: Task, now: int) -> Sequence[Step]:
            if len(keys | {question.key for question in task.questions}) > most:
                raise LimitExceeded(f"{most} questions of one task", 0)
            asked = lifecycle.ask(task, now, questions, partial=partial, fence=self.task.fence)
            return () if asked is None else (asked,)

        most = self.service.limits.questions
        return _answers(await self._move(step), keys)

    async def answers(self, keys: set[str]) -> Mapping[str, Reply]:
        """Wait until all of these questions are answered."""

        def is_awaited(task: Task) -> bool:
            return not self.is_held(task) or _answers(task, keys).keys() == keys

        try:
            task = await self.service.until(self.task.id, is_awaited)
        except NotFound:
            raise Gone(f"task {self.task.id} was removed") from None
        if not self.is_held(task):
            raise Gone(f"task {self.task.id} is no longer held by this worker")
        return _answers(task, keys)

    async def recorded(self) -> Sequence[bytes]:
        """Return what earlier runs have recorded, oldest first."""
        if not self.task.recorded:
            return ()
        history = await self.service.store.history(self.task.id)
        return [entry.data for entry in history if entry.data is not None]

    async def record(self, data: bytes) -> None:
        """Record a step of the tool."""

        def step(task: Task, now: int) -> Sequence[Step]:
            return (lifecycle.record(task, now, data, fence=self.task.fence),)

        await self._move(step)

    async def park(self, due_at: int | None = None) -> None:
        """End this run: the tool runs again with the answers, or from `due_at`."""
        times = self.service.times

        def requeue(task: Task, now: int) -> Sequence[Step]:
            until = None if due_at is None else times.to_work(task, due_at)
            return (
                lifecycle.requeue(
                    task, now, due_at=due_at, until=until, note="parked", fence=self.task.fence
                ),
            )

        await self._move(requeue)

    async def try_again(self, again: Again, attempts: int) -> None:
        """End a failed attempt: the tool runs again after a pause."""
        times, limit = self.service.times, self.service.limits.message_chars

        def requeue(task: Task, now: int) -> Sequence[Step]:
            due_at = now + round(again.after_s * 1_000)
            failed = f"Attempt {task.failures + 1} of {attempts} failed"
            reason = f": {again.message[: limit - 200]}" if again.message else ""
            message = f"{failed}{reason}; the next one begins at {encode_timestamp(due_at)}."
            return (
                lifecycle.requeue(
                    task,
                    now,
                    error=again.error[:limit],
                    message=message,
                    due_at=due_at,
                    until=times.to_work(task, due_at),
                    note=failed,
                    fence=self.task.fence,
                ),
            )

        await self._move(requeue)

    async def settle(self, outcome: Outcome) -> None:
        """End the task with an outcome; `Gone` if it has already ended or was lost."""

        def end(task: Task, now: int) -> Sequence[Step]:
            steps = []
            if task.open_questions:  # a tool that ends does not wait for answers
                steps.append(lifecycle.withdraw(task, now, fence=self.task.fence))
                task = steps[-1].task
            ends, state = (
                (lifecycle.complete, State.COMPLETED)
                if outcome.cause is Cause.RESULT
                else (lifecycle.fail, State.FAILED)
            )
            until = self.service.times.to_read(task, now, state)
            steps.append(ends(task, now, outcome, until=until, fence=self.task.fence))
            return steps

        await self._move(end)

    async def _move(self, act: Callable[[Task, int], Sequence[Step]]) -> Task:
        try:
            task, _ = await self.service.move(self.task.id, act)
        except (IllegalTransition, StaleFence, NotFound) as error:
            raise Gone(str(error)) from None
        return task


def _answers(task: Task, keys: set[str]) -> Mapping[str, Reply]:
    return {
        question.key: question.answer
        for question in task.questions
        if question.key in keys and question.answer is not None
    }
