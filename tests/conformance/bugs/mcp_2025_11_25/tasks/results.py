"""Bugs in what `tasks/result` of 2025-11-25 answers, and when."""

from typing import Any

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
from tests.conformance.planting import Bug, Head, Instead, Later, Message, plant
from tests.conformance.variations import tasks_in

__all__: list[str] = []


class _Watches(Bug):
    """Knows how each task is, and which tool made it."""

    def __init__(self) -> None:
        self.statuses: dict[Any, str] = {}
        self.tools: dict[Any, Any] = {}

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        for task in tasks_in(message):
            self.statuses[task["taskId"]] = task["status"]
            if method_of(request) == "tools/call":
                self.tools[task["taskId"]] = params_of(request).get("name")
        return [message]

    def is_result(self, request: Message | None, *tools: str) -> bool:
        """Whether the result of such a task is asked for."""
        is_tool = not tools or self.tools.get(task_id_of(request)) in tools
        return method_of(request) == "tasks/result" and is_tool


# --- when ------------------------------------------------------------------------------------


@plant(*of("result-blocks"))
class NotReadyYet(_Watches):
    """Whoever is too early is sent away."""

    def asked(self, message: Message, head: Head) -> Message | Instead:
        status = self.statuses.get(task_id_of(message), "completed")
        if method_of(message) == "tasks/result" and status == "working":
            return Instead((error(message, -32600, "The task is not over"),))
        return message


@plant(*of("result-blocks"), also=("answers",))
class WaitersAreForgotten(_Watches):
    """Who waits for a task that is cancelled waits on."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: set[Any] = set()

    def asked(self, message: Message, head: Head) -> Message:
        if self.is_result(message, "drift") and self.statuses[task_id_of(message)] not in ENDS:
            self._waiting.add(message.get("id"))
        return message

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        super().said(message, request, head)
        is_refused = message.get("error", {}).get("code") == -32602
        is_late = self.is_result(request, "drift") and message.get("id") in self._waiting
        return [Later(5.8, message)] if is_late and not is_refused else [message]


@plant(*of("result-of-terminal-task"))
class LateResult(_Watches):
    """The outcome of a task that is over takes long to be found."""

    def __init__(self) -> None:
        super().__init__()
        self._was_late = False

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        super().said(message, request, head)
        is_over = self.statuses.get(task_id_of(request)) in ENDS
        if self._was_late or not is_over or not self.is_result(request, "topple"):
            return [message]
        self._was_late = True
        return [Later(5.4, message)]


@plant(*of("result-of-cancelled-task"), also=("answers",))
class NoResultOfCancelled(_Watches):
    """The first who ask for the result of a cancelled task wait for ever."""

    def __init__(self) -> None:
        super().__init__()
        self._swallowed = 0

    def asked(self, message: Message, head: Head) -> Message | None:
        status = self.statuses.get(task_id_of(message))
        if self.is_result(message, "drift") and status == "cancelled" and self._swallowed < 3:
            self._swallowed += 1
            return None
        return message


@plant(*of("get-works-while-result-blocks"))
class GetWaitsForResult(_Watches):
    """While somebody waits for a result nobody else is served."""

    def __init__(self) -> None:
        super().__init__()
        self._waited_for: set[Any] = set()
        self._is_over = False

    def asked(self, message: Message, head: Head) -> Message:
        if self.is_result(message, "drift"):
            self._waited_for.add(task_id_of(message))
        return message

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        super().said(message, request, head)
        is_waited_for = task_id_of(request) in self._waited_for
        if method_of(request) == "tasks/get" and is_waited_for and not self._is_over:
            self._is_over = True
            return [Later(5.4, message)]
        return [message]


@plant(*of("result-request-cancellable"), also=of(
    "status-cancelled", "cancel-terminal-refused", "disconnect-is-not-cancel"
))  # fmt: skip
class GivingUpCancels(_Watches):
    """Who does not want to wait cancels the task."""

    def __init__(self) -> None:
        super().__init__()
        self._waiting: dict[Any, Any] = {}
        self._ended: set[Any] = set()

    def asked(self, message: Message, head: Head) -> Message:
        if self.is_result(message):
            self._waiting[message.get("id")] = task_id_of(message)
        elif method_of(message) == "notifications/cancelled":
            id = self._waiting.get(params_of(message).get("requestId"))
            if self.statuses.get(id) == "working":
                self._ended.add(id)
        return message

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        for task in tasks_in(message):
            if task["taskId"] in self._ended:
                task["status"] = "cancelled"
                task.pop("statusMessage", None)
        return super().said(message, request, head)


# --- what ------------------------------------------------------------------------------------


@plant(*of("result-exactly-underlying"))
class ResultsDiffer(Answers):
    """Every answer is a new one."""

    method = "tasks/result"

    def __init__(self) -> None:
        self._times = 0

    def change(self, result: Message, request: Message) -> None:
        self._times += 1
        result["content"] = [{"type": "text", "text": f"Answer {self._times}"}]


@plant(*of("result-exactly-underlying"), also=of("structured-result-conforms"))
class StructureIsLost(Answers):
    """What a tool says to machines is forgotten."""

    method = "tasks/result"

    def change(self, result: Message, request: Message) -> None:
        result.pop("structuredContent", None)


@plant(*of("result-matches-request-type"), also=of("result-exactly-underlying"))
class ResultIsATask(Answers):
    """The task, with the result inside."""

    method = "tasks/result"

    def change(self, result: Message, request: Message) -> None:
        result["taskId"] = task_id_of(request)
        result["status"] = "completed"


@plant(*of("result-is-success-response"))
class ToolErrorIsAnError(Bug):
    """An error of the tool becomes one of JSON-RPC."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        is_result = method_of(request) == "tasks/result" and "result" in message
        if request is not None and is_result and message["result"].get("isError"):
            return [error(request, -32000, "The tool failed")]
        return [message]


@plant(*of("result-same-error"))
class AnotherError(Bug):
    """All errors of tools have one code."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(request) == "tasks/result" and message.get("error", {}).get("code") == -31001:
            message["error"]["code"] = -32000
        return [message]


# --- what the status says of it --------------------------------------------------------------


@plant(*of("status-completed", "failed-on-jsonrpc-error"))
class CompletedWithAnError(Shown):
    """A task is completed when its call has ended, however that was."""

    tool = "snap"

    def change(self, task: Message, where: str) -> None:
        if task["status"] == "failed":
            task["status"] = "completed"


@plant(*of("status-failed"), also=of("tool-execution-errors"))
class FailedWithAResult(Shown):
    """A task that has a result is shown as failed."""

    tool = "linger"

    def change(self, task: Message, where: str) -> None:
        if task["status"] == "completed":
            task["status"] = "failed"
            task["statusMessage"] = "It failed."


@plant(*of("failed-on-is-error"))
class CompletedWithAToolError(Shown):
    """An error of the tool is a result like any other."""

    tool = "topple"

    def change(self, task: Message, where: str) -> None:
        if task["status"] == "failed":
            task["status"] = "completed"


@plant(*of("failed-status-message"))
class FailedWithoutWords(Shown):
    """A failure says nothing."""

    def change(self, task: Message, where: str) -> None:
        if task["status"] == "failed":
            task.pop("statusMessage", None)
