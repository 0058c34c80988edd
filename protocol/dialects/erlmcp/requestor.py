"""How a requestor of erlmcp makes calls and follows their tasks."""

from collections.abc import Mapping
from typing import Any, Final

from taskmachine.protocol.dialects.erlmcp.messages import (
    DIALECT,
    TASK_NOT_FOUND,
    TASK_TIMEOUT,
    Action,
    CancelTask,
    CreateTask,
    CreateTaskResult,
    GetTask,
    Options,
    Progress,
    Task,
    TaskError,
    UpdateTask,
)
from taskmachine.protocol.dialects.requestor import RequestorDialect, Seen
from taskmachine.protocol.jsonrpc import INTERNAL_ERROR, Error, Id
from taskmachine.protocol.jsonvalue import JSONObject, decode_json, encode_json
from taskmachine.protocol.operations import FREE_FORM
from taskmachine.protocol.shapes import Milliseconds
from taskmachine.statemachine import Call, Cause, Outcome, Reply, State
from taskmachine.statemachine import Progress as Reported

__all__ = ["REQUESTOR", "RequestorErlmcp"]


class RequestorErlmcp(RequestorDialect):
    """A requestor of erlmcp: `tasks/get` shows everything, and `tasks/update` answers questions."""

    messages = DIALECT

    def create(self, call: Call, ttl_ms: int | None) -> CreateTask:
        action = Action(call.name or "", decode_json(call.arguments))
        return CreateTask(action, options=None if ttl_ms is None else Options(Milliseconds(ttl_ms)))

    def get(self, task_id: str) -> GetTask:
        return GetTask(task_id)

    def cancel(self, task_id: str) -> CancelTask:
        return CancelTask(task_id)

    def answer(self, task_id: str, key: str, reply: Reply) -> UpdateTask | CancelTask:
        said = decode_json(reply.body)
        if not key.startswith(_UNNAMED):
            return UpdateTask(task_id, inputResponses={key: said})
        if said.get("action") == "accept":
            return UpdateTask(task_id, input=said.get("content") or {})
        # A free-form question can only be declined by cancelling its task.
        return CancelTask(task_id, "The input was declined.")

    def read_created(self, result: CreateTaskResult) -> Seen:
        return _seen(result.task)

    def read(self, shown: Any) -> Seen | None:
        """Read the results of get and notifications; update and cancel are only acknowledged."""
        return _seen(shown.task) if hasattr(shown, "task") else None

    def read_progress(self, progress: Progress) -> tuple[Id, Reported]:
        return progress.progressToken, Reported(progress.progress, progress.total)

    def failed(self, error: Error) -> Outcome:
        return _failed(error)

    def is_gone(self, error: Error) -> bool:
        return error.code == TASK_NOT_FOUND


REQUESTOR: Final = RequestorErlmcp()


def _seen(task: Task) -> Seen:
    return Seen(
        task.taskId,
        _STATES[task.status],
        questions=_questions(task),
        outcome=_outcome(task),
        token=task.progressToken,
    )


_STATES: Final = {
    "pending": State.SUBMITTED,
    "processing": State.WORKING,
    "input_required": State.INPUT_REQUIRED,
    "completed": State.COMPLETED,
    "failed": State.FAILED,
    "cancelled": State.CANCELLED,
}


def _questions(task: Task) -> Mapping[str, tuple[str, JSONObject]]:
    """Return the questions by key; a receiver without `inputRequests` asks one at a time."""
    named: Any = task.inputRequests
    if named is not None:
        return {key: (request.method, request.params) for key, request in named.items()}
    if task.status != "input_required":
        return {}
    return {f"{_UNNAMED}{task.updatedAt}": ("elicitation/create", decode_json(FREE_FORM))}


_UNNAMED: Final = "taskmachine/input-"


def _outcome(task: Task) -> Outcome | None:
    error = task.error or TaskError(INTERNAL_ERROR, "The receiver gave no reason.")
    match task.status:
        case "completed":
            result = task.result
            is_error = isinstance(result, dict) and result.get("isError") is True
            return Outcome.of_result(encode_json(result), is_error=is_error)
        case "failed":
            return _failed(Error(error.code, error.message, error.data))
        case "cancelled":
            return Outcome(Cause.CANCELLED, message=error.message)
        case _:
            return None


def _failed(error: Error) -> Outcome:
    if error.code == TASK_TIMEOUT:
        return Outcome(Cause.TIMED_OUT, message=error.message)
    data = None if error.data is None else encode_json(error.data)
    return Outcome.of_error(error.code, error.message, data)
