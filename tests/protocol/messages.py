"""A strategy for every message class of every dialect, and who can judge it.

`schema` is the definition in specs/schema; `model` the class of the same message in the official
package `mcp-types`, `published` the file and definition of the published schema, where they exist.
"""

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any, Final, Literal, get_args

import attrs
from hypothesis import strategies as st

from taskmachine.protocol.dialects.mcp_2025_11_25 import messages as g1
from taskmachine.protocol.dialects.mcp_2026_07_28 import messages as g2
from taskmachine.protocol.timestamps import encode_timestamp
from tests.protocol.peers_2025_11_25 import FORM, SAMPLING
from tests.strategies import ids, json_objects, text, text_blocks

Kind = Literal["request", "notification", "result"]


@attrs.frozen
class Sample:
    dialect: ModuleType
    kind: Kind
    method: str
    messages: st.SearchStrategy[Any]
    schema: str
    model: str | None = None
    published: tuple[str, str] | None = None

    def __str__(self) -> str:
        return f"{self.dialect.REVISION} {self.schema}"


def _sample(
    dialect: ModuleType,
    file: str,
    method: str,
    model: str,
    shape: Callable[..., Any],
    *,
    schema: str | None = None,
    is_official: bool = True,
    is_published: bool = True,
) -> Callable[..., Sample]:
    """The kind is the last word of `model`, which names the published definition too."""
    kind: Kind = next(k for k in get_args(Kind) if model.endswith(k.capitalize()))
    official, published = model if is_official else None, (file, model) if is_published else None

    def of(*fields: Any, **named_fields: Any) -> Sample:
        messages = _builds(shape, *fields, **named_fields)
        return Sample(dialect, kind, method, messages, schema or model, official, published)

    return of


_core_2025 = partial(_sample, g1, "mcp-2025-11-25.schema.json")
_core_2026 = partial(_sample, g2, "mcp-2026-07-28.schema.json")
_tasks_2026 = partial(_sample, g2, "ext-tasks.schema.json", is_official=False)

ms = st.integers(0, 2**53 - 1)
stamps = st.integers(0, 4_000_000_000_000).map(encode_timestamp)
tokens = st.integers() | text
metas = st.none() | st.dictionaries(ids.map("com.example/{}".format), json_objects, max_size=2)
maybe_text = st.none() | text
statuses = st.sampled_from(["working", "input_required", "completed", "failed", "cancelled"])
arguments = st.none() | json_objects
implementations = st.fixed_dictionaries({"name": text, "version": text})
contents = st.lists(text_blocks, max_size=2)
input_schemas = st.sampled_from(
    [{"type": "object"}, {"type": "object", "properties": {"n": {"type": "integer"}}}]
)

_input_requests = st.dictionaries(
    text,
    st.sampled_from(
        [
            g2.InputRequest("elicitation/create", FORM),
            g2.InputRequest("sampling/createMessage", SAMPLING),
            g2.InputRequest("roots/list"),
        ]
    ),
    min_size=1,
    max_size=3,
)
_task_fields = {
    "taskId": ids,
    "createdAt": stamps,
    "lastUpdatedAt": stamps,
    "statusMessage": maybe_text,
}
_g2_task_fields = {**_task_fields, "ttlMs": st.none() | ms, "pollIntervalMs": st.none() | ms}
_progress = {
    "progressToken": tokens,
    "progress": st.integers(0, 10) | st.floats(0, 10),
    "total": st.none() | st.integers(0, 10),
    "message": maybe_text,
}
_PAYLOADS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "working": {},
    "cancelled": {},
    "input_required": {"inputRequests": _input_requests},
    "completed": {"result": contents.map(lambda blocks: {"content": blocks})},
    "failed": {"error": st.just({"code": -32603, "message": "boom"})},
}


def _builds(shape: Callable[..., Any], *fields: Any, **named: Any) -> st.SearchStrategy[Any]:
    """A detailed task has the payload of its status."""
    if shape not in (g2.GetTaskResult, g2.TaskStatus):
        return st.builds(shape, *fields, **named)
    variants = [
        st.builds(shape, status=st.just(status), **_g2_task_fields, **payload, **named)
        for status, payload in _PAYLOADS.items()
    ]
    return st.one_of(*variants)


# --- 2025-11-25 ------------------------------------------------------------------------------

_g1_task_fields = {
    **_task_fields,
    "status": statuses,
    "ttl": st.none() | ms,
    "pollInterval": st.none() | ms,
}
_g1_tasks = st.builds(g1.Task, **_g1_task_fields)
_augmentation = st.none() | st.builds(g1.TaskMetadata, ttl=st.none() | ms)
_related = ids.map(g1.related_task)

SAMPLES_2025: Final = [
    _core_2025("initialize", "InitializeRequest", g1.Initialize)(
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
    _core_2025("initialize", "InitializeResult", g1.InitializeResult)(
        protocolVersion=st.just("2025-11-25"),
        capabilities=st.booleans().map(
            lambda listing: {"tasks": g1.tasks_capability("tools/call", listing=listing)}
        ),
        serverInfo=implementations,
        instructions=maybe_text,
        meta=metas,
    ),
    _core_2025("notifications/initialized", "InitializedNotification", g1.Initialized)(meta=metas),
    _core_2025("ping", "PingRequest", g1.Ping, schema="JSONRPCRequest", is_published=False)(
        meta=metas
    ),
    _core_2025("ping", "EmptyResult", g1.EmptyResult, schema="Result")(meta=metas),
    _core_2025("tools/list", "ListToolsRequest", g1.ListTools)(cursor=maybe_text, meta=metas),
    _core_2025("tools/list", "ListToolsResult", g1.ListToolsResult)(
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
    _core_2025("tools/call", "CallToolRequest", g1.CallTool)(
        name=text, arguments=arguments, task=_augmentation, meta=metas
    ),
    _core_2025("tools/call", "CallToolResult", g1.CallToolResult)(
        content=contents, structuredContent=arguments, isError=st.none() | st.booleans(), meta=metas
    ),
    _core_2025("tools/call", "CreateTaskResult", g1.CreateTaskResult)(
        _g1_tasks, meta=st.none() | text.map(lambda words: {g1.IMMEDIATE_RESPONSE: words})
    ),
    _core_2025("elicitation/create", "ElicitRequest", g1.Elicit, schema="TaskElicitRequest")(
        message=text,
        task=_augmentation,
        meta=_related,
        extra=st.just({"requestedSchema": FORM["requestedSchema"]}),
    ),
    _core_2025("elicitation/create", "ElicitResult", g1.ElicitResult)(
        action=st.sampled_from(["accept", "decline", "cancel"]),
        content=st.none() | st.just({"name": "Ada"}),
        meta=metas,
    ),
    _core_2025(
        "sampling/createMessage",
        "CreateMessageRequest",
        g1.CreateMessage,
        schema="TaskCreateMessageRequest",
    )(
        messages=st.just(SAMPLING["messages"]),
        maxTokens=st.integers(1, 1000),
        task=_augmentation,
        meta=_related,
        extra=st.fixed_dictionaries({}, optional={"systemPrompt": text}),
    ),
    _core_2025("sampling/createMessage", "CreateMessageResult", g1.CreateMessageResult)(
        role=st.sampled_from(["user", "assistant"]),
        content=text_blocks,
        model=text,
        stopReason=maybe_text,
        meta=metas,
    ),
    _core_2025("tasks/get", "GetTaskRequest", g1.GetTask)(taskId=ids),
    _core_2025("tasks/get", "GetTaskResult", g1.Task)(**_g1_task_fields),
    _core_2025("tasks/result", "GetTaskPayloadRequest", g1.GetTaskPayload)(taskId=ids),
    _core_2025("tasks/result", "GetTaskPayloadResult", g1.TaskPayload)(
        meta=_related, extra=contents.map(lambda blocks: {"content": blocks})
    ),
    _core_2025("tasks/list", "ListTasksRequest", g1.ListTasks)(cursor=maybe_text),
    _core_2025("tasks/list", "ListTasksResult", g1.ListTasksResult)(
        tasks=st.lists(_g1_tasks, max_size=2), nextCursor=maybe_text
    ),
    _core_2025("tasks/cancel", "CancelTaskRequest", g1.CancelTask)(taskId=ids),
    _core_2025("tasks/cancel", "CancelTaskResult", g1.Task)(
        **_g1_task_fields | {"status": st.just("cancelled")}
    ),
    _core_2025("notifications/tasks/status", "TaskStatusNotification", g1.TaskStatus)(
        **_g1_task_fields
    ),
    _core_2025(
        "notifications/progress",
        "ProgressNotification",
        g1.Progress,
        schema="TaskProgressNotification",
    )(**_progress, meta=_related),
    _core_2025("notifications/cancelled", "CancelledNotification", g1.Cancelled)(
        requestId=tokens, reason=maybe_text, meta=metas
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
_input_responses = st.dictionaries(
    text, st.sampled_from([{"action": "accept", "content": {"name": "Ada"}}, {"action": "cancel"}])
)
_filters = st.builds(
    g2.SubscriptionFilter,
    toolsListChanged=st.none() | st.booleans(),
    resourceSubscriptions=st.none() | st.just(["file:///a"]),
    taskIds=st.none() | st.lists(ids, max_size=2),
)

SAMPLES_2026: Final = [
    _core_2026("server/discover", "DiscoverRequest", g2.Discover)(_request_metas),
    _core_2026("server/discover", "DiscoverResult", g2.DiscoverResult)(
        supportedVersions=st.just([g2.REVISION]),
        capabilities=st.just({"tools": {}, **g2.TASKS_REQUIRED}),
        ttlMs=ms,
        cacheScope=st.sampled_from(["public", "private"]),
        instructions=maybe_text,
        meta=metas,
    ),
    _core_2026("tools/list", "ListToolsRequest", g2.ListTools)(_request_metas, cursor=maybe_text),
    _core_2026("tools/list", "ListToolsResult", g2.ListToolsResult)(
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
    _core_2026("tools/call", "CallToolRequest", g2.CallTool)(
        text,
        _request_metas,
        arguments=arguments,
        inputResponses=st.none() | _input_responses,
        requestState=maybe_text,
    ),
    _core_2026("tools/call", "CallToolResult", g2.CallToolResult)(
        content=contents, structuredContent=arguments, isError=st.none() | st.booleans(), meta=metas
    ),
    _core_2026("tools/call", "InputRequiredResult", g2.InputRequiredResult)(
        inputRequests=_input_requests, requestState=maybe_text, meta=metas
    ),
    _tasks_2026("tools/call", "CreateTaskResult", g2.CreateTaskResult)(
        status=statuses, **_g2_task_fields, meta=metas
    ),
    _tasks_2026("tasks/get", "GetTaskRequest", g2.GetTask)(ids, _request_metas),
    _tasks_2026("tasks/get", "GetTaskResult", g2.GetTaskResult)(meta=metas),
    _tasks_2026("tasks/update", "UpdateTaskRequest", g2.UpdateTask)(
        ids, _input_responses, _request_metas
    ),
    _tasks_2026("tasks/update", "UpdateTaskResult", g2.Acknowledgement)(meta=metas),
    _tasks_2026("tasks/cancel", "CancelTaskRequest", g2.CancelTask)(ids, _request_metas),
    _tasks_2026("tasks/cancel", "CancelTaskResult", g2.Acknowledgement)(meta=metas),
    _core_2026("subscriptions/listen", "SubscriptionsListenRequest", g2.Listen)(
        _filters, _request_metas
    ),
    _core_2026("subscriptions/listen", "SubscriptionsListenResult", g2.ListenResult)(
        _subscription_metas
    ),
    _core_2026(
        "notifications/subscriptions/acknowledged",
        "SubscriptionsAcknowledgedNotification",
        g2.ListenAcknowledged,
    )(_filters, _subscription_metas),
    _tasks_2026("notifications/tasks", "TaskStatusNotification", g2.TaskStatus)(
        meta=_subscription_metas
    ),
    _core_2026("notifications/progress", "ProgressNotification", g2.Progress)(
        **_progress, meta=metas
    ),
    _core_2026("notifications/cancelled", "CancelledNotification", g2.Cancelled)(
        requestId=tokens, reason=maybe_text, meta=metas
    ),
]

SAMPLES: Final = SAMPLES_2025 + SAMPLES_2026
