"""Bugs of the tasks extension: tasks, their creation, their end, and what they end with."""

import time
from collections import Counter
from typing import Any

from tests.conformance.bugs.mcp_2026_07_28.extension import (
    ENDS,
    Answers,
    Shown,
    error,
    ext,
    method_of,
    named_task,
)
from tests.conformance.planting import Head, Instead, Message, plant

__all__: list[str] = []

_GETS = ("tasks/get",)


# --- ids and fields ------------------------------------------------------------------------------


@plant(*ext("task-id-from-server"))
class ExtOneIdForTwo(Shown):
    """Every third task has the id of the one before."""

    methods = ("tools/call",)
    last: Any = None
    count = 0

    def change(self, task: Message) -> None:
        self.count += 1
        if self.count % 3 == 0:
            task["taskId"] = self.last
        self.last = task["taskId"]


@plant(*ext("task-id-from-server"))
class ExtWishesAreFulfilled(Answers):
    """Who wishes for an id gets it."""

    methods = ("tools/call",)

    def change(self, message: Message, request: Message) -> Message:
        wish = request["params"].get("taskId")
        if wish is not None and "taskId" in message.get("result", {}):
            message["result"]["taskId"] = wish
        return message


@plant(*ext("task-id-string"), also=ext("many-conversations"))
class ExtAnotherTaskShown(Shown):
    """Asked for one task, it shows another."""

    methods = _GETS

    def change(self, task: Message) -> None:
        task["taskId"] = f"{task['taskId']}-or-another"


@plant(*ext("status-message-optional"))
class ExtStatusMessageIsObject(Shown):
    """A message with a structure."""

    def change(self, task: Message) -> None:
        if task.get("status") != "failed":
            task["statusMessage"] = {"text": "at work"}


@plant(*ext("kept-until-ttl"))
class ExtGoneAfterFirstRead(Answers):
    """Once its outcome was read a task is gone, whatever its ttl says."""

    methods = _GETS

    def __init__(self) -> None:
        self.read: set[Any] = set()

    def change(self, message: Message, request: Message) -> Message:
        if named_task(request) in self.read:
            return error(request, -32602, "Failed to retrieve task: Task not found")
        if message.get("result", {}).get("status") in ENDS:
            self.read.add(named_task(request))
        return message


@plant(*ext("purged-reads-as-not-found", "standard-jsonrpc-errors"))
class ExtExpiredHasItsOwnCode(Answers):
    """Tasks have a short life, and then an error of their own."""

    methods = ("tools/call", *_GETS)

    def __init__(self) -> None:
        self.ends: dict[Any, float] = {}

    def change(self, message: Message, request: Message) -> Message:
        task = message.get("result", {})
        if "taskId" in task:
            task["ttlMs"] = 1_000
            self.ends.setdefault(task["taskId"], time.monotonic() + 1)
        if time.monotonic() > self.ends.get(named_task(request), float("inf")):
            return error(request, -31_410, "Failed to retrieve task: Task has expired")
        return message


# --- creation ------------------------------------------------------------------------------------


@plant(
    *ext("create-result-type-task"),
    also=ext("structured-result-conforms", "result-type-complete-means-final"),
)
class ExtCreateSaysComplete(Shown):
    """A new task looks like a result."""

    methods = ("tools/call",)

    def change(self, task: Message) -> None:
        task["resultType"] = "complete"


@plant(
    *ext("create-result-flat"),
    also=ext("modern-request-served-statelessly"),
)
class ExtCreateIsNested(Answers):
    """The shape of the older revision."""

    methods = ("tools/call",)

    def change(self, message: Message, request: Message) -> Message:
        if message.get("result", {}).get("resultType") == "task":
            task = message["result"]
            kept = {name: task.pop(name) for name in ("resultType", "_meta") if name in task}
            message["result"] = {**kept, "task": task}
        return message


@plant(*ext("seed-status", "status-values"))
class ExtSubmittedFirst(Shown):
    """A status of the inside gets out."""

    methods = ("tools/call",)

    def change(self, task: Message) -> None:
        task["status"] = "submitted"


@plant(
    *ext("only-tools-call", "result-type-task-only-on-create"),
    also=ext("ids-unguessable", "task-id-from-server", "result-types-from-capabilities"),
)
class ExtListBecomesTask(Answers):
    """The list of tools is a task, too."""

    methods = ("tools/list",)

    def change(self, message: Message, request: Message) -> Message:
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


@plant(
    *ext("result-type-task-reserved"),
    also=ext(
        "task-required-fields",
        "created-at-iso",
        "last-updated-at-iso",
        "ttl-ms-integer-or-null",
        "task-parameter-ignored",
        "task-id-from-server",
    ),
)
class ExtTaskWithoutTask(Answers):
    """Plain results are said to be tasks."""

    methods = ("tools/call",)

    def change(self, message: Message, request: Message) -> Message:
        result = message.get("result", {})
        is_declared = "extensions" in str(request["params"].get("_meta"))
        if result.get("resultType") == "complete" and is_declared:
            result["resultType"] = "task"
        return message


@plant(
    *ext("durable-before-create-answer"),
    also=ext("wait-for-consistency", "get-working", "kept-until-ttl", "connection-not-required"),
)
class ExtNotThereYet(Answers):
    """The first read of a task does not find it."""

    methods = _GETS

    def __init__(self) -> None:
        self.read: set[Any] = set()

    def change(self, message: Message, request: Message) -> Message:
        if "result" not in message or named_task(request) in self.read:
            return message
        self.read.add(named_task(request))
        return error(request, -32602, "Failed to retrieve task: Task not found")


@plant(
    *ext("wait-for-consistency"),
    also=ext(
        *("durable-before-create-answer", "get-working", "connection-not-required"),
        "kept-until-ttl",
    ),
    transports=("http",),
)
class ExtNotThereElsewhere(Answers):
    """Only the connection that made a task finds it; others count their requests anew."""

    methods = ("tools/call", *_GETS)

    def __init__(self) -> None:
        self.made: dict[Any, int] = {}

    def change(self, message: Message, request: Message) -> Message:
        task, id = message.get("result", {}), request["id"]
        if method_of(request) == "tools/call" and "taskId" in task and isinstance(id, int):
            self.made[task["taskId"]] = id
        elif isinstance(id, int) and id < self.made.get(named_task(request), 0):
            return error(request, -32602, "Failed to retrieve task: Task not found")
        return message


@plant(*ext("mrtr-before-create"))
class ExtCreateAsksToCallAgain(Shown):
    """There is a task, and the call should be repeated."""

    methods = ("tools/call",)

    def change(self, task: Message) -> None:
        task["requestState"] = "call again"


# --- statuses ------------------------------------------------------------------------------------


@plant(*ext("status-cancelled"))
class ExtCancelsByItself(Shown):
    """What completed is shown as cancelled, without a word."""

    def change(self, task: Message) -> None:
        if task.get("status") == "completed":
            task["status"] = "cancelled"
            task.pop("result", None)
            task.pop("statusMessage", None)


@plant(*ext("get-working"), also=ext("info-changes-nothing"))
class ExtNotReadyYet(Answers):
    """The second read of a task at work is an error, unless progress was asked for."""

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


@plant(*ext("reads-do-not-write", "last-updated-at-iso"), also=ext("info-changes-nothing"))
class ExtReadsTouch(Shown):
    """Whoever looks at a task changes it."""

    methods = _GETS

    def change(self, task: Message) -> None:
        count = self.times[task["taskId"]]
        task["lastUpdatedAt"] = (
            f"2099-01-01T{count // 3600:02}:{count // 60 % 60:02}:{count % 60:02}Z"
        )


@plant(
    *ext("task-questions-not-mrtr", "get-result-type-complete"),
    also=ext("mrtr-no-other-requests", "mrtr-supported-requests"),
)
class ExtGetIsRoundTrip(Shown):
    """A task that asks is a call that asks."""

    methods = _GETS

    def change(self, task: Message) -> None:
        if task.get("status") == "input_required":
            task["resultType"] = "input_required"


# --- outcomes ------------------------------------------------------------------------------------


class _Outcomes(Shown):
    methods = ("tasks/get", "notifications")


@plant(*ext("failed-only-for-jsonrpc-errors", "is-error-is-completed"))
class ExtIsErrorFails(_Outcomes):
    """As in the older revision."""

    def change(self, task: Message) -> None:
        if task.get("result", {}).get("isError"):
            task.pop("result")
            failed = {"code": -32603, "message": "The tool failed"}
            task.update(status="failed", error=failed, statusMessage="The tool failed")


@plant(
    *ext("is-error-is-completed"),
    also=ext(
        *("result-is-underlying", "input-responses-validated", "structured-result-conforms"),
        "tool-input-validated",
    ),
)
class ExtIsErrorLost(_Outcomes):
    """Nobody learns that the tool failed."""

    def change(self, task: Message) -> None:
        task.get("result", {}).pop("isError", None)


@plant(*ext("result-is-underlying"))
class ExtResultIsSummary(_Outcomes):
    """Not the result, but a word about it."""

    def change(self, task: Message) -> None:
        if "result" in task:
            task["result"]["content"] = [{"type": "text", "text": "Done."}]


@plant(*ext("error-is-underlying"))
class ExtErrorIsGeneral(_Outcomes):
    """Not the error, but that there was one."""

    def change(self, task: Message) -> None:
        if "error" in task:
            task["error"] = {"code": -32603, "message": "The request failed"}


@plant(*ext("failed-on-jsonrpc-error"), also=ext("structured-result-conforms"))
class ExtErrorIsResult(_Outcomes):
    """An error is as good a result as any."""

    def change(self, task: Message) -> None:
        if "error" in task:
            task.update(status="completed", result=task.pop("error"))


@plant(*ext("failed-status-message"))
class ExtFailsWithoutWords(_Outcomes):
    """It failed, and does not say why."""

    def change(self, task: Message) -> None:
        if task.get("status") == "failed":
            task.pop("statusMessage", None)


@plant(*ext("internal-error-32603", "get-unknown-32602", "standard-jsonrpc-errors"))
class ExtInternalErrorHasOtherCode(Answers):
    """An empty id is too much for it, and the code says nothing."""

    methods = _GETS

    def asked(self, message: Message, head: Head) -> Message | Instead:
        if method_of(message) == "tasks/get" and named_task(message) == "":
            return Instead((error(message, -31_000, "Internal error"),))
        return message
