"""Bugs of `notifications/cancelled`."""

from typing import Any

from tests.conformance.bugs.progress import progress, token_of
from tests.conformance.planting import (
    HTTP,
    STDIO,
    Bug,
    ClientMessage,
    Head,
    Instead,
    Later,
    Message,
    ServerMessage,
    new,
    old,
    plant,
)

CANCELLED = "notifications/cancelled"
OLD, NEW = "2025-11-25", "2026-07-28"


def cancelled(id: Any) -> Message:
    """A notification."""
    return {"jsonrpc": "2.0", "method": CANCELLED, "params": {"requestId": id}}


def named_by(message: Message) -> Any:
    """Return the request id of a cancellation, if it can be an id."""
    params = message.get("params")
    id = params.get("requestId") if isinstance(params, dict) else None
    return id if isinstance(id, str | int) else None


def is_question(message: Message) -> bool:
    """Whether the server asks."""
    return "method" in message and "id" in message


@plant(*old("cancelled-same-direction"), *new("server-cancelled-only-for-listen",
    "server-cancelled-names-listen"), also=new("sse-no-buffering-header"), base=ServerMessage
)  # fmt: skip
def cancels_an_unknown_request(message: Message, request: Message | None) -> list[Any]:
    if request is not None and request["method"] == "tasks/cancel" and "result" in message:
        return [cancelled("never-sent"), message]
    return [message]


@plant(*old("cancelled-still-running"), transports=STDIO)
class CancelsAnAnsweredRequest(Bug):
    def __init__(self) -> None:
        self._asked: list[Any] = []
        self._waiting: dict[Any, int] = {}

    def client_message(self, message: Message, head: Head) -> Message:
        if "method" not in message and message.get("id") in self._asked:
            self._waiting[message["id"]] = 2
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if is_question(message):
            self._asked.append(message["id"])
        if request is None or request["method"] != "tools/list":
            return [message]
        self._waiting = {id: left - 1 for id, left in self._waiting.items()}
        late = [id for id, left in self._waiting.items() if left == 0]
        return [*map(cancelled, late), message]


@plant(*old("late-response-ignored"), also=("alive", "answers"))
class FailsOnALateResponse(Bug):
    def __init__(self) -> None:
        self._cancelled: list[Any] = []

    def client_message(self, message: Message, head: Head) -> Message | Instead:
        if "method" not in message and message.get("id") in self._cancelled:
            return Instead(status=500) if head.method else Instead(exits=True)
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if message.get("method") == CANCELLED:
            self._cancelled.append(named_by(message))
        return [message]


@plant(*old("cancelled-notification-keeps-task"), also=old("terminal-final",
    "cancel-terminal-refused", "last-updated-at-order", "status-cancelled"), transports=STDIO
)  # fmt: skip
class CancelsTheTaskWithTheCall(Bug):
    def __init__(self) -> None:
        self._made: dict[Any, Any] = {}
        self._cancelled: set[Any] = set()

    def client_message(self, message: Message, head: Head) -> Message:
        if message.get("method") == CANCELLED:
            self._cancelled.add(self._made.get(named_by(message)))
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        result = message.get("result")
        if not isinstance(result, dict):
            return [message]
        if isinstance(result.get("task"), dict):
            self._made[message["id"]] = result["task"]["taskId"]
        if result.get("taskId") in self._cancelled:
            result["status"] = "cancelled"
        return [message]


@plant(*old("cancelled-request-not-answered"), *new("cancelled-request-not-answered"),
    also=new("stdio-silence-after-cancel"), transports=STDIO, base=ClientMessage)  # fmt: skip
def ignores_cancellations(message: Message, head: Head) -> Message | Instead | None:
    return None if message.get("method") == CANCELLED else message


@plant(*old("cancelled-request-stopped"), *new("cancelled-request-stopped"), transports=STDIO)
class NeverStopsCancelledCalls(Bug):
    def __init__(self) -> None:
        self._tokens: dict[Any, Any] = {}
        self._going_on: list[Any] = []

    def client_message(self, message: Message, head: Head) -> Message:
        if message.get("method") == "tools/call" and token_of(message) is not None:
            self._tokens[message["id"]] = token_of(message)
        if message.get("method") == CANCELLED and named_by(message) in self._tokens:
            self._going_on.append(self._tokens.pop(named_by(message)))
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is not None:
            self._tokens.pop(message.get("id"), None)
        if request is None or request["method"] != "tools/list" or not self._going_on:
            return [message]
        token = self._going_on.pop()
        late = [Later(5.2, progress(token, 10**6 + 2))]
        return [message, Later(0.05, progress(token, 10**6 + 1)), *late]


@plant(*old("cancellation-races-handled"), *new("cancellation-races-handled"), also=("alive",
    "answers", *old("invalid-cancellation-ignored"), *new("invalid-cancellation-ignored")),
    transports=STDIO)  # fmt: skip
class ExitsWhenACallIsCancelled(Bug):
    def __init__(self) -> None:
        self._calls: set[Any] = set()

    def client_message(self, message: Message, head: Head) -> Message | Instead:
        params = message.get("params")
        is_plain = isinstance(params, dict) and "task" not in params
        if message.get("method") == "tools/call" and is_plain:
            self._calls.add(message["id"])
        if message.get("method") == CANCELLED and named_by(message) in self._calls:
            return Instead(exits=True)
        return message


@plant(*old("invalid-cancellation-ignored"), *new("invalid-cancellation-ignored"),
    also=(*old("notification-not-answered", "error-same-id"), *new("notification-not-answered",
    "error-same-id")), transports=STDIO, base=ClientMessage)  # fmt: skip
def refuses_unknown_cancellations(message: Message, head: Head) -> Message | Instead | None:
    if message.get("method") == CANCELLED and named_by(message) == "no-such-request":
        error = {"code": -32602, "message": "There is no such request"}
        return Instead(({"jsonrpc": "2.0", "id": None, "error": error},))
    return message


@plant(*old("invalid-cancellation-ignored"), transports=HTTP, base=ClientMessage)
def refuses_unknown_cancellations_with_400(
    message: Message, head: Head
) -> Message | Instead | None:
    if message.get("method") == CANCELLED and named_by(message) == "no-such-request":
        return Instead(status=400)
    return message
