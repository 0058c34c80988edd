"""A strategy for every message class of every dialect, and who can judge it.

`schema` is the definition in specs/schema; `model` the class of the same message in the official
package `mcp-types`, `published` the file and definition of the published schema, where they exist.
"""

from types import ModuleType
from typing import Any, Final, Literal

import attrs
from hypothesis import strategies as st

from taskmachine.protocol.dialects.mcp_2025_11_25 import messages as g1
from taskmachine.protocol.dialects.mcp_2026_07_28 import messages as g2
from taskmachine.protocol.timestamps import encode_timestamp
from tests.strategies import ids, json_objects, text, text_blocks

Kind = Literal["request", "notification", "result"]


@attrs.frozen
class Sample:
    """One message class."""

    dialect: ModuleType
    kind: Kind
    method: str
    messages: st.SearchStrategy[Any]
    schema: str
    model: str | None = None
    published: tuple[str, str] | None = None

    def __str__(self) -> str:
        return f"{self.dialect.REVISION} {self.schema}"


CORE_2025: Final = "mcp-2025-11-25.schema.json"
CORE_2026: Final = "mcp-2026-07-28.schema.json"
TASKS: Final = "ext-tasks.schema.json"

ms = st.integers(0, 2**53 - 1)
stamps = st.integers(0, 4_000_000_000_000).map(encode_timestamp)
tokens = st.integers() | text
metas = st.none() | st.dictionaries(ids.map("com.example/{}".format), json_objects, max_size=2)
maybe_text = st.none() | text
statuses = st.sampled_from(["working", "input_required", "completed", "failed", "cancelled"])
arguments = st.none() | json_objects
implementations = st.fixed_dictionaries({"name": text, "version": text})
contents = st.lists(text_blocks, max_size=2)
form = {
    "message": "Your name?",
    "requestedSchema": {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
    },
}
sampling = {
    "messages": [{"role": "user", "content": {"type": "text", "text": "2+2?"}}],
    "maxTokens": 10,
}
input_schemas = st.sampled_from(
    [{"type": "object"}, {"type": "object", "properties": {"n": {"type": "integer"}}}]
)

# --- 2025-11-25 ------------------------------------------------------------------------------

_task_fields = {
    "taskId": ids,
    "status": statuses,
    "createdAt": stamps,
    "lastUpdatedAt": stamps,
    "ttl": st.none() | ms,
    "statusMessage": maybe_text,
    "pollInterval": st.none() | ms,
}
_g1_tasks = st.builds(g1.Task, **_task_fields)
_augmentation = st.none() | st.builds(g1.TaskMetadata, ttl=st.none() | ms)
_related = ids.map(g1.related_task)

SAMPLES_2025: Final = [
    Sample(
        g1,
        "request",
        "initialize",
        st.builds(
            g1.Initialize,
            protocolVersion=st.just("2025-11-25"),
            capabilities=st.sampled_from(
                [
                    {},
                    {
                        "tasks": g1.tasks_capability(
                            "sampling/createMessage", "elicitation/create", listing=True
                        )
                    },
                ]
            ),
            clientInfo=implementations,
            meta=metas,
        ),
        "InitializeRequest",
        "InitializeRequest",
        (CORE_2025, "InitializeRequest"),
    ),
    Sample(
        g1,
        "result",
        "initialize",
        st.builds(
            g1.InitializeResult,
            protocolVersion=st.just("2025-11-25"),
            capabilities=st.booleans().map(
                lambda listing: {"tasks": g1.tasks_capability("tools/call", listing=listing)}
            ),
            serverInfo=implementations,
            instructions=maybe_text,
            meta=metas,
        ),
        "InitializeResult",
        "InitializeResult",
        (CORE_2025, "InitializeResult"),
    ),
    Sample(
        g1,
        "notification",
        "notifications/initialized",
        st.builds(g1.Initialized, meta=metas),
        "InitializedNotification",
        "InitializedNotification",
        (CORE_2025, "InitializedNotification"),
    ),
    Sample(
        g1,
        "request",
        "ping",
        st.builds(g1.Ping, meta=metas),
        "JSONRPCRequest",
        "PingRequest",
    ),
    Sample(
        g1,
        "result",
        "ping",
        st.builds(g1.EmptyResult, meta=metas),
        "Result",
        "EmptyResult",
        (CORE_2025, "EmptyResult"),
    ),
    Sample(
        g1,
        "request",
        "tools/list",
        st.builds(g1.ListTools, cursor=maybe_text, meta=metas),
        "ListToolsRequest",
        "ListToolsRequest",
        (CORE_2025, "ListToolsRequest"),
    ),
    Sample(
        g1,
        "result",
        "tools/list",
        st.builds(
            g1.ListToolsResult,
            tools=st.lists(
                st.builds(
                    g1.Tool,
                    name=text,
                    inputSchema=input_schemas,
                    execution=st.none()
                    | st.builds(
                        g1.ToolExecution,
                        taskSupport=st.sampled_from([None, "required", "optional", "forbidden"]),
                        extra=st.just({}),
                    ),
                    extra=st.fixed_dictionaries({}, optional={"description": text, "title": text}),
                ),
                max_size=2,
            ),
            nextCursor=maybe_text,
            meta=metas,
        ),
        "ListToolsResult",
        "ListToolsResult",
        (CORE_2025, "ListToolsResult"),
    ),
    Sample(
        g1,
        "request",
        "tools/call",
        st.builds(g1.CallTool, name=text, arguments=arguments, task=_augmentation, meta=metas),
        "CallToolRequest",
        "CallToolRequest",
        (CORE_2025, "CallToolRequest"),
    ),
    Sample(
        g1,
        "result",
        "tools/call",
        st.builds(
            g1.CallToolResult,
            content=contents,
            structuredContent=arguments,
            isError=st.none() | st.booleans(),
            meta=metas,
        ),
        "CallToolResult",
        "CallToolResult",
        (CORE_2025, "CallToolResult"),
    ),
    Sample(
        g1,
        "result",
        "tools/call",
        st.builds(
            g1.CreateTaskResult,
            _g1_tasks,
            meta=st.none() | text.map(lambda words: {g1.IMMEDIATE_RESPONSE: words}),
        ),
        "CreateTaskResult",
        "CreateTaskResult",
        (CORE_2025, "CreateTaskResult"),
    ),
    Sample(
        g1,
        "request",
        "elicitation/create",
        st.builds(
            g1.Elicit,
            message=text,
            task=_augmentation,
            meta=_related,
            extra=st.just({"requestedSchema": form["requestedSchema"]}),
        ),
        "TaskElicitRequest",
        "ElicitRequest",
        (CORE_2025, "ElicitRequest"),
    ),
    Sample(
        g1,
        "result",
        "elicitation/create",
        st.builds(
            g1.ElicitResult,
            action=st.sampled_from(["accept", "decline", "cancel"]),
            content=st.none() | st.just({"name": "Ada"}),
            meta=metas,
        ),
        "ElicitResult",
        "ElicitResult",
        (CORE_2025, "ElicitResult"),
    ),
    Sample(
        g1,
        "request",
        "sampling/createMessage",
        st.builds(
            g1.CreateMessage,
            messages=st.just(sampling["messages"]),
            maxTokens=st.integers(1, 1000),
            task=_augmentation,
            meta=_related,
            extra=st.fixed_dictionaries({}, optional={"systemPrompt": text}),
        ),
        "TaskCreateMessageRequest",
        "CreateMessageRequest",
        (CORE_2025, "CreateMessageRequest"),
    ),
    Sample(
        g1,
        "result",
        "sampling/createMessage",
        st.builds(
            g1.CreateMessageResult,
            role=st.sampled_from(["user", "assistant"]),
            content=text_blocks,
            model=text,
            stopReason=maybe_text,
            meta=metas,
        ),
        "CreateMessageResult",
        "CreateMessageResult",
        (CORE_2025, "CreateMessageResult"),
    ),
    Sample(
        g1,
        "request",
        "tasks/get",
        st.builds(g1.GetTask, taskId=ids),
        "GetTaskRequest",
        "GetTaskRequest",
        (CORE_2025, "GetTaskRequest"),
    ),
    Sample(
        g1,
        "result",
        "tasks/get",
        _g1_tasks,
        "GetTaskResult",
        "GetTaskResult",
        (CORE_2025, "GetTaskResult"),
    ),
    Sample(
        g1,
        "request",
        "tasks/result",
        st.builds(g1.GetTaskPayload, taskId=ids),
        "GetTaskPayloadRequest",
        "GetTaskPayloadRequest",
        (CORE_2025, "GetTaskPayloadRequest"),
    ),
    Sample(
        g1,
        "result",
        "tasks/result",
        st.builds(
            g1.TaskPayload,
            meta=_related,
            extra=contents.map(lambda blocks: {"content": blocks}),
        ),
        "GetTaskPayloadResult",
        "GetTaskPayloadResult",
        (CORE_2025, "GetTaskPayloadResult"),
    ),
    Sample(
        g1,
        "request",
        "tasks/list",
        st.builds(g1.ListTasks, cursor=maybe_text),
        "ListTasksRequest",
        "ListTasksRequest",
        (CORE_2025, "ListTasksRequest"),
    ),
    Sample(
        g1,
        "result",
        "tasks/list",
        st.builds(g1.ListTasksResult, tasks=st.lists(_g1_tasks, max_size=2), nextCursor=maybe_text),
        "ListTasksResult",
        "ListTasksResult",
        (CORE_2025, "ListTasksResult"),
    ),
    Sample(
        g1,
        "request",
        "tasks/cancel",
        st.builds(g1.CancelTask, taskId=ids),
        "CancelTaskRequest",
        "CancelTaskRequest",
        (CORE_2025, "CancelTaskRequest"),
    ),
    Sample(
        g1,
        "result",
        "tasks/cancel",
        st.builds(g1.Task, **_task_fields | {"status": st.just("cancelled")}),
        "CancelTaskResult",
        "CancelTaskResult",
        (CORE_2025, "CancelTaskResult"),
    ),
    Sample(
        g1,
        "notification",
        "notifications/tasks/status",
        st.builds(g1.TaskStatus, **_task_fields),
        "TaskStatusNotification",
        "TaskStatusNotification",
        (CORE_2025, "TaskStatusNotification"),
    ),
    Sample(
        g1,
        "notification",
        "notifications/progress",
        st.builds(
            g1.Progress,
            progressToken=tokens,
            progress=st.integers(0, 10) | st.floats(0, 10),
            total=st.none() | st.integers(0, 10),
            message=maybe_text,
            meta=_related,
        ),
        "TaskProgressNotification",
        "ProgressNotification",
        (CORE_2025, "ProgressNotification"),
    ),
    Sample(
        g1,
        "notification",
        "notifications/cancelled",
        st.builds(g1.Cancelled, requestId=tokens, reason=maybe_text, meta=metas),
        "CancelledNotification",
        "CancelledNotification",
        (CORE_2025, "CancelledNotification"),
    ),
]

# --- 2026-07-28 ------------------------------------------------------------------------------

_request_metas = st.builds(
    g2.RequestMeta,
    protocolVersion=st.just(g2.REVISION),
    clientCapabilities=st.just({**g2.TASKS_REQUIRED, "elicitation": {}}),
    clientInfo=st.none() | implementations,
    logLevel=st.none() | st.sampled_from(["debug", "info"]),
    progressToken=st.none() | tokens,
    extra=st.dictionaries(ids.map("com.example/{}".format), json_objects, max_size=2),
)
_subscription_metas = st.builds(g2.SubscriptionMeta, subscriptionId=tokens, extra=st.just({}))
_input_requests = st.dictionaries(
    text,
    st.sampled_from(
        [
            g2.InputRequest("elicitation/create", form),
            g2.InputRequest("sampling/createMessage", sampling),
            g2.InputRequest("roots/list"),
        ]
    ),
    min_size=1,
    max_size=3,
)
_input_responses = st.dictionaries(
    text, st.sampled_from([{"action": "accept", "content": {"name": "Ada"}}, {"action": "cancel"}])
)
_g2_task_fields = {
    "taskId": ids,
    "createdAt": stamps,
    "lastUpdatedAt": stamps,
    "ttlMs": st.none() | ms,
    "statusMessage": maybe_text,
    "pollIntervalMs": st.none() | ms,
}
_payloads: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "working": {},
    "cancelled": {},
    "input_required": {"inputRequests": _input_requests},
    "completed": {"result": contents.map(lambda blocks: {"content": blocks})},
    "failed": {"error": st.just({"code": -32603, "message": "boom"})},
}


def _detailed(shape: type, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    variants = [
        st.builds(shape, status=st.just(status), **_g2_task_fields, **payload, **fields)
        for status, payload in _payloads.items()
    ]
    return st.one_of(*variants)


_filters = st.builds(
    g2.SubscriptionFilter,
    toolsListChanged=st.none() | st.booleans(),
    resourceSubscriptions=st.none() | st.just(["file:///a"]),
    taskIds=st.none() | st.lists(ids, max_size=2),
)

SAMPLES_2026: Final = [
    Sample(
        g2,
        "request",
        "server/discover",
        st.builds(g2.Discover, _request_metas),
        "DiscoverRequest",
        "DiscoverRequest",
        (CORE_2026, "DiscoverRequest"),
    ),
    Sample(
        g2,
        "result",
        "server/discover",
        st.builds(
            g2.DiscoverResult,
            supportedVersions=st.just([g2.REVISION]),
            capabilities=st.just({"tools": {}, **g2.TASKS_REQUIRED}),
            ttlMs=ms,
            cacheScope=st.sampled_from(["public", "private"]),
            instructions=maybe_text,
            meta=metas,
        ),
        "DiscoverResult",
        "DiscoverResult",
        (CORE_2026, "DiscoverResult"),
    ),
    Sample(
        g2,
        "request",
        "tools/list",
        st.builds(g2.ListTools, _request_metas, cursor=maybe_text),
        "ListToolsRequest",
        "ListToolsRequest",
        (CORE_2026, "ListToolsRequest"),
    ),
    Sample(
        g2,
        "result",
        "tools/list",
        st.builds(
            g2.ListToolsResult,
            tools=st.lists(
                st.builds(
                    g2.Tool,
                    name=text,
                    inputSchema=input_schemas,
                    extra=st.fixed_dictionaries({}, optional={"description": text}),
                ),
                max_size=2,
            ),
            ttlMs=ms,
            cacheScope=st.sampled_from(["public", "private"]),
            nextCursor=maybe_text,
            meta=metas,
        ),
        "ListToolsResult",
        "ListToolsResult",
        (CORE_2026, "ListToolsResult"),
    ),
    Sample(
        g2,
        "request",
        "tools/call",
        st.builds(
            g2.CallTool,
            text,
            _request_metas,
            arguments=arguments,
            inputResponses=st.none() | _input_responses,
            requestState=maybe_text,
        ),
        "CallToolRequest",
        "CallToolRequest",
        (CORE_2026, "CallToolRequest"),
    ),
    Sample(
        g2,
        "result",
        "tools/call",
        st.builds(
            g2.CallToolResult,
            content=contents,
            structuredContent=arguments,
            isError=st.none() | st.booleans(),
            meta=metas,
        ),
        "CallToolResult",
        "CallToolResult",
        (CORE_2026, "CallToolResult"),
    ),
    Sample(
        g2,
        "result",
        "tools/call",
        st.builds(
            g2.InputRequiredResult,
            inputRequests=_input_requests,
            requestState=maybe_text,
            meta=metas,
        ),
        "InputRequiredResult",
        "InputRequiredResult",
        (CORE_2026, "InputRequiredResult"),
    ),
    Sample(
        g2,
        "result",
        "tools/call",
        st.builds(g2.CreateTaskResult, status=statuses, **_g2_task_fields, meta=metas),
        "CreateTaskResult",
        None,
        (TASKS, "CreateTaskResult"),
    ),
    Sample(
        g2,
        "request",
        "tasks/get",
        st.builds(g2.GetTask, ids, _request_metas),
        "GetTaskRequest",
        None,
        (TASKS, "GetTaskRequest"),
    ),
    Sample(
        g2,
        "result",
        "tasks/get",
        _detailed(g2.GetTaskResult, meta=metas),
        "GetTaskResult",
        None,
        (TASKS, "GetTaskResult"),
    ),
    Sample(
        g2,
        "request",
        "tasks/update",
        st.builds(g2.UpdateTask, ids, _input_responses, _request_metas),
        "UpdateTaskRequest",
        None,
        (TASKS, "UpdateTaskRequest"),
    ),
    Sample(
        g2,
        "result",
        "tasks/update",
        st.builds(g2.Acknowledgement, meta=metas),
        "UpdateTaskResult",
        None,
        (TASKS, "UpdateTaskResult"),
    ),
    Sample(
        g2,
        "request",
        "tasks/cancel",
        st.builds(g2.CancelTask, ids, _request_metas),
        "CancelTaskRequest",
        None,
        (TASKS, "CancelTaskRequest"),
    ),
    Sample(
        g2,
        "result",
        "tasks/cancel",
        st.builds(g2.Acknowledgement, meta=metas),
        "CancelTaskResult",
        None,
        (TASKS, "CancelTaskResult"),
    ),
    Sample(
        g2,
        "request",
        "subscriptions/listen",
        st.builds(g2.Listen, _filters, _request_metas),
        "SubscriptionsListenRequest",
        "SubscriptionsListenRequest",
        (CORE_2026, "SubscriptionsListenRequest"),
    ),
    Sample(
        g2,
        "result",
        "subscriptions/listen",
        st.builds(g2.ListenResult, _subscription_metas),
        "SubscriptionsListenResult",
        "SubscriptionsListenResult",
        (CORE_2026, "SubscriptionsListenResult"),
    ),
    Sample(
        g2,
        "notification",
        "notifications/subscriptions/acknowledged",
        st.builds(g2.ListenAcknowledged, _filters, _subscription_metas),
        "SubscriptionsAcknowledgedNotification",
        "SubscriptionsAcknowledgedNotification",
        (CORE_2026, "SubscriptionsAcknowledgedNotification"),
    ),
    Sample(
        g2,
        "notification",
        "notifications/tasks",
        _detailed(g2.TaskStatus, meta=_subscription_metas),
        "TaskStatusNotification",
        None,
        (TASKS, "TaskStatusNotification"),
    ),
    Sample(
        g2,
        "notification",
        "notifications/progress",
        st.builds(
            g2.Progress,
            progressToken=tokens,
            progress=st.integers(0, 10) | st.floats(0, 10),
            total=st.none() | st.integers(0, 10),
            message=maybe_text,
            meta=metas,
        ),
        "ProgressNotification",
        "ProgressNotification",
        (CORE_2026, "ProgressNotification"),
    ),
    Sample(
        g2,
        "notification",
        "notifications/cancelled",
        st.builds(g2.Cancelled, requestId=tokens, reason=maybe_text, meta=metas),
        "CancelledNotification",
        "CancelledNotification",
        (CORE_2026, "CancelledNotification"),
    ),
]

SAMPLES: Final = SAMPLES_2025 + SAMPLES_2026
