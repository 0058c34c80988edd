"""What a receiver or a requestor wants done.  They do nothing themselves."""

from typing import Any

import attrs

from taskmachine.protocol.jsonrpc import Id, Message
from taskmachine.protocol.operations import Operation
from taskmachine.statemachine import Outcome, Progress, Reply

__all__ = ["Abandoned", "Asked", "Changed", "Finished", "Moved", "Perform", "Replied", "Send"]


@attrs.frozen
class Send:
    """Send a message: on the stream of that request, or on the general one."""

    message: Message
    stream: Id | None = None
    ends: str | None = None
    """The task of which nothing more is told there."""


@attrs.frozen
class Perform:
    """Do what a request asks for, then say how it went.  Without an id nobody waits for it."""

    id: Id | None
    operation: Operation


@attrs.frozen
class Abandoned:
    """Nobody waits for the answer to that request any more."""

    id: Id


@attrs.frozen
class Replied:
    """A question of a plain call was answered."""

    call: Id
    key: str
    reply: Reply


@attrs.frozen
class Asked:
    """A call needs an answer from whoever made it."""

    call: str
    key: str
    method: str
    params: dict[str, Any]


@attrs.frozen
class Changed:
    """A call that runs as a task shows another status."""

    call: str
    status: str
    message: str | None = None


@attrs.frozen
class Moved:
    """A call made progress."""

    call: str
    progress: Progress


@attrs.frozen
class Finished:
    """A call has ended; nothing more will be said of it."""

    call: str
    outcome: Outcome
