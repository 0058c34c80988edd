"""How a client of 2026-07-28 makes calls and follows their tasks."""

from collections.abc import Mapping
from typing import Any

import attrs

from taskmachine.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, Error, Id
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
    Progress,
    RequestMeta,
    UpdateTask,
)
from taskmachine.protocol.rules import IDEMPOTENCY_KEY
from taskmachine.protocol.speech import Paused, Seen, Speech
from taskmachine.statemachine import TERMINAL, Call, Cause, Outcome, Reply, State
from taskmachine.statemachine import Progress as Reported

__all__ = ["request_meta", "speech"]


def speech(capabilities: JSONObject, info: JSONObject | None = None) -> Speech:
    """For a client of these capabilities, which every request declares together with tasks."""
    meta = request_meta(capabilities, info)

    def of_call(call: Call) -> RequestMeta:
        more = {} if call.key is None else {IDEMPOTENCY_KEY: call.key}
        return attrs.evolve(meta, progressToken=call.progress_token, extra=more)

    def answer(task_id: str, key: str, reply: Reply) -> UpdateTask:
        return UpdateTask(task_id, {key: decode_json(reply.body)}, meta)

    def retry(call: Call, replies: Mapping[str, Reply], state: str | None) -> CallTool:
        responses = {key: decode_json(reply.body) for key, reply in replies.items()}
        arguments = decode_json(call.arguments)
        return CallTool(call.name or "", of_call(call), arguments, responses or None, state)

    return Speech(
        dialect=DIALECT,
        create=lambda call, _: CallTool(
            call.name or "", of_call(call), decode_json(call.arguments)
        ),
        get=lambda task_id: GetTask(task_id, meta),
        cancel=lambda task_id: CancelTask(task_id, meta),
        read_created=_read_created,
        read=_read,
        failed=_failed,
        is_gone=lambda error: error.code == INVALID_PARAMS,
        answer=answer,
        forget=Cancelled,
        forgets_calls=lambda _: True,
        retry=retry,
        read_progress=_read_progress,
    )


def request_meta(capabilities: JSONObject, info: JSONObject | None) -> RequestMeta:
    """What every request of such a client says about itself."""
    declared = {**capabilities, "extensions": {**capabilities.get("extensions", {}), **_TASKS}}
    return RequestMeta(REVISION, declared, info)


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
            inlined: Any = shown.result
            result = {k: v for k, v in inlined.items() if k != "resultType"}  # some say it here
            return Outcome.of_result(encode_json(result), is_error=result.get("isError") is True)
        case "failed":
            error: Any = shown.error
            code, message = error.get("code"), error.get("message")
            if not isinstance(code, int) or not isinstance(message, str):
                return _failed(Error(INTERNAL_ERROR, "The server does not say why."))
            return _failed(Error(code, message, error.get("data")))
        case "cancelled":
            return Outcome(Cause.CANCELLED, message=shown.statusMessage)
        case _:
            return None


def _read_progress(progress: Progress) -> tuple[Id, Reported]:
    """Of plain calls only: 2026-07-28:no-progress-for-tasks."""
    shown = Reported(progress.progress, progress.total, progress.message)
    return progress.progressToken, shown


def _failed(error: Error) -> Outcome:
    data = None if error.data is None else encode_json(error.data)
    return Outcome.of_error(error.code, error.message, data)
