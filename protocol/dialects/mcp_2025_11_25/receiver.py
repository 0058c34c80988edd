"""How a receiver of 2025-11-25 reads requests and shows tasks."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from taskmachine.protocol.dialects.dialect import (
    Side,
    answerable_kinds,
    read_wishes,
)
from taskmachine.protocol.dialects.mcp_2025_11_25.messages import (
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
from taskmachine.protocol.dialects.receiver import (
    Immediate,
    Mirrored,
    ReceiverDialect,
    Session,
    poll_interval_ms,
)
from taskmachine.protocol.errors import (
    AlreadyEnded,
    InvalidParams,
    MalformedMessage,
    MethodNotFound,
    NotIntroduced,
)
from taskmachine.protocol.jsonrpc import INVALID_REQUEST, Id, Message, Request
from taskmachine.protocol.jsonvalue import JSONObject, encode_json
from taskmachine.protocol.offer import Offer
from taskmachine.protocol.operations import (
    Browse,
    Cancel,
    Collect,
    Create,
    Get,
    Operation,
    Run,
)
from taskmachine.statemachine import Call, Outcome, Question, Task
from taskmachine.statemachine import Progress as Reported
from taskmachine.statemachine.lifecycle import Step

__all__ = ["RECEIVER", "Receiver2025", "capabilities_of"]

SESSION_REVISIONS: Final = frozenset({"2024-11-05", "2025-03-26", "2025-06-18", REVISION})
"""The revisions whose clients begin with `initialize`."""


def capabilities_of(offer: Offer) -> JSONObject:
    """Return the capabilities that a receiver declares in the handshake."""
    capabilities: JSONObject = {"tools": {}} if offer.tools else {}
    if offer.augmentable:
        capabilities["tasks"] = tasks_capability(*sorted(offer.augmentable), listing=offer.listing)
    return capabilities


class Receiver2025(ReceiverDialect):
    """A receiver of 2025-11-25: a server, or a client that its server may call."""

    messages = DIALECT
    collect_blocks = True
    follows_created = True
    sends_questions = True
    how_to_begin = "send initialize first and then its MCP-Session-Id"

    def read(self, request: Request, session: Session) -> Operation | Immediate:
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
            case CallTool(name=name, task=task):
                tool = offer.tool(name)
                call = _call(request, name, params.arguments or {}, session)
                is_augmented = task is not None and "tools/call" in offer.augmentable
                check_task_support(name, tool.task_support, augmented=is_augmented)
                if task is None or not is_augmented:
                    return Run(call)
                return Create(call, task.ttl, immediate=tool.immediate)
            case Elicit(task=task) | CreateMessage(task=task):
                asked = {key: value for key, value in request.params.items() if key != "task"}
                call = _call(request, None, asked, session)
                if task is None or request.method not in offer.methods:
                    return Run(call)
                return Create(call, task.ttl)
            case Ping():
                return Immediate(EmptyResult())
            case Initialize():
                session.capabilities, session.is_introduced = params.capabilities, True
                shown = capabilities_of(offer)
                return Immediate(InitializeResult(REVISION, shown, offer.info, offer.instructions))
            case ListTools():
                tools = [_shown_tool(offer, name) for name in offer.tools]
                return Immediate(ListToolsResult(tools))
            case _:
                raise MethodNotFound(request.method)

    def reply(self, operation: Operation, task: Task, steps: Sequence[Step], now: int) -> Any:
        match operation:
            case Create(immediate=immediate):
                interval = poll_interval_ms(task, now)
                return encode_created(task, interval, immediate_response=immediate)
            case Collect():
                return encode_outcome(task)
            case Cancel() if not steps:
                return DIALECT.encode_error(None, AlreadyEnded(DIALECT.status(task))).error
            case _:
                return encode_task(task, poll_interval_ms(task, now))

    def ran(self, outcome: Outcome) -> Any:
        return encode_plain(outcome)

    def page(self, tasks: Sequence[Task], cursor: str | None, now: int) -> ListTasksResult:
        shown = [encode_task(task, poll_interval_ms(task, now)) for task in tasks]
        return ListTasksResult(shown, cursor)

    def notices(
        self, task: Task, stream: Id | None, operation: Operation | None, now: int
    ) -> Sequence[Any]:
        return (encode_status(task, poll_interval_ms(task, now)),)

    def progress(self, task: Task) -> Any:
        return encode_progress(task)

    def call_progress(self, token: Id, progress: Reported) -> Progress:
        return Progress(token, progress.value, progress.total, progress.message)

    def question(self, id: Id, question: Question, task: Task | None = None) -> Request:
        if task is None:
            return super().question(id, question)
        return encode_question(id, task, question)

    def withdrawal(self, id: Id) -> Cancelled:
        return Cancelled(id)

    def is_readiness(self, params: Any) -> bool:
        return isinstance(params, Initialized)

    def claims(self, message: Message | None, version: str | None) -> bool:
        return version is None or version in SESSION_REVISIONS

    def begins_session(self, message: Message) -> bool:
        return isinstance(message, Request) and message.method == "initialize"

    def check_headers(
        self,
        headers: Mapping[str, str],
        message: Message | None,
        mirrored: Mirrored,
        repeated: Collection[str] = (),
    ) -> None:
        # 2025-11-25:protocol-version-bad-400; without a session the versions are negotiated.
        is_other = headers.get("mcp-protocol-version", REVISION) != REVISION
        if is_other and "mcp-session-id" in headers:
            reason = f"Invalid request: this session uses protocol version {REVISION}"
            raise MalformedMessage(INVALID_REQUEST, reason)


RECEIVER: Final = Receiver2025()

_PEER: Final[dict[Side, Side]] = {"server": "client", "client": "server"}


def _call(request: Request, name: str | None, arguments: JSONObject, session: Session) -> Call:
    token = (request.params.get("_meta") or {}).get("progressToken")
    if token is not None and (not isinstance(token, str | int) or isinstance(token, bool)):
        raise InvalidParams("params._meta.progressToken must be a string or an integer")
    answers = answerable_kinds(session.capabilities)
    key, not_before = read_wishes(request)
    return Call(
        request.method,
        name,
        encode_json(arguments),
        token,
        answers,
        key,
        not_before=not_before,
    )


def _shown_tool(offer: Offer, name: str) -> Tool:
    tool = offer.tools[name]
    execution = {"execution": {"taskSupport": tool.task_support}} if offer.augmentable else {}
    shown: Tool = DIALECT.shapes.decode({**tool.definition, **execution}, Tool, f"tool {name}")
    return shown
