"""How a receiver of 2025-11-25 reads requests and shows tasks."""

from collections.abc import Sequence
from typing import Any, Final

from taskmachine.protocol.dialect import Side, answerable_kinds
from taskmachine.protocol.errors import AlreadyEnded, InvalidParams, MethodNotFound, NotIntroduced
from taskmachine.protocol.jsonrpc import Id, Request
from taskmachine.protocol.jsonvalue import JSONObject, decode_json, encode_json
from taskmachine.protocol.mcp_2025_11_25 import (
    DIALECT,
    REVISION,
    CallTool,
    Cancelled,
    CancelTask,
    CreateMessage,
    Elicit,
    EmptyResult,
    GetTask,
    GetTaskPayload,
    Initialize,
    Initialized,
    InitializeResult,
    ListTasks,
    ListTasksResult,
    ListTools,
    ListToolsResult,
    Ping,
    Progress,
    TaskMetadata,
    Tool,
    check_task_support,
    encode_created,
    encode_outcome,
    encode_plain,
    encode_progress,
    encode_question,
    encode_status,
    encode_task,
    tasks_capability,
)
from taskmachine.protocol.operations import (
    Browse,
    Cancel,
    Collect,
    Create,
    Get,
    Operation,
    Run,
)
from taskmachine.protocol.rules import (
    Immediate,
    Offer,
    Rules,
    Session,
    idempotency_key,
    poll_interval_ms,
)
from taskmachine.statemachine import Call, Question, Task
from taskmachine.statemachine import Progress as Reported
from taskmachine.statemachine.lifecycle import Step

__all__ = ["RULES", "capabilities_of"]


def capabilities_of(offer: Offer) -> JSONObject:
    """What a receiver declares when it introduces itself."""
    capabilities: JSONObject = {"tools": {}} if offer.tools else {}
    if offer.augmentable:
        capabilities["tasks"] = tasks_capability(*sorted(offer.augmentable), listing=offer.listing)
    return capabilities


def _read(request: Request, session: Session) -> Operation | Immediate:
    offer = session.offer
    params = DIALECT.decode_request(request, sender=_PEER[offer.side])
    if not session.is_introduced and not isinstance(params, Initialize | Ping):
        raise NotIntroduced  # 2025-11-25:initialize-first
    match params:
        case GetTask(taskId=task_id):
            return Get(task_id)
        case GetTaskPayload(taskId=task_id):
            return Collect(task_id)
        case CancelTask(taskId=task_id) if offer.augmentable:  # 2025-11-25:cancel-capability
            return Cancel(task_id)
        case ListTasks(cursor=cursor) if offer.augmentable and offer.listing:
            return Browse(cursor)
        case CallTool():
            tool = offer.tool(params.name)
            call = _call(request, params.name, params.arguments or {}, session)
            augmented = params.task is not None and "tools/call" in offer.augmentable
            check_task_support(params.name, tool.task_support, augmented=augmented)
            return _run_or_create(call, params.task if augmented else None, tool.immediate)
        case Elicit() | CreateMessage():
            asked = {key: value for key, value in request.params.items() if key != "task"}
            call = _call(request, None, asked, session)
            return _run_or_create(call, params.task if request.method in offer.methods else None)
        case Ping():
            return Immediate(EmptyResult())
        case Initialize():
            session.capabilities, session.is_introduced = params.capabilities, True
            capabilities = capabilities_of(offer)
            return Immediate(
                InitializeResult(REVISION, capabilities, offer.info, offer.instructions)
            )
        case ListTools():
            return Immediate(ListToolsResult(tools=[_shown_tool(offer, n) for n in offer.tools]))
        case _:
            raise MethodNotFound(request.method)


_PEER: Final[dict[Side, Side]] = {"server": "client", "client": "server"}


def _call(request: Request, name: str | None, arguments: JSONObject, session: Session) -> Call:
    token = (request.params.get("_meta") or {}).get("progressToken")
    if token is not None and (not isinstance(token, str | int) or isinstance(token, bool)):
        raise InvalidParams("params._meta.progressToken must be a string or an integer")  # X07-14
    answers = answerable_kinds(session.capabilities)
    key = idempotency_key(request)
    return Call(request.method, name, encode_json(arguments), token, answers, key)


def _run_or_create(
    call: Call, task: TaskMetadata | None, immediate: str | None = None
) -> Operation:
    return Run(call) if task is None else Create(call, task.ttl, immediate=immediate)


def _shown_tool(offer: Offer, name: str) -> Tool:
    tool = offer.tools[name]
    execution = {"execution": {"taskSupport": tool.task_support}} if offer.augmentable else {}
    shown: Tool = DIALECT.shapes.decode({**tool.definition, **execution}, Tool, f"tool {name}")
    return shown


def _reply(operation: Operation, task: Task, steps: Sequence[Step], now: int) -> Any:
    interval = poll_interval_ms(task, now)
    match operation:
        case Create(immediate=immediate):
            return encode_created(task, interval, immediate_response=immediate)
        case Collect():
            return encode_outcome(task)
        case Cancel() if not steps:
            return DIALECT.encode_error(None, AlreadyEnded(DIALECT.status(task))).error
        case _:
            return encode_task(task, interval)


def _page(tasks: Sequence[Task], cursor: str | None, now: int) -> ListTasksResult:
    shown = [encode_task(task, poll_interval_ms(task, now)) for task in tasks]
    return ListTasksResult(shown, cursor)


def _notice(task: Task, stream: Id | None, operation: Operation | None, now: int) -> Any:
    return encode_status(task, poll_interval_ms(task, now))


def _progress(token: Id, progress: Reported) -> Progress:
    return Progress(token, progress.value, progress.total, progress.message)


def _call_question(id: Id, question: Question) -> Request:
    return Request(id, question.method, decode_json(question.params))


RULES: Final = Rules(
    dialect=DIALECT,
    read=_read,
    reply=_reply,
    ran=encode_plain,
    page=_page,
    notice=_notice,
    progress=encode_progress,
    question=encode_question,
    call_progress=_progress,
    call_question=_call_question,
    withdrawal=Cancelled,
    readiness=Initialized,
    collect_blocks=True,
    follows_created=True,
)
