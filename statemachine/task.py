"""The task record: frozen values, no behaviour beyond reading themselves.

Times are integers, milliseconds since the epoch.  Arguments, results, questions, answers and
metadata are encoded JSON that nothing in here looks into.
"""

from enum import StrEnum
from math import isfinite
from operator import attrgetter
from typing import Any, Final, Self

import attrs

from taskmachine.statemachine.table import TERMINAL, Event, State

__all__ = [
    "Call",
    "Cause",
    "Entry",
    "Outcome",
    "Progress",
    "Question",
    "Reply",
    "Task",
    "Trace",
]

Trace = tuple[str, str]
"""`traceparent` and `tracestate` (or nothing) of W3C Trace Context; not looked into here."""


class Cause(StrEnum):
    """Why a task ended."""

    RESULT = "result"
    ERROR = "error"
    TIMED_OUT = "timed_out"
    EXPIRED = "expired"
    WORKER_LOST = "worker_lost"
    CANCELLED = "cancelled"


@attrs.frozen
class Outcome:
    """How a task ended.  It is stored as it was; each dialect projects it onto its own status."""

    cause: Cause
    result: bytes | None = None
    is_error: bool = False  # the result says of itself that the tool failed (`isError`)
    code: int | None = None
    message: str | None = None
    data: bytes | None = None

    @classmethod
    def of_result(cls, result: bytes, *, is_error: bool = False) -> Self:
        return cls(Cause.RESULT, result=result, is_error=is_error)

    @classmethod
    def of_error(cls, code: int, message: str, data: bytes | None = None) -> Self:
        return cls(Cause.ERROR, code=code, message=message, data=data)


@attrs.frozen
class Call:
    """What was asked for.  It never changes."""

    method: str
    name: str | None = None
    arguments: bytes = b"{}"
    progress_token: str | int | None = None
    answers: frozenset[str] = frozenset()
    """The kinds of questions that the requestor declared it can answer."""
    key: str | None = None
    """The same call under the same key of the same owner is the same task."""
    trace: Trace | None = None
    """What it was made for, so that whoever runs it, whenever and wherever, can say so."""


@attrs.frozen
class Reply:
    """What the requestor said to a question: a result, or an error if it could not."""

    body: bytes
    is_error: bool = False


@attrs.frozen
class Question:
    """A request to the requestor that the task waits for."""

    key: str
    method: str
    params: bytes
    answer: Reply | None = None
    withdrawn: bool = False

    @property
    def is_open(self) -> bool:
        return self.answer is None and not self.withdrawn

    def asks_the_same_as(self, other: "Question") -> bool:
        return (self.method, self.params) == (other.method, other.params)


def _finite(_: object, attribute: "attrs.Attribute[float]", value: float | None) -> None:
    if value is not None and not isfinite(value):
        raise ValueError(f"{attribute.name} must be a finite number, got {value}")


@attrs.frozen
class Progress:
    """How far the work is, in units that the tool chooses."""

    value: float = attrs.field(validator=_finite)
    total: float | None = attrs.field(default=None, validator=_finite)
    message: str | None = None


@attrs.frozen
class Task:
    """One task.  Every committed step makes the next version of it."""

    id: str
    owner: str
    call: Call
    created_at: int
    updated_at: int
    ttl_ms: int | None = None
    """From the creation to the end of a live task, or of the memory of a finished one."""
    is_ttl_chosen: bool = False
    """Whether the requestor chose the ttl, so that no default retention applies."""
    timeout_ms: int = 300_000
    """How long one leg of work may take."""
    is_repeatable: bool = True
    """Whether the work may be begun again after its worker was lost."""
    poll_interval_ms: int | None = None
    """How often to look, if its tool knows better than the age of the task tells."""
    state: State = State.NEW
    version: int = 0
    fence: int = 0
    """Grows with each claim by a worker, so that a worker that woke up late can write nothing."""
    worker: str | None = None
    losses: int = 0
    """How many workers have been lost over it."""
    message: str | None = None
    progress: Progress | None = None
    questions: tuple[Question, ...] = ()
    metadata: bytes = b"{}"
    partial: bytes | None = None
    """What there is to show of the result while questions are open."""
    outcome: Outcome | None = None

    def with_changes(self, **changes: Any) -> "Task":
        """What `attrs.evolve` does, in less than half the time: every step makes a record."""
        values = list(_values(self))
        for name, value in changes.items():
            values[_PLACES[name]] = value
        return Task(*values)

    @property
    def is_queued(self) -> bool:
        """Whether a worker may claim it (column `queue` of DUTIES)."""
        return self.state.duties.is_queued

    @property
    def shows_progress(self) -> bool:
        """Whether requestors are notified of its progress (column `progress`)."""
        return self.state.duties.shows_progress

    @property
    def is_waiting(self) -> bool:
        """Whether its questions are delivered and can be answered (column `questions`)."""
        return self.state.duties.is_waiting

    @property
    def is_live(self) -> bool:
        """Whether its outcome is still awaited (column `waiters`)."""
        return self.state.duties.is_live

    @property
    def is_terminal(self) -> bool:
        """Whether it has its outcome and is still stored."""
        return self.state in TERMINAL

    @property
    def deadline(self) -> int | None:
        """When it expires if it lives, or is forgotten if it has ended."""
        return None if self.ttl_ms is None else self.created_at + self.ttl_ms

    @property
    def open_questions(self) -> tuple[Question, ...]:
        if not self.questions:  # most tasks never ask
            return ()
        return tuple(question for question in self.questions if question.is_open)


_FIELDS: Final = tuple(field.name for field in attrs.fields(Task))
_PLACES: Final = {name: place for place, name in enumerate(_FIELDS)}
_values: Final = attrgetter(*_FIELDS)


@attrs.frozen
class Entry:
    """One line of a task's append-only history."""

    task_id: str
    seq: int
    at: int
    event: Event
    source: State
    dest: State
    note: str | None = None
