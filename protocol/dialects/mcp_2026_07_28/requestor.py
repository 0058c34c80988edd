"""How a client of 2026-07-28 makes calls and follows their tasks."""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from taskmachine.protocol.dialects.dialect import wishes_of
from taskmachine.protocol.dialects.mcp_2026_07_28.messages import (
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
from taskmachine.protocol.dialects.requestor import Paused, RequestorDialect, Seen
from taskmachine.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, Error, Id
from taskmachine.protocol.jsonvalue import JSONObject, decode_json, encode_json
from taskmachine.statemachine import TERMINAL, Call, Cause, Outcome, Reply, State
from taskmachine.statemachine import Progress as Reported

__all__ = ["REQUESTOR", "Requestor2026", "request_meta"]


def request_meta(capabilities: JSONObject, info: JSONObject | None) -> RequestMeta:
    """Return the `_meta` of every request of such a client."""
    declared = {**capabilities, "extensions": {**capabilities.get("extensions", {}), **_TASKS}}
    return RequestMeta(REVISION, declared, info)


_TASKS: JSONObject = TASKS_REQUIRED["extensions"]


@attrs.frozen
class Requestor2026(RequestorDialect):
    """A client whose requests declare these capabilities and the tasks extension."""

    messages = DIALECT

    capabilities: JSONObject = attrs.field(factory=dict)
    info: JSONObject | None = None
    _said: RequestMeta = attrs.field(init=False)

    @_said.default
    def _say(self) -> RequestMeta:
        return request_meta(self.capabilities, self.info)

    def create(self, call: Call, ttl_ms: int | None) -> CallTool:
        return self.retry(call, {}, None)

    def retry(self, call: Call, replies: Mapping[str, Reply], state: str | None) -> CallTool:
        meta = attrs.evolve(self._said, progressToken=call.progress_token, extra=wishes_of(call))
        responses = {key: decode_json(reply.body) for key, reply in replies.items()}
        arguments = decode_json(call.arguments)
        return CallTool(call.name or "", meta, arguments, responses or None, state)

    def get(self, task_id: str) -> GetTask:
        return GetTask(task_id, self._said)

    def cancel(self, task_id: str) -> CancelTask:
        return CancelTask(task_id, self._said)

    def answer(self, task_id: str, key: str, reply: Reply) -> UpdateTask:
        return UpdateTask(task_id, {key: decode_json(reply.body)}, self._said)

    def abandon(self, id: Id) -> Cancelled:
        return Cancelled(id)

    def may_abandon(self, call: Call) -> bool:
        return True

    def read_created(self, result: Any) -> Seen | Outcome | Paused:
        if isinstance(result, InputRequiredResult):
            return Paused(_questions(result.inputRequests), result.requestState)
        if isinstance(result, CreateTaskResult):
            # 2026-07-28:seed-status: it may have ended already, but only a get returns the outcome.
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

    def read(self, shown: Any) -> Seen | None:
        """Read the results of get and notifications; update and cancel are only acknowledged."""
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

    def read_progress(self, progress: Progress) -> tuple[Id, Reported]:
        """Read progress of a plain call (2026-07-28:no-progress-for-tasks)."""
        shown = Reported(progress.progress, progress.total, progress.message)
        return progress.progressToken, shown

    def failed(self, error: Error) -> Outcome:
        return _failed(error)

    def is_gone(self, error: Error) -> bool:
        return error.code == INVALID_PARAMS


REQUESTOR: Final = Requestor2026()


def _questions(requests: Mapping[str, Any] | None) -> dict[str, tuple[str, JSONObject]]:
    return {key: (r.method, dict(r.params or {})) for key, r in (requests or {}).items()}


def _outcome(shown: GetTaskResult) -> Outcome | None:
    match shown.status:
        case "completed":
            inlined: Any = shown.result
            result = {k: v for k, v in inlined.items() if k != "resultType"}  # some servers add it
            return Outcome.of_result(encode_json(result), is_error=result.get("isError") is True)
        case "failed":
            error: Any = shown.error
            code, message = error.get("code"), error.get("message")
            if not isinstance(code, int) or not isinstance(message, str):
                return _failed(Error(INTERNAL_ERROR, "The server gave no reason."))
            return _failed(Error(code, message, error.get("data")))
        case "cancelled":
            return Outcome(Cause.CANCELLED, message=shown.statusMessage)
        case _:
            return None


def _failed(error: Error) -> Outcome:
    data = None if error.data is None else encode_json(error.data)
    return Outcome.of_error(error.code, error.message, data)
