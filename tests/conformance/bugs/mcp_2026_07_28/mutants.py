"""Two dozen faults of the tasks extension that a suite should find, by changed answers."""

import itertools

import attrs

from taskmachine.adapters.runtime.runtime import Surroundings
from tests.conformance.bugs.mcp_2026_07_28.extension import (
    ENDS,
    Answers,
    Shown,
    error,
    ext,
    named_task,
)
from tests.conformance.planting import Message, plant

__all__: list[str] = []


# --- fields --------------------------------------------------------------------------------------


@plant(*ext("task-required-fields", "last-updated-at-iso"))
class ExtLastUpdatedAtMissing(Shown):
    """Nobody knows when it changed."""

    def change(self, task: Message) -> None:
        task.pop("lastUpdatedAt", None)


@plant(*ext("task-required-fields", "created-at-iso"))
class ExtCreatedAtMissing(Shown):
    """Nobody knows when it began."""

    def change(self, task: Message) -> None:
        task.pop("createdAt", None)


@plant(*ext("task-required-fields", "ttl-ms-integer-or-null"))
class ExtTtlMsMissing(Shown):
    """Nobody knows how long it stays."""

    def change(self, task: Message) -> None:
        task.pop("ttlMs", None)


@plant(*ext("task-required-fields", "ttl-ms-integer-or-null"))
class ExtLegacyTtl(Shown):
    """The name of the older revision."""

    def change(self, task: Message) -> None:
        task["ttl"] = task.pop("ttlMs", None)


@plant(*ext("created-at-iso", "reads-do-not-write"), also=ext("info-changes-nothing"))
class ExtCreatedAtMoves(Shown):
    """The time of creation is another one with each poll."""

    def change(self, task: Message) -> None:
        task["createdAt"] = f"2020-01-01T00:00:{self.times[task.get('taskId')] % 60:02}Z"


@plant(*ext("poll-interval-ms-integer"))
class ExtPollIntervalNegative(Shown):
    """Neither whole nor positive."""

    def change(self, task: Message) -> None:
        task["pollIntervalMs"] = -1.5


@plant(*ext("created-at-iso"))
class ExtCreatedAtInWords(Shown):
    """A date for people."""

    def change(self, task: Message) -> None:
        task["createdAt"] = "Mon Nov 16 10:00:00 2026"


@plant(*ext("last-updated-at-iso"))
class ExtLastUpdatedAtInSeconds(Shown):
    """A number since 1970."""

    def change(self, task: Message) -> None:
        task["lastUpdatedAt"] = 1_795_000_000


@plant(*ext("last-updated-at-iso"))
class ExtUpdatedBeforeCreated(Shown):
    """It changed before it began."""

    def change(self, task: Message) -> None:
        task["lastUpdatedAt"] = "2020-01-01T00:00:00Z"


@plant(*ext("last-updated-at-iso", "reads-do-not-write"), also=ext("info-changes-nothing"))
class ExtUpdatedGoesBack(Shown):
    """With each poll the last change was earlier."""

    def change(self, task: Message) -> None:
        minute = 59 - self.times[task.get("taskId")] % 60
        task["lastUpdatedAt"] = f"2099-01-01T00:{minute:02}:00Z"


@plant(*ext("ids-unguessable"))
class ExtGuessableIds(Shown):
    """Ids that count."""

    def world(self) -> Surroundings:
        numbers = itertools.count(1)
        return attrs.evolve(super().world(), new_id=lambda: str(next(numbers)))


# --- statuses ------------------------------------------------------------------------------------


@plant(*ext("status-values", "paths-from-working"), also=ext("notification-is-whole-task"))
class ExtUnknownStatus(Shown):
    """A status of another protocol."""

    methods = ("tasks/get",)

    def change(self, task: Message) -> None:
        if task.get("status") == "working":
            task["status"] = "running"


_ALSO = ext("notification-is-whole-task", "last-updated-at-iso", "info-changes-nothing")


class _SecondLook(Shown):
    """Every second time that a task is shown after its end it is something else."""

    methods = ("tasks/get",)

    def change(self, task: Message) -> None:
        if task.get("status") not in ENDS:
            self.times[task.get("taskId")] = 0
        elif self.times[task.get("taskId")] % 2 == 0:
            self.change_end(task)

    def change_end(self, task: Message) -> None:
        """In place."""


@plant(
    *ext("terminal-final"),
    also=_ALSO,
)
class ExtTerminalBackToWorking(_SecondLook):
    """What was over works again."""

    def change_end(self, task: Message) -> None:
        task["status"] = "working"
        task.pop("result", None)
        task.pop("error", None)


@plant(*ext("terminal-final"), also=_ALSO)
class ExtCancelledBecomesCompleted(_SecondLook):
    """What was cancelled completes."""

    def change_end(self, task: Message) -> None:
        if task["status"] == "cancelled":
            task.update(status="completed", result={"content": [], "resultType": "complete"})


@plant(*ext("terminal-final"), also=_ALSO)
class ExtResultDiffers(_SecondLook):
    """Another result with each poll."""

    def change_end(self, task: Message) -> None:
        if task["status"] == "completed":
            count = self.times[task["taskId"]]
            task["result"]["content"] = [{"type": "text", "text": f"look {count}"}]


@plant(*ext("terminal-final"), also=_ALSO)
class ExtErrorDiffers(_SecondLook):
    """Another error with each poll."""

    def change_end(self, task: Message) -> None:
        if task["status"] == "failed":
            task["error"] = {"code": -31_500, "message": "Something else"}


# --- payloads ------------------------------------------------------------------------------------


@plant(*ext("payload-matches-status", "get-working"))
class ExtWorkingWithResult(Shown):
    """A result before the end."""

    methods = ("tasks/get",)

    def change(self, task: Message) -> None:
        if task.get("status") == "working":
            task["result"] = {"content": [], "resultType": "complete"}


@plant(*ext("payload-matches-status", "get-cancelled"))
class ExtCancelledWithResult(Shown):
    """A result of what was cancelled."""

    methods = ("tasks/get",)

    def change(self, task: Message) -> None:
        if task.get("status") == "cancelled":
            task["result"] = {"content": [], "resultType": "complete"}


@plant(*ext("payload-matches-status"))
class ExtCompletedWithError(Shown):
    """Both a result and an error."""

    methods = ("tasks/get",)

    def change(self, task: Message) -> None:
        if task.get("status") == "completed":
            task["error"] = {"code": -31_001, "message": "It completed"}


@plant(
    *ext("get-completed-has-result", "status-completed", "get-answers-by-status"),
    also=ext("is-error-is-completed"),
)
class ExtCompletedWithoutResult(Shown):
    """Completed, and nothing to show for it."""

    methods = ("tasks/get",)

    def change(self, task: Message) -> None:
        task.pop("result", None)


@plant(*ext("get-failed-has-error", "status-failed", "get-answers-by-status"))
class ExtFailedWithoutError(Shown):
    """Failed, and nobody knows how."""

    methods = ("tasks/get",)

    def change(self, task: Message) -> None:
        task.pop("error", None)


@plant(*ext("get-result-type-complete", "result-type-task-only-on-create"))
class ExtGetSaysTask(Shown):
    """As in two examples of the page."""

    methods = ("tasks/get",)

    def change(self, task: Message) -> None:
        task["resultType"] = "task"


@plant(
    *ext("get-input-required-has-requests"),
    also=ext("elicitation-required-params", "elicitation-form-schema", "input-request-kinds"),
)
class ExtQuestionWithoutParams(Shown):
    """A question that asks nothing."""

    def change(self, task: Message) -> None:
        for question in task.get("inputRequests", {}).values():
            question.pop("params", None)


@plant(*ext("payload-matches-status", "status-working"))
class ExtQuestionsWhileWorking(Shown):
    """It asks, and does not wait."""

    methods = ("tasks/get",)

    def change(self, task: Message) -> None:
        if task.get("status") == "working":
            asked = {"message": "Why?", "requestedSchema": {"type": "object", "properties": {}}}
            task["inputRequests"] = {"why": {"method": "elicitation/create", "params": asked}}


@plant(
    *ext("get-input-required-has-requests", "status-input-required", "get-answers-by-status"),
)
class ExtInputRequiredWithoutQuestions(Shown):
    """It waits, and nobody knows for what."""

    methods = ("tasks/get",)

    def change(self, task: Message) -> None:
        task.pop("inputRequests", None)


# --- unknown tasks -------------------------------------------------------------------------------


class _Acknowledged(Answers):
    """Whatever is unknown is acknowledged."""

    def change(self, message: Message, request: Message) -> Message:
        is_unknown = message.get("error", {}).get("code") == -32602
        if is_unknown and isinstance(named_task(request), str):
            return {"jsonrpc": "2.0", "id": request["id"], "result": {"resultType": "complete"}}
        return message


@plant(
    *ext("update-unknown-32602"),
    also=ext("auth-on-each-request", "server-info-sent", "input-responses-malformed-error"),
)
class ExtUnknownUpdated(_Acknowledged):
    """An answer to nobody's question is fine."""

    methods = ("tasks/update",)


@plant(*ext("cancel-unknown-32602"), also=ext("auth-on-each-request", "server-info-sent"))
class ExtUnknownCancelled(_Acknowledged):
    """What is not there has been stopped."""

    methods = ("tasks/cancel",)


@plant(*ext("get-unknown-32602", "standard-jsonrpc-errors"))
class ExtUnknownHasOtherCode(Answers):
    """Not found, by a code of its own."""

    methods = ("tasks/get",)

    def change(self, message: Message, request: Message) -> Message:
        if message.get("error", {}).get("code") != -32602:
            return message
        return error(request, -31_404, "Failed to retrieve task: Task not found")
