"""What was said and received on the wires, as it was: plain JSON with times, to be judged later.

Times are nanoseconds of the monotonic clock.  What comes in is written down when it comes in,
by whichever thread reads it.
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
    """A message that nobody had to wait for: a notification, or a request of the server."""

    at: int
    message: JSON
    event_id: str | None = None


@attrs.define(eq=False)
class Channel:
    """What messages come in on, in order: a stream with all its connections, or the pipe.

    `task_id` is set if it belongs to a call that waits for that task.
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
    """When there was nothing more to read, be it by our wish or by the server's."""
    abandoned_at: int | None = None
    """When this side first did something that makes the server end it."""

    @property
    def is_open(self) -> bool:
        return len(self.closed) < len(self.opened)

    def is_gone(self, at: int) -> bool:
        """Whether the server had a reason to take it for ended."""
        ends = [*self.closed, *([] if self.abandoned_at is None else [self.abandoned_at])]
        return min(ends, default=at) < at


@attrs.define(eq=False)
class Exchange:
    """A request, and what it was answered."""

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
    """By us: nobody waits for the answer."""
    cancelled_at: int | None = None
    """When the server was told so."""
    failure: str | None = None
    channel: Channel | None = None
    streaming: threading.Event = attrs.field(factory=threading.Event)
    done: threading.Event = attrs.field(factory=threading.Event)

    def complete(self, answer: JSON, raw: bytes) -> None:
        """The answer is here."""
        self.answers += 1
        if self.answer is None:
            self.answer, self.raw, self.received = answer, raw, now()

    @property
    def result(self) -> JSON:
        """Of a request that succeeded."""
        assert self.answer is not None, f"{self.method} was not answered: {self.failure}"
        assert "result" in self.answer, f"{self.method} {self.params}: {self.answer}"
        result: JSON = self.answer["result"]
        return result

    @property
    def code(self) -> int | None:
        """Of the error that it was answered with."""
        if self.answer is None or "error" not in self.answer:
            return None
        code: int = self.answer["error"]["code"]
        return code


@attrs.frozen
class End:
    """Something that may have ended a task.  `done` is when it certainly had its effect."""

    outcome: tuple[Any, ...]
    sent: int
    done: int | None = None


@attrs.define(eq=False)
class TaskModel:
    """What a test knows of a task, since all that happens to it is its own doing."""

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
    """Key by key, whether the tool parked."""
    groups: list[list[str]] = attrs.field(factory=list)
    """Keys that were asked together."""
    answers: dict[str, str] = attrs.field(factory=dict)
    """Key by key, the first one that was accepted."""
    answered_at: dict[str, int] = attrs.field(factory=dict)
    ends: list[End] = attrs.field(factory=list)
    is_stubborn: bool = False

    @property
    def is_live(self) -> bool:
        """As far as the test knows."""
        return not self.ends

    @property
    def unanswered(self) -> list[str]:
        return [key for key in self.asked if key not in self.answers] if self.is_live else []

    @property
    def is_parked(self) -> bool:
        return any(self.asked[key] for key in self.unanswered)


@attrs.define
class Evidence:
    """All of one run."""

    exchanges: list[Exchange] = attrs.field(factory=list)
    channels: list[Channel] = attrs.field(factory=list)
    models: list[TaskModel] = attrs.field(factory=list)
    keys: list[tuple[str, str, str]] = attrs.field(factory=list)
    """Owner, idempotency key, the task that was named."""
    listed: list[tuple[str, list[list[str]]]] = attrs.field(factory=list)
    """Owner, and the ids on each page."""
    foreign: list[tuple[str, bytes, bytes]] = attrs.field(factory=list)
    """What was asked; what a foreign and a unknown id were answered."""
    raw: list[tuple[str, bytes]] = attrs.field(factory=list)
    """Owner, and the bytes that came in."""
    problems: list[str] = attrs.field(factory=list)
    """What was expected and did not come, or came and was wrong."""
    secrets: dict[str, str] = attrs.field(factory=dict)
    """Words that only one owner may ever see, and whose they are."""
    changed: threading.Condition = attrs.field(factory=threading.Condition)

    def receive(self, channel: Channel, message: JSON, event_id: str | None = None) -> None:
        with self.changed:
            channel.messages.append(Received(now(), message, event_id))
            self.changed.notify_all()

    def mark_event_id(self, channel: Channel, event_id: str) -> None:
        """Where to go on after a break."""
        with self.changed:
            channel.last_event_id = event_id
            self.changed.notify_all()

    def until(self, is_so: Callable[[], Any], bound_s: float) -> Any:
        """What it returns as soon as that is true, or the last when time is done."""
        with self.changed:
            return self.changed.wait_for(is_so, bound_s)

    def expect(self, is_so: Callable[[], Any], bound_s: float, problem: str) -> Any:
        """The same; it is complained of if it did not come."""
        came = self.until(is_so, bound_s)
        if not came:
            self.problems.append(problem)
        return came
