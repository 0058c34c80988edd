"""Instructions of a `Receiver` or `Requestor` to its driver, which carries them out."""

from typing import Any

import attrs

from taskmachine.protocol.jsonrpc import Id, Message
from taskmachine.protocol.operations import Operation
from taskmachine.statemachine import Outcome, Progress, Reply

__all__ = ["Abandoned", "Asked", "Changed", "Finished", "Moved", "Perform", "Replied", "Send"]


@attrs.frozen
class Send:
    """Send a message on the stream of that request, or on the general stream if None."""

    message: Message
    stream: Id | None = None
    ends: str | None = None
    """The task for which this is the last message on that stream."""


@attrs.frozen
class Perform:
    """Perform an operation and report the result; no response is sent if `id` is None."""

    id: Id | None
    operation: Operation


@attrs.frozen
class Abandoned:
    """The requestor no longer waits for the response to that request."""

    id: Id


@attrs.frozen
class Replied:
    """The requestor answered a question of a plain call."""

    call: Id
    key: str
    reply: Reply


@attrs.frozen
class Asked:
    """A call asks its caller a question."""

    call: str
    key: str
    method: str
    params: dict[str, Any]


@attrs.frozen
class Changed:
    """The status of a call that runs as a task has changed."""

    call: str
    status: str
    message: str | None = None


@attrs.frozen
class Moved:
    """A call has made progress."""

    call: str
    progress: Progress


@attrs.frozen
class Finished:
    """A call has ended; this is its last output."""

    call: str
    outcome: Outcome
