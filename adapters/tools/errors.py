"""Errors that a tool raises, that it may see while it runs, or that keep it from running."""

from typing import Any

from taskmachine.statemachine import TaskmachineError

__all__ = ["CallError", "CannotAsk", "Gone", "LifespanFailed", "ToolError"]


class ToolError(Exception):
    """Raised by a tool to return a result with `isError` and this text for the model."""


class CallError(Exception):
    """Raised by a tool to answer the call with this JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Gone(TaskmachineError):
    """The task has ended, or another worker holds it: the tool should stop."""


class CannotAsk(TaskmachineError):
    """The client did not declare support for this kind of question."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"the client did not declare support for '{kind}'")
        self.kind = kind


class LifespanFailed(TaskmachineError):
    """The lifespan of the tools raised an error, so they cannot run."""
