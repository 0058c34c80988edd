"""Errors of the runtime's callers.  They carry fields; each dialect chooses codes and wording."""

from taskmachine.statemachine.table import Event, State

__all__ = [
    "ConfigurationError",
    "IllegalTransition",
    "KeyReused",
    "LimitExceeded",
    "NotDue",
    "NotFound",
    "StaleFence",
    "TaskmachineError",
]


class TaskmachineError(Exception):
    """Base class of every error that this project raises deliberately."""


class IllegalTransition(TaskmachineError):
    """The table has no row for this event in this state.  The task is unchanged."""

    def __init__(self, state: State, event: Event) -> None:
        super().__init__(f"event '{event}' is illegal in state '{state}'")
        self.state = state
        self.event = event


class StaleFence(TaskmachineError):
    """A worker that has lost the task tried to write to it.  The task is unchanged."""

    def __init__(self, task_id: str, fence: int, current: int) -> None:
        super().__init__(f"task {task_id} is fenced at {current}, the write carried {fence}")
        self.task_id = task_id
        self.fence = fence
        self.current = current


class NotDue(TaskmachineError):
    """A worker tried to claim a task before the time that the task is due."""

    def __init__(self, task_id: str, due_at: int) -> None:
        super().__init__(f"task {task_id} must not start before {due_at}")
        self.task_id = task_id
        self.due_at = due_at


class KeyReused(TaskmachineError):
    """A tool reused a question key of its task for a different request."""

    def __init__(self, key: str) -> None:
        super().__init__(f"question key '{key}' already names another request of this task")
        self.key = key


class NotFound(TaskmachineError):
    """The caller has no such task: it never existed, was removed, or belongs to another owner."""

    def __init__(self, task_id: str) -> None:
        super().__init__(f"no task '{task_id}'")
        self.task_id = task_id


class LimitExceeded(TaskmachineError):
    """A limit was reached; the same call may succeed later."""

    def __init__(self, limit: str, retry_after_ms: int) -> None:
        super().__init__(f"limit reached: {limit}; retry after {retry_after_ms} ms")
        self.limit = limit
        self.retry_after_ms = retry_after_ms


class ConfigurationError(TaskmachineError):
    """The configuration is invalid: an option, a tool definition, a store or a secret."""
