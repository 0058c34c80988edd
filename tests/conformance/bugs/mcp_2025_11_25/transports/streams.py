"""Bugs of streams in 2025-11-25."""

import re
from copy import deepcopy
from typing import Any

from taskmachine.adapters.transports.http.sse import event
from tests.conformance.planting import (
    HANG_UP,
    HTTP,
    STAY,
    Bug,
    Head,
    Instead,
    Later,
    Message,
    old,
    plant,
)
from tests.conformance.proxy.between import as_bytes

RELATED = "io.modelcontextprotocol/related-task"
LAST_EVENT = "last-event-id"


def is_result(request: Message | None) -> bool:
    """Return whether it is `tasks/result`."""
    return request is not None and request.get("method") == "tasks/result"


def task_of(message: Message) -> Any:
    """Return the related task of a message."""
    params = message.get("params")
    meta = params.get("_meta", {}) if isinstance(params, dict) else {}
    return meta.get(RELATED, {}).get("taskId")


# --- course --------------------------------------------------------------------------------


@plant(*old("sse-priming-event"), transports=HTTP)
class SendsNoPrimingEvent(Bug):
    def stream_block(self, block: bytes, head: Head) -> bytes:
        return b"" if b"id: " in block and head.method == "POST" else block


class _HangsUp(Bug):
    """End some result streams too early."""

    times = 0

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        is_stream = head.headers.get("content-type") == "text/event-stream"
        if not is_result(request) or not is_stream or head.method != "POST" or self.times == 10:
            return [message]
        self.times += 1
        return [HANG_UP]


@plant(*old("sse-retry-before-close"), also=("answers",), transports=HTTP)
class ClosesStreamsWithoutRetry(_HangsUp):
    def stream_block(self, block: bytes, head: Head) -> bytes:
        return re.sub(rb"retry: .*\n", b"", block)


@plant(*old("sse-ends-with-response"), also=("answers",), transports=HTTP)
class ClosesStreamsWithoutResumption(_HangsUp):
    def client_bytes(self, body: bytes, head: Head) -> bytes | Instead | None:
        return Instead(status=405) if LAST_EVENT in head.headers else body


@plant(*old("sse-terminates-after-response"), also=old("sse-priming-event"), transports=HTTP)
class KeepsStreamsOpenAfterResponse(Bug):
    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        is_list = request is not None and request.get("method") == "tools/list"
        return [message, STAY] if is_list and head.status == 200 else [message]


# --- which messages -----------------------------------------------------------------------


@plant(*old("sse-messages-related"), transports=HTTP)
class SendsMessagesOfOtherTasks(Bug):
    first: Any = None

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if (
            request is None
            or not is_result(request)
            or head.headers.get("content-type") != ("text/event-stream")
        ):
            return [message]
        own = request["params"]["taskId"]
        self.first = self.first or own
        if own == self.first:
            return [message]
        meta = {RELATED: {"taskId": self.first}}
        params = {"level": "info", "data": "still there", "_meta": meta}
        return [{"jsonrpc": "2.0", "method": "notifications/message", "params": params}, message]


class _KnowsQuestions(Bug):
    """Record open elicitations and the task of each result stream."""

    def __init__(self) -> None:
        self.questions: dict[Any, Message] = {}
        self.waiting: dict[int, Any] = {}

    def response_head(self, request: Message | None, head: Head) -> None:
        if request is not None and is_result(request):
            self.waiting[id(head)] = request["params"].get("taskId")

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if {"id", "method"} <= message.keys() and task_of(message) is not None:
            self.questions[task_of(message)] = deepcopy(message)
        return [message]

    def client_message(self, message: Message, head: Head) -> Message | Instead | None:
        if "method" not in message:
            self.questions = {
                task: question
                for task, question in self.questions.items()
                if question["id"] != message.get("id")
            }
        return message


@plant(*old("message-on-one-stream"), also=old("side-channel-allowed"), transports=HTTP)
class ElicitsOnEveryStream(_KnowsQuestions):
    def stream_block(self, block: bytes, head: Head) -> bytes:
        question = self.questions.get(self.waiting.get(id(head)))
        return block if question is None else block + event(as_bytes(question))


@plant(*old("get-stream-unrelated"), transports=HTTP)
class ElicitsOnGetStream(Bug):
    def __init__(self) -> None:
        self.count = 0

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        params = message.get("params", {})
        is_asking = head.method == "GET" and params.get("status") == "input_required"
        if not is_asking:
            return [message]
        self.count += 1
        meta = {RELATED: {"taskId": params["taskId"]}}
        form = {"message": "And?", "requestedSchema": {"type": "object", "properties": {}}}
        question = {"method": "elicitation/create", "params": {**form, "_meta": meta}}
        return [message, Later(0.58, {"jsonrpc": "2.0", "id": f"by-get-{self.count}", **question})]

    def client_message(self, message: Message, head: Head) -> Message | Instead | None:
        return None if str(message.get("id")).startswith("by-get-") else message


@plant(*old("get-stream-no-responses"), also=("answers",), transports=HTTP)
class RepeatsResponsesOnGetStream(Bug):
    response: Message | None = None

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if head.method == "GET" and "method" in message and self.response is not None:
            return [message, self.response]
        if request is not None and request.get("method") == "initialize":
            self.response = deepcopy(message)
        return [message]


@plant(*old("no-broadcast"), transports=HTTP)
class RepeatsNotificationsOnResultStream(Bug):
    def __init__(self) -> None:
        self.told: dict[Any, Message] = {}

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if message.get("method") == "notifications/tasks/status" and head.method == "GET":
            self.told[message["params"]["taskId"]] = deepcopy(message)
        is_stream = head.headers.get("content-type") == "text/event-stream"
        if request is not None and is_result(request) and is_stream and head.method == "POST":
            status = self.told.get(request["params"]["taskId"])
            return [message] if status is None else [status, message]
        return [message]


# --- broken connections --------------------------------------------------------------------------


@plant(*old("disconnect-is-not-cancel"), transports=HTTP)
class CancelsTasksOnDisconnect(Bug):
    def __init__(self) -> None:
        self.waiting: dict[str, set[str]] = {}
        self.doomed: set[str] = set()

    def client_message(self, message: Message, head: Head) -> Message | Instead | None:
        session = head.headers.get("mcp-session-id", "")
        params = message.get("params")
        task = params.get("taskId") if isinstance(params, dict) else None
        if isinstance(task, str):
            if is_result(message):
                self.waiting.setdefault(session, set()).add(task)
            elif message.get("method") == "tasks/get" and task in self.doomed:
                return message | {"method": "tasks/cancel"}
        return message

    def client_bytes(self, body: bytes, head: Head) -> bytes | Instead | None:
        if LAST_EVENT in head.headers:
            self.doomed |= self.waiting.get(head.headers.get("mcp-session-id", ""), set())
        return body


# --- resuming ------------------------------------------------------------------------------------


@plant(*old("sse-event-ids-unique"), transports=HTTP)
class StartsEventIdsAtZero(Bug):
    def stream_block(self, block: bytes, head: Head) -> bytes:
        return re.sub(rb"id: .*\n", b"id: 0\n", block)


@plant(*old("sse-event-ids-name-stream", "resume-no-other-stream"), transports=HTTP)
class AlwaysResumesTheFirstStream(Bug):
    def __init__(self) -> None:
        self.first: dict[str, str] = {}

    def client_bytes(self, body: bytes, head: Head) -> bytes | Instead | None:
        if LAST_EVENT in head.headers:
            session = head.headers.get("mcp-session-id", "")
            wanted = self.first.setdefault(session, head.headers[LAST_EVENT])
            head.headers[LAST_EVENT] = wanted
        return body
