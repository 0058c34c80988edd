"""Bugs of task operations of 2025-11-25: shapes, codes, cancel, list, owners."""

from typing import Any, Final

from tests.conformance.bugs.mcp_2025_11_25.tasks.tasks import ENDS, Answers, Shown
from tests.conformance.planting import (
    HTTP,
    Bug,
    ClientMessage,
    Head,
    Instead,
    Message,
    ResponseHead,
    ServerChange,
    ServerMessage,
    error,
    method_of,
    old,
    params_of,
    plant,
    task_id_of,
    variant,
)
from tests.conformance.variations import tasks_in

NAMED: Final = ("tasks/get", "tasks/result", "tasks/cancel")


def _refused(message: Message, request: Message | None, *methods: str) -> bool:
    return method_of(request) in methods and "error" in message


# --- get -------------------------------------------------------------------------------------


@plant(*old("get-returns-task-flat"), also=old("task-id-unique", "begins-working"))
class WrapsTasksAfterResultWasFetched(Bug):
    def __init__(self) -> None:
        self._fetched: set[Any] = set()

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(request) == "tasks/result":
            self._fetched.add(task_id_of(request))
        is_fetched = task_id_of(request) in self._fetched
        if method_of(request) == "tasks/get" and "result" in message and is_fetched:
            message["result"] = {"task": message["result"]}
        return [message]


@plant(*old("get-not-upgraded-to-sse"), transports=HTTP)
class AnswersGetWithAStream(Bug):
    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(request) != "tasks/get" or head.status != 200:
            return [message]
        head.headers["content-type"] = "text/event-stream"
        return [message, b": that was it\n\n"]


@plant(*old("streamable-http-still-applies"), also=old("http-json-or-sse"), transports=HTTP,
    base=ResponseHead)  # fmt: skip
def answers_task_list_as_plain_text(request: Message | None, head: Head) -> None:
    if method_of(request) == "tasks/list" and head.status == 200:
        head.headers["content-type"] = "text/plain"


# --- cancel ----------------------------------------------------------------------------------


@plant(*old("cancel-capability"), also=old("cancel-unknown-32602", "cancel-terminal-refused"),
    base=ServerMessage)  # fmt: skip
def does_not_implement_declared_cancel(message: Message, request: Message | None) -> list[Any]:
    if request is not None and method_of(request) == "tasks/cancel":
        return [error(request, -32601, "Method not found")]
    return [message]


@plant(*old("cancel-answers-with-task"), base=ServerChange)
def answers_cancel_with_empty_result(message: Message, request: Message | None) -> None:
    if method_of(request) == "tasks/cancel" and "result" in message:
        message["result"] = {}


@plant(
    *old("cancelled-before-answer", "cancel-answers-with-task"), base=Answers, method="tasks/cancel"
)
def answers_cancel_with_working_task(result: Message, request: Message) -> None:
    result["status"] = "working"


@plant(*old("cancelled-before-answer"), also=old("cancelled-sticks", "terminal-final",
    "result-blocks", "last-updated-at-order"))  # fmt: skip
class ShowsWorkingRightAfterCancel(Shown):
    def change(self, task: Message, where: str) -> None:
        id = task["taskId"]
        if where == "tasks/cancel":
            self.times[id, "cancelled"] += 1
        elif where == "tasks/get" and self.times[id, "cancelled"] == 1:
            self.times[id, "cancelled"] += 1
            task["status"] = "working"


@plant(*old("cancel-terminal-refused"))
class RepeatsTheAnswerToASecondCancel(Bug):
    def __init__(self) -> None:
        self._cancelled: dict[Any, Message] = {}

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(request) == "tasks/cancel":
            id = task_id_of(request)
            if "result" in message:
                self._cancelled[id] = message["result"]
            elif id in self._cancelled:
                del message["error"]
                message["result"] = self._cancelled[id]
        return [message]


@plant(*old("cancel-terminal-refused"))
class RefusesCancelOfEndedTaskWith32000(Bug):
    def __init__(self) -> None:
        self._statuses: dict[Any, Any] = {}

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        for task in tasks_in(message):
            self._statuses[task["taskId"]] = task["status"]
        is_over = self._statuses.get(task_id_of(request)) in ENDS
        if is_over and _refused(message, request, "tasks/cancel"):
            message["error"]["code"] = -32000
        return [message]


# --- errors ----------------------------------------------------------------------------------


@plant(*old("get-unknown-32602", "result-unknown-32602", "cancel-unknown-32602"))
class RefusesUnknownTasksWith32002(Bug):
    def __init__(self) -> None:
        self._known: set[Any] = set()

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        self._known |= {task["taskId"] for task in tasks_in(message)}
        if _refused(message, request, *NAMED) and task_id_of(request) not in self._known:
            message["error"]["code"] = -32002
        return [message]


@plant(*old("result-unknown-32602"), also=("answers",), base=ClientMessage)
def never_answers_result_of_unknown_task(message: Message, head: Head) -> Message | Instead | None:
    is_result = method_of(message) == "tasks/result"
    return None if is_result and task_id_of(message) == "no-such-task" else message


@plant(*old("internal-error-32603"), also=old("get-unknown-32602"), base=ServerChange)
def sends_internal_errors_with_32000(message: Message, request: Message | None) -> None:
    if _refused(message, request, "tasks/get"):
        message["error"] = {"code": -32000, "message": "Internal error: KeyError"}


@plant(*old("informative-error-messages"), base=ServerChange)
def sends_one_message_for_all_errors(message: Message, request: Message | None) -> None:
    if _refused(message, request, "tasks/get", "tasks/cancel"):
        message["error"]["message"] = "Invalid params"


# --- lists -----------------------------------------------------------------------------------


@plant(*old("list-capability"), also=old("list-bad-cursor-32602"), base=ServerMessage)
def does_not_implement_declared_list(message: Message, request: Message | None) -> list[Any]:
    if request is not None and method_of(request) == "tasks/list":
        return [error(request, -32601, "Method not found")]
    return [message]


@plant(*old("list-result-shape"), base=Answers, method="tasks/list")
def lists_tasks_as_object(result: Message, request: Message) -> None:
    result["tasks"] = {task["taskId"]: task for task in result["tasks"]}


@plant(*old("get-implies-list"), base=Answers, method="tasks/list")
def lists_no_tasks(result: Message, request: Message) -> None:
    result["tasks"] = []
    result.pop("nextCursor", None)


@plant(*old("next-cursor-when-more", "get-implies-list"), base=Answers, method="tasks/list")
def lists_three_tasks_at_most(result: Message, request: Message) -> None:
    del result["tasks"][3:]
    result.pop("nextCursor", None)


@plant(*old("list-no-duplicates"), base=Answers, method="tasks/list")
def lists_the_first_task_twice(result: Message, request: Message) -> None:
    result["tasks"] += result["tasks"][:1]


@plant(*old("list-bad-cursor-32602"), base=ServerChange)
def accepts_any_cursor(message: Message, request: Message | None) -> None:
    if _refused(message, request, "tasks/list") and "cursor" in params_of(request):
        del message["error"]
        message["result"] = {"tasks": []}


# --- owners ----------------------------------------------------------------------------------

SHARED: Final = old(
    "elicitation-state-per-user", "elicitation-state-not-session-only", "elicitation-bound-to-user"
)
"""A client that sees a foreign task sees the answers of its owner as well."""


class _Confuses(Bug):
    """Handle requests of the second caller as those of the first, for some methods."""

    methods: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        self._tokens: list[str] = []

    def client_message(self, message: Message, head: Head) -> Message:
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


variant(_Confuses, "gets_foreign_tasks", *old("foreign-get-rejected", "bound-to-auth-context"),
    also=SHARED, transports=HTTP, methods=("tasks/get",))  # fmt: skip
variant(_Confuses, "returns_foreign_results", *old("foreign-result-rejected",
    "bound-to-auth-context"), also=SHARED, transports=HTTP, methods=("tasks/result",))  # fmt: skip
variant(_Confuses, "cancels_foreign_tasks", *old("foreign-cancel-rejected",
    "bound-to-auth-context"), also=SHARED, transports=HTTP, methods=("tasks/cancel",))  # fmt: skip
variant(_Confuses, "lists_foreign_tasks", *old("foreign-not-listed", "bound-to-auth-context"),
    also=SHARED, transports=HTTP, methods=("tasks/list",))  # fmt: skip


@plant(*old("list-not-declared-without-identity"), transports=HTTP)
class SharesOneListWithoutCredentials(_Confuses):
    is_open = True
    methods = ("tasks/list",)

    def _is_other(self, token: str) -> bool:
        return True
