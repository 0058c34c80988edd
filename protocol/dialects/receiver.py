"""What a receiver of tasks needs from a dialect.

Each dialect implements `ReceiverDialect` as one object without state.  Flags say what its wire
has.  A method that belongs to something which the wire does not have raises `MethodNotFound`;
the receiver calls it only after the dialect itself has read a request for it.
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
"""For each tool the parameters that clients repeat in HTTP headers: header to property path."""


def poll_interval_ms(task: Task, now: int) -> int:
    """How long a requestor should wait before it looks again: longer, the older the task is."""
    if task.poll_interval_ms is not None:
        return task.poll_interval_ms
    return min(5_000, max(250, (now - task.created_at) // 10))


@attrs.define
class Session:
    """What a conversation has established."""

    offer: Offer
    capabilities: JSONObject = attrs.field(factory=dict)
    """What the peer declared when it introduced itself."""
    is_introduced: bool = False
    is_ready: bool = False
    """Whether it can be asked something."""


@attrs.frozen
class Immediate:
    """A result that needs no task."""

    result: Any


class ReceiverDialect(Protocol):
    """How one dialect reads requests, shows tasks, and is carried over HTTP."""

    messages: Dialect
    collect_blocks: bool = False
    """Whether collecting waits for the end."""
    follows_created: bool = False
    """Whether changes of a task are told to the conversation that created it."""
    announces_created: bool = False
    """Whether the creation of a task is told as well."""
    sends_questions: bool = False
    """Whether a question goes out as a request, of a task and of a plain call."""
    shows_metadata: bool = False
    """Whether callers see the metadata of tasks, so that a server cannot keep marks there."""

    # --- requests and their answers ----------------------------------------------------------

    def read(self, request: Request, session: Session) -> Operation | Immediate:
        """Return what a request asks for; raise what the error table knows."""
        ...

    def reply(self, operation: Operation, task: Task, steps: Sequence[Step], now: int) -> Any:
        """Return the result message, or an `Error`, for an operation that was performed."""
        ...

    def ran(self, outcome: Outcome) -> Any:
        """Return the result message, or an `Error`, of a plain call."""
        raise MethodNotFound("tools/call")

    def paused(self, questions: Sequence[Question], state: str | None) -> Any:
        """Return the result message of a call that needs answers first."""
        raise MethodNotFound("tools/call")

    def page(self, tasks: Sequence[Task], cursor: str | None, now: int) -> Any:
        """Return the result message of a list."""
        raise MethodNotFound("tasks/list")

    def signature(self, offer: Offer) -> JSONObject:
        """Return what every result says in its `_meta`."""
        return {}

    # --- notifications and questions ---------------------------------------------------------

    def notices(
        self, task: Task, stream: Id | None, operation: Operation | None, now: int
    ) -> Sequence[Any]:
        """Return the notifications of a change, on a stream that such an operation opened."""
        ...

    def progress(self, task: Task) -> Any:
        """Return the notification of a task's progress; None if there is nothing to tell."""
        return None

    def call_progress(self, token: Id, progress: Progress) -> Any:
        """Return the notification of a plain call's progress, under its token."""
        raise MethodNotFound("notifications/progress")

    def question(self, id: Id, question: Question, task: Task | None = None) -> Request:
        """Return the request that brings a question, of a task or of a plain call."""
        return Request(id, question.method, decode_json(question.params))

    def withdrawal(self, id: Id) -> Any:
        """Return the notification that takes a question back."""
        raise MethodNotFound("notifications/cancelled")

    def is_readiness(self, params: Any) -> bool:
        """Return whether this notification of the peer allows questions from now on."""
        return False

    def acknowledgement(self, id: Id, task_ids: Sequence[str]) -> Any:
        """Return the notification that a watch has begun."""
        raise MethodNotFound("subscriptions/listen")

    def farewell(self, id: Id) -> tuple[Any, Any]:
        """Return the notification and the result by which a watch ends."""
        raise MethodNotFound("subscriptions/listen")

    # --- transports --------------------------------------------------------------------------

    is_stateless: bool = False
    """Whether each request stands alone, so that there are no sessions, no GET and no DELETE."""
    how_to_begin: str
    """What a client should do whose message belongs to no session, for the refusal."""

    def claims(self, message: Message | None, version: str | None) -> bool:
        """Return whether a message is of this dialect; None for a GET or a DELETE.

        `version` is the header `MCP-Protocol-Version`, None where there is none.
        """
        ...

    def begins_session(self, message: Message) -> bool:
        """Return whether a message without a session begins one."""
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
        """Raise if the headers do not allow this message; that is HTTP status 400.

        Names are in lower case; `repeated` are those that were sent more than once.
        """
        return

    def http_status(self, response: ResultResponse | ErrorResponse, request: Request) -> int:
        """Return the HTTP status of an answer."""
        return 200


def choose(
    spoken: Sequence[ReceiverDialect], message: Message | None, version: str | None = None
) -> ReceiverDialect:
    """Return the first dialect that claims a message; else the first, which refuses it."""
    for dialect in spoken:
        if dialect.claims(message, version):
            return dialect
    return spoken[0]
