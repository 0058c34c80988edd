"""The interface between `Requestor` and a dialect: messages to send and how to read answers.

Each dialect implements `RequestorDialect` as one object without state.  The default of a method
whose feature is missing raises `MethodNotFound`; `Requestor` calls it only after the dialect
itself has read a message that leads there.
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
    """A task as its receiver showed it, with the states of the table."""

    task_id: str
    state: State
    poll_ms: int | None = None
    message: str | None = None
    questions: Mapping[str, tuple[str, JSONObject]] = attrs.field(factory=dict)
    outcome: Outcome | None = None
    token: Id | None = None
    """The progress token, if the receiver chooses it."""


@attrs.frozen
class Asking:
    """A question that arrived as a request.  `is_named` if the task uses its key only once."""

    task_id: str
    key: str
    params: JSONObject
    is_named: bool


@attrs.frozen
class Paused:
    """A plain call that needs answers: the requestor repeats it with them and with `state`."""

    questions: Mapping[str, tuple[str, JSONObject]]
    state: str | None


class RequestorDialect(Protocol):
    """How one dialect makes calls and follows their tasks."""

    messages: Dialect
    questions_are_requests: bool = False
    """Whether questions are requests of the receiver, sent to a requestor that waits for a result.
    """

    @property
    def takes_cancel(self) -> bool:
        """Whether the peer supports cancelling a task."""
        return True

    # --- messages to send --------------------------------------------------------------------

    def create(self, call: Call, ttl_ms: int | None) -> Any:
        """Return the request that makes a call, as a task where the wire can request one."""
        ...

    def get(self, task_id: str) -> Any:
        """Return the request that reads a task."""
        ...

    def cancel(self, task_id: str) -> Any:
        """Return the request that cancels a task."""
        ...

    def retry(self, call: Call, replies: Mapping[str, Reply], state: str | None) -> Any:
        """Return the request that repeats a paused call with answers and state."""
        raise MethodNotFound("tools/call")

    def collect(self, task_id: str) -> Any:
        """Return the request for the outcome, where a get does not return it."""
        raise MethodNotFound("tasks/result")

    def answer(self, task_id: str, key: str, reply: Reply) -> Any:
        """Return the request that answers a question, where questions are not requests."""
        raise MethodNotFound("tasks/update")

    def respond(self, id: Id, task_id: str, reply: Reply) -> Message:
        """Return the response to a question, where questions are requests."""
        raise MethodNotFound("elicitation/create")

    def abandon(self, id: Id) -> Any:
        """Return the notification that cancels a request; None if the wire has none."""
        return None

    def may_abandon(self, call: Call) -> bool:
        """Return True if that notification may cancel this call."""
        return False

    # --- messages received -------------------------------------------------------------------

    def read_created(self, result: Any) -> Seen | Outcome | Paused:
        """Read the answer to create: a task, an outcome, or questions to answer first."""
        ...

    def read(self, shown: Any) -> Seen | None:
        """Read the answers to get and cancel, and the notification of a change."""
        ...

    def read_collected(self, result: Any) -> Outcome:
        """Read the answer to collect."""
        raise MethodNotFound("tasks/result")

    def read_question(self, request: Request) -> Asking | None:
        """Read a question that is a request; raise if this request is not a question.

        None if the wire has no requests of the receiver, not even to refuse them.
        """
        return None

    def read_progress(self, progress: Any) -> tuple[Id, Progress]:
        """Read the notification of progress: its token and the progress."""
        ...

    def failed(self, error: Error) -> Outcome:
        """Return the outcome that an error response stands for."""
        ...

    def is_gone(self, error: Error) -> bool:
        """Return True if an error says that there is no such task."""
        ...
