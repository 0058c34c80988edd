"""The task record: frozen values without behaviour.

Times are integers in milliseconds since the epoch.  Arguments, results, questions, answers and
metadata are encoded JSON, which this package never decodes.
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
"""`traceparent` and `tracestate` (may be empty) of W3C Trace Context, uninterpreted."""


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
    """How a task ended.  Each dialect projects it onto its own status."""

    cause: Cause
    result: bytes | None = None
    is_error: bool = False  # `isError` of the result
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
    """The request that a task executes.  It never changes."""

    method: str
    name: str | None = None
    arguments: bytes = b"{}"
    progress_token: str | int | None = None
    answers: frozenset[str] = frozenset()
    """The kinds of questions that the requestor declared it can answer."""
    key: str | None = None
    """Idempotency key: an owner that repeats a call under the same key gets the same task."""
    trace: Trace | None = None
    """Trace context of the request, so that spans of the worker join its trace."""
    caller: bytes | None = attrs.field(default=None, repr=False)
    """The caller's claims and scopes, encrypted by the runtime and opaque to all other code."""
    not_before: int | None = None
    """The time before which the requestor does not want it to start."""


@attrs.frozen
class Reply:
    """The requestor's answer to a question: a result or an error."""

    body: bytes
    is_error: bool = False


@attrs.frozen
class Question:
    """A request of the task to its requestor."""

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
    """Progress of a tool, in units that the tool chooses."""

    value: float = attrs.field(validator=_finite)
    total: float | None = attrs.field(default=None, validator=_finite)
    message: str | None = None


@attrs.frozen
class Task:
    """A task.  Every committed step stores its next version."""

    id: str
    owner: str
    call: Call
    created_at: int
    updated_at: int
    ttl_ms: int | None = None
    """Time from creation to expiry (while live) or to removal (once finished)."""
    is_ttl_chosen: bool = False
    """True if the requestor chose the ttl, so no default retention applies."""
    timeout_ms: int = 300_000
    """Maximum duration of one tool run."""
    is_repeatable: bool = True
    """True if the tool may run again after its worker was lost."""
    poll_interval_ms: int | None = None
    """Suggested poll interval; if None it is derived from the age of the task."""
    state: State = State.NEW
    version: int = 0
    fence: int = 0
    """Number of claims so far.  A worker whose claim is outdated cannot write."""
    worker: str | None = None
    losses: int = 0
    """How many workers were lost while they held it."""
    message: str | None = None
    progress: Progress | None = None
    questions: tuple[Question, ...] = ()
    metadata: bytes = b"{}"
    partial: bytes | None = None
    """Partial result to show while questions are open."""
    outcome: Outcome | None = None
    due_at: int | None = None
    """No worker may claim it before this time; None for at once."""
    failures: int = 0
    """How many attempts of its tool have failed and were repeated."""
    error: str | None = None
    """What the last failed attempt reported."""
    recorded: int = 0
    """How many steps its tool has recorded; each is in the history."""
    tool_version: str | None = None
    """The version of the tool under which it began; None if any may run it."""
    rerun_of: str | None = None
    """The finished task whose call it runs again."""

    def with_changes(self, **changes: Any) -> "Task":
        """Do the same as `attrs.evolve` in less than half the time; every step calls this."""
        values = list(_values(self))
        for name, value in changes.items():
            values[_PLACES[name]] = value
        return Task(*values)

    @property
    def is_queued(self) -> bool:
        """True if a worker may claim it (column `queue` of DUTIES)."""
        return self.state.duties.is_queued

    @property
    def shows_progress(self) -> bool:
        """True if requestors are notified of its progress (column `progress`)."""
        return self.state.duties.shows_progress

    @property
    def is_waiting(self) -> bool:
        """True if its questions are delivered and can be answered (column `questions`)."""
        return self.state.duties.is_waiting

    @property
    def is_live(self) -> bool:
        """True if calls still wait for its outcome (column `waiters`)."""
        return self.state.duties.is_live

    @property
    def is_terminal(self) -> bool:
        """True if it has an outcome and is still stored."""
        return self.state in TERMINAL

    @property
    def deadline(self) -> int | None:
        """When it expires (while live) or is removed (once finished)."""
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
    """One line in the append-only history of a task."""

    task_id: str
    seq: int
    at: int
    event: Event
    source: State
    dest: State
    note: str | None = None
    data: bytes | None = None
    """A recorded step, encoded by the runtime."""
