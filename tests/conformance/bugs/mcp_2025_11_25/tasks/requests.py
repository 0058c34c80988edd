"""Bugs in the methods of 2025-11-25 for tasks: shapes, codes, cancels, lists, owners."""

from typing import Any, Final

from tests.conformance.bugs.mcp_2025_11_25.tasks.shown import (
    ENDS,
    Answers,
    Shown,
    error,
    method_of,
    of,
    params_of,
    task_id_of,
)
from tests.conformance.planting import Bug, Head, Message, plant
from tests.conformance.variations import tasks_in

__all__: list[str] = []

NAMED: Final = ("tasks/get", "tasks/result", "tasks/cancel")


def _refused(message: Message, request: Message | None, *methods: str) -> bool:
    return method_of(request) in methods and "error" in message


# --- get -------------------------------------------------------------------------------------


@plant(*of("get-returns-task-flat"), also=of("task-id-unique", "begins-working"))
class NestedGet(Bug):
    """After the result was fetched a task is wrapped."""

    def __init__(self) -> None:
        self._fetched: set[Any] = set()

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(request) == "tasks/result":
            self._fetched.add(task_id_of(request))
        is_fetched = task_id_of(request) in self._fetched
        if method_of(request) == "tasks/get" and "result" in message and is_fetched:
            message["result"] = {"task": message["result"]}
        return [message]


@plant(*of("get-not-upgraded-to-sse"), transports=("http",))
class GetIsAStream(Bug):
    """Every look opens a stream."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(request) != "tasks/get" or head.status != 200:
            return [message]
        head.headers["content-type"] = "text/event-stream"
        return [message, b": that was it\n\n"]


@plant(*of("streamable-http-still-applies"), also=of("http-json-or-sse"), transports=("http",))
class ListIsPlainText(Bug):
    """A list is a text."""

    def answered(self, request: Message | None, head: Head) -> None:
        if method_of(request) == "tasks/list" and head.status == 200:
            head.headers["content-type"] = "text/plain"


# --- cancel ----------------------------------------------------------------------------------


@plant(*of("cancel-capability"), also=of("cancel-unknown-32602", "cancel-terminal-refused"))
class NoCancelThere(Bug):
    """Cancels are declared, and not there."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is not None and method_of(request) == "tasks/cancel":
            return [error(request, -32601, "Method not found")]
        return [message]


@plant(*of("cancel-answers-with-task"))
class EmptyCancel(Bug):
    """A cancel is acknowledged, no more."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(request) == "tasks/cancel" and "result" in message:
            message["result"] = {}
        return [message]


@plant(*of("cancelled-before-answer", "cancel-answers-with-task"))
class CancelsLater(Answers):
    """A cancel is answered before it has an effect."""

    method = "tasks/cancel"

    def change(self, result: Message, request: Message) -> None:
        result["status"] = "working"


@plant(*of("cancelled-before-answer"), also=of(
    "cancelled-sticks", "terminal-final", "result-blocks", "last-updated-at-order"
))  # fmt: skip
class WorksAfterCancel(Shown):
    """Whoever looks at once after a cancel sees the task at work."""

    def change(self, task: Message, where: str) -> None:
        id = task["taskId"]
        if where == "tasks/cancel":
            self.times[id, "cancelled"] += 1
        elif where == "tasks/get" and self.times[id, "cancelled"] == 1:
            self.times[id, "cancelled"] += 1
            task["status"] = "working"


@plant(*of("cancel-terminal-refused"))
class CancelAgain(Bug):
    """Who cancels twice gets the same answer twice."""

    def __init__(self) -> None:
        self._cancelled: dict[Any, Message] = {}

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(request) == "tasks/cancel":
            id = task_id_of(request)
            if "result" in message:
                self._cancelled[id] = message["result"]
            elif id in self._cancelled:
                del message["error"]
                message["result"] = self._cancelled[id]
        return [message]


@plant(*of("cancel-terminal-refused"))
class TooLateHasAnotherCode(Bug):
    """A task that is over is in the wrong state, which is no invalid parameter."""

    def __init__(self) -> None:
        self._statuses: dict[Any, Any] = {}

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        for task in tasks_in(message):
            self._statuses[task["taskId"]] = task["status"]
        is_over = self._statuses.get(task_id_of(request)) in ENDS
        if is_over and _refused(message, request, "tasks/cancel"):
            message["error"]["code"] = -32000
        return [message]


# --- errors ----------------------------------------------------------------------------------


@plant(*of("get-unknown-32602", "result-unknown-32602", "cancel-unknown-32602"))
class UnknownIsAResource(Bug):
    """What is not there has a code of its own."""

    def __init__(self) -> None:
        self._known: set[Any] = set()

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        self._known |= {task["taskId"] for task in tasks_in(message)}
        if _refused(message, request, *NAMED) and task_id_of(request) not in self._known:
            message["error"]["code"] = -32002
        return [message]


@plant(*of("result-unknown-32602"), also=("answers",))
class WaitsForNothing(Bug):
    """Who wants the result of nothing waits for ever."""

    def asked(self, message: Message, head: Head) -> Message | None:
        is_result = method_of(message) == "tasks/result"
        return None if is_result and task_id_of(message) == "no-such-task" else message


@plant(*of("internal-error-32603"), also=of("get-unknown-32602"))
class InternalErrorsAsTheyCome(Bug):
    """A failure inside has any code."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if _refused(message, request, "tasks/get"):
            message["error"] = {"code": -32000, "message": "Internal error: KeyError"}
        return [message]


@plant(*of("informative-error-messages"))
class OneErrorForAll(Bug):
    """All is invalid."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if _refused(message, request, "tasks/get", "tasks/cancel"):
            message["error"]["message"] = "Invalid params"
        return [message]


# --- lists -----------------------------------------------------------------------------------


@plant(*of("list-capability"), also=of("list-bad-cursor-32602"))
class NoListThere(Bug):
    """Lists are declared, and not there."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is not None and method_of(request) == "tasks/list":
            return [error(request, -32601, "Method not found")]
        return [message]


@plant(*of("list-result-shape"))
class ListIsAnObject(Answers):
    """Tasks by their ids."""

    method = "tasks/list"

    def change(self, result: Message, request: Message) -> None:
        result["tasks"] = {task["taskId"]: task for task in result["tasks"]}


@plant(*of("get-implies-list"))
class EmptyList(Answers):
    """The list is always empty."""

    method = "tasks/list"

    def change(self, result: Message, request: Message) -> None:
        result["tasks"] = []
        result.pop("nextCursor", None)


@plant(*of("next-cursor-when-more", "get-implies-list"))
class ListIsCut(Answers):
    """Three are enough."""

    method = "tasks/list"

    def change(self, result: Message, request: Message) -> None:
        del result["tasks"][3:]
        result.pop("nextCursor", None)


@plant(*of("list-no-duplicates"))
class ListedTwice(Answers):
    """The first comes again at the end."""

    method = "tasks/list"

    def change(self, result: Message, request: Message) -> None:
        result["tasks"] += result["tasks"][:1]


@plant(*of("list-bad-cursor-32602"))
class AnyCursor(Bug):
    """A cursor that nobody gave is the beginning."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if _refused(message, request, "tasks/list") and "cursor" in params_of(request):
            del message["error"]
            message["result"] = {"tasks": []}
        return [message]


# --- owners ----------------------------------------------------------------------------------

SHARED: Final = of(
    "elicitation-state-per-user", "elicitation-state-not-session-only", "elicitation-bound-to-user"
)
"""Whoever sees the task of somebody else sees what that one answered."""


class _Confuses(Bug):
    """Takes the second caller for the first, for some methods."""

    methods: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        self._tokens: list[str] = []

    def asked(self, message: Message, head: Head) -> Message:
        token = head.headers.get("authorization", "")
        if "mcp-session-id" not in head.headers:
            return message
        if token not in self._tokens:
            self._tokens.append(token)
        if not self._first:
            names = ("authorization", "mcp-session-id")
            self._first = {name: head.headers[name] for name in names if name in head.headers}
        elif method_of(message) in self.methods and self._is_other(token):
            head.headers.update(self._first)
        return message

    def _is_other(self, token: str) -> bool:
        return token != self._tokens[0]


@plant(*of("foreign-get-rejected", "bound-to-auth-context"), also=SHARED, transports=("http",))
class EverybodyGets(_Confuses):
    """Tasks of others can be read."""

    methods = ("tasks/get",)


@plant(*of("foreign-result-rejected", "bound-to-auth-context"), also=SHARED, transports=("http",))
class EverybodyFetches(_Confuses):
    """Results of others can be fetched."""

    methods = ("tasks/result",)


@plant(*of("foreign-cancel-rejected", "bound-to-auth-context"), also=SHARED, transports=("http",))
class EverybodyCancels(_Confuses):
    """Tasks of others can be cancelled."""

    methods = ("tasks/cancel",)


@plant(*of("foreign-not-listed", "bound-to-auth-context"), also=SHARED, transports=("http",))
class EverybodyLists(_Confuses):
    """Tasks of others are listed."""

    methods = ("tasks/list",)


@plant(*of("list-not-declared-without-identity"), transports=("http",))
class OneListForAll(_Confuses):
    """Nobody has credentials, and all see one list."""

    is_open = True
    methods = ("tasks/list",)

    def _is_other(self, token: str) -> bool:
        return True
