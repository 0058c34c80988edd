"""Lifecycle operations: one function for each event, each validated by the table.

Every function takes a task and returns a `Step`: the next version of the task, and the line for
its history.  Nothing is changed in place.  An illegal event raises `IllegalTransition`.  The
duties of the new state decide whether the task keeps its worker and its open questions.  Writes
of a worker carry the `fence` of its claim; a worker that has lost the task gets `StaleFence`.
`until` is a time before which the task must neither expire nor be removed: the ttl is extended
as needed and never shortened.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from taskmachine.statemachine.errors import KeyReused, NotDue, StaleFence
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
    "record",
    "report",
    "requeue",
    "start",
    "submit",
    "withdraw",
]


@attrs.frozen
class Step:
    """A move that is decided but not yet stored."""

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
    tool_version: str | None = None,
    rerun_of: str | None = None,
) -> Step:
    """Create a task.  `questions` were asked and answered before it existed."""
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
        due_at=call.not_before,
        tool_version=tool_version,
        rerun_of=rerun_of,
    )
    return Step(task, Entry(task_id, 1, now, row.event, row.source, row.dest))


def start(task: Task, now: int, *, worker: str, until: int | None = None) -> Step:
    """Claim the task for a worker; `NotDue` before its time."""
    if task.is_queued and task.due_at is not None and now < task.due_at:
        raise NotDue(task.id, task.due_at)
    return _step(
        task, Event.START, now, until=until, worker=worker, fence=task.fence + 1, due_at=None
    )


def report(
    task: Task,
    now: int,
    *,
    progress: Progress | None = None,
    message: str | None = None,
    metadata: bytes | None = None,
    fence: int | None = None,
) -> Step:
    """Report progress, a message or metadata.  Progress must grow; other values are dropped."""
    _check_fence(task, fence)
    changes: dict[str, Any] = {}
    if progress is not None and (task.progress is None or progress.value > task.progress.value):
        changes["progress"] = progress
    if message is not None:
        changes["message"] = message
    if metadata is not None:
        changes["metadata"] = metadata
    return _step(task, Event.REPORT, now, **changes)


def record(task: Task, now: int, data: bytes, *, fence: int | None = None) -> Step:
    """Record a step of the tool in the history, where later runs find it."""
    _check_fence(task, fence)
    return _step(task, Event.REPORT, now, data=data, recorded=task.recorded + 1)


def ask(
    task: Task,
    now: int,
    questions: Iterable[Question],
    *,
    partial: bytes | None = None,
    fence: int | None = None,
) -> Step | None:
    """Ask questions; return None if all of them have been asked before.

    A task uses each key once (2026-07-28:keys-unique-for-life).  A tool that runs again asks the
    same questions and finds their answers in the record; a different question under a used key
    raises `KeyReused`.
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
    """Answer open questions; return None if none of the keys is open.  The first answer wins."""
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
    # At once, also if another branch of the tool sleeps: it has something to do.
    return _step(task, Event.REQUEUE, now, questions=questions, due_at=None)


def withdraw(task: Task, now: int, *, fence: int | None = None) -> Step:
    """Withdraw every open question, for a tool that ends without waiting for the answers."""
    _check_fence(task, fence)
    return _step(task, Event.RESUME, now)


def requeue(
    task: Task,
    now: int,
    *,
    lost: bool = False,
    error: str | None = None,
    message: str | None = None,
    due_at: int | None = None,
    until: int | None = None,
    note: str | None = None,
    fence: int | None = None,
) -> Step:
    """Release the task from its worker, which parked it, returned it, or was lost.

    Another worker can claim it from `due_at`, or at once.  With `error` an attempt has failed and
    is repeated.  While questions are open the task keeps waiting for them, so the event is
    `report`; the last answer puts it into the queue.
    """
    _check_fence(task, fence)
    changes: dict[str, Any] = {"losses": task.losses + lost, "due_at": due_at}
    if error is not None:
        changes.update(error=error, failures=task.failures + 1)
    if message is not None:
        changes["message"] = message
    event = Event.REQUEUE
    if task.open_questions:
        event, changes["worker"] = Event.REPORT, None
    return _step(task, event, now, until=until, note=note, **changes)


def complete(
    task: Task, now: int, outcome: Outcome, *, until: int | None = None, fence: int | None = None
) -> Step:
    """Complete the task with the result of its tool, with or without `isError`."""
    return _end(task, Event.COMPLETE, now, outcome, until, fence)


def fail(
    task: Task, now: int, outcome: Outcome, *, until: int | None = None, fence: int | None = None
) -> Step:
    """Fail the task: its tool raised or timed out, or its worker was lost."""
    return _end(task, Event.FAIL, now, outcome, until, fence)


def cancel(task: Task, now: int, *, reason: str, until: int | None = None) -> Step:
    """Cancel the task on request."""
    return _end(task, Event.CANCEL, now, Outcome(Cause.CANCELLED, message=reason), until)


def expire(task: Task, now: int, *, until: int | None = None) -> Step:
    """Fail a live task whose ttl has passed.  It stays readable until `until`."""
    outcome = Outcome(Cause.EXPIRED, message="The task expired before it finished.")
    return _end(task, Event.EXPIRE, now, outcome, until)


def purge(task: Task, now: int) -> Step:
    """Remove a finished task."""
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
    data: bytes | None = None,
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
        # lastUpdatedAt never decreases, even if the clock is set back.
        changes["updated_at"] = max(now, task.updated_at)
    moved = task.with_changes(state=row.dest, version=task.version + 1, **changes)
    entry = Entry(task.id, moved.version, now, event, task.state, row.dest, note, data)
    return Step(moved, entry)


def _shows(task: Task, dest: State, changes: Mapping[str, Any]) -> bool:
    """Return True if a client can observe the change."""
    if dest.duties[_SEEN] != task.state.duties[_SEEN]:
        return True
    for name in _OBSERVED:  # noqa: SIM110  a generator would double the time of a step
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
    # A released task has no worker: the fence of its last claim is stale before the next claim.
    if fence is not None and (fence != task.fence or task.worker is None):
        raise StaleFence(task.id, fence, task.fence)
