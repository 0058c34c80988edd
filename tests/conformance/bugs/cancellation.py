"""`notifications/cancelled`, done wrong."""

from typing import Any

from tests.conformance.bugs.progress import progress, token_of
from tests.conformance.planting import Bug, Head, Instead, Later, Message, plant

CANCELLED = "notifications/cancelled"
OLD, NEW = "2025-11-25", "2026-07-28"
PIPES = ("stdio",)


def cancelled(id: Any) -> Message:
    """A notification."""
    return {"jsonrpc": "2.0", "method": CANCELLED, "params": {"requestId": id}}


def named_by(message: Message) -> Any:
    """What a cancellation names, if it can be an id."""
    params = message.get("params")
    id = params.get("requestId") if isinstance(params, dict) else None
    return id if isinstance(id, str | int) else None


def is_question(message: Message) -> bool:
    """Whether the server asks."""
    return "method" in message and "id" in message


@plant(
    f"{OLD}:cancelled-same-direction",
    f"{NEW}:server-cancelled-only-for-listen",
    f"{NEW}:server-cancelled-names-listen",
    also=(f"{NEW}:sse-no-buffering-header",),
)
class CancelsAtRandom(Bug):
    """When a task is cancelled, so is a request that was never sent."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is not None and request["method"] == "tasks/cancel" and "result" in message:
            return [cancelled("never-sent"), message]
        return [message]


@plant(f"{OLD}:cancelled-still-running", transports=PIPES)
class CancelsWhatIsAnswered(Bug):
    """A question is cancelled, although the answer came long ago."""

    def __init__(self) -> None:
        self._asked: list[Any] = []
        self._waiting: dict[Any, int] = {}

    def asked(self, message: Message, head: Head) -> Message:
        if "method" not in message and message.get("id") in self._asked:
            self._waiting[message["id"]] = 2
        return message

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if is_question(message):
            self._asked.append(message["id"])
        if request is None or request["method"] != "tools/list":
            return [message]
        self._waiting = {id: left - 1 for id, left in self._waiting.items()}
        late = [id for id, left in self._waiting.items() if left == 0]
        return [*map(cancelled, late), message]


@plant(f"{OLD}:late-response-ignored", also=("alive", "answers"))
class LateAnswersAreFatal(Bug):
    """An answer to what was cancelled is too much for it."""

    def __init__(self) -> None:
        self._cancelled: list[Any] = []

    def asked(self, message: Message, head: Head) -> Message | Instead:
        if "method" not in message and message.get("id") in self._cancelled:
            return Instead(status=500) if head.method else Instead(exits=True)
        return message

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if message.get("method") == CANCELLED:
            self._cancelled.append(named_by(message))
        return [message]


@plant(
    f"{OLD}:cancelled-notification-keeps-task",
    also=(
        f"{OLD}:terminal-final",
        f"{OLD}:cancel-terminal-refused",
        f"{OLD}:last-updated-at-order",
        f"{OLD}:status-cancelled",
    ),
    transports=PIPES,
)
class CancellingTheCallCancelsTheTask(Bug):
    """`notifications/cancelled` reaches the task that a call became."""

    def __init__(self) -> None:
        self._made: dict[Any, Any] = {}
        self._cancelled: set[Any] = set()

    def asked(self, message: Message, head: Head) -> Message:
        if message.get("method") == CANCELLED:
            self._cancelled.add(self._made.get(named_by(message)))
        return message

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        result = message.get("result")
        if not isinstance(result, dict):
            return [message]
        if isinstance(result.get("task"), dict):
            self._made[message["id"]] = result["task"]["taskId"]
        if result.get("taskId") in self._cancelled:
            result["status"] = "cancelled"
        return [message]


@plant(
    f"{OLD}:cancelled-request-not-answered",
    f"{NEW}:cancelled-request-not-answered",
    also=(f"{NEW}:stdio-silence-after-cancel",),
    transports=PIPES,
)
class CancellationsAreIgnored(Bug):
    """Whatever is cancelled is done all the same."""

    def asked(self, message: Message, head: Head) -> Message | None:
        return None if message.get("method") == CANCELLED else message


@plant(
    f"{OLD}:cancelled-request-stopped",
    f"{NEW}:cancelled-request-stopped",
    transports=PIPES,
)
class CancelledCallsGoOn(Bug):
    """The work for a call that was cancelled is never stopped."""

    def __init__(self) -> None:
        self._tokens: dict[Any, Any] = {}
        self._going_on: list[Any] = []

    def asked(self, message: Message, head: Head) -> Message:
        if message.get("method") == "tools/call" and token_of(message) is not None:
            self._tokens[message["id"]] = token_of(message)
        if message.get("method") == CANCELLED and named_by(message) in self._tokens:
            self._going_on.append(self._tokens.pop(named_by(message)))
        return message

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is not None:
            self._tokens.pop(message.get("id"), None)
        if request is None or request["method"] != "tools/list" or not self._going_on:
            return [message]
        token = self._going_on.pop()
        late = [Later(5.2, progress(token, 10**6 + 2))]
        return [message, Later(0.05, progress(token, 10**6 + 1)), *late]


@plant(
    f"{OLD}:cancellation-races-handled",
    f"{NEW}:cancellation-races-handled",
    also=(
        "alive",
        "answers",
        f"{OLD}:invalid-cancellation-ignored",
        f"{NEW}:invalid-cancellation-ignored",
    ),
    transports=PIPES,
)
class CancellationsAreFatal(Bug):
    """A plain call that is cancelled takes the process with it."""

    def __init__(self) -> None:
        self._calls: set[Any] = set()

    def asked(self, message: Message, head: Head) -> Message | Instead:
        params = message.get("params")
        is_plain = isinstance(params, dict) and "task" not in params
        if message.get("method") == "tools/call" and is_plain:
            self._calls.add(message["id"])
        if message.get("method") == CANCELLED and named_by(message) in self._calls:
            return Instead(exits=True)
        return message


@plant(
    f"{OLD}:invalid-cancellation-ignored",
    f"{NEW}:invalid-cancellation-ignored",
    also=(
        f"{OLD}:notification-not-answered",
        f"{OLD}:error-same-id",
        f"{NEW}:notification-not-answered",
        f"{NEW}:error-same-id",
    ),
    transports=PIPES,
)
class CancellationsAreChecked(Bug):
    """A cancellation of what nobody knows is an error."""

    def asked(self, message: Message, head: Head) -> Message | Instead:
        if message.get("method") == CANCELLED and named_by(message) == "nobody-has-asked-this":
            error = {"code": -32602, "message": "There is no such request"}
            return Instead(({"jsonrpc": "2.0", "id": None, "error": error},))
        return message


@plant(f"{OLD}:invalid-cancellation-ignored", transports=("http",))
class CancellationsAreCheckedOnTheWeb(Bug):
    """The same with the means of HTTP."""

    def asked(self, message: Message, head: Head) -> Message | Instead:
        if message.get("method") == CANCELLED and named_by(message) == "nobody-has-asked-this":
            return Instead(status=400)
        return message
