"""What a requestor needs to know of a dialect: how to say it, and what an answer means."""

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from taskmachine.protocol.dialect import Dialect
from taskmachine.protocol.jsonrpc import Error, Id, Message, Request
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.statemachine import Call, Outcome, Progress, Reply, State

__all__ = ["Asking", "Paused", "Seen", "Speech"]


@attrs.frozen
class Seen:
    """A task as its receiver showed it, in the words of the table."""

    task_id: str
    state: State
    poll_ms: int | None = None
    message: str | None = None
    questions: Mapping[str, tuple[str, JSONObject]] = attrs.field(factory=dict)
    outcome: Outcome | None = None
    token: Id | None = None
    """The progress token, where the receiver makes it."""


@attrs.frozen
class Asking:
    """A question that came as a request.  `is_named` if its key is unique for the task's life."""

    task_id: str
    key: str
    params: JSONObject
    is_named: bool


@attrs.frozen
class Paused:
    """A plain call that wants answers before it is made again, with the state that it was given."""

    questions: Mapping[str, tuple[str, JSONObject]]
    state: str | None


@attrs.frozen(eq=False)
class Speech:
    """How one dialect says it; None for what its wire does not have."""

    dialect: Dialect
    create: Callable[[Call, int | None], Any]
    get: Callable[[str], Any]
    cancel: Callable[[str], Any] | None
    """None if the peer takes no cancel."""
    read_created: Callable[[Any], Seen | Outcome | Paused]
    """The answer to create: a task, or the outcome at once, or questions first."""
    read: Callable[[Any], Seen | None]
    """The answers to get and cancel, and the notification of a change."""
    failed: Callable[[Error], Outcome]
    """What an error in place of the outcome means."""
    is_gone: Callable[[Error], bool]
    """Whether an error says that there is no such task."""
    retry: Callable[[Call, Mapping[str, Reply], str | None], Any] | None = None
    """The call once more, with answers and state."""
    collect: Callable[[str], Any] | None = None
    """The request for the outcome, where a get does not bring it."""
    collected: Callable[[Any], Outcome] | None = None
    answer: Callable[[str, str, Reply], Any] | None = None
    """The request that answers a question, where it is not a request itself."""
    read_question: Callable[[Request], Asking] | None = None
    """A question that is a request; raises if the request is none."""
    encode_answer: Callable[[Id, str, Reply], Message] | None = None
    """The response to a question that is a request."""
    read_progress: Callable[[Any], tuple[Id, Progress]] | None = None
    forget: Callable[[Id], Any] | None = None
    """The notification that nobody waits for the answer to a request any more."""
    forgets_calls: Callable[[Call], bool] = lambda _: False
    """Whether that may be said of a call."""
