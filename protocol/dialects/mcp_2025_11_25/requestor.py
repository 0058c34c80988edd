"""How a requestor of 2025-11-25 makes calls and follows their tasks."""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from taskmachine.protocol.dialects.dialect import (
    TaskSupport,
    answerable_kinds,
    kind_of,
    wishes_of,
)
from taskmachine.protocol.dialects.mcp_2025_11_25.messages import (
    DIALECT,
    QUESTION_KEY,
    RELATED_TASK,
    TASK_CANCELLED,
    CallTool,
    Cancelled,
    CancelTask,
    CreateMessage,
    CreateTaskResult,
    Elicit,
    GetTask,
    GetTaskPayload,
    Progress,
    Task,
    TaskMetadata,
    is_augmentable,
    related_task,
)
from taskmachine.protocol.dialects.requestor import Asking, RequestorDialect, Seen
from taskmachine.protocol.errors import InvalidParams, MethodNotFound
from taskmachine.protocol.jsonrpc import (
    INVALID_PARAMS,
    Error,
    ErrorResponse,
    Id,
    Message,
    Request,
    ResultResponse,
)
from taskmachine.protocol.jsonvalue import JSONObject, decode_json, encode_json
from taskmachine.protocol.shapes import Milliseconds
from taskmachine.statemachine import Call, Cause, Outcome, Question, Reply, State
from taskmachine.statemachine import Progress as Reported

__all__ = ["REQUESTOR", "Requestor2025"]


@attrs.frozen
class Requestor2025(RequestorDialect):
    """A requestor of 2025-11-25 that declared `capabilities` to a peer, which lists `tools`.

    A call runs as a task wherever possible, and questions of undeclared kinds are refused.  None
    means unknown: then every feature is assumed.
    """

    messages = DIALECT
    questions_are_requests = True

    capabilities: JSONObject | None = None
    peer: JSONObject | None = None
    """The capabilities that the peer declared."""
    tools: Mapping[str, TaskSupport | None] | None = None

    @property
    def takes_cancel(self) -> bool:
        # 2025-11-25:cancel-capability
        return self.peer is None or "cancel" in (self.peer.get("tasks") or {})

    def _is_augmented(self, call: Call) -> bool:
        if self.peer is None or self.tools is None:
            return True
        supported = call.name is None or (self.tools.get(call.name) or "forbidden") != "forbidden"
        return supported and is_augmentable(self.peer, call.method)

    def create(self, call: Call, ttl_ms: int | None) -> Any:
        meta = wishes_of(call)
        if call.progress_token is not None:
            meta["progressToken"] = call.progress_token
        ttl = None if ttl_ms is None else Milliseconds(ttl_ms)
        task = TaskMetadata(ttl) if self._is_augmented(call) else None
        arguments = decode_json(call.arguments)
        if call.name is not None:
            return CallTool(call.name, arguments, task, meta or None)
        shape = DIALECT.methods[call.method].params
        asked: Elicit | CreateMessage = DIALECT.shapes.decode(arguments, shape, "arguments")
        return type(asked)(**{**_fields(asked), "task": task, "meta": meta or None})

    def get(self, task_id: str) -> GetTask:
        return GetTask(task_id)

    def cancel(self, task_id: str) -> CancelTask:
        return CancelTask(task_id)

    def collect(self, task_id: str) -> GetTaskPayload:
        return GetTaskPayload(task_id)

    def respond(self, id: Id, task_id: str, reply: Reply) -> Message:
        body = decode_json(reply.body)
        if reply.is_error:
            return ErrorResponse(id, Error(body["code"], body["message"], body.get("data")))
        meta = {**(body.get("_meta") or {}), **related_task(task_id)}
        return ResultResponse(id, {**body, "_meta": meta})  # 2025-11-25:related-task-on-answer

    def abandon(self, id: Id) -> Cancelled:
        return Cancelled(id)

    def may_abandon(self, call: Call) -> bool:
        # 2025-11-25:tasks-cancelled-by-tasks-cancel
        return not self._is_augmented(call)

    def read_created(self, result: Any) -> Seen | Outcome:
        if isinstance(result, CreateTaskResult):
            return self.read(result.task)
        body = DIALECT.shapes.encode(result)
        return Outcome.of_result(encode_json(body), is_error=body.get("isError") is True)

    def read(self, shown: Task) -> Seen:
        # 2025-11-25:cancelled-not-relied-on: it may be removed before its result is requested.
        is_cancelled = shown.status == "cancelled"
        outcome = Outcome(Cause.CANCELLED, message=shown.statusMessage) if is_cancelled else None
        return Seen(
            shown.taskId,
            State(shown.status),
            shown.pollInterval,
            shown.statusMessage,
            outcome=outcome,
        )

    def read_collected(self, result: Any) -> Outcome:
        body = DIALECT.shapes.encode(result)
        body["_meta"] = {k: v for k, v in body.get("_meta", {}).items() if k != RELATED_TASK}
        if not body["_meta"]:
            del body["_meta"]
        return Outcome.of_result(encode_json(body), is_error=body.get("isError") is True)

    def read_question(self, request: Request) -> Asking:
        if self.capabilities is not None:
            _check_declared(request, self.capabilities)
        DIALECT.decode_request(request, sender="server")
        meta = request.params.get("_meta") or {}
        related = meta.get(RELATED_TASK)
        if not isinstance(related, dict) or not isinstance(related.get("taskId"), str):
            raise InvalidParams(f"params._meta has no {RELATED_TASK}")
        params = {key: value for key, value in request.params.items() if key != "_meta"}
        key = meta.get(QUESTION_KEY)
        if isinstance(key, str):
            return Asking(related["taskId"], key, params, is_named=True)
        what = encode_json([request.method, params]).decode()
        return Asking(related["taskId"], what, params, is_named=False)

    def read_progress(self, progress: Progress) -> tuple[Id, Reported]:
        shown = Reported(progress.progress, progress.total, progress.message)
        return progress.progressToken, shown

    def failed(self, error: Error) -> Outcome:
        if (error.code, error.message) == (TASK_CANCELLED, "Task cancelled"):
            return Outcome(Cause.CANCELLED, message=error.message)
        data = None if error.data is None else encode_json(error.data)
        return Outcome.of_error(error.code, error.message, data)

    def is_gone(self, error: Error) -> bool:
        return error.code == INVALID_PARAMS


REQUESTOR: Final = Requestor2025()


def _check_declared(request: Request, capabilities: JSONObject) -> None:
    """Refuse a question of an undeclared kind."""
    kinds = answerable_kinds(capabilities)
    if not any(kind.startswith(request.method) for kind in kinds):
        raise MethodNotFound(request.method)
    kind = kind_of(Question("", request.method, encode_json(request.params)))
    if kind not in kinds:  # 2025-11-25:elicitation-empty-is-form, -no-mode-is-form
        raise InvalidParams(f"params need a capability that was not declared: {kind}")


def _fields(message: Elicit | CreateMessage) -> dict[str, Any]:
    names = (name for name in type(message).__annotations__ if name != "_meta")
    return {name: getattr(message, name) for name in names}
