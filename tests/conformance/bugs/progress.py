"""Progress, done wrong."""

from typing import Any

from tests.conformance.planting import Bug, Head, Message, plant

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


@plant(
    "2025-11-25:progress-increases",
    "2026-07-28:progress-increases",
    also=("2025-11-25:no-broadcast",),  # what says the same twice seems to be told twice
)
class ProgressStandsStill(Bug):
    """Always as far as before."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if message.get("method") == PROGRESS:
            message["params"]["progress"] = 1
        return [message]


@plant("2025-11-25:progress-message-readable", "2026-07-28:progress-message-readable")
class ProgressSaysNothing(Bug):
    """A message without words."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if message.get("method") == PROGRESS:
            message["params"]["message"] = " "
        return [message]


@plant(
    "2025-11-25:progress-token-known",
    "2026-07-28:progress-token-known",
    also=(
        "2025-11-25:progress-same-token",
        "2025-11-25:progress-after-create-result",
        "2025-11-25:progress-supported-on-tasks",
        "2026-07-28:sse-notifications-related",
    ),
)
class ProgressOfNobody(Bug):
    """A token that nobody brought."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if message.get("method") == PROGRESS:
            message["params"]["progressToken"] = "nobody's"
        return [message]


@plant(
    "2025-11-25:progress-same-token",
    "2025-11-25:progress-after-create-result",
    also=("2025-11-25:progress-supported-on-tasks",),
)
class ProgressOfTheWaiter(Bug):
    """The token of whoever waits for the result is used instead of that of the call."""

    def __init__(self) -> None:
        self._waiters: dict[Any, Any] = {}

    def asked(self, message: Message, head: Head) -> Message:
        if message.get("method") == "tasks/result" and token_of(message) is not None:
            self._waiters[message["params"].get("taskId")] = token_of(message)
        return message

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if message.get("method") == PROGRESS:
            params = message["params"]
            task_id = params.get("_meta", {}).get(RELATED, {}).get("taskId")
            params["progressToken"] = self._waiters.get(task_id, params["progressToken"])
        return [message]


@plant(
    "2025-11-25:progress-stops-at-terminal",
    "2025-11-25:progress-operation-running",
    also=("2025-11-25:get-not-upgraded-to-sse",),
)
class ProgressAfterTheEnd(Bug):
    """A task that is over still tells how far it is."""

    def __init__(self) -> None:
        self._tokens: dict[Any, Any] = {}
        self._value = 10**6

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
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


@plant(
    "2025-11-25:progress-stops-after-completion",
    "2025-11-25:progress-operation-running",
    "2026-07-28:progress-stops-after-completion",
    "2026-07-28:progress-operation-running",
    also=("2026-07-28:sse-ends-after-response", "2026-07-28:sse-no-buffering-header"),
)
class ProgressAfterTheAnswer(Bug):
    """A call that was answered still tells how far it is."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        result = message.get("result")
        is_plain = isinstance(result, dict) and "content" in result and "taskId" not in result
        token = token_of(request)
        if request is None or request["method"] != "tools/call" or not is_plain or token is None:
            return [message]
        return [message, progress(token, 10**6)]
