"""What each event does to the record: one function for each verb, all through the table.

Every function takes a task and returns a `Step` (the next task, the line for the history) and
changes nothing itself.  An illegal event raises `IllegalTransition`.  The duties of the new state
decide whether the task keeps its worker and its open questions.  What a worker writes carries
the `fence` of its claim; a worker that has lost the task gets `StaleFence`.  `until` is a time
before which the task must neither expire nor be forgotten: the ttl grows where it has to, and
never shrinks.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from taskmachine.statemachine.errors import KeyReused, StaleFence
from taskmachine.statemachine.machine import fire
from taskmachine.statemachine.table import Event, State
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
    return Step(task, Entry(task_id, 1, now, row.event, row.source, row.dest))


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
    return _step(task, Event.RESUME, now)


def requeue(
    task: Task,
    now: int,
    *,
    lost: bool = False,
    note: str | None = None,
    fence: int | None = None,
) -> Step:
    """Take the task from its worker, which gives it back, parks it, or was lost.

    The next worker can claim it at once.  While questions are open it keeps waiting for them, which
    is a `report`; the last answer puts it into the queue.
    """
    _check_fence(task, fence)
    losses = task.losses + lost
    if task.open_questions:
        return _step(task, Event.REPORT, now, note=note, worker=None, losses=losses)
    return _step(task, Event.REQUEUE, now, note=note, losses=losses)


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
    """Stop the task on request."""
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
    duties = row.dest.duties
    if not duties.keeps_worker:
        changes["worker"] = None
    if not duties.is_waiting and (questions := changes.get("questions", task.questions)):
        changes["questions"] = _withdrawn(questions)
    if until is not None and task.ttl_ms is not None and until - task.created_at > task.ttl_ms:
        changes["ttl_ms"] = until - task.created_at
    if _shows(task, row.dest, changes):
        # Never back, even if the clock is.
        changes["updated_at"] = max(now, task.updated_at)
    moved = task.with_changes(state=row.dest, version=task.version + 1, **changes)
    entry = Entry(task.id, moved.version, now, event, task.state, row.dest, note)
    return Step(moved, entry)


def _shows(task: Task, dest: State, changes: Mapping[str, Any]) -> bool:
    """Whether an observer of an MCP wire can tell the difference."""
    if dest.duties[_SEEN] != task.state.duties[_SEEN]:
        return True
    for name in _OBSERVED:  # noqa: SIM110, a generator costs as much as all the rest
        if name in changes and changes[name] != getattr(task, name):
            return True
    return False


_SEEN: Final = slice(2, None)
"""The duties that a requestor can observe: all columns but queue and worker."""

_OBSERVED: Final = frozenset({"message", "questions", "ttl_ms"})


def _withdrawn(questions: tuple[Question, ...]) -> tuple[Question, ...]:
    return tuple(
        attrs.evolve(question, withdrawn=True) if question.is_open else question
        for question in questions
    )


def _check_fence(task: Task, fence: int | None) -> None:
    # A task that was taken from its worker has nobody, even before the next one claims it.
    if fence is not None and (fence != task.fence or task.worker is None):
        raise StaleFence(task.id, fence, task.fence)
