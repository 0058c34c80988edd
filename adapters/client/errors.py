"""What a caller of a server may have to catch."""

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
    """There is no way to the server any more, or there never was one.

    Nobody knows what became of a call that was on its way.  With an idempotency key it can be
    made again.
    """


class NoAnswer(ConnectionLost):
    """The server took too long."""


class SessionLost(ConnectionLost):
    """The server has forgotten the session, and with it the task that a call had become."""


class BadAnswer(TaskmachineError):
    """The server answered with something that is no answer."""


class Refused(BadAnswer):
    """The server answered with an HTTP status that is an error, and did not say more."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class CallFailed(TaskmachineError):
    """The server answered with an error, at once or as the end of a task."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.message = message
        self.data = data


class Declined(TaskmachineError):
    """Raised by whoever answers a question: the user does not want to.

    For forms `question.decline()` says the same as an answer, and the server can go on with it.
    """


class Cancelled(TaskmachineError):
    """The call was cancelled, by its caller or by the server."""

    def __init__(self, reason: str | None = None) -> None:
        super().__init__("the call was cancelled" if not reason else f"cancelled: {reason}")
        self.reason = reason
