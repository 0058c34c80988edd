"""How a server of 2026-07-28 reads requests and shows tasks."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, cast

import attrs

from taskmachine.protocol.dialects.dialect import (
    answerable_kinds,
    kind_of,
    read_wishes,
)
from taskmachine.protocol.dialects.mcp_2026_07_28.headers import check_sent, mirrored_parameters
from taskmachine.protocol.dialects.mcp_2026_07_28.messages import (
    CLIENT_CAPABILITIES,
    DIALECT,
    HEADER_MISMATCH,
    MISSING_CAPABILITY,
    PROTOCOL_VERSION,
    REVISION,
    SERVER_INFO,
    SUBSCRIPTION_ID,
    TASKS_REQUIRED,
    UNSUPPORTED_VERSION,
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
    check_first,
    declares_tasks,
)
from taskmachine.protocol.dialects.receiver import (
    Immediate,
    Mirrored,
    ReceiverDialect,
    Session,
    poll_interval_ms,
)
from taskmachine.protocol.errors import (
    HeaderMismatch,
    InvalidParams,
    MalformedMessage,
    MissingCapability,
    UnsupportedVersion,
)
from taskmachine.protocol.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    Error,
    ErrorResponse,
    Id,
    Message,
    Request,
    ResultResponse,
)
from taskmachine.protocol.jsonvalue import Encoded, JSONObject, decode_json, encode_json
from taskmachine.protocol.offer import Offer
from taskmachine.protocol.operations import (
    Answer,
    Cancel,
    Create,
    Get,
    Operation,
    Run,
    Watch,
)
from taskmachine.protocol.shapes import Milliseconds, Shapes
from taskmachine.protocol.timestamps import encode_timestamp
from taskmachine.protocol.trace_context import trace_meta
from taskmachine.statemachine import Call, Outcome, Question, Reply, State, Task
from taskmachine.statemachine import Progress as Reported
from taskmachine.statemachine.lifecycle import Step

__all__ = [
    "RECEIVER",
    "Receiver2026",
    "capabilities_of",
    "encode_created",
    "encode_plain",
    "encode_questions",
    "encode_status",
    "encode_task",
]

CACHE: Final = Milliseconds(60_000)  # tools and capabilities of a server rarely change


def capabilities_of(offer: Offer) -> JSONObject:
    """Return the capabilities that a server declares in `server/discover`."""
    capabilities: JSONObject = {"tools": {}} if offer.tools else {}
    return capabilities | (TASKS_REQUIRED if offer.augmentable else {})


_BAD_REQUESTS: Final = frozenset(
    {INVALID_REQUEST, HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION}
)


class Receiver2026(ReceiverDialect):
    """A server of 2026-07-28: each request describes its client completely."""

    messages = DIALECT
    is_stateless = True
    how_to_begin = f"send the metadata of {REVISION} with each request"

    def read(self, request: Request, session: Session) -> Operation | Immediate:
        check_first(request)
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
                return _run_or_create(request, params, answers, session.offer)
            case Listen(notifications=wanted):
                return Watch(tuple(wanted.taskIds or ()), answers)
            case ListTools():
                tools = [
                    DIALECT.shapes.decode(tool.definition, Tool, f"tool {name}")
                    for name, tool in session.offer.tools.items()
                ]
                return Immediate(ListToolsResult(tools, CACHE, "public"))
            case _:
                return Immediate(_discovered(session.offer))

    def reply(self, operation: Operation, task: Task, steps: Sequence[Step], now: int) -> Any:
        match operation:
            case Create():
                return encode_created(task, poll_interval_ms(task, now))
            case Get(answers=answers):
                return encode_task(task, poll_interval_ms(task, now), answers=answers)
            case _:  # 2026-07-28:cancel-terminal-acked: even if nothing was changed
                return Acknowledgement()

    def ran(self, outcome: Outcome) -> Any:
        return encode_plain(outcome)

    def paused(self, questions: Sequence[Question], state: str | None) -> InputRequiredResult:
        return InputRequiredResult(encode_questions(questions) or None, state)

    def signature(self, offer: Offer) -> JSONObject:
        return {SERVER_INFO: offer.info}

    def notices(
        self, task: Task, stream: Id | None, operation: Operation | None, now: int
    ) -> Sequence[Any]:
        if stream is None or not isinstance(operation, Watch):
            return ()  # only subscriptions receive notifications
        interval = poll_interval_ms(task, now)
        return (encode_status(task, stream, interval, answers=operation.answers),)

    def call_progress(self, token: Id, progress: Reported) -> Progress:
        return Progress(token, progress.value, progress.total, progress.message)

    def acknowledgement(self, id: Id, task_ids: Sequence[str]) -> ListenAcknowledged:
        # Only task ids: all other members are unsupported or were not requested.
        agreed = SubscriptionFilter(taskIds=list(task_ids) or None)
        return ListenAcknowledged(agreed, SubscriptionMeta(id))

    def end_watch(self, id: Id) -> tuple[Cancelled, ListenResult]:
        # 2026-07-28:subscription-id-in-meta: as in every message on this stream
        return Cancelled(id, meta={SUBSCRIPTION_ID: id}), ListenResult(SubscriptionMeta(id))

    def claims(self, message: Message | None, version: str | None) -> bool:
        # 2026-07-28:modern-request-served-statelessly, 2026-07-28:initialize-selects-legacy
        if isinstance(message, Request):
            meta = message.params.get("_meta")
            if isinstance(meta, dict) and PROTOCOL_VERSION in meta:
                return True
            if version is None:
                return message.method == "server/discover"
        return version == REVISION

    def mirrored(self, offer: Offer) -> Mirrored:
        return {
            name: mirrored_parameters(tool.definition["inputSchema"])
            for name, tool in offer.tools.items()
        }

    def check_headers(
        self,
        headers: Mapping[str, str],
        message: Message | None,
        mirrored: Mirrored,
        repeated: Collection[str] = (),
    ) -> None:
        if isinstance(message, ResultResponse | ErrorResponse):
            reason = f"Invalid request: clients of {REVISION} send no responses; use tasks/update"
            raise MalformedMessage(INVALID_REQUEST, reason)
        if isinstance(message, Request) and _has_meta(message):
            for name in repeated:
                if name.startswith("mcp-"):  # proxy and server might use different ones
                    raise HeaderMismatch(f"{name} is repeated")
            tool = message.params.get("name") if message.method == "tools/call" else None
            marks = mirrored.get(tool) if isinstance(tool, str) else None
            check_sent(headers, message, marks)
        else:  # a notification, or a request that is refused for its missing metadata
            version = headers.get("mcp-protocol-version", REVISION)
            if version != REVISION:
                raise UnsupportedVersion(version, [REVISION])

    def http_status(self, response: ResultResponse | ErrorResponse, request: Request) -> int:
        if isinstance(response, ResultResponse):
            return 200
        code = response.error.code
        if code == METHOD_NOT_FOUND:
            return 404
        is_bad = code in _BAD_REQUESTS or (code == INVALID_PARAMS and not _has_meta(request))
        return 400 if is_bad else 200


RECEIVER: Final = Receiver2026()


def _has_meta(request: Request) -> bool:
    meta = request.params.get("_meta")
    return (
        isinstance(meta, dict)
        and isinstance(meta.get(PROTOCOL_VERSION), str)
        and isinstance(meta.get(CLIENT_CAPABILITIES), dict)
    )


def _discovered(offer: Offer) -> DiscoverResult:
    return DiscoverResult(
        supportedVersions=[REVISION],
        capabilities=capabilities_of(offer),
        ttlMs=CACHE,
        cacheScope="public",
        instructions=offer.instructions,
    )


def _run_or_create(
    request: Request, params: CallTool, answers: frozenset[str], offer: Offer
) -> Operation:
    """Decide whether the call becomes a task, if the request declares the extension."""
    tool = offer.tool(params.name)
    arguments = encode_json(params.arguments or {})
    key, not_before = read_wishes(request)
    call = Call(
        "tools/call",
        params.name,
        arguments,
        answers=answers,
        key=key,
        not_before=not_before,
    )
    replies = _replies(params.inputResponses) if params.inputResponses else {}
    state = params.requestState
    understands = declares_tasks(params._meta.clientCapabilities)
    if tool.task_support == "required" and not understands:
        raise MissingCapability(TASKS_REQUIRED)
    # A paused plain call stays plain when repeated, unless its tool asks before a task exists.
    is_retry = params.inputResponses is not None or state is not None
    if tool.task_support == "required" or (
        tool.task_support == "optional" and understands and (tool.first or not is_retry)
    ):
        return Create(call, first=tool.first, answers=replies, state=state)
    # Only plain calls report progress in this revision.
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
    """Return the answers; refuse values that answer no question.

    2026-07-28:input-responses-validated
    """
    try:
        _ANSWERS.decode(responses, _Answers, "params.inputResponses")
    except ValueError as error:
        raise InvalidParams(str(error)) from None
    return {key: Reply(encode_json(response)) for key, response in responses.items()}


def _answer(task_id: str, responses: dict[str, JSONObject]) -> Answer:
    # 2026-07-28:ignore-never-issued-keys: their values need not be valid answers
    replies: dict[str, Reply] = {}
    unfit: dict[str, str] = {}
    for key, response in responses.items():
        try:
            replies |= _replies({key: response})
        except InvalidParams as error:
            unfit[key] = error.reason
    return Answer(task_id, replies, unfit)


# --- messages of a server --------------------------------------------------------------------


def encode_task(
    record: Task,
    poll_interval_ms: int | None = None,
    *,
    answers: frozenset[str] | None = None,
) -> GetTaskResult:
    """Return the result of `tasks/get`.

    `answers` are the kinds of questions that this request declared; others are not sent
    (2026-07-28:undeclared-capability-not-used), and the status message names their methods.
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
    """Return the notification for a subscription: the present result of `tasks/get`."""
    details = _details(record, poll_interval_ms, answers)
    return TaskStatus(**details, meta=SubscriptionMeta(subscription, trace_meta(record)))


def encode_questions(questions: Iterable[Question]) -> dict[str, InputRequest]:
    """Return the `inputRequests` of questions, by key."""
    return {
        question.key: InputRequest(cast(InputMethod, question.method), Encoded(question.params))
        for question in questions
    }


def encode_created(record: Task, poll_interval_ms: int | None = None) -> CreateTaskResult:
    """Return the result of a call that became a task."""
    return CreateTaskResult(**_snapshot(record, poll_interval_ms))


def _details(
    record: Task, poll_interval_ms: int | None, answers: frozenset[str] | None
) -> dict[str, Any]:
    details = _snapshot(record, poll_interval_ms)
    outcome = record.outcome
    if record.is_waiting:
        shown = [q for q in record.open_questions if answers is None or kind_of(q) in answers]
        hidden = sorted({q.method for q in record.open_questions} - {q.method for q in shown})
        details["inputRequests"] = encode_questions(shown)
        if hidden:
            details["statusMessage"] = f"Waiting for answers to: {', '.join(hidden)}"
    elif outcome is not None and outcome.result is not None:
        details["result"] = Encoded(_complete(outcome.result))
    elif outcome is not None and record.state is State.FAILED:
        error = _error(outcome)
        details["error"] = attrs.asdict(error, filter=lambda _, value: value is not None)
        details["statusMessage"] = error.message  # 2026-07-28:failed-status-message
    return details


def _complete(result: bytes) -> bytes:
    """Add the `resultType` of the inlined call result, which `ext-tasks` 0.2.2 requires."""
    if result.startswith(b'{"content":'):  # as encoded by our runtime: no need to decode it
        # Joining views copies a megabyte in 20 us instead of 1,000.
        return b"".join((b'{"resultType":"complete",', memoryview(result)[1:]))
    return encode_json({**decode_json(result), "resultType": "complete"})


def encode_plain(outcome: Outcome) -> CallToolResult | Error:
    """Return the result or error of a plain call."""
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
    """Return the code of a tool's error, replaced if the protocol reserves it."""
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
