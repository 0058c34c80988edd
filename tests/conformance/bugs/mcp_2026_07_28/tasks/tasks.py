"""Bugs of the tasks extension: fields, creation, statuses and results."""

import time
from collections import Counter
from typing import Any

from tests.conformance.bugs.mcp_2026_07_28.extension import ENDS, Answers, Shown
from tests.conformance.planting import (
    HTTP,
    Head,
    Instead,
    Message,
    error,
    method_of,
    new,
    plant,
    task_id_of,
)

_GETS = ("tasks/get",)


# --- ids and fields ------------------------------------------------------------------------------


@plant(*new("task-id-from-server"))
class ReusesTaskIds(Shown):
    methods = ("tools/call",)
    last: Any = None
    count = 0

    def change(self, task: Message) -> None:
        self.count += 1
        if self.count % 3 == 0:
            task["taskId"] = self.last
        self.last = task["taskId"]


@plant(*new("task-id-from-server"), base=Answers, methods=("tools/call",))
def uses_task_id_of_params(message: Message, request: Message) -> Message:
    wish = request["params"].get("taskId")
    if wish is not None and "taskId" in message.get("result", {}):
        message["result"]["taskId"] = wish
    return message


@plant(*new("task-id-string"), also=new("many-conversations"), base=Shown, methods=_GETS)
def answers_get_with_another_id(task: Message) -> None:
    task["taskId"] = f"{task['taskId']}-or-another"


@plant(*new("status-message-optional"), base=Shown)
def sends_status_message_as_object(task: Message) -> None:
    if task.get("status") != "failed":
        task["statusMessage"] = {"text": "at work"}


@plant(*new("kept-until-ttl"))
class DeletesTasksAfterFirstRead(Answers):
    methods = _GETS

    def __init__(self) -> None:
        self.read: set[Any] = set()

    def change(self, message: Message, request: Message) -> Message:
        if task_id_of(request) in self.read:
            return error(request, -32602, "Failed to retrieve task: Task not found")
        if message.get("result", {}).get("status") in ENDS:
            self.read.add(task_id_of(request))
        return message


@plant(*new("purged-reads-as-not-found", "standard-jsonrpc-errors"))
class RefusesExpiredTasksWith31410(Answers):
    methods = ("tools/call", *_GETS)

    def __init__(self) -> None:
        self.ends: dict[Any, float] = {}

    def change(self, message: Message, request: Message) -> Message:
        task = message.get("result", {})
        if "taskId" in task:
            task["ttlMs"] = 1_000
            self.ends.setdefault(task["taskId"], time.monotonic() + 1)
        if time.monotonic() > self.ends.get(task_id_of(request), float("inf")):
            return error(request, -31_410, "Failed to retrieve task: Task has expired")
        return message


# --- creation ------------------------------------------------------------------------------------


@plant(*new("create-result-type-task"), also=new("structured-result-conforms",
    "result-type-complete-means-final"), base=Shown, methods=("tools/call",))  # fmt: skip
def creates_tasks_as_complete(task: Message) -> None:
    task["resultType"] = "complete"


@plant(*new("create-result-flat"), also=new("modern-request-served-statelessly"), base=Answers,
    methods=("tools/call",))  # fmt: skip
def creates_nested_tasks(message: Message, request: Message) -> Message:
    if message.get("result", {}).get("resultType") == "task":
        task = message["result"]
        kept = {name: task.pop(name) for name in ("resultType", "_meta") if name in task}
        message["result"] = {**kept, "task": task}
    return message


@plant(*new("seed-status", "status-values"), base=Shown, methods=("tools/call",))
def creates_submitted_tasks(task: Message) -> None:
    task["status"] = "submitted"


@plant(*new("only-tools-call", "result-type-task-only-on-create"), also=new("ids-unguessable",
    "task-id-from-server", "result-types-from-capabilities"), base=Answers,
    methods=("tools/list",))  # fmt: skip
def answers_tool_list_as_task(message: Message, request: Message) -> Message:
    if "result" in message:
        message["result"] |= {
            "resultType": "task",
            "taskId": f"list-{time.monotonic_ns()}-7d2f1c5a9be04e6f",
            "status": "working",
            "createdAt": "2026-11-16T10:00:00Z",
            "lastUpdatedAt": "2026-11-16T10:00:00Z",
            "ttlMs": None,
        }
    return message


@plant(*new("result-type-task-reserved"), also=new("task-required-fields", "created-at-iso",
    "last-updated-at-iso", "ttl-ms-integer-or-null", "task-parameter-ignored",
    "task-id-from-server"), base=Answers, methods=("tools/call",))  # fmt: skip
def marks_plain_results_as_tasks(message: Message, request: Message) -> Message:
    result = message.get("result", {})
    is_declared = "extensions" in str(request["params"].get("_meta"))
    if result.get("resultType") == "complete" and is_declared:
        result["resultType"] = "task"
    return message


@plant(*new("durable-before-create-answer"), also=new("wait-for-consistency", "get-working",
    "kept-until-ttl", "connection-not-required"))  # fmt: skip
class DoesNotFindTaskAtFirstRead(Answers):
    methods = _GETS

    def __init__(self) -> None:
        self.read: set[Any] = set()

    def change(self, message: Message, request: Message) -> Message:
        if "result" not in message or task_id_of(request) in self.read:
            return message
        self.read.add(task_id_of(request))
        return error(request, -32602, "Failed to retrieve task: Task not found")


@plant(*new("wait-for-consistency"), also=new("durable-before-create-answer", "get-working",
    "connection-not-required", "kept-until-ttl"), transports=HTTP)  # fmt: skip
class DoesNotFindTaskOnOtherConnections(Answers):
    methods = ("tools/call", *_GETS)

    def __init__(self) -> None:
        self.made: dict[Any, int] = {}

    def change(self, message: Message, request: Message) -> Message:
        task, id = message.get("result", {}), request["id"]
        if method_of(request) == "tools/call" and "taskId" in task and isinstance(id, int):
            self.made[task["taskId"]] = id
        elif isinstance(id, int) and id < self.made.get(task_id_of(request), 0):
            return error(request, -32602, "Failed to retrieve task: Task not found")
        return message


@plant(*new("mrtr-before-create"), base=Shown, methods=("tools/call",))
def creates_tasks_with_request_state(task: Message) -> None:
    task["requestState"] = "call again"


# --- statuses ------------------------------------------------------------------------------------


@plant(*new("status-cancelled"), base=Shown)
def shows_completed_as_cancelled(task: Message) -> None:
    if task.get("status") == "completed":
        task["status"] = "cancelled"
        task.pop("result", None)
        task.pop("statusMessage", None)


@plant(*new("get-working"), also=new("info-changes-nothing"))
class RefusesSecondReadOfWorkingTask(Answers):
    methods = ("tools/call", *_GETS)

    def __init__(self) -> None:
        self.times: Counter[Any] = Counter()
        self.quiet: set[Any] = set()

    def change(self, message: Message, request: Message) -> Message:
        task = message.get("result", {})
        if method_of(request) == "tools/call" and "progressToken" not in request["params"]["_meta"]:
            self.quiet.add(task.get("taskId"))
        elif task.get("status") == "working" and task["taskId"] in self.quiet:
            self.times[task["taskId"]] += 1
            if self.times[task["taskId"]] == 2:
                return error(request, -32603, "The task is not ready")
        return message


@plant(*new("reads-do-not-write", "last-updated-at-iso"), also=new("info-changes-nothing"))
class UpdatesTasksByReading(Shown):
    methods = _GETS

    def change(self, task: Message) -> None:
        count = self.times[task["taskId"]]
        task["lastUpdatedAt"] = (
            f"2099-01-01T{count // 3600:02}:{count // 60 % 60:02}:{count % 60:02}Z"
        )


@plant(*new("task-questions-not-mrtr", "get-result-type-complete"),
    also=new("mrtr-no-other-requests", "mrtr-supported-requests"), base=Shown, methods=_GETS
)  # fmt: skip
def shows_input_required_as_round_trip(task: Message) -> None:
    if task.get("status") == "input_required":
        task["resultType"] = "input_required"


# --- outcomes ------------------------------------------------------------------------------------


class _Outcomes(Shown):
    methods = ("tasks/get", "notifications")


@plant(*new("failed-only-for-jsonrpc-errors", "is-error-is-completed"), base=_Outcomes)
def fails_tasks_with_tool_errors(task: Message) -> None:
    if task.get("result", {}).get("isError"):
        task.pop("result")
        failed = {"code": -32603, "message": "The tool failed"}
        task.update(status="failed", error=failed, statusMessage="The tool failed")


@plant(*new("is-error-is-completed"), also=new("result-is-underlying",
    "input-responses-validated", "structured-result-conforms", "tool-input-validated"),
    base=_Outcomes)  # fmt: skip
def loses_is_error(task: Message) -> None:
    task.get("result", {}).pop("isError", None)


@plant(*new("result-is-underlying"), base=_Outcomes)
def replaces_results_by_summary(task: Message) -> None:
    if "result" in task:
        task["result"]["content"] = [{"type": "text", "text": "Done."}]


@plant(*new("error-is-underlying"), base=_Outcomes)
def replaces_errors_by_32603(task: Message) -> None:
    if "error" in task:
        task["error"] = {"code": -32603, "message": "The request failed"}


@plant(*new("failed-on-jsonrpc-error"), also=new("structured-result-conforms"), base=_Outcomes)
def completes_with_error_as_result(task: Message) -> None:
    if "error" in task:
        task.update(status="completed", result=task.pop("error"))


@plant(*new("failed-status-message"), base=_Outcomes)
def fails_without_status_message(task: Message) -> None:
    if task.get("status") == "failed":
        task.pop("statusMessage", None)


@plant(*new("internal-error-32603", "get-unknown-32602", "standard-jsonrpc-errors"))
class SendsInternalErrorWith31000(Answers):
    methods = _GETS

    def client_message(self, message: Message, head: Head) -> Message | Instead:
        if method_of(message) == "tasks/get" and task_id_of(message) == "":
            return Instead((error(message, -31_000, "Internal error"),))
        return message
