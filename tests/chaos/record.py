"""What was seen of a run, by everybody who saw something: to be judged when it is over.

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

__all__ = ["AUDIT", "Channel", "Evidence", "Line", "Look", "Made", "Miss", "Span", "now"]

AUDIT: Final = "audit"
"""The wire of what was read from the database behind the back of all servers."""

Outcome = tuple[Any, ...]


def now() -> int:
    """Of the clock that everybody shares."""
    return time.monotonic_ns()


@attrs.frozen
class Made:
    """A create that was acknowledged."""

    until: int
    owner: str
    task_id: str
    name: str


@attrs.frozen
class Look:
    """A task, as a call that was made at `since` and answered at `until` showed it."""

    since: int
    until: int
    caller: str
    wire: str
    task_id: str
    status: str
    updated_ms: int | None = None
    """None if only the outcome was shown."""
    outcome: Outcome | None = None
    message: str | None = None
    version: int | None = None
    """Known only to whoever looks into the database."""


@attrs.frozen
class Miss:
    """A caller was told that there is no such task."""

    since: int
    caller: str
    task_id: str


@attrs.define
class Span:
    """A call; `until` is when its caller was told something, be it that the line is dead."""

    since: int
    method: str
    task_id: str | None
    until: int | None = None
    is_dropped: bool = False
    """By the caller: nobody waits any more."""


@attrs.define
class Channel:
    """What was pushed on one stream, in order."""

    owner: str
    kind: str
    opened: int
    pushes: list[Look] = attrs.field(factory=list)
    is_open: bool = False
    """Whether the server has agreed to it."""
    agreed: set[str] = attrs.field(factory=set)
    """Tasks that the server said it would tell of."""
    closed: int | None = None
    """When it broke, or nobody wanted to hear more."""


class Line(msgspec.Struct, frozen=True):
    """What a tool wrote down while it ran: in a file, since nobody can take that back."""

    task_id: str
    run: str
    name: str
    what: Literal["begin", "speaks", "spoke", "end"]
    at_ms: int


@attrs.define
class Evidence:
    """All of one run."""

    epoch_ms: float = attrs.field(factory=lambda: time.time() * 1e3 - time.monotonic() * 1e3)
    """What the clock of the servers showed when the monotonic one was at 0."""
    attempts: dict[str, str] = attrs.field(factory=dict)
    """The name of each call, with or without an answer, and whose it is."""
    made: list[Made] = attrs.field(factory=list)
    looks: list[Look] = attrs.field(factory=list)
    misses: list[Miss] = attrs.field(factory=list)
    spans: list[Span] = attrs.field(factory=list)
    channels: list[Channel] = attrs.field(factory=list)
    asked: set[tuple[str, str, str]] = attrs.field(factory=set)
    """Task, key, and what was asked."""
    said: defaultdict[tuple[str, str], set[str]] = attrs.field(factory=lambda: defaultdict(set))
    """Task and key, and everything that somebody answered."""
    cancels: set[str] = attrs.field(factory=set)
    """Tasks that somebody tried to cancel."""
    complaints: list[str] = attrs.field(factory=list)
    counts: Counter[str] = attrs.field(factory=Counter)

    lines: list[Line] = attrs.field(factory=list)
    tasks: dict[str, Task] = attrs.field(factory=dict)
    entries: dict[str, Sequence[Entry]] = attrs.field(factory=dict)
