"""Bugs of the tasks extension in single fields of responses."""

import itertools

import attrs

from taskmachine.adapters.runtime.runtime import Surroundings
from tests.conformance.bugs.mcp_2026_07_28.extension import ENDS, Answers, Shown
from tests.conformance.planting import Message, error, new, plant, task_id_of, variant

# --- fields --------------------------------------------------------------------------------------


@plant(*new("task-required-fields", "last-updated-at-iso"), base=Shown)
def omits_last_updated_at(task: Message) -> None:
    task.pop("lastUpdatedAt", None)


@plant(*new("task-required-fields", "created-at-iso"), base=Shown)
def omits_created_at(task: Message) -> None:
    task.pop("createdAt", None)


@plant(*new("task-required-fields", "ttl-ms-integer-or-null"), base=Shown)
def omits_ttl_ms(task: Message) -> None:
    task.pop("ttlMs", None)


@plant(*new("task-required-fields", "ttl-ms-integer-or-null"), base=Shown)
def sends_ttl_under_its_old_name(task: Message) -> None:
    task["ttl"] = task.pop("ttlMs", None)


@plant(*new("created-at-iso", "reads-do-not-write"), also=new("info-changes-nothing"))
class MovesCreatedAtWithEachPoll(Shown):
    def change(self, task: Message) -> None:
        task["createdAt"] = f"2020-01-01T00:00:{self.times[task.get('taskId')] % 60:02}Z"


@plant(*new("poll-interval-ms-integer"), base=Shown)
def sends_negative_poll_interval(task: Message) -> None:
    task["pollIntervalMs"] = -1.5


@plant(*new("created-at-iso"), base=Shown)
def sends_created_at_in_words(task: Message) -> None:
    task["createdAt"] = "Mon Nov 16 10:00:00 2026"


@plant(*new("last-updated-at-iso"), base=Shown)
def sends_last_updated_at_in_seconds(task: Message) -> None:
    task["lastUpdatedAt"] = 1_795_000_000


@plant(*new("last-updated-at-iso"), base=Shown)
def sends_last_updated_at_before_created_at(task: Message) -> None:
    task["lastUpdatedAt"] = "2020-01-01T00:00:00Z"


@plant(*new("last-updated-at-iso", "reads-do-not-write"), also=new("info-changes-nothing"))
class MovesLastUpdatedAtBackwards(Shown):
    def change(self, task: Message) -> None:
        minute = 59 - self.times[task.get("taskId")] % 60
        task["lastUpdatedAt"] = f"2099-01-01T00:{minute:02}:00Z"


@plant(*new("ids-unguessable"))
class CreatesTasksWithGuessableIds(Shown):
    def surroundings(self) -> Surroundings:
        numbers = itertools.count(1)
        return attrs.evolve(super().surroundings(), new_id=lambda: str(next(numbers)))


# --- statuses ------------------------------------------------------------------------------------


@plant(*new("status-values", "paths-from-working"), also=new("notification-is-whole-task"),
    base=Shown, methods=("tasks/get",))  # fmt: skip
def shows_unknown_status(task: Message) -> None:
    if task.get("status") == "working":
        task["status"] = "running"


_ALSO = new("notification-is-whole-task", "last-updated-at-iso", "info-changes-nothing")


class _SecondLook(Shown):
    """Change every second poll of an ended task."""

    hook = "change_end"

    methods = ("tasks/get",)

    def change(self, task: Message) -> None:
        if task.get("status") not in ENDS:
            self.times[task.get("taskId")] = 0
        elif self.times[task.get("taskId")] % 2 == 0:
            self.change_end(task)

    def change_end(self, task: Message) -> None:
        """In place."""


@plant(*new("terminal-final"), also=_ALSO, base=_SecondLook)
def returns_ended_tasks_to_working(task: Message) -> None:
    task["status"] = "working"
    task.pop("result", None)
    task.pop("error", None)


@plant(*new("terminal-final"), also=(*_ALSO, *new("structured-result-conforms")), base=_SecondLook)
def completes_cancelled_tasks(task: Message) -> None:
    if task["status"] == "cancelled":
        task.update(status="completed", result={"content": [], "resultType": "complete"})


@plant(*new("terminal-final"), also=_ALSO)
class ShowsAnotherResultWithEachPoll(_SecondLook):
    def change_end(self, task: Message) -> None:
        if task["status"] == "completed":
            count = self.times[task["taskId"]]
            task["result"]["content"] = [{"type": "text", "text": f"look {count}"}]


@plant(*new("terminal-final"), also=_ALSO, base=_SecondLook)
def shows_another_error_with_each_poll(task: Message) -> None:
    if task["status"] == "failed":
        task["error"] = {"code": -31_500, "message": "Something else"}


# --- payloads ------------------------------------------------------------------------------------


@plant(*new("payload-matches-status", "get-working"), base=Shown, methods=("tasks/get",))
def shows_result_of_working_task(task: Message) -> None:
    if task.get("status") == "working":
        task["result"] = {"content": [], "resultType": "complete"}


@plant(*new("payload-matches-status", "get-cancelled"), base=Shown, methods=("tasks/get",))
def shows_result_of_cancelled_task(task: Message) -> None:
    if task.get("status") == "cancelled":
        task["result"] = {"content": [], "resultType": "complete"}


@plant(*new("payload-matches-status"), base=Shown, methods=("tasks/get",))
def shows_error_of_completed_task(task: Message) -> None:
    if task.get("status") == "completed":
        task["error"] = {"code": -31_001, "message": "It completed"}


@plant(*new("get-completed-has-result", "status-completed", "get-answers-by-status"),
    also=new("is-error-is-completed"), base=Shown, methods=("tasks/get",))  # fmt: skip
def omits_result_of_completed_task(task: Message) -> None:
    task.pop("result", None)


@plant(*new("get-failed-has-error", "status-failed", "get-answers-by-status"), base=Shown,
    methods=("tasks/get",))  # fmt: skip
def omits_error_of_failed_task(task: Message) -> None:
    task.pop("error", None)


@plant(*new("get-result-type-complete", "result-type-task-only-on-create"), base=Shown,
    methods=("tasks/get",))  # fmt: skip
def answers_get_with_result_type_task(task: Message) -> None:
    task["resultType"] = "task"


@plant(*new("get-input-required-has-requests"), also=new("elicitation-required-params",
    "elicitation-form-schema", "input-request-kinds"), base=Shown)  # fmt: skip
def requests_input_without_params(task: Message) -> None:
    for question in task.get("inputRequests", {}).values():
        question.pop("params", None)


@plant(*new("payload-matches-status", "status-working"), base=Shown, methods=("tasks/get",))
def requests_input_of_working_task(task: Message) -> None:
    if task.get("status") == "working":
        asked = {"message": "Why?", "requestedSchema": {"type": "object", "properties": {}}}
        task["inputRequests"] = {"why": {"method": "elicitation/create", "params": asked}}


@plant(*new("get-input-required-has-requests", "status-input-required", "get-answers-by-status"),
    base=Shown, methods=("tasks/get",))  # fmt: skip
def omits_input_requests(task: Message) -> None:
    task.pop("inputRequests", None)


# --- unknown tasks -------------------------------------------------------------------------------


class _Acknowledged(Answers):
    """Acknowledge requests for unknown tasks."""

    def change(self, message: Message, request: Message) -> Message:
        is_unknown = message.get("error", {}).get("code") == -32602
        if is_unknown and isinstance(task_id_of(request), str):
            return {"jsonrpc": "2.0", "id": request["id"], "result": {"resultType": "complete"}}
        return message


variant(_Acknowledged, "acknowledges_update_of_unknown_task", *new("update-unknown-32602"),
    also=new("auth-on-each-request", "server-info-sent", "input-responses-malformed-error"),
    methods=("tasks/update",))  # fmt: skip
variant(_Acknowledged, "acknowledges_cancel_of_unknown_task", *new("cancel-unknown-32602"),
    also=new("auth-on-each-request", "server-info-sent"), methods=("tasks/cancel",))  # fmt: skip


@plant(*new("get-unknown-32602", "standard-jsonrpc-errors"), base=Answers, methods=("tasks/get",))
def refuses_unknown_tasks_with_31404(message: Message, request: Message) -> Message:
    if message.get("error", {}).get("code") != -32602:
        return message
    return error(request, -31_404, "Failed to retrieve task: Task not found")
