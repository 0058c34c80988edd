"""What a requestor of tasks needs from a dialect: how to say it, and what an answer means.

Each dialect implements `RequestorDialect` as one object without state.  A method that belongs to
something which the wire does not have raises `MethodNotFound`; the requestor calls it only after
the dialect itself has read something that leads there.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import attrs

from taskmachine.protocol.dialects.dialect import Dialect
from taskmachine.protocol.errors import MethodNotFound
from taskmachine.protocol.jsonrpc import Error, Id, Message, Request
from taskmachine.protocol.jsonvalue import JSONObject
from taskmachine.statemachine import Call, Outcome, Progress, Reply, State

__all__ = ["Asking", "Paused", "RequestorDialect", "Seen"]


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


class RequestorDialect(Protocol):
    """How one dialect makes calls and follows their tasks."""

    messages: Dialect
    questions_are_requests: bool = False
    """Whether a question is a request of the receiver, sent to a requestor that collects."""

    @property
    def takes_cancel(self) -> bool:
        """Whether the peer takes a cancel."""
        return True

    # --- what is said ------------------------------------------------------------------------

    def create(self, call: Call, ttl_ms: int | None) -> Any:
        """Return the request that makes a call, as a task where that can be said."""
        ...

    def get(self, task_id: str) -> Any:
        """Return the request that looks at a task."""
        ...

    def cancel(self, task_id: str) -> Any:
        """Return the request that stops a task."""
        ...

    def retry(self, call: Call, replies: Mapping[str, Reply], state: str | None) -> Any:
        """Return the request that makes a paused call once more, with answers and state."""
        raise MethodNotFound("tools/call")

    def collect(self, task_id: str) -> Any:
        """Return the request for the outcome, where a get does not bring it."""
        raise MethodNotFound("tasks/result")

    def answer(self, task_id: str, key: str, reply: Reply) -> Any:
        """Return the request that answers a question, where it is not a request itself."""
        raise MethodNotFound("tasks/update")

    def respond(self, id: Id, task_id: str, reply: Reply) -> Message:
        """Return the response to a question that is a request."""
        raise MethodNotFound("elicitation/create")

    def forget(self, id: Id) -> Any:
        """Return the notification that abandons a request; None if there is no such thing."""
        return None

    def forgets(self, call: Call) -> bool:
        """Return whether a call may be abandoned by that."""
        return False

    # --- what is read ------------------------------------------------------------------------

    def read_created(self, result: Any) -> Seen | Outcome | Paused:
        """Read the answer to create: a task, or the outcome at once, or questions first."""
        ...

    def read(self, shown: Any) -> Seen | None:
        """Read the answers to get and cancel, and the notification of a change."""
        ...

    def read_collected(self, result: Any) -> Outcome:
        """Read the answer to collect."""
        raise MethodNotFound("tasks/result")

    def read_question(self, request: Request) -> Asking | None:
        """Read a question that is a request; raise if this request is none.

        None where the wire knows no such requests: they are not even refused.
        """
        return None

    def read_progress(self, progress: Any) -> tuple[Id, Progress]:
        """Read the notification of progress: its token, and how far."""
        ...

    def failed(self, error: Error) -> Outcome:
        """Return what an error in place of the outcome means."""
        ...

    def is_gone(self, error: Error) -> bool:
        """Return whether an error says that there is no such task."""
        ...
