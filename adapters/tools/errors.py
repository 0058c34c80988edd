"""Errors that a tool may see while it runs, or that keep it from running."""

from taskmachine.statemachine import TaskmachineError

__all__ = ["CannotAsk", "Gone", "LifespanFailed"]


class Gone(TaskmachineError):
    """The task has ended, or another worker holds it: the tool should stop."""


class CannotAsk(TaskmachineError):
    """The client did not declare support for this kind of question."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"the client did not declare support for '{kind}'")
        self.kind = kind


class LifespanFailed(TaskmachineError):
    """The lifespan of the tools raised an error, so they cannot run."""
