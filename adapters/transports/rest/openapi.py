"""Descriptions of the helper endpoints, from which routes and `/openapi.json` are built."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any, Final

import attrs

from taskmachine.adapters.transports.http.sse import comment, event
from taskmachine.adapters.transports.rest.events import MEDIA_TYPE
from taskmachine.adapters.transports.rest.long_polls import DEFAULT_MS, LONGEST_MS
from taskmachine.adapters.transports.rest.problems import (
    BAD_IF_NONE_MATCH,
    BAD_TIMEOUT,
    LIMIT_REACHED,
    METHOD_NOT_ALLOWED,
    STORE_UNAVAILABLE,
    TASK_NOT_FOUND,
    Problem,
)
from taskmachine.protocol.jsonvalue import JSONObject, encode_json

__all__ = [
    "ENDPOINTS",
    "EVENTS",
    "EXAMPLE",
    "HEALTH",
    "OPENAPI",
    "POLL",
    "TASK",
    "Endpoint",
    "document",
]


@attrs.frozen
class Endpoint:
    """One path that supports GET and HEAD."""

    name: str
    path: str
    summary: str
    description: str
    answers: Mapping[int, JSONObject]
    """Response objects by status."""
    problems: Sequence[Problem]
    parameters: Sequence[JSONObject] = ()
    is_public: bool = False


EXAMPLE: Final[JSONObject] = {
    "taskId": "hZ3kq0Vb1nUo8sXwYc5dTe7fRg2jLm4p",
    "status": "completed",
    "createdAt": "2026-07-28T12:00:00.000Z",
    "lastUpdatedAt": "2026-07-28T12:00:41.250Z",
    "ttlMs": 86_441_250,
    "pollIntervalMs": 4_125,
    "result": {"content": [{"type": "text", "text": "1.2 is live"}]},
}
_WORKING: Final[JSONObject] = {
    **{name: value for name, value in EXAMPLE.items() if name != "result"},
    "status": "working",
    "statusMessage": "built",
    "lastUpdatedAt": "2026-07-28T12:00:03.000Z",
    "ttlMs": 3_600_000,
    "pollIntervalMs": 300,
}
_STREAM: Final = (
    event(encode_json(_WORKING), id="3", event="task")
    + comment("keep-alive")
    + event(encode_json(EXAMPLE), id="4", event="task")
).decode()

_TASK_ID: Final[JSONObject] = {
    "name": "taskId",
    "in": "path",
    "required": True,
    "description": "The id that the server gave to the task.",
    "schema": {"type": "string", "minLength": 1},
    "example": EXAMPLE["taskId"],
}
_IF_NONE_MATCH: Final[JSONObject] = {
    "name": "If-None-Match",
    "in": "header",
    "description": "The ETag of an earlier answer with its quotes, a list of them, or `*`.",
    "schema": {"type": "string"},
    "example": '"3"',
}
_TIMEOUT: Final[JSONObject] = {
    "name": "timeout",
    "in": "query",
    "description": f"How long to wait, in milliseconds. The server waits at most {LONGEST_MS}.",
    "schema": {"type": "integer", "minimum": 0, "default": DEFAULT_MS},
    "example": DEFAULT_MS,
}
_LAST_EVENT_ID: Final[JSONObject] = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "The id of the last event received: the current version is not sent again if it "
    "has this id. Any other value is ignored.",
    "schema": {"type": "string"},
    "example": "3",
}

_ETAG: Final[JSONObject] = {
    "ETag": {
        "description": "The version of the task, in quotes.",
        "required": True,
        "schema": {"type": "string", "pattern": '^"[0-9]+"$'},
    }
}
_RETRY_AFTER: Final[JSONObject] = {
    "Retry-After": {
        "description": "Seconds.",
        "required": True,
        "schema": {"type": "integer", "minimum": 1},
    }
}
_ALLOW: Final[JSONObject] = {
    "Allow": {"required": True, "schema": {"type": "string"}, "example": "GET, HEAD"}
}
_HEADERS: Final = {405: _ALLOW, 429: _RETRY_AFTER}


def _object(
    members: JSONObject, optional: Sequence[str] = (), *, is_open: bool = False
) -> JSONObject:
    """Return the schema of an object with these members; an open one may have more."""
    return {
        "type": "object",
        "required": [name for name in members if name not in optional],
        "properties": members,
        **({} if is_open else {"additionalProperties": False}),
    }


def _json(description: str, schema: JSONObject, example: Any, headers: JSONObject) -> JSONObject:
    content = {"application/json": {"schema": schema, "example": example}}
    described: JSONObject = {"description": description, "content": content}
    return described | ({"headers": headers} if headers else {})


def _empty(description: str) -> JSONObject:
    return {"description": description, "headers": _ETAG}


_SHOWN: Final = _json("The task.", {"$ref": "#/components/schemas/DetailedTask"}, EXAMPLE, _ETAG)
_REFUSALS: Final = (TASK_NOT_FOUND, METHOD_NOT_ALLOWED, LIMIT_REACHED, STORE_UNAVAILABLE)

TASK: Final = Endpoint(
    name="getTask",
    path="/tasks/{taskId}",
    summary="A task as it is",
    description="The task as in `tasks/get` of MCP 2026-07-28, without `resultType`.",
    parameters=(_TASK_ID, _IF_NONE_MATCH),
    answers={200: _SHOWN, 304: _empty("The caller has this version.")},
    problems=(BAD_IF_NONE_MATCH, *_REFUSALS),
)
POLL: Final = Endpoint(
    name="pollTask",
    path="/tasks/{taskId}/poll",
    summary="Wait for the next version of a task",
    description="Responds when the task changes. With `If-None-Match` no change is missed between "
    "two calls: if the task has another version, the response comes at once. Without it the call "
    "waits for the first change after the current version. A task that has ended is returned at "
    "once.",
    parameters=(_TASK_ID, _TIMEOUT, _IF_NONE_MATCH),
    answers={
        200: _SHOWN,
        204: _empty("The timeout passed without a change. Send the ETag with the next call."),
        304: _empty(
            "The same for a call with If-None-Match; at once if that version is the task's last."
        ),
    },
    problems=(BAD_TIMEOUT, BAD_IF_NONE_MATCH, *_REFUSALS),
)
EVENTS: Final = Endpoint(
    name="watchTask",
    path="/tasks/{taskId}/events",
    summary="A task and its changes as server-sent events",
    description="Each event is named `task`; its id is the version and its data the task. The "
    "first one is the current task; the stream closes after the end of the task. Comments keep "
    "it alive. A slow reader may miss changes, but never the end.",
    parameters=(_TASK_ID, _LAST_EVENT_ID),
    answers={
        200: {
            "description": "The stream.",
            # OpenAPI 3.1 cannot describe the events of a stream by a schema.
            "content": {MEDIA_TYPE: {"example": _STREAM}},
        },
        204: _empty("The task has ended and the caller has seen it: do not connect again."),
    },
    problems=_REFUSALS,
)
HEALTH: Final = Endpoint(
    name="getHealth",
    path="/healthz",
    summary="Whether the server is healthy",
    description="Checks that the task store responds within a second.",
    answers={
        200: _json(
            "The server is healthy.",
            _object({"status": {"const": "ok"}}),
            {"status": "ok"},
            {},
        )
    },
    problems=(METHOD_NOT_ALLOWED, STORE_UNAVAILABLE),
    is_public=True,
)
OPENAPI: Final = Endpoint(
    name="getOpenAPI",
    path="/openapi.json",
    summary="This document",
    description="OpenAPI 3.1.",
    answers={200: _json("The document.", {"type": "object"}, {"openapi": "3.1.1"}, {})},
    problems=(METHOD_NOT_ALLOWED,),
    is_public=True,
)

ENDPOINTS: Final = (TASK, POLL, EVENTS, HEALTH, OPENAPI)

_TEXT: Final[JSONObject] = {"type": "string"}
_TIME: Final[JSONObject] = {"type": "string", "format": "date-time"}
_AMOUNT: Final[JSONObject] = {"type": "integer", "minimum": 0}
_TASK: Final[JSONObject] = {
    "taskId": _TEXT,
    "createdAt": _TIME,
    "lastUpdatedAt": _TIME,
    "ttlMs": {"type": ["integer", "null"], "minimum": 0},
    "statusMessage": _TEXT,
    "pollIntervalMs": _AMOUNT,
}
_CONTENT: Final = _object({"type": _TEXT}, is_open=True)
_RESULT: Final = _object({"content": {"type": "array", "items": _CONTENT}}, is_open=True)
_QUESTION: Final = _object({"method": _TEXT, "params": {"type": "object"}}, ["params"])
_ERROR: Final = _object({"code": {"type": "integer"}, "message": _TEXT}, is_open=True)
_PAYLOADS: Final[Mapping[str, JSONObject]] = {
    "working": {},
    "input_required": {"inputRequests": {"type": "object", "additionalProperties": _QUESTION}},
    "completed": {"result": _RESULT},
    "failed": {"error": _ERROR},
    "cancelled": {},
}
"""The member that only a task of this status has."""

_DETAILED_TASK: Final[JSONObject] = {
    "description": "A task. MCP 2026-07-28 has the details of its questions and its result.",
    "oneOf": [
        _object(
            {**_TASK, "status": {"const": status}, **payload}, ["statusMessage", "pollIntervalMs"]
        )
        for status, payload in _PAYLOADS.items()
    ],
}
_PROBLEM: Final = _object(
    {
        "error": _object(
            {
                "code": {"type": "string", "description": "A stable code for programs."},
                "message": {"type": "string", "description": "The error and its remedy."},
                "retryAfterMs": _AMOUNT,
            },
            ["retryAfterMs"],
        )
    }
)
_CHALLENGE: Final[JSONObject] = {
    "WWW-Authenticate": {
        "description": "The required token, and where to get one.",
        "required": True,
        "schema": {"type": "string"},
    }
}
_UNAUTHORIZED: Final[Mapping[int, JSONObject]] = {
    401: {"description": "The token is missing or not valid.", "headers": _CHALLENGE},
    403: {"description": "The token does not allow this.", "headers": _CHALLENGE},
}


def document(*, needs_token: bool) -> JSONObject:
    """Return the OpenAPI document of a server."""
    components: JSONObject = {"schemas": {"DetailedTask": _DETAILED_TASK, "Problem": _PROBLEM}}
    if needs_token:
        components["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.1",
        "info": {
            "title": "taskmachine: tasks for browsers and scripts",
            "version": version("taskmachine"),
            "description": "Read tasks and wait for them by plain HTTP. Use MCP to create, answer "
            "and cancel them.",
        },
        "paths": {
            endpoint.path: {"get": _operation(endpoint, needs_token and not endpoint.is_public)}
            for endpoint in ENDPOINTS
        },
        "components": components,
    }


def _operation(endpoint: Endpoint, needs_token: bool) -> JSONObject:
    answers = dict(endpoint.answers)
    if needs_token:
        answers |= _UNAUTHORIZED
    answers |= _refusals(endpoint.problems)
    operation: JSONObject = {
        "operationId": endpoint.name,
        "summary": endpoint.summary,
        "description": endpoint.description,
        "responses": {str(status): answers[status] for status in sorted(answers)},
    }
    if endpoint.parameters:
        operation["parameters"] = list(endpoint.parameters)
    if needs_token:
        operation["security"] = [{"bearer": []}]
    return operation


def _refusals(problems: Sequence[Problem]) -> dict[int, JSONObject]:
    """Return response objects by status; several problems may share one."""
    refusals: dict[int, JSONObject] = {}
    for status in {problem.status for problem in problems}:
        same = [problem for problem in problems if problem.status == status]
        described: JSONObject = {
            "description": " ".join(problem.message for problem in same),
            "content": {
                "application/json": {
                    "schema": {"$ref": "#/components/schemas/Problem"},
                    "examples": {problem.code: {"value": problem.body} for problem in same},
                }
            },
        }
        headers = _HEADERS.get(status)
        refusals[status] = described | ({"headers": headers} if headers else {})
    return refusals
