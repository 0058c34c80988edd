"""Bugs of progress."""

from typing import Any

from tests.conformance.planting import (
    Bug,
    Head,
    Message,
    ServerChange,
    ServerMessage,
    new,
    old,
    plant,
)

TERMINAL = ("completed", "failed", "cancelled")
PROGRESS = "notifications/progress"
RELATED = "io.modelcontextprotocol/related-task"


def token_of(request: Message | None) -> Any:
    """The progress token of a request."""
    params = (request or {}).get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta.get("progressToken") if isinstance(meta, dict) else None


def progress(token: Any, value: int, task_id: str | None = None) -> Message:
    """A notification."""
    params: Message = {"progressToken": token, "progress": value, "message": "still here"}
    if task_id is not None:
        params["_meta"] = {RELATED: {"taskId": task_id}}
    return {"jsonrpc": "2.0", "method": PROGRESS, "params": params}


@plant(*old("progress-increases"), *new("progress-increases"), also=old("no-broadcast"),
    base=ServerChange)  # fmt: skip
def repeats_progress_value(message: Message, request: Message | None) -> None:
    if message.get("method") == PROGRESS:
        message["params"]["progress"] = 1


@plant(*old("progress-message-readable"), *new("progress-message-readable"), base=ServerChange)
def sends_empty_progress_messages(message: Message, request: Message | None) -> None:
    if message.get("method") == PROGRESS:
        message["params"]["message"] = " "


@plant(*old("progress-token-known"), *new("progress-token-known"),
    also=(*old("progress-same-token", "progress-after-create-result",
    "progress-supported-on-tasks"), *new("sse-notifications-related")), base=ServerChange
)  # fmt: skip
def reports_progress_with_unknown_token(message: Message, request: Message | None) -> None:
    if message.get("method") == PROGRESS:
        message["params"]["progressToken"] = "nobody's"


@plant(*old("progress-same-token", "progress-after-create-result"),
    also=old("progress-supported-on-tasks"))  # fmt: skip
class ReportsProgressWithTokenOfResult(Bug):
    def __init__(self) -> None:
        self._waiters: dict[Any, Any] = {}

    def client_message(self, message: Message, head: Head) -> Message:
        if message.get("method") == "tasks/result" and token_of(message) is not None:
            self._waiters[message["params"].get("taskId")] = token_of(message)
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if message.get("method") == PROGRESS:
            params = message["params"]
            task_id = params.get("_meta", {}).get(RELATED, {}).get("taskId")
            params["progressToken"] = self._waiters.get(task_id, params["progressToken"])
        return [message]


@plant(*old("progress-stops-at-terminal", "progress-operation-running"),
    also=old("get-not-upgraded-to-sse"))  # fmt: skip
class ReportsProgressOfEndedTask(Bug):
    def __init__(self) -> None:
        self._tokens: dict[Any, Any] = {}
        self._value = 10**6

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        result = message.get("result")
        if request is None or not isinstance(result, dict):
            return [message]
        if isinstance(result.get("task"), dict):
            self._tokens[result["task"]["taskId"]] = [token_of(request), 0]
        known = self._tokens.get(result.get("taskId"))
        is_end = request["method"] == "tasks/get" and result.get("status") in TERMINAL
        if not is_end or known is None or known[0] is None:
            return [message]
        known[1] += 1
        self._value += 1
        late = [progress(known[0], self._value, result["taskId"])] if known[1] == 2 else []
        return [*late, message]


@plant(*old("progress-stops-after-completion", "progress-operation-running"),
    *new("progress-stops-after-completion", "progress-operation-running"),
    also=new("sse-ends-after-response", "sse-no-buffering-header"), base=ServerMessage)  # fmt: skip
def reports_progress_after_response(message: Message, request: Message | None) -> list[Any]:
    result = message.get("result")
    is_plain = isinstance(result, dict) and "content" in result and "taskId" not in result
    token = token_of(request)
    if request is None or request["method"] != "tools/call" or not is_plain or token is None:
        return [message]
    return [message, progress(token, 10**6)]
