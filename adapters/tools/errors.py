"""Errors that a tool may see while it runs."""

from taskmachine.statemachine import TaskmachineError

__all__ = ["CannotAsk", "Gone"]


class Gone(TaskmachineError):
    """The task has ended, or another worker has it: there is nothing left to do here."""


class CannotAsk(TaskmachineError):
    """The client did not declare that it can answer this kind of question."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"the requestor did not declare that it answers '{kind}'")
        self.kind = kind
