"""How a client of 2026-07-28 makes calls and follows their tasks."""

from collections.abc import Mapping
from typing import Any

from taskmachine.protocol.jsonrpc import INVALID_PARAMS, Error
from taskmachine.protocol.jsonvalue import JSONObject, decode_json, encode_json
from taskmachine.protocol.mcp_2026_07_28 import (
    DIALECT,
    REVISION,
    TASKS_REQUIRED,
    CallTool,
    Cancelled,
    CancelTask,
    CreateTaskResult,
    GetTask,
    GetTaskResult,
    InputRequiredResult,
    RequestMeta,
    UpdateTask,
)
from taskmachine.protocol.speech import Paused, Seen, Speech
from taskmachine.statemachine import TERMINAL, Call, Cause, Outcome, Reply, State

__all__ = ["speech"]


def speech(capabilities: JSONObject, info: JSONObject | None = None) -> Speech:
    """For a client of these capabilities, which every request declares together with tasks."""
    declared = {**capabilities, "extensions": {**capabilities.get("extensions", {}), **_TASKS}}
    meta = RequestMeta(REVISION, declared, info)

    def answer(task_id: str, key: str, reply: Reply) -> UpdateTask:
        return UpdateTask(task_id, {key: decode_json(reply.body)}, meta)

    def retry(call: Call, replies: Mapping[str, Reply], state: str | None) -> CallTool:
        responses = {key: decode_json(reply.body) for key, reply in replies.items()}
        arguments = decode_json(call.arguments)
        return CallTool(call.name or "", meta, arguments, responses or None, state)

    return Speech(
        dialect=DIALECT,
        create=lambda call, _: CallTool(call.name or "", meta, decode_json(call.arguments)),
        get=lambda task_id: GetTask(task_id, meta),
        cancel=lambda task_id: CancelTask(task_id, meta),
        read_created=_read_created,
        read=_read,
        failed=_failed,
        is_gone=lambda error: error.code == INVALID_PARAMS,
        answer=answer,
        forget=Cancelled,
        forgets_calls=True,
        retry=retry,
    )


_TASKS: JSONObject = TASKS_REQUIRED["extensions"]


def _read_created(result: Any) -> Seen | Outcome | Paused:
    if isinstance(result, InputRequiredResult):
        return Paused(_questions(result.inputRequests), result.requestState)
    if isinstance(result, CreateTaskResult):
        # 2026-07-28:seed-status: it may have ended already, but only a get brings the outcome.
        state = State(result.status)
        return Seen(
            result.taskId,
            State.WORKING if state in TERMINAL else state,
            result.pollIntervalMs,
            result.statusMessage,
        )
    body = DIALECT.shapes.encode(result)
    del body["resultType"]
    return Outcome.of_result(encode_json(body), is_error=body.get("isError") is True)


def _read(shown: Any) -> Seen | None:
    """Of get and of notifications; update and cancel are only acknowledged."""
    if not hasattr(shown, "taskId"):
        return None
    return Seen(
        shown.taskId,
        State(shown.status),
        shown.pollIntervalMs,
        shown.statusMessage,
        _questions(shown.inputRequests),
        _outcome(shown),
    )


def _questions(requests: Mapping[str, Any] | None) -> dict[str, tuple[str, JSONObject]]:
    return {key: (r.method, dict(r.params or {})) for key, r in (requests or {}).items()}


def _outcome(shown: GetTaskResult) -> Outcome | None:
    match shown.status:
        case "completed":
            result: Any = shown.result
            return Outcome.of_result(encode_json(result), is_error=result.get("isError") is True)
        case "failed":
            error: Any = shown.error
            return _failed(Error(error["code"], error["message"], error.get("data")))
        case "cancelled":
            return Outcome(Cause.CANCELLED, message=shown.statusMessage)
        case _:
            return None


def _failed(error: Error) -> Outcome:
    data = None if error.data is None else encode_json(error.data)
    return Outcome.of_error(error.code, error.message, data)
