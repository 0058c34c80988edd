"""MCP 2026-07-28: tasks as the extension `io.modelcontextprotocol/tasks`.

The server decides: it may answer a `tools/call` with a task if that request declares the extension
in its `_meta`.  Every request is independent.  `tasks/get` inlines results and questions;
`tasks/update` carries answers.
"""

from typing import Any, Final, Literal

import attrs

from taskmachine.protocol.dialects.dialect import Dialect, Method
from taskmachine.protocol.errors import (
    HeaderMismatch,
    InvalidParams,
    MalformedMessage,
    MethodNotFound,
    MissingCapability,
    UnsupportedVersion,
)
from taskmachine.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Error,
    Id,
    Request,
)
from taskmachine.protocol.jsonvalue import Encoded, JSONObject
from taskmachine.protocol.shapes import Milliseconds, Shapes, wire
from taskmachine.statemachine import LimitExceeded, NotFound, State

__all__ = [
    "DIALECT",
    "EXTENSION",
    "HEADER_MISMATCH",
    "MISSING_CAPABILITY",
    "REVISION",
    "SUBSCRIPTION_ID",
    "TASKS_REQUIRED",
    "UNSUPPORTED_VERSION",
    "check_first",
    "declares_tasks",
]

REVISION: Final = "2026-07-28"
EXTENSION: Final = "io.modelcontextprotocol/tasks"
PROTOCOL_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
CLIENT_INFO: Final = "io.modelcontextprotocol/clientInfo"
LOG_LEVEL: Final = "io.modelcontextprotocol/logLevel"
SERVER_INFO: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_ID: Final = "io.modelcontextprotocol/subscriptionId"

HEADER_MISMATCH: Final = -32020
MISSING_CAPABILITY: Final = -32021
UNSUPPORTED_VERSION: Final = -32022

TASKS_REQUIRED: Final[JSONObject] = {"extensions": {EXTENSION: {}}}

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]
InputMethod = Literal["elicitation/create", "sampling/createMessage", "roots/list"]

# --- messages --------------------------------------------------------------------------------


@attrs.frozen
class RequestMeta:
    """The `_meta` of every request (2026-07-28:meta-required-fields)."""

    protocolVersion: str = wire(PROTOCOL_VERSION, required=True)
    clientCapabilities: JSONObject = wire(CLIENT_CAPABILITIES, required=True)
    clientInfo: JSONObject | None = wire(CLIENT_INFO)
    logLevel: str | None = wire(LOG_LEVEL)
    progressToken: Id | None = None
    extra: JSONObject = attrs.field(factory=dict)


@attrs.frozen
class SubscriptionMeta:
    subscriptionId: Id = wire(SUBSCRIPTION_ID, required=True)
    extra: JSONObject = attrs.field(factory=dict)


@attrs.frozen
class Discover:
    _meta: RequestMeta


@attrs.frozen
class DiscoverResult:
    supportedVersions: list[str]
    capabilities: JSONObject
    ttlMs: Milliseconds
    cacheScope: Literal["public", "private"]
    instructions: str | None = None
    resultType: Literal["complete"] = "complete"
    _meta: JSONObject | None = None
    extra: JSONObject = attrs.field(factory=dict)


@attrs.frozen
class ListTools:
    _meta: RequestMeta
    cursor: str | None = None


@attrs.frozen
class Tool:
    name: str
    inputSchema: JSONObject
    extra: JSONObject = attrs.field(factory=dict)


@attrs.frozen
class ListToolsResult:
    tools: list[Tool]
    ttlMs: Milliseconds
    cacheScope: Literal["public", "private"]
    nextCursor: str | None = None
    resultType: Literal["complete"] = "complete"
    _meta: JSONObject | None = None
    extra: JSONObject = attrs.field(factory=dict)


@attrs.frozen
class InputRequest:
    method: InputMethod
    params: JSONObject | Encoded | None = None
    extra: JSONObject = attrs.field(factory=dict)


@attrs.frozen
class CallTool:
    """`params.task` of 2025-11-25 is ignored (2026-07-28:task-parameter-ignored)."""

    name: str
    _meta: RequestMeta
    arguments: JSONObject | None = None
    inputResponses: dict[str, JSONObject] | None = None
    requestState: str | None = None


@attrs.frozen
class CallToolResult:
    content: list[Any]
    structuredContent: Any = None
    isError: bool | None = None
    resultType: Literal["complete"] = "complete"
    _meta: JSONObject | None = None
    extra: JSONObject = attrs.field(factory=dict)


@attrs.frozen
class InputRequiredResult:
    """Questions that a plain call needs answered before it can continue."""

    inputRequests: dict[str, InputRequest] | None = None
    requestState: str | None = None
    resultType: Literal["input_required"] = "input_required"
    _meta: JSONObject | None = None
    extra: JSONObject = attrs.field(factory=dict)

    def __attrs_post_init__(self) -> None:
        if self.inputRequests is None and self.requestState is None:
            raise ValueError("must have inputRequests or requestState")


@attrs.frozen
class _Task:
    taskId: str
    status: Status
    createdAt: str
    lastUpdatedAt: str
    ttlMs: Milliseconds | None = attrs.field(factory=lambda: None)
    """Always sent, even if null; a peer may omit null."""
    statusMessage: str | None = None
    pollIntervalMs: Milliseconds | None = None


@attrs.frozen
class CreateTaskResult(_Task):
    resultType: Literal["task"] = "task"
    _meta: JSONObject | None = None


@attrs.frozen
class _DetailedTask(_Task):
    inputRequests: dict[str, InputRequest] | None = None
    result: JSONObject | Encoded | None = None
    error: JSONObject | Encoded | None = None

    def __attrs_post_init__(self) -> None:
        payload = _PAYLOADS.get(self.status)
        if payload is not None and getattr(self, payload) is None:
            raise ValueError(f"must have {payload}, as its status is '{self.status}'")


_PAYLOADS: Final = {"input_required": "inputRequests", "completed": "result", "failed": "error"}


@attrs.frozen
class GetTaskResult(_DetailedTask):
    resultType: Literal["complete"] = "complete"
    _meta: JSONObject | None = None


@attrs.frozen
class TaskStatus(_DetailedTask):
    """The result of `tasks/get` without resultType, notified on a subscription."""

    _meta: SubscriptionMeta | None = None


@attrs.frozen
class _TaskId:
    taskId: str
    _meta: RequestMeta


@attrs.frozen
class GetTask(_TaskId):
    pass


@attrs.frozen
class CancelTask(_TaskId):
    pass


@attrs.frozen
class UpdateTask:
    taskId: str
    inputResponses: dict[str, JSONObject]
    _meta: RequestMeta


@attrs.frozen
class Acknowledgement:
    """The empty result of update and cancel."""

    resultType: Literal["complete"] = "complete"
    _meta: JSONObject | None = None


@attrs.frozen
class SubscriptionFilter:
    toolsListChanged: bool | None = None
    promptsListChanged: bool | None = None
    resourcesListChanged: bool | None = None
    resourceSubscriptions: list[str] | None = None
    taskIds: list[str] | None = None


@attrs.frozen
class Listen:
    notifications: SubscriptionFilter
    _meta: RequestMeta


@attrs.frozen
class ListenResult:
    _meta: SubscriptionMeta
    resultType: Literal["complete"] = "complete"


@attrs.frozen
class ListenAcknowledged:
    notifications: SubscriptionFilter
    _meta: SubscriptionMeta


@attrs.frozen
class Progress:
    """Progress of a plain call; tasks have none in this revision."""

    progressToken: Id
    progress: float
    total: float | None = None
    message: str | None = None
    _meta: JSONObject | None = None


@attrs.frozen
class Cancelled:
    requestId: Id
    reason: str | None = None
    _meta: JSONObject | None = None


# --- the dialect -----------------------------------------------------------------------------

METHODS: Final = {
    "server/discover": Method(Discover, DiscoverResult),
    "tools/list": Method(ListTools, ListToolsResult),
    "tools/call": Method(CallTool, CallToolResult | InputRequiredResult | CreateTaskResult),
    "tasks/get": Method(GetTask, GetTaskResult),
    "tasks/update": Method(UpdateTask, Acknowledgement),
    "tasks/cancel": Method(CancelTask, Acknowledgement),
    "subscriptions/listen": Method(Listen, ListenResult),
}

NOTIFICATIONS: Final = {
    "notifications/subscriptions/acknowledged": ListenAcknowledged,
    "notifications/tasks": TaskStatus,
    "notifications/progress": Progress,
    "notifications/cancelled": Cancelled,
}

STATUSES: Final = {
    State.SUBMITTED: "working",
    State.WORKING: "working",
    State.INPUT_REQUIRED: "input_required",
    State.COMPLETED: "completed",
    State.FAILED: "failed",
    State.CANCELLED: "cancelled",
}

ERRORS: Final = {
    MalformedMessage: lambda e: Error(e.code, e.reason),
    MethodNotFound: lambda e: Error(METHOD_NOT_FOUND, _unknown_method(e.method)),
    InvalidParams: lambda e: Error(INVALID_PARAMS, f"Invalid params: {e.reason}"),
    NotFound: lambda _: Error(INVALID_PARAMS, "Failed to retrieve task: Task not found"),
    MissingCapability: lambda e: Error(
        MISSING_CAPABILITY,
        "Missing required client capability",
        {"requiredCapabilities": e.required},
    ),
    UnsupportedVersion: lambda e: Error(
        UNSUPPORTED_VERSION,
        "Unsupported protocol version",
        {"supported": list(e.supported), "requested": e.requested},
    ),
    HeaderMismatch: lambda e: Error(HEADER_MISMATCH, f"Header mismatch: {e.reason}"),
    LimitExceeded: lambda e: Error(
        INTERNAL_ERROR, f"Limit reached: {e.limit}", {"retryAfterMs": e.retry_after_ms}
    ),
}


def _unknown_method(method: str) -> str:
    if method == "initialize":  # 2026-07-28:initialize-refusal-names-versions
        return f"Method not found: initialize. This server uses MCP {REVISION}, which has none"
    return f"Method not found: {method}"


def declares_tasks(capabilities: Any) -> bool:
    """Return True if these client capabilities include the tasks extension."""
    extensions = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    return isinstance(extensions, dict) and isinstance(extensions.get(EXTENSION), dict)


def check_first(request: Request) -> None:
    """Check version and extension before the method and before any task is loaded."""
    meta = request.params.get("_meta")
    if not isinstance(meta, dict):
        return  # decoding the parameters reports it
    version = meta.get(PROTOCOL_VERSION)
    if isinstance(version, str) and version != REVISION:
        raise UnsupportedVersion(version, [REVISION])
    capabilities = meta.get(CLIENT_CAPABILITIES)
    if _is_about_tasks(request) and capabilities is not None and not declares_tasks(capabilities):
        raise MissingCapability(TASKS_REQUIRED)


def _is_about_tasks(request: Request) -> bool:
    if request.method == "subscriptions/listen":
        wanted = request.params.get("notifications")
        return isinstance(wanted, dict) and "taskIds" in wanted
    return request.method in ("tasks/get", "tasks/update", "tasks/cancel")


def _call_tool_result(result: JSONObject) -> type:
    match result.get("resultType", "complete"):
        case "complete":
            return CallToolResult
        case "input_required":
            return InputRequiredResult
        case "task":
            return CreateTaskResult
        case other:  # 2026-07-28:unknown-result-type-invalid
            raise ValueError(f"has an unknown resultType {other!r}")


DIALECT: Final = Dialect(
    revision=REVISION,
    methods=METHODS,
    notifications=NOTIFICATIONS,
    statuses=STATUSES,
    error_result_status="completed",  # 2026-07-28:is-error-is-completed
    errors=ERRORS,
    shapes=Shapes(),
)

DIALECT.shapes.choose(CallToolResult | InputRequiredResult | CreateTaskResult, _call_tool_result)
