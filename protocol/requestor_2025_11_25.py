"""How a requestor of 2025-11-25 makes calls and follows their tasks."""

from collections.abc import Mapping
from typing import Any, Final

import attrs

from taskmachine.protocol.dialect import TaskSupport, answerable_kinds, kind_of
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
from taskmachine.protocol.mcp_2025_11_25 import (
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
from taskmachine.protocol.rules import IDEMPOTENCY_KEY
from taskmachine.protocol.shapes import Milliseconds
from taskmachine.protocol.speech import Asking, Seen, Speech
from taskmachine.statemachine import Call, Cause, Outcome, Question, Reply, State
from taskmachine.statemachine import Progress as Reported

__all__ = ["SPEECH", "speech"]


def speech(
    capabilities: JSONObject, peer: JSONObject, tools: Mapping[str, TaskSupport | None]
) -> Speech:
    """For whoever declared `capabilities` to a peer that declared `peer` and lists `tools`.

    A call runs as a task wherever it can, and what was not declared is not answered.
    """

    def is_augmented(call: Call) -> bool:
        supported = call.name is None or (tools.get(call.name) or "forbidden") != "forbidden"
        return supported and is_augmentable(peer, call.method)

    def create(call: Call, ttl_ms: int | None) -> Any:
        return _create(call, ttl_ms, augmented=is_augmented(call))

    def read_question(request: Request) -> Asking:
        _check_declared(request, capabilities)
        return _read_question(request)

    takes_cancel = "cancel" in (peer.get("tasks") or {})  # 2025-11-25:cancel-capability
    cancel = CancelTask if takes_cancel else None
    return attrs.evolve(
        SPEECH,
        create=create,
        cancel=cancel,
        read_question=read_question,
        # 2025-11-25:tasks-cancelled-by-tasks-cancel
        forgets_calls=lambda call: not is_augmented(call),
    )


def _check_declared(request: Request, capabilities: JSONObject) -> None:
    """Refuse a question of a kind that was not declared."""
    kinds = answerable_kinds(capabilities)
    if not any(kind.startswith(request.method) for kind in kinds):
        raise MethodNotFound(request.method)
    kind = kind_of(Question("", request.method, encode_json(request.params)))
    if kind not in kinds:  # 2025-11-25:elicitation-empty-is-form, -no-mode-is-form
        raise InvalidParams(f"params ask for what was not declared: {kind}")


def _create(call: Call, ttl_ms: int | None, *, augmented: bool = True) -> Any:
    meta = {} if call.progress_token is None else {"progressToken": call.progress_token}
    if call.key is not None:
        meta[IDEMPOTENCY_KEY] = call.key
    ttl = None if ttl_ms is None else Milliseconds(ttl_ms)
    task = TaskMetadata(ttl) if augmented else None
    arguments = decode_json(call.arguments)
    if call.name is not None:
        return CallTool(call.name, arguments, task, meta or None)
    shape = DIALECT.methods[call.method].params
    asked: Elicit | CreateMessage = DIALECT.shapes.decode(arguments, shape, "arguments")
    return type(asked)(**{**_fields(asked), "task": task, "meta": meta or None})


def _fields(message: Elicit | CreateMessage) -> dict[str, Any]:
    names = (name for name in type(message).__annotations__ if name != "_meta")
    return {name: getattr(message, name) for name in names}


def _read_created(result: Any) -> Seen | Outcome:
    if isinstance(result, CreateTaskResult):
        return _read(result.task)
    body = DIALECT.shapes.encode(result)
    return Outcome.of_result(encode_json(body), is_error=body.get("isError") is True)


def _read(task: Task) -> Seen:
    # 2025-11-25:cancelled-not-relied-on: it may be gone before its outcome could be collected.
    is_cancelled = task.status == "cancelled"
    outcome = Outcome(Cause.CANCELLED, message=task.statusMessage) if is_cancelled else None
    return Seen(
        task.taskId, State(task.status), task.pollInterval, task.statusMessage, outcome=outcome
    )


def _collected(result: Any) -> Outcome:
    body = DIALECT.shapes.encode(result)
    body["_meta"] = {k: v for k, v in body.get("_meta", {}).items() if k != RELATED_TASK}
    if not body["_meta"]:
        del body["_meta"]
    return Outcome.of_result(encode_json(body), is_error=body.get("isError") is True)


def _failed(error: Error) -> Outcome:
    if (error.code, error.message) == (TASK_CANCELLED, "Task cancelled"):
        return Outcome(Cause.CANCELLED, message=error.message)
    data = None if error.data is None else encode_json(error.data)
    return Outcome.of_error(error.code, error.message, data)


def _read_question(request: Request) -> Asking:
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


def _encode_answer(id: Id, task_id: str, reply: Reply) -> Message:
    body = decode_json(reply.body)
    if reply.is_error:
        return ErrorResponse(id, Error(body["code"], body["message"], body.get("data")))
    meta = {**(body.get("_meta") or {}), **related_task(task_id)}
    return ResultResponse(id, {**body, "_meta": meta})  # 2025-11-25:related-task-on-answer


def _read_progress(progress: Progress) -> tuple[Id, Reported]:
    shown = Reported(progress.progress, progress.total, progress.message)
    return progress.progressToken, shown


SPEECH: Final = Speech(
    dialect=DIALECT,
    create=_create,
    get=GetTask,
    cancel=CancelTask,
    read_created=_read_created,
    read=_read,
    failed=_failed,
    is_gone=lambda error: error.code == INVALID_PARAMS,
    collect=GetTaskPayload,
    collected=_collected,
    read_question=_read_question,
    encode_answer=_encode_answer,
    read_progress=_read_progress,
    forget=Cancelled,
)
