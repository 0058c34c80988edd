"""The interface between `Receiver` and a dialect.

Each dialect implements `ReceiverDialect` as one object without state.  Flags declare the features
of its wire.  The default of a method whose feature is missing raises `MethodNotFound`; `Receiver`
calls it only after the dialect itself has read a request for that feature.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import attrs

from taskmachine.protocol.dialects.dialect import Dialect
from taskmachine.protocol.errors import MethodNotFound
from taskmachine.protocol.jsonrpc import ErrorResponse, Id, Message, Request, ResultResponse
from taskmachine.protocol.jsonvalue import JSONObject, decode_json
from taskmachine.protocol.offer import Offer
from taskmachine.protocol.operations import Operation
from taskmachine.statemachine import Outcome, Progress, Question, Task
from taskmachine.statemachine.lifecycle import Step

__all__ = ["Immediate", "Mirrored", "ReceiverDialect", "Session", "choose", "poll_interval_ms"]

Mirrored = Mapping[str, Mapping[str, tuple[str, ...]]]
"""For each tool, the parameters that clients repeat in HTTP headers: header to property path."""


def poll_interval_ms(task: Task, now: int) -> int:
    """Return how long a requestor should wait between polls; it grows with the task's age."""
    if task.poll_interval_ms is not None:
        return task.poll_interval_ms
    return min(5_000, max(250, (now - task.created_at) // 10))


@attrs.define
class Session:
    """The result of a connection's handshake."""

    offer: Offer
    capabilities: JSONObject = attrs.field(factory=dict)
    """The capabilities that the peer declared in the handshake."""
    is_introduced: bool = False
    is_ready: bool = False
    """Whether the peer accepts requests."""


@attrs.frozen
class Immediate:
    """A result that needs no task."""

    result: Any


class ReceiverDialect(Protocol):
    """How one dialect reads requests, shows tasks, and is carried over HTTP."""

    messages: Dialect
    collect_blocks: bool = False
    """Whether the request for a result waits until the task has ended."""
    follows_created: bool = False
    """Whether changes of a task are notified on the connection that created it."""
    announces_created: bool = False
    """Whether the creation of a task is notified as well."""
    sends_questions: bool = False
    """Whether questions of tasks and of plain calls are sent as requests."""
    shows_metadata: bool = False
    """Whether callers see the metadata of tasks, so a server cannot keep private data there."""

    # --- requests and their answers ----------------------------------------------------------

    def read(self, request: Request, session: Session) -> Operation | Immediate:
        """Return the operation of a request, or raise an exception of the error table."""
        ...

    def reply(self, operation: Operation, task: Task, steps: Sequence[Step], now: int) -> Any:
        """Return the result message, or an `Error`, for an operation that was performed."""
        ...

    def ran(self, outcome: Outcome) -> Any:
        """Return the result message, or an `Error`, of a plain call."""
        raise MethodNotFound("tools/call")

    def paused(self, questions: Sequence[Question], state: str | None) -> Any:
        """Return the result message of a call that needs answers before it can continue."""
        raise MethodNotFound("tools/call")

    def page(self, tasks: Sequence[Task], cursor: str | None, now: int) -> Any:
        """Return the result message of a list."""
        raise MethodNotFound("tasks/list")

    def signature(self, offer: Offer) -> JSONObject:
        """Return the members that every result has in its `_meta`."""
        return {}

    # --- notifications and questions ---------------------------------------------------------

    def notices(
        self, task: Task, stream: Id | None, operation: Operation | None, now: int
    ) -> Sequence[Any]:
        """Return the notifications of a change, for the stream that `operation` opened."""
        ...

    def progress(self, task: Task) -> Any:
        """Return the notification of a task's progress, or None if there is none to send."""
        return None

    def call_progress(self, token: Id, progress: Progress) -> Any:
        """Return the notification of a plain call's progress, under its token."""
        raise MethodNotFound("notifications/progress")

    def question(self, id: Id, question: Question, task: Task | None = None) -> Request:
        """Return the request that asks a question of a task or of a plain call."""
        return Request(id, question.method, decode_json(question.params))

    def withdrawal(self, id: Id) -> Any:
        """Return the notification that withdraws a question."""
        raise MethodNotFound("notifications/cancelled")

    def is_readiness(self, params: Any) -> bool:
        """Return True if this notification says that the peer accepts requests from now on."""
        return False

    def acknowledgement(self, id: Id, task_ids: Sequence[str]) -> Any:
        """Return the notification that a watch has begun."""
        raise MethodNotFound("subscriptions/listen")

    def end_watch(self, id: Id) -> tuple[Any, Any]:
        """Return the notification and the result that end a watch."""
        raise MethodNotFound("subscriptions/listen")

    # --- transports --------------------------------------------------------------------------

    is_stateless: bool = False
    """Whether each request is independent, so there are no sessions, no GET and no DELETE."""
    how_to_begin: str
    """Advice for a client whose message belongs to no session, part of the error message."""

    def claims(self, message: Message | None, version: str | None) -> bool:
        """Return True if a message (None for a GET or DELETE) is of this dialect.

        `version` is the header `MCP-Protocol-Version`, or None without one.
        """
        ...

    def begins_session(self, message: Message) -> bool:
        """Return True if a message without a session begins one."""
        return not self.is_stateless

    def mirrored(self, offer: Offer) -> Mirrored:
        """Return the tool parameters that clients repeat in headers, for `check_headers`."""
        return {}

    def check_headers(
        self,
        headers: Mapping[str, str],
        message: Message | None,
        mirrored: Mirrored,
        repeated: Collection[str] = (),
    ) -> None:
        """Raise if the headers do not match the message, which is HTTP status 400.

        Names are in lower case; `repeated` are those that were sent more than once.
        """
        return

    def http_status(self, response: ResultResponse | ErrorResponse, request: Request) -> int:
        """Return the HTTP status of an answer."""
        return 200


def choose(
    spoken: Sequence[ReceiverDialect], message: Message | None, version: str | None = None
) -> ReceiverDialect:
    """Return the first dialect that claims a message, or else the first, which refuses it."""
    for dialect in spoken:
        if dialect.claims(message, version):
            return dialect
    return spoken[0]
