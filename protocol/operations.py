"""Operations on tasks, shared by all dialects, and the steps that each one takes.

A receiver reads a request into one of these.  Its driver loads the task that the operation names,
commits the steps that `decide` returns, and hands the result back to the receiver.
"""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Final

import attrs

from taskmachine.protocol.errors import InputPending, InvalidParams
from taskmachine.protocol.jsonvalue import decode_json, encode_json
from taskmachine.statemachine import (
    Call,
    Event,
    IllegalTransition,
    Progress,
    Question,
    Reply,
    State,
    Task,
    Times,
    lifecycle,
)
from taskmachine.statemachine.lifecycle import Step

__all__ = [
    "Advance",
    "Amend",
    "Answer",
    "Browse",
    "Cancel",
    "Collect",
    "Create",
    "Get",
    "Operation",
    "Run",
    "Watch",
    "decide",
]


@attrs.frozen
class Create:
    """Run a call as a task.

    If the wire can ask questions before the task exists, `first` must be answered: by `answers`,
    or by the `state` that was returned when the call was paused.
    """

    call: Call
    ttl_ms: int | None = None
    metadata: bytes = b"{}"
    immediate: str | None = None
    first: Sequence[Question] = ()
    answers: Mapping[str, Reply] = attrs.field(factory=dict)
    state: str | None = None


@attrs.frozen
class Run:
    """Run a call without a task and return its result.

    A requestor repeats a call that was paused for questions with `answers`, and with the `state`
    that was returned then.
    """

    call: Call
    answers: Mapping[str, Reply] = attrs.field(factory=dict)
    state: str | None = None


@attrs.frozen
class Get:
    """Show a task with those questions whose kinds this request can answer (None: all)."""

    task_id: str
    answers: frozenset[str] | None = None


@attrs.frozen
class Collect:
    """Return the outcome of a task."""

    task_id: str


@attrs.frozen
class Browse:
    """Show a page of the caller's tasks, newest first."""

    cursor: str | None = None
    limit: int | None = None


@attrs.frozen
class Cancel:
    """Stop a task."""

    task_id: str
    reason: str = "The task was cancelled by request."


@attrs.frozen
class Answer:
    """Answer questions of a task."""

    task_id: str
    answers: Mapping[str, Reply]
    unfit: Mapping[str, str] = attrs.field(factory=dict)
    """Why other entries are not valid answers: reported only if their question is open."""


@attrs.frozen
class Amend:
    """Merge into the metadata of a task; let it ask for free-form input, or provide that input.

    The server chooses the key of the question, and the form that other dialects show for it.
    """

    task_id: str
    metadata: bytes = b"{}"
    asks: bool = False
    input: Reply | None = None


@attrs.frozen
class Advance:
    """Report the progress of a task."""

    task_id: str
    progress: Progress


@attrs.frozen
class Watch:
    """Subscribe to changes of these tasks."""

    task_ids: tuple[str, ...]
    answers: frozenset[str] | None = None


TIMES: Final = Times()

Operation = Create | Run | Get | Collect | Browse | Cancel | Answer | Amend | Advance | Watch
"""Any operation that a requestor can ask for."""


def decide(operation: Operation, task: Task, now: int, times: Times = TIMES) -> tuple[Step, ...]:
    """Return the steps of an operation on the task that it names, to be committed together.

    No steps if there is nothing to do; `IllegalTransition` if the task cannot do it now.
    """
    match operation:
        case Cancel(reason=reason) if task.is_live:
            until = times.to_read(task, now, State.CANCELLED)
            return (lifecycle.cancel(task, now, reason=reason, until=until),)
        case Answer(answers=answers, unfit=unfit):
            for question in task.open_questions:
                if question.key in unfit:  # 2026-07-28:input-responses-validated
                    raise InvalidParams(unfit[question.key])
            until = times.to_work(task, now)
            step = lifecycle.answer(task, now, answers, until=until)
            return () if step is None else (step,)
        case Advance(progress=progress):
            return (lifecycle.report(task, now, progress=progress),)
        case Amend():
            return _amend(operation, task, now, times)
        case _:
            return ()


def _amend(operation: Amend, task: Task, now: int, times: Times) -> tuple[Step, ...]:
    merged = {**decode_json(task.metadata), **decode_json(operation.metadata)}
    steps = [lifecycle.report(task, now, metadata=encode_json(merged))]
    if operation.asks:
        if task.open_questions:  # one input would answer all of them
            raise InputPending(task.id)
        used = {question.key for question in task.questions}
        key = next(key for n in count(1) if (key := f"input-{n}") not in used)
        question = Question(key, "elicitation/create", FREE_FORM)
        asked = lifecycle.ask(steps[-1].task, now, [question])
        assert asked is not None, "its key is new"
        steps.append(asked)
    if operation.input is not None:
        open_questions = steps[-1].task.open_questions
        answers = {question.key: operation.input for question in open_questions}
        until = times.to_work(task, now)
        answered = lifecycle.answer(steps[-1].task, now, answers, until=until)
        if answered is None:
            raise IllegalTransition(task.state, Event.ANSWER)
        steps.append(answered)
    return tuple(steps)


FREE_FORM: Final = encode_json(
    {
        "mode": "form",
        "message": "The task needs input.",
        "requestedSchema": {
            "type": "object",
            "properties": {"input": {"type": "string"}},
            "required": ["input"],
        },
    }
)
