"""The evidence of a run, from callers, tools and the database, to be checked afterwards.

Times are nanoseconds of the monotonic clock, which all processes of one machine share; those
called `*_ms` are milliseconds since the epoch, as the server shows them.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, Final, Literal

import attrs
import msgspec

from taskmachine.statemachine import Entry, Task

__all__ = ["AUDIT", "Channel", "Evidence", "LogLine", "Made", "Miss", "Observation", "Span", "now"]

AUDIT: Final = "audit"
"""The `wire` of observations that were read from the database itself, without a server."""

Outcome = tuple[Any, ...]


def now() -> int:
    """Return the monotonic time in nanoseconds."""
    return time.monotonic_ns()


@attrs.frozen
class Made:
    """An acknowledged create."""

    until: int
    owner: str
    task_id: str
    name: str


@attrs.frozen
class Observation:
    """A task as shown by a call that was made at `since` and answered at `until`."""

    since: int
    until: int
    caller: str
    wire: str
    task_id: str
    status: str
    updated_ms: int | None = None
    """None if the response had only the outcome."""
    outcome: Outcome | None = None
    message: str | None = None
    version: int | None = None
    """Known only for reads from the database."""


@attrs.frozen
class Miss:
    """A call that was answered "unknown task"."""

    since: int
    caller: str
    task_id: str


@attrs.define
class Span:
    """A call; `until` is when the caller had a response or lost the connection."""

    since: int
    method: str
    task_id: str | None
    until: int | None = None
    is_dropped: bool = False
    """Whether the caller stopped waiting."""


@attrs.define
class Channel:
    """The notifications on one stream, in order."""

    owner: str
    kind: str
    opened: int
    pushes: list[Observation] = attrs.field(factory=list)
    is_open: bool = False
    """Whether the server accepted the stream."""
    agreed: set[str] = attrs.field(factory=set)
    """The tasks in the server's acknowledgement of the subscription."""
    closed: int | None = None
    """When the connection broke or the client closed it."""


class LogLine(msgspec.Struct, frozen=True):
    """A line in the log file of the tools, written while a tool runs."""

    task_id: str
    run: str
    name: str
    what: Literal["begin", "writing", "written", "called", "recorded", "end"]
    at_ms: int
    key: str = ""
    """The step whose function was called, or that is recorded."""


@attrs.define
class Evidence:
    """All records of one run."""

    epoch_ms: float = attrs.field(factory=lambda: time.time() * 1e3 - time.monotonic() * 1e3)
    """The wall clock of the servers when the monotonic clock was at 0."""
    attempts: dict[str, str] = attrs.field(factory=dict)
    """The owner of each call, by its name, answered or not."""
    made: list[Made] = attrs.field(factory=list)
    observations: list[Observation] = attrs.field(factory=list)
    misses: list[Miss] = attrs.field(factory=list)
    spans: list[Span] = attrs.field(factory=list)
    channels: list[Channel] = attrs.field(factory=list)
    asked: set[tuple[str, str, str]] = attrs.field(factory=set)
    """Task, key and message of each question."""
    answers: defaultdict[tuple[str, str], set[str]] = attrs.field(factory=lambda: defaultdict(set))
    """All answers that callers gave, by task and key."""
    cancels: set[str] = attrs.field(factory=set)
    """Tasks for which a caller sent `tasks/cancel`."""
    complaints: list[str] = attrs.field(factory=list)
    counts: Counter[str] = attrs.field(factory=Counter)

    log_lines: list[LogLine] = attrs.field(factory=list)
    tasks: dict[str, Task] = attrs.field(factory=dict)
    entries: dict[str, Sequence[Entry]] = attrs.field(factory=dict)
