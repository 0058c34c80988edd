"""erlmcp: the private dialect of an Erlang server, with seven methods.

A task is created explicitly (`tasks/create`), begins as `pending`, and its requestor can update its
metadata and progress.  `tasks/get` shows everything including the result; `tasks/result` never
blocks.  Times are integers in milliseconds since the epoch.  The server makes the progress token:
it is the id of the task, so it needs no storage and is equally hard to guess.

`inputRequests` of a task and `inputResponses` of `tasks/update` are our extensions, named as in
2026-07-28: the original dialect can ask for input, but cannot say which input or name its answers.
"""

from typing import Any, Final, Literal

import attrs

from taskmachine.protocol.dialects.dialect import Dialect, Method
from taskmachine.protocol.errors import (
    AlreadyEnded,
    InputPending,
    InvalidParams,
    MalformedMessage,
    MethodNotFound,
)
from taskmachine.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Error,
    Id,
)
from taskmachine.protocol.jsonvalue import Encoded, JSONObject, decode_json
from taskmachine.protocol.shapes import Milliseconds, Shapes
from taskmachine.statemachine import (
    TERMINAL,
    Cause,
    IllegalTransition,
    LimitExceeded,
    NotFound,
    Outcome,
    State,
    TaskmachineError,
)
from taskmachine.statemachine import Task as Record

__all__ = [
    "ACTION_MEMBERS",
    "DIALECT",
    "REVISION",
    "TASK_CANCELLED",
    "TASK_NOT_FOUND",
    "TASK_TIMEOUT",
    "ProgressToken",
    "StatusNotSettable",
    "encode_cancelled",
    "encode_outcome",
    "encode_progress",
    "encode_status",
    "encode_task",
    "encode_update",
]

REVISION: Final = "erlmcp"
ACTION_MEMBERS: Final = "taskmachine/action"
"""Metadata member that keeps the members of an action other than name and arguments."""

TASK_NOT_FOUND: Final = -32081
TASK_CANCELLED: Final = -32084
TASK_TIMEOUT: Final = -32085
TASK_STATE_INVALID: Final = -32086
MAX_CONCURRENT_TASKS: Final = -32087
TASK_RESULT_NOT_READY: Final = -32089
TASK_ALREADY_COMPLETED: Final = -32090
INVALID_PROGRESS_TOKEN: Final = -32091

Status = Literal["pending", "processing", "input_required", "completed", "failed", "cancelled"]

# --- messages --------------------------------------------------------------------------------


@attrs.frozen
class Action:
    name: str
    arguments: JSONObject | None = None
    extra: JSONObject = attrs.field(factory=dict)


@attrs.frozen
class Options:
    ttl_ms: Milliseconds | None = None
    extra: JSONObject = attrs.field(factory=dict)


@attrs.frozen
class CreateTask:
    action: Action
    metadata: JSONObject | None = None
    options: Options | None = None


@attrs.frozen
class InputRequest:
    method: str
    params: JSONObject | Encoded


@attrs.frozen
class TaskError:
    code: int
    message: str
    data: Any = None


@attrs.frozen
class Task:
    """A task, the same in all results and notifications."""

    taskId: str
    status: Status
    action: JSONObject
    metadata: JSONObject
    createdAt: int
    updatedAt: int
    expiresAt: int | None = None
    progressToken: Id | None = None
    progress: float | None = None
    total: float | None = None
    result: Any = None
    error: TaskError | None = None
    inputRequests: dict[str, InputRequest] | None = None


@attrs.frozen
class CreateTaskResult:
    task: Task


@attrs.frozen
class ListTasks:
    cursor: str | None = None
    limit: int | None = None


@attrs.frozen
class ListTasksResult:
    tasks: list[Task]
    cursor: str | None = None


@attrs.frozen
class GetTask:
    taskId: str


@attrs.frozen
class GetTaskResult:
    task: Task


@attrs.frozen
class GetTaskPayload:
    taskId: str


@attrs.frozen
class TaskPayload:
    result: Any


@attrs.frozen
class CancelTask:
    taskId: str
    reason: str | None = None


@attrs.frozen
class EmptyResult:
    pass


@attrs.frozen
class UpdateTask:
    taskId: str
    metadata: JSONObject | None = None
    status: str | None = None
    input: Any = None
    inputResponses: dict[str, JSONObject] | None = None


@attrs.frozen
class UpdateTaskResult:
    taskId: str
    status: Status
    metadata: JSONObject
    updatedAt: int


@attrs.frozen
class ReportProgress:
    progressToken: Id
    progress: float = 0.0
    total: float | None = None


@attrs.frozen
class ReportProgressResult:
    progress: float
    total: float | None = None


@attrs.frozen
class TaskStatus:
    task: Task


@attrs.frozen
class Progress:
    progressToken: Id
    progress: float
    total: float | None = None


@attrs.frozen
class Cancelled:
    taskId: str
    reason: str | None = None


# --- errors ----------------------------------------------------------------------------------


class ProgressToken(str):
    """The id of a task that a request used as progress token, to choose the right error."""


class StatusNotSettable(TaskmachineError):
    """A requestor can set `input_required` only; the receiver sets every other status."""

    def __init__(self, status: str) -> None:
        super().__init__(f"status '{status[:80]}' cannot be set")
        self.status = status


_ENDED: Final = Error(TASK_ALREADY_COMPLETED, "The task has already ended")


def _not_found(error: NotFound) -> Error:
    if isinstance(error.task_id, ProgressToken):
        return Error(INVALID_PROGRESS_TOKEN, "Unknown progress token")
    return Error(TASK_NOT_FOUND, "Task not found")


def _illegal(error: IllegalTransition) -> Error:
    if error.state in TERMINAL:
        return _ENDED
    return Error(TASK_STATE_INVALID, "The operation is not allowed in the task's current state")


# --- the dialect -----------------------------------------------------------------------------

METHODS: Final = {
    "tasks/create": Method(CreateTask, CreateTaskResult),
    "tasks/list": Method(ListTasks, ListTasksResult),
    "tasks/get": Method(GetTask, GetTaskResult),
    "tasks/result": Method(GetTaskPayload, TaskPayload),
    "tasks/cancel": Method(CancelTask, EmptyResult),
    "tasks/update": Method(UpdateTask, UpdateTaskResult),
    "tasks/progress": Method(ReportProgress, ReportProgressResult),
}

NOTIFICATIONS: Final = {
    "notifications/tasks/status": TaskStatus,
    "notifications/progress": Progress,
    "notifications/cancelled": Cancelled,
}

STATUSES: Final = {
    State.SUBMITTED: "pending",  # while it was never started; see `requeued_status`
    State.WORKING: "processing",
    State.INPUT_REQUIRED: "input_required",
    State.COMPLETED: "completed",
    State.FAILED: "failed",
    State.CANCELLED: "cancelled",
}

ERRORS: Final = {
    MalformedMessage: lambda e: Error(e.code, e.reason),
    MethodNotFound: lambda e: Error(METHOD_NOT_FOUND, f"Method not found: {e.method}"),
    InvalidParams: lambda e: Error(INVALID_PARAMS, e.reason),
    NotFound: _not_found,
    IllegalTransition: _illegal,
    AlreadyEnded: lambda _: _ENDED,
    InputPending: lambda _: Error(TASK_STATE_INVALID, "The task is already waiting for input"),
    StatusNotSettable: lambda _: Error(
        TASK_STATE_INVALID, "The only status that can be set is 'input_required'"
    ),
    LimitExceeded: lambda e: Error(
        MAX_CONCURRENT_TASKS, f"Limit reached: {e.limit}", {"retryAfterMs": e.retry_after_ms}
    ),
}

DIALECT: Final = Dialect(
    revision=REVISION,
    methods=METHODS,
    notifications=NOTIFICATIONS,
    statuses=STATUSES,
    error_result_status="completed",
    errors=ERRORS,
    shapes=Shapes(),
    requeued_status="processing",
)

# --- messages of a receiver ------------------------------------------------------------------


def encode_task(record: Record) -> Task:
    """Return the task as create, list, get and the notification of a change show it."""
    status: Any = DIALECT.status(record)
    metadata = decode_json(record.metadata)
    action = metadata.pop(ACTION_MEMBERS, {})
    progress = record.progress
    error = None if record.outcome is None else _error(record.outcome)
    questions = {
        question.key: InputRequest(question.method, Encoded(question.params))
        for question in record.open_questions
    }
    return Task(
        taskId=record.id,
        status=status,
        action={
            **action,
            "name": record.call.name or record.call.method,
            "arguments": Encoded(record.call.arguments),
        },
        metadata=metadata,
        createdAt=record.created_at,
        updatedAt=record.updated_at,
        expiresAt=None if record.ttl_ms is None else record.created_at + record.ttl_ms,
        progressToken=record.id,
        progress=None if progress is None else progress.value,
        total=None if progress is None else progress.total,
        result=_result(record),
        error=None if error is None else TaskError(error.code, error.message, error.data),
        inputRequests=questions or None,
    )


def encode_status(record: Record) -> TaskStatus:
    """Return the notification of a change."""
    return TaskStatus(encode_task(record))


def encode_update(record: Record) -> UpdateTaskResult:
    """Return the result of `tasks/update`."""
    shown = encode_task(record)
    return UpdateTaskResult(shown.taskId, shown.status, shown.metadata, shown.updatedAt)


def encode_outcome(record: Record) -> TaskPayload | Error:
    """Return the response to `tasks/result`, which does not block."""
    if record.outcome is None:
        return Error(TASK_RESULT_NOT_READY, "The task has no result yet")
    return _error(record.outcome) or TaskPayload(_result(record))


def encode_progress(record: Record) -> Progress | None:
    """Return the notification of progress, or None once the task has ended."""
    progress = record.progress
    if progress is None or not record.shows_progress:
        return None
    return Progress(record.id, progress.value, progress.total)


def encode_cancelled(record: Record) -> Cancelled:
    """Return the notification that a task was cancelled, with the reason."""
    return Cancelled(record.id, record.message)


def _result(record: Record) -> Encoded | None:
    if record.is_waiting:
        shown = record.partial
    else:
        shown = None if record.outcome is None else record.outcome.result
    return None if shown is None else Encoded(shown)


def _error(outcome: Outcome) -> Error | None:
    """Return the error of a task without result; its message has the reason of a cancellation."""
    if outcome.result is not None:
        return None
    code, words = _CAUSES.get(outcome.cause, (INTERNAL_ERROR, "Internal error"))
    data = None if outcome.data is None else decode_json(outcome.data)
    return Error(code if outcome.code is None else outcome.code, outcome.message or words, data)


_CAUSES: Final = {
    Cause.TIMED_OUT: (TASK_TIMEOUT, "The task timed out"),
    Cause.CANCELLED: (TASK_CANCELLED, "The task was cancelled"),
}
