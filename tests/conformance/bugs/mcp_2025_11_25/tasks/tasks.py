"""Bugs of task fields of 2025-11-25: ids, statuses, timestamps, ttl."""

import itertools
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from taskmachine.adapters.runtime.runtime import Surroundings
from tests.conformance.planting import (
    Bug,
    Head,
    Message,
    ServerChange,
    error,
    method_of,
    old,
    params_of,
    plant,
    task_id_of,
)
from tests.conformance.variations import tasks_in

ENDS: Final = ("completed", "failed", "cancelled")


# --- base classes of bugs -------------------------------------------


class Shown(Bug):
    """Change tasks in every message; record their tools and how often each was sent."""

    tool: str | None = None
    """Change only tasks of this tool."""

    def __init__(self) -> None:
        self.tools: dict[Any, Any] = {}
        self.times: Counter[tuple[Any, str]] = Counter()

    def change(self, task: Message, where: str) -> None:
        """Change a task in place; `where` is the method of the message."""

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        where = method_of(request) or method_of(message)
        for task in tasks_in(message):
            id = task.get("taskId")
            if where == "tools/call":
                self.tools[id] = params_of(request).get("name")
            self.times[id, where] += 1
            if self.tool is None or self.tools.get(id) == self.tool:
                self.change(task, where)
        return [message]


class Answers(Bug):
    """Change the results of one method."""

    method: str

    def change(self, result: Message, request: Message) -> None:
        """In place."""

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        result = message.get("result")
        if request is not None and method_of(request) == self.method and isinstance(result, dict):
            self.change(result, request)
        return [message]


def is_shown_by(where: str) -> bool:
    """Return whether the method returns a whole task."""
    return where in ("tasks/get", "tasks/cancel")


def _now(ago: timedelta = timedelta()) -> str:
    moment = datetime.now(UTC) - ago
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# --- ids -------------------------------------------------------------------------------------


@plant(*old("task-id-string"))
class CreatesTasksWithNumericIds(Shown):
    tool = "topple"

    def change(self, task: Message, where: str) -> None:
        if where == "tools/call" and self.times[task["taskId"], where] == 1:
            task["taskId"] = len(self.tools)


@plant(*old("task-id-from-receiver"))
class UsesTaskIdsOfTheClient(Bug):
    def __init__(self) -> None:
        self._true: dict[str, str] = {}
        self._wished: dict[str, str] = {}

    def client_message(self, message: Message, head: Head) -> Message:
        id = task_id_of(message)
        if id in self._true:
            message["params"]["taskId"] = self._true[id]
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        asked = params_of(request).get("task")
        wished = asked.get("taskId") if isinstance(asked, dict) else None
        for task in tasks_in(message):
            if wished is not None and method_of(request) == "tools/call":
                self._true[wished], self._wished[task["taskId"]] = task["taskId"], wished
            task["taskId"] = self._wished.get(task["taskId"], task["taskId"])
        if method_of(request) == "tasks/result" and "result" in message:
            for related in message["result"].get("_meta", {}).values():
                related["taskId"] = self._wished.get(related["taskId"], related["taskId"])
        return [message]


@plant(*old("task-id-unique"))
class ReusesTheIdOfAnEarlierTask(Shown):
    def __init__(self) -> None:
        super().__init__()
        self._first: str | None = None

    def change(self, task: Message, where: str) -> None:
        if where == "tools/call" and self.tools[task["taskId"]] == "heap":
            self._first = self._first or task["taskId"]
            if len(self.tools) > 8:
                task["taskId"] = self._first


@plant(*old("ids-unguessable"))
class CountsTaskIds(Bug):
    def surroundings(self) -> Surroundings:
        numbers = itertools.count(1)
        return Surroundings(new_id=lambda: str(next(numbers)))


# --- statuses --------------------------------------------------------------------------------


@plant(*old("begins-working", "status-values"), base=Shown)
def creates_tasks_as_submitted(task: Message, where: str) -> None:
    if where == "tools/call":
        task["status"] = "submitted"


@plant(*old("paths-from-working", "status-values"), also=old("last-updated-at-order"))
class ShowsWorkingTasksAsPaused(Shown):
    tool = "drift"

    def change(self, task: Message, where: str) -> None:
        if where == "tasks/get" and task["status"] == "working":
            task["status"] = "paused" if self.times[task["taskId"], where] % 2 == 0 else "working"


@plant(*old("paths-from-input-required", "status-values"), also=old("last-updated-at-order",
    "paths-from-working", "terminal-final"))  # fmt: skip
class PausesTasksAfterInput(Shown):
    def __init__(self) -> None:
        super().__init__()
        self._asked: Counter[str] = Counter()

    def change(self, task: Message, where: str) -> None:
        id = task["taskId"]
        if where == "tasks/get" and task["status"] == "input_required":
            self._asked[id] = self._asked[id] or 1
        elif where == "tasks/get" and self._asked[id] == 1:
            self._asked[id] = 2
            task["status"] = "paused"


@plant(*old("terminal-final"), also=old("result-blocks", "last-updated-at-order"))
class ShowsCompletedTasksAsWorking(Shown):
    def change(self, task: Message, where: str) -> None:
        if where == "tasks/get" and task["status"] == "completed":
            self.times[task["taskId"], "over"] += 1
            if self.times[task["taskId"], "over"] == 2:
                task["status"] = "working"


@plant(*old("terminal-final", "cancelled-sticks"), also=old("last-updated-at-order"))
class ShowsCancelledTasksAsCompleted(Shown):
    def change(self, task: Message, where: str) -> None:
        is_later = self.times[task["taskId"], where] > 1
        if where == "tasks/get" and task["status"] == "cancelled" and is_later:
            task["status"] = "completed"


@plant(*old("status-cancelled"), base=Shown, tool="topple")
def shows_failed_tasks_as_cancelled(task: Message, where: str) -> None:
    if task["status"] == "failed":
        task["status"] = "cancelled"
        task.pop("statusMessage", None)


# --- times -----------------------------------------------------------------------------------


@plant(*old("created-at-everywhere"), base=Shown)
def lists_created_at_in_seconds(task: Message, where: str) -> None:
    if where == "tasks/list":
        task["createdAt"] = datetime.fromisoformat(task["createdAt"]).timestamp()


@plant(*old("last-updated-at-everywhere"), base=Shown)
def lists_last_updated_at_in_seconds(task: Message, where: str) -> None:
    if where == "tasks/list":
        task["lastUpdatedAt"] = datetime.fromisoformat(task["lastUpdatedAt"]).timestamp()


@plant(*old("created-at-constant"), also=old("last-updated-at-order"), base=Shown)
def changes_created_at_with_each_poll(task: Message, where: str) -> None:
    if is_shown_by(where):
        task["createdAt"] = _now()


@plant(*old("last-updated-at-order"), base=Shown)
def sets_last_updated_at_to_yesterday(task: Message, where: str) -> None:
    task["lastUpdatedAt"] = _now(timedelta(days=1))


@plant(*old("last-updated-at-order"), base=Shown)
def changes_last_updated_at_with_each_poll(task: Message, where: str) -> None:
    if is_shown_by(where):
        task["lastUpdatedAt"] = _now()


@plant(*old("last-updated-at-order"), base=Shown)
def never_changes_last_updated_at(task: Message, where: str) -> None:
    task["lastUpdatedAt"] = task["createdAt"]


# --- fields ----------------------------------------------------------------------------------


@plant(*old("task-required-fields"), base=Answers, method="tasks/cancel")
def omits_ttl_in_cancel_result(result: Message, request: Message) -> None:
    result.pop("ttl", None)


@plant(*old("status-message-optional"), base=Shown)
def sends_null_status_message(task: Message, where: str) -> None:
    task.setdefault("statusMessage", None)


@plant(*old("status-notification-full-task"), also=old("task-required-fields",
    "created-at-everywhere", "last-updated-at-everywhere"), base=ServerChange)  # fmt: skip
def notifies_only_id_and_status(message: Message, request: Message | None) -> None:
    if method_of(message) == "notifications/tasks/status":
        kept = ("taskId", "status")
        message["params"] = {name: message["params"][name] for name in kept}


# --- lifetimes -------------------------------------------------------------------------------


@plant(*old("actual-ttl-in-get"), base=Shown)
def shows_ttl_as_text(task: Message, where: str) -> None:
    if where == "tasks/get":
        task["ttl"] = f"{task['ttl']} ms"


@plant(*old("ttl-from-creation"), base=Shown)
def shows_remaining_ttl(task: Message, where: str) -> None:
    created = datetime.fromisoformat(task["createdAt"])
    task["ttl"] -= int((datetime.now(UTC) - created).total_seconds() * 1000)


@plant(*old("ttl-maximum"))
class GrantsAnyTtl(Shown):
    def __init__(self) -> None:
        super().__init__()
        self._wished: dict[str, Any] = {}

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        asked = params_of(request).get("task")
        for task in tasks_in(message):
            if isinstance(asked, dict) and isinstance(asked.get("ttl"), int):
                self._wished[task["taskId"]] = max(asked["ttl"], task["ttl"])
            task["ttl"] = self._wished.get(task["taskId"], task["ttl"])
        return [message]


@plant(*old("kept-until-ttl"), also=old("get-unknown-32602"))
class DeletesTasksAfterResultWasFetched(Bug):
    def __init__(self) -> None:
        self._fetched: set[Any] = set()

    def client_message(self, message: Message, head: Head) -> Message:
        if method_of(message) == "tasks/get" and task_id_of(message) in self._fetched:
            message["params"]["taskId"] = "nothing"
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(request) == "tasks/result" and "result" in message:
            self._fetched.add(task_id_of(request))
        return [message]


@plant(*old("purged-reads-as-not-found"))
class RefusesExpiredTasksWith32001(Bug):
    def __init__(self) -> None:
        self._short: dict[Any, tuple[int, datetime]] = {}

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        asked = params_of(request).get("task")
        wished = asked.get("ttl") if isinstance(asked, dict) else None
        for task in tasks_in(message):
            if isinstance(wished, int) and 200 < wished < 1000:
                self._short[task["taskId"]] = wished, datetime.now(UTC)
            if task["taskId"] in self._short:
                task["ttl"] = self._short[task["taskId"]][0]
        if request is not None and method_of(request) == "tasks/get":
            length, began = self._short.get(task_id_of(request), (0, datetime.now(UTC)))
            if length and datetime.now(UTC) - began > timedelta(milliseconds=length):
                return [error(request, -32001, "The task has expired")]
        return [message]
