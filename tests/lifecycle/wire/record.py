"""The record of one run: every message as plain JSON, with the time of its arrival.

Times are nanoseconds of the monotonic clock.  The thread that reads a message records it.
"""

import threading
import time
from collections.abc import Callable
from typing import Any, Final, Literal

import attrs

__all__ = [
    "GET_STREAM",
    "JSON",
    "NEW",
    "OLD",
    "PIPE",
    "Channel",
    "End",
    "Evidence",
    "Exchange",
    "Received",
    "TaskModel",
    "Wire",
    "now",
]

JSON = dict[str, Any]
Wire = Literal["2025-11-25", "2026-07-28"]
OLD: Final = "2025-11-25"
NEW: Final = "2026-07-28"
GET_STREAM: Final = "GET stream"
PIPE: Final = "pipe"


def now() -> int:
    return time.monotonic_ns()


@attrs.frozen
class Received:
    """A notification or a request of the server."""

    at: int
    message: JSON
    event_id: str | None = None


@attrs.define(eq=False)
class Channel:
    """A sequence of messages: a stream with all its connections, or the output of a process.

    `task_id` is set on the stream of a `tasks/result` call.
    """

    owner: str
    wire: Wire
    kind: str
    session: str | None = None
    task_id: str | None = None
    messages: list[Received] = attrs.field(factory=list)
    last_event_id: str | None = None
    opened: list[int] = attrs.field(factory=lambda: [now()])
    closed: list[int] = attrs.field(factory=list)
    """When each connection was closed, by the client or by the server."""
    abandoned_at: int | None = None
    """When the client first did something that makes the server end the stream."""

    @property
    def is_open(self) -> bool:
        return len(self.closed) < len(self.opened)

    def is_gone(self, at: int) -> bool:
        """Return whether the server had a reason to treat the channel as closed."""
        ends = [*self.closed, *([] if self.abandoned_at is None else [self.abandoned_at])]
        return min(ends, default=at) < at


@attrs.define(eq=False)
class Exchange:
    """A request and its response."""

    owner: str
    wire: Wire
    method: str
    params: JSON
    id: int | str
    sent: int = attrs.field(factory=now)
    session: str | None = None
    received: int | None = None
    status: int | None = None
    raw: bytes = b""
    answer: JSON | None = None
    answers: int = 0
    is_dropped: bool = False
    """Whether the client gave up the request."""
    cancelled_at: int | None = None
    """When the client sent `notifications/cancelled`."""
    failure: str | None = None
    channel: Channel | None = None
    streaming: threading.Event = attrs.field(factory=threading.Event)
    done: threading.Event = attrs.field(factory=threading.Event)

    def complete(self, answer: JSON, raw: bytes) -> None:
        self.answers += 1
        if self.answer is None:
            self.answer, self.raw, self.received = answer, raw, now()

    @property
    def result(self) -> JSON:
        """The result of a request that must have succeeded."""
        assert self.answer is not None, f"{self.method} was not answered: {self.failure}"
        assert "result" in self.answer, f"{self.method} {self.params}: {self.answer}"
        result: JSON = self.answer["result"]
        return result

    @property
    def code(self) -> int | None:
        """The error code, or None if the request succeeded."""
        if self.answer is None or "error" not in self.answer:
            return None
        code: int = self.answer["error"]["code"]
        return code


@attrs.frozen
class End:
    """An operation that may have ended a task; after `done` it has had its effect."""

    outcome: tuple[Any, ...]
    sent: int
    done: int | None = None


@attrs.define(eq=False)
class TaskModel:
    """The model of a task: the test itself causes everything that happens to it."""

    id: str
    name: str
    owner: str
    wire: Wire
    session: str | None
    arguments: JSON
    key: str | None = None
    tool: str = "controlled"
    progress: int = 0
    asked: dict[str, bool] = attrs.field(factory=dict)
    """Question keys, and whether the tool parked for the answer."""
    groups: list[list[str]] = attrs.field(factory=list)
    """Question keys that were asked together."""
    answers: dict[str, str] = attrs.field(factory=dict)
    """The first answer to each question key."""
    answered_at: dict[str, int] = attrs.field(factory=dict)
    steps: dict[str, str | None] = attrs.field(factory=dict)
    """The recorded result of each step."""
    ends: list[End] = attrs.field(factory=list)
    is_stubborn: bool = False

    @property
    def is_live(self) -> bool:
        return not self.ends

    @property
    def unanswered(self) -> list[str]:
        return [key for key in self.asked if key not in self.answers] if self.is_live else []

    @property
    def is_parked(self) -> bool:
        return any(self.asked[key] for key in self.unanswered)


@attrs.define
class Evidence:
    """Everything that was sent and received in one run."""

    exchanges: list[Exchange] = attrs.field(factory=list)
    channels: list[Channel] = attrs.field(factory=list)
    models: list[TaskModel] = attrs.field(factory=list)
    keys: list[tuple[str, str, str]] = attrs.field(factory=list)
    """Owner, idempotency key, task id."""
    listed: list[tuple[str, list[list[str]]]] = attrs.field(factory=list)
    """Owner, and the task ids of each page."""
    foreign: list[tuple[str, bytes, bytes]] = attrs.field(factory=list)
    """Request, and the responses for a foreign and for an unknown id."""
    raw: list[tuple[str, bytes]] = attrs.field(factory=list)
    """Owner, and the bytes received."""
    problems: list[str] = attrs.field(factory=list)
    """Problems found while requests were sent."""
    secrets: dict[str, str] = attrs.field(factory=dict)
    """Words that only one owner may receive, with that owner."""
    changed: threading.Condition = attrs.field(factory=threading.Condition)

    def receive(self, channel: Channel, message: JSON, event_id: str | None = None) -> None:
        with self.changed:
            channel.messages.append(Received(now(), message, event_id))
            self.changed.notify_all()

    def mark_event_id(self, channel: Channel, event_id: str) -> None:
        """Record the event id from which the stream is resumed."""
        with self.changed:
            channel.last_event_id = event_id
            self.changed.notify_all()

    def until(self, is_so: Callable[[], Any], bound_s: float) -> Any:
        """Return the value of `is_so` once it is true, or its last value after the bound."""
        with self.changed:
            return self.changed.wait_for(is_so, bound_s)

    def expect(self, is_so: Callable[[], Any], bound_s: float, problem: str) -> Any:
        """Do the same, and record a problem if it did not become true."""
        came = self.until(is_so, bound_s)
        if not came:
            self.problems.append(problem)
        return came
