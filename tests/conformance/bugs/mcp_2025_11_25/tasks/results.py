"""Bugs of `tasks/result` of 2025-11-25."""

from typing import Any

from tests.conformance.bugs.mcp_2025_11_25.tasks.tasks import ENDS, Answers, Shown
from tests.conformance.planting import (
    Bug,
    Head,
    Instead,
    Later,
    Message,
    ServerChange,
    ServerMessage,
    error,
    method_of,
    old,
    params_of,
    plant,
    task_id_of,
)
from tests.conformance.variations import tasks_in


class _Watches(Bug):
    """Record the status and the tool of each task."""

    def __init__(self) -> None:
        self.statuses: dict[Any, str] = {}
        self.tools: dict[Any, Any] = {}

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        for task in tasks_in(message):
            self.statuses[task["taskId"]] = task["status"]
            if method_of(request) == "tools/call":
                self.tools[task["taskId"]] = params_of(request).get("name")
        return [message]

    def is_result(self, request: Message | None, *tools: str) -> bool:
        """Return whether a request asks for the result of a task of these tools."""
        is_tool = not tools or self.tools.get(task_id_of(request)) in tools
        return method_of(request) == "tasks/result" and is_tool


# --- when ------------------------------------------------------------------------------------


@plant(*old("result-blocks"))
class RefusesResultOfWorkingTask(_Watches):
    def client_message(self, message: Message, head: Head) -> Message | Instead:
        status = self.statuses.get(task_id_of(message), "completed")
        if method_of(message) == "tasks/result" and status == "working":
            return Instead((error(message, -32600, "The task is not over"),))
        return message


@plant(*old("result-blocks"), also=("answers",))
class DelaysResultOfCancelledTask(_Watches):
    def __init__(self) -> None:
        super().__init__()
        self._waiting: set[Any] = set()

    def client_message(self, message: Message, head: Head) -> Message:
        if self.is_result(message, "drift") and self.statuses[task_id_of(message)] not in ENDS:
            self._waiting.add(message.get("id"))
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        super().server_message(message, request, head)
        is_refused = message.get("error", {}).get("code") == -32602
        is_late = self.is_result(request, "drift") and message.get("id") in self._waiting
        return [Later(5.8, message)] if is_late and not is_refused else [message]


@plant(*old("result-of-terminal-task"))
class DelaysResultOfEndedTask(_Watches):
    def __init__(self) -> None:
        super().__init__()
        self._was_late = False

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        super().server_message(message, request, head)
        is_over = self.statuses.get(task_id_of(request)) in ENDS
        if self._was_late or not is_over or not self.is_result(request, "topple"):
            return [message]
        self._was_late = True
        return [Later(5.4, message)]


@plant(*old("result-of-cancelled-task"), also=("answers",))
class NeverAnswersResultOfCancelledTask(_Watches):
    def __init__(self) -> None:
        super().__init__()
        self._swallowed = 0

    def client_message(self, message: Message, head: Head) -> Message | None:
        status = self.statuses.get(task_id_of(message))
        if self.is_result(message, "drift") and status == "cancelled" and self._swallowed < 3:
            self._swallowed += 1
            return None
        return message


@plant(*old("get-works-while-result-blocks"))
class DelaysGetWhileResultWaits(_Watches):
    def __init__(self) -> None:
        super().__init__()
        self._waited_for: set[Any] = set()
        self._is_over = False

    def client_message(self, message: Message, head: Head) -> Message:
        if self.is_result(message, "drift"):
            self._waited_for.add(task_id_of(message))
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        super().server_message(message, request, head)
        is_waited_for = task_id_of(request) in self._waited_for
        if method_of(request) == "tasks/get" and is_waited_for and not self._is_over:
            self._is_over = True
            return [Later(5.4, message)]
        return [message]


@plant(*old("result-request-cancellable"), also=old("status-cancelled",
    "cancel-terminal-refused", "disconnect-is-not-cancel"))  # fmt: skip
class CancelsTaskWhenResultIsCancelled(_Watches):
    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[Any, Any] = {}
        self._ended: set[Any] = set()

    def client_message(self, message: Message, head: Head) -> Message:
        if self.is_result(message):
            self._waiting[message.get("id")] = task_id_of(message)
        elif method_of(message) == "notifications/cancelled":
            id = self._waiting.get(params_of(message).get("requestId"))
            if self.statuses.get(id) == "working":
                self._ended.add(id)
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        for task in tasks_in(message):
            if task["taskId"] in self._ended:
                task["status"] = "cancelled"
                task.pop("statusMessage", None)
        return super().server_message(message, request, head)


# --- what ------------------------------------------------------------------------------------


@plant(*old("result-exactly-underlying"))
class AnswersEachResultDifferently(Answers):
    method = "tasks/result"

    def __init__(self) -> None:
        self._times = 0

    def change(self, result: Message, request: Message) -> None:
        self._times += 1
        result["content"] = [{"type": "text", "text": f"Answer {self._times}"}]


@plant(*old("result-exactly-underlying"), also=old("structured-result-conforms"), base=Answers,
    method="tasks/result")  # fmt: skip
def loses_structured_content(result: Message, request: Message) -> None:
    result.pop("structuredContent", None)


@plant(*old("result-matches-request-type"), also=old("result-exactly-underlying"), base=Answers,
    method="tasks/result")  # fmt: skip
def adds_task_fields_to_results(result: Message, request: Message) -> None:
    result["taskId"] = task_id_of(request)
    result["status"] = "completed"


@plant(*old("result-is-success-response"), base=ServerMessage)
def answers_tool_errors_as_jsonrpc_errors(message: Message, request: Message | None) -> list[Any]:
    is_result = method_of(request) == "tasks/result" and "result" in message
    if request is not None and is_result and message["result"].get("isError"):
        return [error(request, -32000, "The tool failed")]
    return [message]


@plant(*old("result-same-error"), base=ServerChange)
def changes_error_codes_of_tools(message: Message, request: Message | None) -> None:
    if method_of(request) == "tasks/result" and message.get("error", {}).get("code") == -31001:
        message["error"]["code"] = -32000


# --- what the status says of it --------------------------------------------------------------


@plant(*old("status-completed", "failed-on-jsonrpc-error"), base=Shown, tool="snap")
def shows_jsonrpc_error_as_completed(task: Message, where: str) -> None:
    if task["status"] == "failed":
        task["status"] = "completed"


@plant(*old("status-failed"), also=old("tool-execution-errors"), base=Shown, tool="linger")
def shows_result_as_failed(task: Message, where: str) -> None:
    if task["status"] == "completed":
        task["status"] = "failed"
        task["statusMessage"] = "It failed."


@plant(*old("failed-on-is-error"), base=Shown, tool="topple")
def shows_tool_error_as_completed(task: Message, where: str) -> None:
    if task["status"] == "failed":
        task["status"] = "completed"


@plant(*old("failed-status-message"), base=Shown)
def omits_status_message_of_failed_tasks(task: Message, where: str) -> None:
    if task["status"] == "failed":
        task.pop("statusMessage", None)
