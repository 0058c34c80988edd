"""How a receiver of erlmcp reads requests and shows tasks."""

from collections.abc import Sequence
from typing import Any, Final

from taskmachine.protocol.dialects.dialect import read_wishes
from taskmachine.protocol.dialects.erlmcp.messages import (
    ACTION_MEMBERS,
    DIALECT,
    CancelTask,
    CreateTask,
    CreateTaskResult,
    EmptyResult,
    GetTask,
    GetTaskPayload,
    GetTaskResult,
    ListTasks,
    ListTasksResult,
    ProgressToken,
    ReportProgress,
    ReportProgressResult,
    StatusNotSettable,
    UpdateTask,
    encode_cancelled,
    encode_outcome,
    encode_progress,
    encode_status,
    encode_task,
    encode_update,
)
from taskmachine.protocol.dialects.receiver import ReceiverDialect, Session
from taskmachine.protocol.errors import AlreadyEnded, InvalidParams, MethodNotFound
from taskmachine.protocol.jsonrpc import Id, Message, Request
from taskmachine.protocol.jsonvalue import JSONObject, encode_json
from taskmachine.protocol.offer import Offer
from taskmachine.protocol.operations import (
    Advance,
    Amend,
    Answer,
    Browse,
    Cancel,
    Collect,
    Create,
    Get,
    Operation,
)
from taskmachine.statemachine import Call, NotFound, Progress, Reply, State, Task
from taskmachine.statemachine.lifecycle import Step

__all__ = ["RECEIVER", "ReceiverErlmcp"]

LARGEST: Final = 1e308
"""Upper bound of a progress total, just below the largest double."""


class ReceiverErlmcp(ReceiverDialect):
    """A receiver of erlmcp: every call is a task, and its creator receives every change."""

    messages = DIALECT
    follows_created = True
    announces_created = True
    shows_metadata = True
    how_to_begin = "send any request of erlmcp"

    def read(self, request: Request, session: Session) -> Operation:
        params = DIALECT.decode_request(request)
        match params:
            case CreateTask():
                return _create(request, params, session.offer)
            case GetTask(taskId=task_id):
                return Get(task_id)
            case GetTaskPayload(taskId=task_id):
                return Collect(task_id)
            case CancelTask(taskId=task_id, reason=str(reason)):
                return Cancel(task_id, reason)
            case CancelTask(taskId=task_id):
                return Cancel(task_id)
            case UpdateTask():
                return _amend(params) if params.inputResponses is None else _respond(params)
            case ReportProgress():
                return _advance(params)
            case ListTasks() if session.offer.listing:
                return _browse(params)
            case _:
                raise MethodNotFound(request.method)

    def reply(self, operation: Operation, task: Task, steps: Sequence[Step], now: int) -> Any:
        match operation:
            case Create():
                return CreateTaskResult(encode_task(task))
            case Collect():
                return encode_outcome(task)
            case Cancel() | Answer() if task.is_terminal and not steps:
                return DIALECT.encode_error(None, AlreadyEnded(DIALECT.status(task))).error
            case Cancel():
                return EmptyResult()
            case Amend() | Answer():
                return encode_update(task)
            case Advance(progress=progress):
                return ReportProgressResult(progress.value, progress.total)
            case _:
                return GetTaskResult(encode_task(task))

    def page(self, tasks: Sequence[Task], cursor: str | None, now: int) -> ListTasksResult:
        return ListTasksResult([encode_task(task) for task in tasks], cursor)

    def notices(
        self, task: Task, stream: Id | None, operation: Operation | None, now: int
    ) -> Sequence[Any]:
        if task.state is State.CANCELLED:
            return encode_status(task), encode_cancelled(task)
        return (encode_status(task),)

    def progress(self, task: Task) -> Any:
        return encode_progress(task)

    def claims(self, message: Message | None, version: str | None) -> bool:
        return True  # it has no version, and never shares an address with another dialect


RECEIVER: Final = ReceiverErlmcp()


def _create(request: Request, params: CreateTask, offer: Offer) -> Create:
    name = params.action.name
    if name not in offer.tools:
        raise InvalidParams(f"params.action.name is not a tool of this server: {name[:80]!r}")
    if offer.tools[name].task_support == "forbidden":
        raise InvalidParams(f"params.action.name is a tool that cannot run as a task: {name!r}")
    metadata = _metadata(params.metadata)
    if params.action.extra:
        metadata[ACTION_MEMBERS] = params.action.extra
    # Every client of this dialect can answer questions by tasks/update.
    answers = frozenset({"elicitation/create"})
    arguments = encode_json(params.action.arguments or {})
    key, not_before = read_wishes(request)
    call = Call(
        "tools/call",
        name,
        arguments,
        answers=answers,
        key=key,
        not_before=not_before,
    )
    ttl_ms = None if params.options is None else params.options.ttl_ms
    return Create(call, ttl_ms, encode_json(metadata))


def _browse(params: ListTasks) -> Browse:
    if params.limit is not None and params.limit < 1:
        raise InvalidParams("params.limit must be at least 1")
    return Browse(params.cursor, params.limit)


def _amend(params: UpdateTask) -> Amend:
    if params.status is not None and params.status != "input_required":
        raise StatusNotSettable(params.status)
    metadata = _metadata(params.metadata)
    given = metadata.get("input") if params.input is None else params.input
    if given is None:
        return Amend(params.taskId, encode_json(metadata), asks=params.status is not None)
    if params.status is not None:
        raise InvalidParams("params.status requests input, so params.input must be absent")
    return Amend(params.taskId, encode_json(metadata), input=_reply_to_form(given))


def _respond(params: UpdateTask) -> Answer:
    if params != UpdateTask(params.taskId, inputResponses=params.inputResponses):
        raise InvalidParams("params.inputResponses must be the only member besides taskId")
    responses = (params.inputResponses or {}).items()
    return Answer(params.taskId, {key: Reply(encode_json(said)) for key, said in responses})


def _reply_to_form(given: Any) -> Reply:
    """Return the answer: an object fills in a form, any other value its only field."""
    content = given if isinstance(given, dict) else {"input": given}
    return Reply(encode_json({"action": "accept", "content": content}))


def _metadata(given: JSONObject | None) -> JSONObject:
    if given is not None and ACTION_MEMBERS in given:
        raise InvalidParams(f"params.metadata has a reserved member: {ACTION_MEMBERS}")
    return {} if given is None else dict(given)


def _advance(params: ReportProgress) -> Advance:
    value, total = params.progress, params.total
    if total is not None and not abs(total) <= LARGEST:
        raise InvalidParams("params.total must be a finite number")
    most = 1.0 if total is None else total
    if not 0 <= value <= most:
        raise InvalidParams(f"Progress must be between 0.0 and {most}")
    if not isinstance(params.progressToken, str):
        raise NotFound(ProgressToken())  # this server only issues strings
    return Advance(ProgressToken(params.progressToken), Progress(value, total))
