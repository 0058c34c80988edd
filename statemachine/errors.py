"""Errors by whose fault they are.  They carry fields; dialects choose codes and words."""

from taskmachine.statemachine.table import Event, State

__all__ = [
    "ConfigurationError",
    "IllegalTransition",
    "KeyReused",
    "LimitExceeded",
    "NotFound",
    "StaleFence",
    "TaskmachineError",
]


class TaskmachineError(Exception):
    """Every error that this project raises on purpose."""


class IllegalTransition(TaskmachineError):
    """The table has no row for this event in this state; nothing was changed."""

    def __init__(self, state: State, event: Event) -> None:
        super().__init__(f"event '{event}' is illegal in state '{state}'")
        self.state = state
        self.event = event


class StaleFence(TaskmachineError):
    """A worker that has lost the task tried to write; nothing was changed."""

    def __init__(self, task_id: str, fence: int, current: int) -> None:
        super().__init__(f"task {task_id} is fenced at {current}, the write carried {fence}")
        self.task_id = task_id
        self.fence = fence
        self.current = current


class KeyReused(TaskmachineError):
    """A tool asked something else under a question key that it has used before."""

    def __init__(self, key: str) -> None:
        super().__init__(f"question key '{key}' already names another request of this task")
        self.key = key


class NotFound(TaskmachineError):
    """No such task for this caller: it never was, it is gone, or it belongs to somebody else."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"no task '{task_id}'")
        self.task_id = task_id


class LimitExceeded(TaskmachineError):
    """A bound was reached; the same call may succeed later."""

    def __init__(self, limit: str, retry_after_ms: int) -> None:
        super().__init__(f"limit reached: {limit}; retry after {retry_after_ms} ms")
        self.limit = limit
        self.retry_after_ms = retry_after_ms


class ConfigurationError(TaskmachineError):
    """Whoever set the program up asked for something that does not exist."""
