"""How a server of 2026-07-28 reads requests and shows tasks."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, cast

import attrs

from taskmachine.protocol.dialect import answerable_kinds, kind_of
from taskmachine.protocol.errors import InvalidParams, MissingCapability
from taskmachine.protocol.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, Error, Id, Request
from taskmachine.protocol.jsonvalue import Encoded, JSONObject, decode_json, encode_json
from taskmachine.protocol.mcp_2026_07_28 import (
    DIALECT,
    REVISION,
    SERVER_INFO,
    SUBSCRIPTION_ID,
    TASKS_REQUIRED,
    Acknowledgement,
    CallTool,
    CallToolResult,
    Cancelled,
    CancelTask,
    CreateTaskResult,
    DiscoverResult,
    GetTask,
    GetTaskResult,
    InputMethod,
    InputRequest,
    InputRequiredResult,
    Listen,
    ListenAcknowledged,
    ListenResult,
    ListTools,
    ListToolsResult,
    Progress,
    SubscriptionFilter,
    SubscriptionMeta,
    TaskStatus,
    Tool,
    UpdateTask,
    declares_tasks,
)
from taskmachine.protocol.operations import (
    Answer,
    Cancel,
    Create,
    Get,
    Operation,
    Run,
    Watch,
)
from taskmachine.protocol.rules import (
    Immediate,
    Offer,
    Rules,
    Session,
    idempotency_key,
    poll_interval_ms,
)
from taskmachine.protocol.shapes import Milliseconds, Shapes
from taskmachine.protocol.timestamps import encode_timestamp
from taskmachine.protocol.trace_context import trace_meta
from taskmachine.statemachine import Call, Outcome, Question, Reply, State, Task
from taskmachine.statemachine import Progress as Reported
from taskmachine.statemachine.lifecycle import Step

__all__ = [
    "RULES",
    "capabilities_of",
    "encode_created",
    "encode_plain",
    "encode_questions",
    "encode_status",
    "encode_task",
]

CACHE: Final = Milliseconds(60_000)  # tools and capabilities of a server seldom change


def capabilities_of(offer: Offer) -> JSONObject:
    """What a server declares when it is discovered."""
    capabilities: JSONObject = {"tools": {}} if offer.tools else {}
    return capabilities | (TASKS_REQUIRED if offer.augmentable else {})


def _read(request: Request, session: Session) -> Operation | Immediate:
    offer = session.offer
    params = DIALECT.decode_request(request)
    answers = answerable_kinds(params._meta.clientCapabilities)
    match params:
        case GetTask(taskId=task_id):
            return Get(task_id, answers)
        case UpdateTask(taskId=task_id, inputResponses=responses):
            return _answer(task_id, responses)
        case CancelTask(taskId=task_id):
            return Cancel(task_id)
        case CallTool():
            return _run_or_create(params, answers, offer, idempotency_key(request))
        case Listen(notifications=wanted):
            return Watch(tuple(wanted.taskIds or ()), answers)
        case ListTools():
            tools = [
                DIALECT.shapes.decode(tool.definition, Tool, f"tool {name}")
                for name, tool in offer.tools.items()
            ]
            return Immediate(ListToolsResult(tools, CACHE, "public"))
        case _:
            return Immediate(_discovered(offer))


def _discovered(offer: Offer) -> DiscoverResult:
    return DiscoverResult(
        supportedVersions=[REVISION],
        capabilities=capabilities_of(offer),
        ttlMs=CACHE,
        cacheScope="public",
        instructions=offer.instructions,
    )


def _run_or_create(
    params: CallTool, answers: frozenset[str], offer: Offer, key: str | None
) -> Operation:
    """The server decides, within what this very request declares."""
    tool = offer.tool(params.name)
    arguments = encode_json(params.arguments or {})
    call = Call("tools/call", params.name, arguments, answers=answers, key=key)
    replies, state = _replies(params.inputResponses or {}), params.requestState
    understands = declares_tasks(params._meta.clientCapabilities)
    if tool.task_support == "required" and not understands:
        raise MissingCapability(TASKS_REQUIRED)
    # A plain call that was paused goes on as one; what asks first was none.
    is_retry = params.inputResponses is not None or state is not None
    if tool.task_support == "required" or (
        tool.task_support == "optional" and understands and (tool.first or not is_retry)
    ):
        return Create(call, first=tool.first, answers=replies, state=state)
    # Only what is answered by its result reports progress here.
    call = attrs.evolve(call, progress_token=params._meta.progressToken)
    return Run(call, replies, state)


@attrs.frozen
class _Elicited:
    action: Literal["accept", "decline", "cancel"]
    content: JSONObject | None = None


@attrs.frozen
class _Sampled:
    role: Literal["user", "assistant"]
    content: Any
    model: str


@attrs.frozen
class _Roots:
    roots: list[JSONObject]


def _kind_of(answer: JSONObject) -> type:
    if "roots" in answer:
        return _Roots
    return _Sampled if "role" in answer else _Elicited


_Answers = dict[str, _Elicited | _Sampled | _Roots]
_ANSWERS: Final = Shapes()
_ANSWERS.choose(_Elicited | _Sampled | _Roots, _kind_of)


def _replies(responses: dict[str, JSONObject]) -> dict[str, Reply]:
    """What can answer no question is refused (2026-07-28:input-responses-validated)."""
    try:
        _ANSWERS.decode(responses, _Answers, "params.inputResponses")
    except ValueError as error:
        raise InvalidParams(str(error)) from None
    return {key: Reply(encode_json(response)) for key, response in responses.items()}


def _answer(task_id: str, responses: dict[str, JSONObject]) -> Answer:
    # 2026-07-28:ignore-never-issued-keys: what lies under them need not even be an answer
    replies: dict[str, Reply] = {}
    unfit: dict[str, str] = {}
    for key, response in responses.items():
        try:
            replies |= _replies({key: response})
        except InvalidParams as error:
            unfit[key] = error.reason
    return Answer(task_id, replies, unfit)


def _reply(operation: Operation, task: Task, steps: Sequence[Step], now: int) -> Any:
    interval = poll_interval_ms(task, now)
    match operation:
        case Create():
            return encode_created(task, interval)
        case Get(answers=answers):
            return encode_task(task, interval, answers=answers)
        case _:  # 2026-07-28:cancel-terminal-acked: whether it did anything or not
            return Acknowledgement()


def _notice(task: Task, stream: Id | None, operation: Operation | None, now: int) -> Any:
    assert stream is not None, "only subscribers are told"
    assert isinstance(operation, Watch)
    interval = poll_interval_ms(task, now)
    return encode_status(task, stream, interval, answers=operation.answers)


def _progress(token: Id, progress: Reported) -> Progress:
    return Progress(token, progress.value, progress.total, progress.message)


def _paused(questions: Sequence[Question], state: str | None) -> InputRequiredResult:
    return InputRequiredResult(encode_questions(questions) or None, state)


def _acknowledgement(id: Id, task_ids: Sequence[str]) -> ListenAcknowledged:
    # What we cannot tell of is left out of what we agree to, and so is what nobody asked for.
    agreed = SubscriptionFilter(taskIds=list(task_ids) or None)
    return ListenAcknowledged(agreed, SubscriptionMeta(id))


def _farewell(id: Id) -> tuple[Cancelled, ListenResult]:
    # 2026-07-28:subscription-id-in-meta: like everything on this stream
    return Cancelled(id, meta={SUBSCRIPTION_ID: id}), ListenResult(SubscriptionMeta(id))


# --- what a server shows ---------------------------------------------------------------------


def encode_task(
    record: Task,
    poll_interval_ms: int | None = None,
    *,
    answers: frozenset[str] | None = None,
) -> GetTaskResult:
    """The answer to `tasks/get`.

    `answers` are the methods that this poll declared; questions of other kinds are not sent
    (2026-07-28:undeclared-capability-not-used), and the status message says that they exist.
    """
    details = _details(record, poll_interval_ms, answers)
    return GetTaskResult(**details, meta=trace_meta(record) or None)


def encode_status(
    record: Task,
    subscription: Id,
    poll_interval_ms: int | None = None,
    *,
    answers: frozenset[str] | None = None,
) -> TaskStatus:
    """The notification on a subscription: what `tasks/get` would show at this moment."""
    details = _details(record, poll_interval_ms, answers)
    return TaskStatus(**details, meta=SubscriptionMeta(subscription, trace_meta(record)))


def encode_questions(questions: Iterable[Question]) -> dict[str, InputRequest]:
    """Questions under their keys."""
    return {
        question.key: InputRequest(cast(InputMethod, question.method), Encoded(question.params))
        for question in questions
    }


def encode_created(record: Task, poll_interval_ms: int | None = None) -> CreateTaskResult:
    """The answer to the call that became a task."""
    return CreateTaskResult(**_snapshot(record, poll_interval_ms))


def _details(
    record: Task, poll_interval_ms: int | None, answers: frozenset[str] | None
) -> dict[str, Any]:
    details = _snapshot(record, poll_interval_ms)
    outcome = record.outcome
    if record.state is State.INPUT_REQUIRED:
        shown = [q for q in record.open_questions if answers is None or kind_of(q) in answers]
        hidden = sorted({q.method for q in record.open_questions} - {q.method for q in shown})
        details["inputRequests"] = encode_questions(shown)
        if hidden:
            details["statusMessage"] = f"Waits for answers to: {', '.join(hidden)}"
    elif outcome is not None and outcome.result is not None:
        details["result"] = Encoded(_complete(outcome.result))
    elif outcome is not None and record.state is State.FAILED:
        error = _error(outcome)
        details["error"] = attrs.asdict(error, filter=lambda _, value: value is not None)
        details["statusMessage"] = error.message  # 2026-07-28:failed-status-message
    return details


def _complete(result: bytes) -> bytes:
    """What the call would have been answered with says what it is; `ext-tasks` 0.2.2 insists."""
    if result.startswith(b'{"content":'):  # as ours do: no need to read it all
        # Joined from views, a megabyte is copied in 20 us instead of 1,000.
        return b"".join((b'{"resultType":"complete",', memoryview(result)[1:]))
    return encode_json({**decode_json(result), "resultType": "complete"})


def encode_plain(outcome: Outcome) -> CallToolResult | Error:
    """What a plain call is answered with."""
    if outcome.result is None:
        return _error(outcome)
    result: CallToolResult = DIALECT.shapes.decode(
        decode_json(outcome.result), CallToolResult, "result"
    )
    return result


def _error(outcome: Outcome) -> Error:
    data = None if outcome.data is None else Encoded(outcome.data)
    return Error(_public_code(outcome.code), outcome.message or "Internal error", data)


def _public_code(code: int | None) -> int:
    """What a tool raised must not look like a word of the protocol."""
    # 2026-07-28:reserved-codes-not-invented, 2026-07-28:old-codes-not-sent
    if code == _LEGACY_RESOURCE_NOT_FOUND:
        return INVALID_PARAMS  # its successor
    if code is None or -32099 <= code <= -32020:
        return INTERNAL_ERROR
    return code


_LEGACY_RESOURCE_NOT_FOUND: Final = -32002


def _snapshot(record: Task, poll_interval_ms: int | None) -> dict[str, Any]:
    return {
        "taskId": record.id,
        "status": DIALECT.status(record),
        "createdAt": encode_timestamp(record.created_at),
        "lastUpdatedAt": encode_timestamp(record.updated_at),
        "ttlMs": record.ttl_ms,
        "statusMessage": record.message,
        "pollIntervalMs": poll_interval_ms,
    }


RULES: Final = Rules(
    dialect=DIALECT,
    read=_read,
    reply=_reply,
    ran=encode_plain,
    paused=_paused,
    call_progress=_progress,
    notice=_notice,
    signature=lambda offer: {SERVER_INFO: offer.info},
    acknowledgement=_acknowledgement,
    farewell=_farewell,
)
