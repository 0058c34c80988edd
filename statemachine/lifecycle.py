"""What each event does to the record: one function for each verb, all through the table.

Every function takes a task and returns a `Step` (the next task, the effects, the line for the
history) and changes nothing itself.  An illegal event raises `IllegalTransition`.  What a worker
writes carries the `fence` of its claim; a worker that has lost the task gets `StaleFence`.
`until` is a time before which the task must neither expire nor be forgotten: the ttl grows where
it has to, and never shrinks.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from taskmachine.statemachine.errors import KeyReused, StaleFence
from taskmachine.statemachine.machine import fire
from taskmachine.statemachine.table import Effect, Event, State
from taskmachine.statemachine.task import (
    Call,
    Cause,
    Entry,
    Outcome,
    Progress,
    Question,
    Reply,
    Task,
)

__all__ = [
    "Step",
    "answer",
    "ask",
    "cancel",
    "complete",
    "expire",
    "fail",
    "purge",
    "release",
    "report",
    "requeue",
    "start",
    "submit",
    "withdraw",
]


@attrs.frozen
class Step:
    """A move that was decided and is not stored yet."""

    task: Task
    effects: tuple[Effect, ...]
    entry: Entry


def submit(
    task_id: str,
    owner: str,
    call: Call,
    now: int,
    *,
    ttl_ms: int | None,
    is_ttl_chosen: bool = False,
    timeout_ms: int = 300_000,
    is_repeatable: bool = True,
    poll_interval_ms: int | None = None,
    metadata: bytes = b"{}",
    questions: tuple[Question, ...] = (),
) -> Step:
    """Begin a task.  `questions` were asked and answered before it was one."""
    row = fire(State.NEW, Event.SUBMIT)
    task = Task(
        task_id,
        owner,
        call,
        now,
        now,
        ttl_ms,
        is_ttl_chosen=is_ttl_chosen,
        timeout_ms=timeout_ms,
        is_repeatable=is_repeatable,
        poll_interval_ms=poll_interval_ms,
        state=row.dest,
        version=1,
        metadata=metadata,
        questions=questions,
    )
    return Step(task, row.effects, Entry(task_id, 1, now, row.event, row.source, row.dest))


def start(task: Task, now: int, *, worker: str, until: int | None = None) -> Step:
    """A worker claims the task."""
    return _step(task, Event.START, now, until=until, worker=worker, fence=task.fence + 1)


def report(
    task: Task,
    now: int,
    *,
    progress: Progress | None = None,
    message: str | None = None,
    metadata: bytes | None = None,
    fence: int | None = None,
) -> Step:
    """Say how it is going.  Progress that is not above the highest so far is dropped."""
    _check_fence(task, fence)
    changes: dict[str, Any] = {}
    if progress is not None and (task.progress is None or progress.value > task.progress.value):
        changes["progress"] = progress
    if message is not None:
        changes["message"] = message
    if metadata is not None:
        changes["metadata"] = metadata
    return _step(task, Event.REPORT, now, **changes)


def ask(
    task: Task,
    now: int,
    questions: Iterable[Question],
    *,
    partial: bytes | None = None,
    fence: int | None = None,
) -> Step | None:
    """Open questions; None if all of them have been asked before.

    A key is used once in the life of a task (2026-07-28:keys-unique-for-life).  A tool that is
    run again asks the same and finds its answer in the record; asking something else under a
    used key raises `KeyReused`.
    """
    _check_fence(task, fence)
    asked = {question.key: question for question in task.questions}
    for question in questions:
        if not asked.setdefault(question.key, question).asks_the_same_as(question):
            raise KeyReused(question.key)
    if len(asked) == len(task.questions):
        return None
    return _step(task, Event.ASK, now, questions=tuple(asked.values()), partial=partial)


def answer(
    task: Task, now: int, answers: Mapping[str, Reply], *, until: int | None = None
) -> Step | None:
    """Answer open questions; None if none of the keys is open, as the first answer wins."""
    if not any(question.key in answers for question in task.open_questions):
        return None
    questions = tuple(
        attrs.evolve(question, answer=answers[question.key])
        if question.is_open and question.key in answers
        else question
        for question in task.questions
    )
    if any(question.is_open for question in questions):
        return _step(task, Event.ANSWER, now, questions=questions)
    if task.worker is not None:
        return _step(task, Event.RESUME, now, until=until, questions=questions)
    return _step(task, Event.REQUEUE, now, questions=questions)


def withdraw(task: Task, now: int, *, fence: int | None = None) -> Step:
    """Take back every open question: what a tool does that ends without waiting for answers."""
    _check_fence(task, fence)
    return _step(task, Event.RESUME, now, questions=_withdrawn(task))


def requeue(
    task: Task,
    now: int,
    *,
    lost: bool = False,
    note: str | None = None,
    fence: int | None = None,
) -> Step:
    """Hand the task to whoever claims it next; not while somebody still has to answer."""
    _check_fence(task, fence)
    if task.open_questions:
        raise ValueError("the task waits for answers: release it, the last one will requeue it")
    losses = task.losses + lost
    return _step(task, Event.REQUEUE, now, note=note, worker=None, losses=losses)


def release(task: Task, *, lost: bool = False, fence: int | None = None) -> Task:
    """Let go of a task that waits for answers: its worker parks or was lost, the questions stay.

    Not a move, so not in the table: no observer can tell.  The last answer will requeue the task.
    """
    _check_fence(task, fence)
    losses = task.losses + lost
    return task.with_changes(worker=None, losses=losses, version=task.version + 1)


def complete(
    task: Task, now: int, outcome: Outcome, *, until: int | None = None, fence: int | None = None
) -> Step:
    """The tool returned; `isError` or not is the dialects' business."""
    return _end(task, Event.COMPLETE, now, outcome, until, fence)


def fail(
    task: Task, now: int, outcome: Outcome, *, until: int | None = None, fence: int | None = None
) -> Step:
    """The tool raised, ran out of time, or its worker is gone."""
    return _end(task, Event.FAIL, now, outcome, until, fence)


def cancel(task: Task, now: int, *, reason: str, until: int | None = None) -> Step:
    """Somebody asked to stop."""
    return _end(task, Event.CANCEL, now, Outcome(Cause.CANCELLED, message=reason), until)


def expire(task: Task, now: int, *, until: int | None = None) -> Step:
    """The ttl of a task that still lives is over: it fails, and stays readable for a while."""
    outcome = Outcome(Cause.EXPIRED, message="The task expired before it finished.")
    return _end(task, Event.EXPIRE, now, outcome, until)


def purge(task: Task, now: int) -> Step:
    """Forget a task that has ended."""
    return _step(task, Event.PURGE, now)


def _end(
    task: Task,
    event: Event,
    now: int,
    outcome: Outcome,
    until: int | None,
    fence: int | None = None,
) -> Step:
    _check_fence(task, fence)
    return _step(
        task,
        event,
        now,
        until=until,
        note=outcome.message,
        outcome=outcome,
        message=outcome.message,
        questions=_withdrawn(task),
        worker=None,
    )


def _step(
    task: Task,
    event: Event,
    now: int,
    *,
    until: int | None = None,
    note: str | None = None,
    **changes: Any,
) -> Step:
    row = fire(task.state, event)
    if until is not None and task.deadline is not None and until > task.deadline:
        changes["ttl_ms"] = until - task.created_at
    if _shows(task, row.dest, changes):
        # Never back, even if the clock is (ERL-48).
        changes["updated_at"] = max(now, task.updated_at)
    moved = task.with_changes(state=row.dest, version=task.version + 1, **changes)
    entry = Entry(task.id, moved.version, now, event, task.state, row.dest, note)
    return Step(moved, row.effects, entry)


def _shows(task: Task, dest: State, changes: Mapping[str, Any]) -> bool:
    """Whether an observer of an MCP wire can tell the difference (USER-12)."""
    if dest is not task.state and _seen_as(dest) is not _seen_as(task.state):
        return True
    for name in _OBSERVED:  # noqa: SIM110, a generator costs as much as all the rest
        if name in changes and changes[name] != getattr(task, name):
            return True
    return False


_OBSERVED: Final = frozenset({"message", "questions", "ttl_ms"})


def _seen_as(state: State) -> State:
    """A queue is nobody's business: taking a task and giving it back does not show."""
    return State.WORKING if state is State.SUBMITTED else state


def _withdrawn(task: Task) -> tuple[Question, ...]:
    return tuple(
        attrs.evolve(question, withdrawn=True) if question.is_open else question
        for question in task.questions
    )


def _check_fence(task: Task, fence: int | None) -> None:
    # A task that was taken from its worker has nobody, even before the next one claims it.
    if fence is not None and (fence != task.fence or task.worker is None):
        raise StaleFence(task.id, fence, task.fence)
