"""The transition table: the single source of truth about the life of a task.

A task is *submitted*, a worker *starts* it, it *reports*, it may *ask* and get *answers*, and it
ends exactly once.  The rules:

- What the table does not list is illegal.  An illegal event changes nothing.
- Every row is written out: no wildcards, no guards, no automatic moves.
- `completed`, `failed` and `cancelled` are final: the only thing left to do is to `purge` them.
- `submitted` (durably created, no worker has it) is our own affair: on both MCP wires it is
  shown as `working`.
- `answer` leaves other questions open, `resume` answers the last one while a worker waits for it,
  `requeue` hands the task to the next worker.  Which of them happens follows from the record
  before the table is asked (`lifecycle.answer`), so the table needs no conditions.
- Effects are values.  Whoever commits the step carries them out: `dispatch` inside the commit,
  so that no task waits without its job; the others after it, as they can be repeated.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

__all__ = ["TABLE", "TERMINAL", "Effect", "Event", "Row", "State", "lookup"]

# source        event     destination     effects
_ROWS_AS_TEXT = """
new             submit    submitted       dispatch notify
submitted       start     working         notify
submitted       report    submitted       notify
submitted       complete  completed       stop_work halt_progress wake notify
submitted       fail      failed          stop_work halt_progress wake notify
submitted       cancel    cancelled       stop_work halt_progress wake notify
submitted       expire    failed          stop_work halt_progress wake notify
working         report    working         notify
working         ask       input_required  deliver_question notify
working         complete  completed       halt_progress wake notify
working         fail      failed          stop_work halt_progress wake notify
working         cancel    cancelled       stop_work halt_progress wake notify
working         expire    failed          stop_work halt_progress wake notify
working         requeue   submitted       dispatch notify
input_required  report    input_required  notify
input_required  ask       input_required  deliver_question notify
input_required  answer    input_required  wake notify
input_required  resume    working         withdraw_questions wake notify
input_required  requeue   submitted       dispatch notify
input_required  complete  completed       stop_work withdraw_questions halt_progress wake notify
input_required  fail      failed          stop_work withdraw_questions halt_progress wake notify
input_required  cancel    cancelled       stop_work withdraw_questions halt_progress wake notify
input_required  expire    failed          stop_work withdraw_questions halt_progress wake notify
completed       purge     removed
failed          purge     removed
cancelled       purge     removed
"""


class State(StrEnum):
    """Where a task is; `new` and `removed` are outside the store."""

    NEW = "new"
    SUBMITTED = "submitted"
    WORKING = "working"
    INPUT_REQUIRED = "input_required"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    REMOVED = "removed"


class Event(StrEnum):
    """What can happen to a task."""

    SUBMIT = "submit"
    START = "start"
    REPORT = "report"
    ASK = "ask"
    ANSWER = "answer"
    RESUME = "resume"
    REQUEUE = "requeue"
    COMPLETE = "complete"
    FAIL = "fail"
    CANCEL = "cancel"
    EXPIRE = "expire"
    PURGE = "purge"


class Effect(StrEnum):
    """What has to be done because of a step, besides storing it."""

    DISPATCH = "dispatch"  # give the task a job, in the same commit
    STOP_WORK = "stop_work"  # tell the worker, if there is one, to stop
    DELIVER_QUESTION = "deliver_question"  # bring open questions to the requestor
    WITHDRAW_QUESTIONS = "withdraw_questions"  # take back what was delivered and is not open
    HALT_PROGRESS = "halt_progress"  # no progress notification from here on
    WAKE = "wake"  # answer whoever is blocked on this task
    NOTIFY = "notify"  # show the new snapshot to subscribers, where it differs


class Row(NamedTuple):
    """One legal move."""

    source: State
    event: Event
    dest: State
    effects: tuple[Effect, ...]


TABLE: Final = tuple(
    Row(State(source), Event(event), State(dest), tuple(map(Effect, effects)))
    for source, event, dest, *effects in map(str.split, _ROWS_AS_TEXT.strip().splitlines())
)
"""The legal moves, all of them."""

TERMINAL: Final = frozenset(row.source for row in TABLE if row.event is Event.PURGE)
"""The final states: those that can only be purged."""

_BY_PAIR: Final[Mapping[tuple[State, Event], Row]] = {(row.source, row.event): row for row in TABLE}


def lookup(state: State, event: Event) -> Row | None:
    """The row for this pair, or None if it is illegal.  To move a task, use `machine.fire`."""
    return _BY_PAIR.get((state, event))
