"""MCP 2025-11-25: tasks in the core protocol.

The requestor decides: a call with `params.task` becomes a task if the receiver declared support
and the tool's `execution.taskSupport` allows it.  `tasks/result` returns the result.  Either side
can be the receiver: servers for `tools/call`, clients for sampling and elicitation.
"""

from typing import Any, Final, Literal

import attrs

from taskmachine.protocol.dialects.dialect import Dialect, Method, TaskSupport
from taskmachine.protocol.errors import (
    AlreadyEnded,
    InvalidParams,
    MalformedMessage,
    MethodNotFound,
    NotIntroduced,
    TaskSupportMismatch,
)
from taskmachine.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Error,
    Id,
    Request,
)
from taskmachine.protocol.jsonvalue import JSONObject, decode_json
from taskmachine.protocol.shapes import Milliseconds, Shapes
from taskmachine.protocol.timestamps import encode_timestamp
from taskmachine.protocol.trace_context import trace_meta
from taskmachine.statemachine import Cause, LimitExceeded, NotFound, Outcome, Question, State
from taskmachine.statemachine import Task as Record

__all__ = [
    "DIALECT",
    "IMMEDIATE_RESPONSE",
    "QUESTION_KEY",
    "RELATED_TASK",
    "REVISION",
    "TASK_CANCELLED",
    "check_task_support",
    "encode_created",
    "encode_outcome",
    "encode_plain",
    "encode_progress",
    "encode_question",
    "encode_status",
    "encode_task",
    "is_augmentable",
    "related_task",
    "tasks_capability",
]

REVISION: Final = "2025-11-25"
RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
IMMEDIATE_RESPONSE: Final = "io.modelcontextprotocol/model-immediate-response"
QUESTION_KEY: Final = "io.taskmachine/question-key"  # our extension: identifies redeliveries
TASK_CANCELLED: Final = -32000  # the specification does not define the code

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]

# --- messages --------------------------------------------------------------------------------


@attrs.frozen
class Initialize:
    protocolVersion: str
    capabilities: JSONObject
    clientInfo: JSONObject
    _meta: JSONObject | None = None


@attrs.frozen
class InitializeResult:
    protocolVersion: str
    capabilities: JSONObject
    serverInfo: JSONObject
    instructions: str | None = None
    _meta: JSONObject | None = None
    extra: JSONObject = attrs.field(factory=dict)


@attrs.frozen
class Initialized:
    _meta: JSONObject | None = None


@attrs.frozen
class Ping:
    _meta: JSONObject | None = None


@attrs.frozen
class EmptyResult:
    _meta: JSONObject | None = None
    extra: JSONObject = attrs.field(factory=dict)


@attrs.frozen
class ListTools:
    cursor: str | None = None
    _meta: JSONObject | None = None


@attrs.frozen
class ToolExecution:
    taskSupport: TaskSupport | None = None
    extra: JSONObject = attrs.field(factory=dict)


@attrs.frozen
class Tool:
    name: str
    inputSchema: JSONObject
    execution: ToolExecution | None = None
    extra: JSONObject = attrs.field(factory=dict)


@attrs.frozen
class ListToolsResult:
    tools: list[Tool]
    nextCursor: str | None = None
    _meta: JSONObject | None = None
    extra: JSONObject = attrs.field(factory=dict)


@attrs.frozen
class TaskMetadata:
    ttl: Milliseconds | None = None


@attrs.frozen
class CallTool:
    name: str
    arguments: JSONObject | None = None
    task: TaskMetadata | None = None
    _meta: JSONObject | None = None


@attrs.frozen
class CallToolResult:
    content: list[Any]
    structuredContent: JSONObject | None = None
    isError: bool | None = None
    _meta: JSONObject | None = None
    extra: JSONObject = attrs.field(factory=dict)


@attrs.frozen
class Elicit:
    message: str
    task: TaskMetadata | None = None
    _meta: JSONObject | None = None
    extra: JSONObject = attrs.field(factory=dict)


@attrs.frozen
class ElicitResult:
    action: Literal["accept", "decline", "cancel"]
    content: JSONObject | None = None
    _meta: JSONObject | None = None
    extra: JSONObject = attrs.field(factory=dict)


@attrs.frozen
class CreateMessage:
    messages: list[Any]
    maxTokens: int
    task: TaskMetadata | None = None
    _meta: JSONObject | None = None
    extra: JSONObject = attrs.field(factory=dict)


@attrs.frozen
class CreateMessageResult:
    role: Literal["user", "assistant"]
    content: Any
    model: str
    stopReason: str | None = None
    _meta: JSONObject | None = None
    extra: JSONObject = attrs.field(factory=dict)


@attrs.frozen
class Task:
    """A task: the result of get and cancel, and the parameters of the status notification."""

    taskId: str
    status: Status
    createdAt: str
    lastUpdatedAt: str
    ttl: Milliseconds | None = attrs.field(factory=lambda: None)
    """Always sent, even if null; a peer may omit null."""
    statusMessage: str | None = None
    pollInterval: Milliseconds | None = None
    _meta: JSONObject | None = None


@attrs.frozen
class CreateTaskResult:
    task: Task
    _meta: JSONObject | None = None


@attrs.frozen
class _TaskId:
    taskId: str
    _meta: JSONObject | None = None


@attrs.frozen
class GetTask(_TaskId):
    pass


@attrs.frozen
class GetTaskPayload(_TaskId):
    pass


@attrs.frozen
class CancelTask(_TaskId):
    pass


@attrs.frozen
class TaskPayload:
    """The result of the underlying request, with related-task in its `_meta`."""

    _meta: JSONObject | None = None
    extra: JSONObject = attrs.field(factory=dict)


@attrs.frozen
class ListTasks:
    cursor: str | None = None
    _meta: JSONObject | None = None


@attrs.frozen
class ListTasksResult:
    tasks: list[Task]
    nextCursor: str | None = None
    _meta: JSONObject | None = None


@attrs.frozen
class TaskStatus(Task):
    pass


@attrs.frozen
class Progress:
    progressToken: Id
    progress: float
    total: float | None = None
    message: str | None = None
    _meta: JSONObject | None = None


@attrs.frozen
class Cancelled:
    requestId: Id | None = None
    reason: str | None = None
    _meta: JSONObject | None = None


# --- the dialect -----------------------------------------------------------------------------

BOTH: Final = ("client", "server")

METHODS: Final = {
    "initialize": Method(Initialize, InitializeResult),
    "ping": Method(Ping, EmptyResult, BOTH),
    "tools/list": Method(ListTools, ListToolsResult),
    "tools/call": Method(CallTool, CallToolResult | CreateTaskResult),
    "elicitation/create": Method(Elicit, ElicitResult | CreateTaskResult, ("server",)),
    "sampling/createMessage": Method(
        CreateMessage, CreateMessageResult | CreateTaskResult, ("server",)
    ),
    "tasks/get": Method(GetTask, Task, BOTH),
    "tasks/result": Method(GetTaskPayload, TaskPayload, BOTH),
    "tasks/list": Method(ListTasks, ListTasksResult, BOTH),
    "tasks/cancel": Method(CancelTask, Task, BOTH),
}

NOTIFICATIONS: Final = {
    "notifications/initialized": Initialized,
    "notifications/tasks/status": TaskStatus,
    "notifications/progress": Progress,
    "notifications/cancelled": Cancelled,
}

STATUSES: Final = {
    State.SUBMITTED: "working",  # 2025-11-25:begins-working
    State.WORKING: "working",
    State.INPUT_REQUIRED: "input_required",
    State.COMPLETED: "completed",
    State.FAILED: "failed",
    State.CANCELLED: "cancelled",
}

_SUPPORT_WORDS: Final = {
    "required": "must be called as a task",
    "forbidden": "cannot be called as a task",
}

ERRORS: Final = {
    MalformedMessage: lambda e: Error(e.code, e.reason),
    MethodNotFound: lambda e: Error(METHOD_NOT_FOUND, f"Method not found: {e.method}"),
    NotIntroduced: lambda _: Error(INVALID_REQUEST, "Invalid request: initialize comes first"),
    InvalidParams: lambda e: Error(INVALID_PARAMS, f"Invalid params: {e.reason}"),
    NotFound: lambda _: Error(INVALID_PARAMS, "Failed to retrieve task: Task not found"),
    AlreadyEnded: lambda e: Error(
        INVALID_PARAMS, f"Cannot cancel task: already in terminal status '{e.status}'"
    ),
    TaskSupportMismatch: lambda e: Error(
        METHOD_NOT_FOUND, f"Tool '{e.tool}' {_SUPPORT_WORDS[e.support]}"
    ),
    LimitExceeded: lambda e: Error(
        INTERNAL_ERROR, f"Limit reached: {e.limit}", {"retryAfterMs": e.retry_after_ms}
    ),
}

DIALECT: Final = Dialect(
    revision=REVISION,
    methods=METHODS,
    notifications=NOTIFICATIONS,
    statuses=STATUSES,
    error_result_status="failed",  # 2025-11-25:failed-on-is-error
    errors=ERRORS,
    shapes=Shapes(),
)


def _tell_apart(plain: type) -> None:
    DIALECT.shapes.choose(
        plain | CreateTaskResult,
        lambda result: CreateTaskResult if "task" in result else plain,
    )


for _plain in (CallToolResult, ElicitResult, CreateMessageResult):
    _tell_apart(_plain)

# --- capabilities ----------------------------------------------------------------------------


def tasks_capability(*methods: str, listing: bool) -> JSONObject:
    """Return the `tasks` capability of a receiver that accepts tasks for these methods."""
    requests: JSONObject = {}
    for method in methods:
        group, name = method.split("/")
        requests.setdefault(group, {})[name] = {}
    tree: JSONObject = {"cancel": {}, "requests": requests}
    # 2025-11-25:list-not-declared-without-identity
    return {"list": {}, **tree} if listing else tree


def is_augmentable(capabilities: JSONObject, method: str) -> bool:
    """Return True if a peer with these capabilities accepts `method` as a task."""
    tree: Any = capabilities.get("tasks")
    for step in ("requests", *method.split("/")):
        tree = tree.get(step) if isinstance(tree, dict) else None
    return isinstance(tree, dict)


def check_task_support(tool: str, support: TaskSupport | None, *, augmented: bool) -> None:
    """Refuse a call that violates the tool's `execution.taskSupport`; absent means forbidden."""
    support = support or "forbidden"
    if support == ("forbidden" if augmented else "required"):
        raise TaskSupportMismatch(tool, support)


# --- messages of a receiver ------------------------------------------------------------------


def encode_task(record: Record, poll_interval_ms: int | None = None) -> Task:
    """Return the result of get and cancel."""
    return Task(**_snapshot(record, poll_interval_ms))


def encode_status(record: Record, poll_interval_ms: int | None = None) -> TaskStatus:
    """Return the notification of a change."""
    return TaskStatus(**_snapshot(record, poll_interval_ms))


def encode_created(
    record: Record, poll_interval_ms: int | None = None, *, immediate_response: str | None = None
) -> CreateTaskResult:
    """Return the result of a call that became a task, with an immediate response for the model."""
    meta = None if immediate_response is None else {IMMEDIATE_RESPONSE: immediate_response}
    return CreateTaskResult(encode_task(record, poll_interval_ms), meta)


def encode_plain(outcome: Outcome) -> TaskPayload | Error:
    """Return the result or error of a plain call."""
    if outcome.result is not None:
        result = decode_json(outcome.result)
        meta = result.pop("_meta", None)
        return TaskPayload(meta if isinstance(meta, dict) else None, result)
    if outcome.code is None:
        return Error(INTERNAL_ERROR, outcome.message or "Internal error")
    data = None if outcome.data is None else decode_json(outcome.data)
    return Error(outcome.code, outcome.message or "", data)


def encode_outcome(record: Record) -> TaskPayload | Error:
    """Return the response to `tasks/result` of a finished task, as for a plain call."""
    outcome = record.outcome
    assert outcome is not None, "tasks/result blocks until the end (2025-11-25:result-blocks)"
    if outcome.cause is Cause.CANCELLED:
        return Error(TASK_CANCELLED, "Task cancelled", {"_meta": related_task(record.id)})
    plain = encode_plain(outcome)
    if isinstance(plain, Error):
        return plain
    # Members that the tool put into `_meta` are kept.
    return TaskPayload({**(plain._meta or {}), **related_task(record.id)}, plain.extra)


def encode_progress(record: Record) -> Progress | None:
    """Return the notification of progress, if the requestor sent a token and there is progress."""
    token, progress = record.call.progress_token, record.progress
    if token is None or progress is None or not record.shows_progress:
        return None
    return Progress(
        token, progress.value, progress.total, progress.message, related_task(record.id)
    )


def encode_question(id: Id, record: Record, question: Question) -> Request:
    """Return the request that asks the requestor a question."""
    params = decode_json(question.params)
    ours = {**related_task(record.id), QUESTION_KEY: question.key, **trace_meta(record)}
    params["_meta"] = {**(params.get("_meta") or {}), **ours}
    return Request(id, question.method, params)


def related_task(task_id: str) -> JSONObject:
    """Return the `_meta` entry that links a message to its task."""
    return {RELATED_TASK: {"taskId": task_id}}


def _snapshot(record: Record, poll_interval_ms: int | None) -> dict[str, Any]:
    status, words = DIALECT.status(record), record.message
    if status == "failed" and words is None:
        words = "The tool reported an error."  # 2025-11-25:failed-status-message
    return {
        "taskId": record.id,
        "status": status,
        "createdAt": encode_timestamp(record.created_at),
        "lastUpdatedAt": encode_timestamp(record.updated_at),
        "ttl": record.ttl_ms,
        "statusMessage": words,
        "pollInterval": poll_interval_ms,
    }
