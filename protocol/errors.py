"""Errors of a peer.  Each dialect chooses the codes and wording for its wire."""

from collections.abc import Sequence
from typing import Any

from taskmachine.statemachine.errors import TaskmachineError

__all__ = [
    "AlreadyEnded",
    "HeaderMismatch",
    "InputPending",
    "InvalidParams",
    "InvalidResult",
    "MalformedMessage",
    "MethodNotFound",
    "MissingCapability",
    "NotIntroduced",
    "TaskSupportMismatch",
    "UnsupportedVersion",
]


class MalformedMessage(TaskmachineError):
    """Bytes that are not a JSON-RPC 2.0 message.  `id` is the request's, if it could be read."""

    def __init__(self, code: int, reason: str, id: str | int | None = None) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason
        self.id = id


class NotIntroduced(TaskmachineError):
    """A request arrived before the handshake."""


class MethodNotFound(TaskmachineError):
    """The dialect has no such method, or not from this side."""

    def __init__(self, method: str) -> None:
        super().__init__(f"unknown method '{method}'")
        self.method = method


class InvalidParams(TaskmachineError):
    """The parameters do not fit their method; `reason` names the member that does not."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class InvalidResult(TaskmachineError):
    """A peer sent a result that does not fit the method that was called."""

    def __init__(self, method: str, reason: str) -> None:
        super().__init__(f"invalid answer to {method}: {reason}")
        self.method = method
        self.reason = reason


class MissingCapability(TaskmachineError):
    """The client did not declare what this request needs."""

    def __init__(self, required: dict[str, Any]) -> None:
        super().__init__(f"the client did not declare {required}")
        self.required = required


class UnsupportedVersion(TaskmachineError):
    """The request is of a protocol revision that this server does not support."""

    def __init__(self, requested: str, supported: Sequence[str]) -> None:
        super().__init__(f"protocol version '{requested}' is not among {list(supported)}")
        self.requested = requested
        self.supported = tuple(supported)


class HeaderMismatch(TaskmachineError):
    """An HTTP header is missing, malformed, or contradicts the body."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TaskSupportMismatch(TaskmachineError):
    """A tool that requires a task was called without one, or vice versa."""

    def __init__(self, tool: str, support: str) -> None:
        super().__init__(f"task support of tool '{tool}' is '{support}'")
        self.tool = tool
        self.support = support


class AlreadyEnded(TaskmachineError):
    """A client tried to cancel a task that has already ended."""

    def __init__(self, status: str) -> None:
        super().__init__(f"the task is already {status}")
        self.status = status


class InputPending(TaskmachineError):
    """A requestor asked for free-form input while the task already waits for answers."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"task '{task_id}' is already waiting for answers")
        self.task_id = task_id
