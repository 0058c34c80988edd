"""The exceptions of the client."""

from typing import Any

from taskmachine.statemachine import TaskmachineError

__all__ = [
    "BadAnswer",
    "CallFailed",
    "Cancelled",
    "ConnectionLost",
    "Declined",
    "NoAnswer",
    "Refused",
    "SessionLost",
]


class ConnectionLost(TaskmachineError):
    """The server is not reachable, or no longer.

    The outcome of pending calls is unknown.  A call with an idempotency key can be repeated safely.
    """


class NoAnswer(ConnectionLost):
    """The server did not answer in time."""


class SessionLost(ConnectionLost):
    """The server lost the session, and with it the task of a call."""


class BadAnswer(TaskmachineError):
    """The server sent an invalid answer."""


class Refused(BadAnswer):
    """The server answered with an HTTP error status and without a JSON-RPC error."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class CallFailed(TaskmachineError):
    """The server answered a call with an error, or the task ended with one."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.data = data


class Declined(TaskmachineError):
    """Raised by an `answer` function when the user declines.

    For forms `question.decline()` declines in a regular result, after which the tool can continue.
    """


class Cancelled(TaskmachineError):
    """The call was cancelled, by the client or by the server."""

    def __init__(self, reason: str | None = None) -> None:
        super().__init__("the call was cancelled" if not reason else f"cancelled: {reason}")
        self.reason = reason
