"""Bugs in how tasks of 2025-11-25 are shown: ids, statuses, times, lifetimes."""

import itertools
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from taskmachine.adapters.runtime.runtime import Surroundings
from tests.conformance.planting import Bug, Head, Message, plant
from tests.conformance.variations import tasks_in

__all__ = [
    "ENDS",
    "Answers",
    "Shown",
    "error",
    "is_shown_by",
    "method_of",
    "of",
    "params_of",
    "task_id_of",
]

ENDS: Final = ("completed", "failed", "cancelled")


# --- what the bugs of this revision have in common -------------------------------------------


def of(*names: str) -> tuple[str, ...]:
    """Ids of this revision."""
    return tuple(f"2025-11-25:{name}" for name in names)


def method_of(message: Message | None) -> str:
    """Of a request; empty if there is none."""
    return str((message or {}).get("method", ""))


def params_of(message: Message | None) -> Message:
    """Of a request; empty if there are none."""
    params = (message or {}).get("params")
    return params if isinstance(params, dict) else {}


def task_id_of(message: Message | None) -> Any:
    """The id that a request names; a text, or nothing."""
    id = params_of(message).get("taskId")
    return id if isinstance(id, str) else None


def error(request: Message, code: int, words: str) -> Message:
    """A refusal."""
    told = {"code": code, "message": words}
    return {"jsonrpc": "2.0", "id": request.get("id"), "error": told}


class Shown(Bug):
    """Changes tasks wherever they are shown; knows their tools, and how often they were shown."""

    tool: str | None = None
    """Only tasks of that tool."""

    def __init__(self) -> None:
        self.tools: dict[Any, Any] = {}
        self.times: Counter[tuple[Any, str]] = Counter()

    def change(self, task: Message, where: str) -> None:
        """In place; `where` is the method that shows it."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
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
    """Changes the results of one method."""

    method: str

    def change(self, result: Message, request: Message) -> None:
        """In place."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        result = message.get("result")
        if request is not None and method_of(request) == self.method and isinstance(result, dict):
            self.change(result, request)
        return [message]


def is_shown_by(where: str) -> bool:
    """Whether a whole task is shown there because it was asked for."""
    return where in ("tasks/get", "tasks/cancel")


def _now(ago: timedelta = timedelta()) -> str:
    moment = datetime.now(UTC) - ago
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


# --- ids -------------------------------------------------------------------------------------


@plant(*of("task-id-string"))
class NumbersAsIds(Shown):
    """The ids of some tasks are numbers."""

    tool = "topple"

    def change(self, task: Message, where: str) -> None:
        if where == "tools/call" and self.times[task["taskId"], where] == 1:
            task["taskId"] = len(self.tools)


@plant(*of("task-id-from-receiver"))
class IdsAsWished(Bug):
    """Whoever wishes for an id gets it."""

    def __init__(self) -> None:
        self._true: dict[str, str] = {}
        self._wished: dict[str, str] = {}

    def asked(self, message: Message, head: Head) -> Message:
        id = task_id_of(message)
        if id in self._true:
            message["params"]["taskId"] = self._true[id]
        return message

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
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


@plant(*of("task-id-unique"))
class TheSameIdTwice(Shown):
    """The second task of a tool has the id of the first."""

    def __init__(self) -> None:
        super().__init__()
        self._first: str | None = None

    def change(self, task: Message, where: str) -> None:
        if where == "tools/call" and self.tools[task["taskId"]] == "heap":
            self._first = self._first or task["taskId"]
            if len(self.tools) > 8:
                task["taskId"] = self._first


@plant(*of("ids-unguessable"))
class CountedIds(Bug):
    """1, 2, 3."""

    def world(self) -> Surroundings:
        numbers = itertools.count(1)
        return Surroundings(new_id=lambda: str(next(numbers)))


# --- statuses --------------------------------------------------------------------------------


@plant(*of("begins-working", "status-values"))
class BeginsSubmitted(Shown):
    """A new task has not begun."""

    def change(self, task: Message, where: str) -> None:
        if where == "tools/call":
            task["status"] = "submitted"


@plant(*of("paths-from-working", "status-values"), also=of("last-updated-at-order"))
class Pauses(Shown):
    """A task that works is paused now and then."""

    tool = "drift"

    def change(self, task: Message, where: str) -> None:
        if where == "tasks/get" and task["status"] == "working":
            task["status"] = "paused" if self.times[task["taskId"], where] % 2 == 0 else "working"


@plant(*of("paths-from-input-required", "status-values"), also=of(
    "last-updated-at-order", "paths-from-working", "terminal-final"
))  # fmt: skip
class PausesAfterInput(Shown):
    """A task that asked is paused before it goes on."""

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


@plant(*of("terminal-final"), also=of("result-blocks", "last-updated-at-order"))
class ComesBackToLife(Shown):
    """A completed task works again, for whoever asks often enough."""

    def change(self, task: Message, where: str) -> None:
        if where == "tasks/get" and task["status"] == "completed":
            self.times[task["taskId"], "over"] += 1
            if self.times[task["taskId"], "over"] == 2:
                task["status"] = "working"


@plant(*of("terminal-final", "cancelled-sticks"), also=of("last-updated-at-order"))
class CancelledCompletes(Shown):
    """The work of a cancelled task goes on, and its end is shown."""

    def change(self, task: Message, where: str) -> None:
        is_later = self.times[task["taskId"], where] > 1
        if where == "tasks/get" and task["status"] == "cancelled" and is_later:
            task["status"] = "completed"


@plant(*of("status-cancelled"))
class CancelledByItself(Shown):
    """A tool that fails counts as cancelled."""

    tool = "topple"

    def change(self, task: Message, where: str) -> None:
        if task["status"] == "failed":
            task["status"] = "cancelled"
            task.pop("statusMessage", None)


# --- times -----------------------------------------------------------------------------------


@plant(*of("created-at-everywhere"))
class CreatedAtInSeconds(Shown):
    """Seconds since 1970, in lists."""

    def change(self, task: Message, where: str) -> None:
        if where == "tasks/list":
            task["createdAt"] = datetime.fromisoformat(task["createdAt"]).timestamp()


@plant(*of("last-updated-at-everywhere"))
class LastUpdatedInSeconds(Shown):
    """Seconds since 1970, in lists."""

    def change(self, task: Message, where: str) -> None:
        if where == "tasks/list":
            task["lastUpdatedAt"] = datetime.fromisoformat(task["lastUpdatedAt"]).timestamp()


@plant(*of("created-at-constant"), also=of("last-updated-at-order"))
class CreatedAgain(Shown):
    """A task is created whenever somebody looks."""

    def change(self, task: Message, where: str) -> None:
        if is_shown_by(where):
            task["createdAt"] = _now()


@plant(*of("last-updated-at-order"))
class UpdatedBeforeCreated(Shown):
    """The last update was yesterday."""

    def change(self, task: Message, where: str) -> None:
        task["lastUpdatedAt"] = _now(timedelta(days=1))


@plant(*of("last-updated-at-order"))
class UpdatedByLooking(Shown):
    """Who looks updates."""

    def change(self, task: Message, where: str) -> None:
        if is_shown_by(where):
            task["lastUpdatedAt"] = _now()


@plant(*of("last-updated-at-order"))
class NeverUpdated(Shown):
    """The last update is always the creation."""

    def change(self, task: Message, where: str) -> None:
        task["lastUpdatedAt"] = task["createdAt"]


# --- fields ----------------------------------------------------------------------------------


@plant(*of("task-required-fields"))
class CancelWithoutTtl(Answers):
    """A task that was just cancelled has no lifetime."""

    method = "tasks/cancel"

    def change(self, result: Message, request: Message) -> None:
        result.pop("ttl", None)


@plant(*of("status-message-optional"))
class StatusMessageIsNull(Shown):
    """Whoever has nothing to say says null."""

    def change(self, task: Message, where: str) -> None:
        task.setdefault("statusMessage", None)


@plant(*of("status-notification-full-task"), also=of(
    "task-required-fields", "created-at-everywhere", "last-updated-at-everywhere"
))  # fmt: skip
class ThinNotifications(Bug):
    """Only the status is told."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(message) == "notifications/tasks/status":
            kept = ("taskId", "status")
            message["params"] = {name: message["params"][name] for name in kept}
        return [message]


# --- lifetimes -------------------------------------------------------------------------------


@plant(*of("actual-ttl-in-get"))
class TtlIsText(Shown):
    """A lifetime with its unit."""

    def change(self, task: Message, where: str) -> None:
        if where == "tasks/get":
            task["ttl"] = f"{task['ttl']} ms"


@plant(*of("ttl-from-creation"))
class TtlCountsDown(Shown):
    """What is left of the lifetime."""

    def change(self, task: Message, where: str) -> None:
        created = datetime.fromisoformat(task["createdAt"])
        task["ttl"] -= int((datetime.now(UTC) - created).total_seconds() * 1000)


@plant(*of("ttl-maximum"))
class TtlAsWished(Shown):
    """Whoever wants a century gets it."""

    def __init__(self) -> None:
        super().__init__()
        self._wished: dict[str, Any] = {}

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        asked = params_of(request).get("task")
        for task in tasks_in(message):
            if isinstance(asked, dict) and isinstance(asked.get("ttl"), int):
                self._wished[task["taskId"]] = max(asked["ttl"], task["ttl"])
            task["ttl"] = self._wished.get(task["taskId"], task["ttl"])
        return [message]


@plant(*of("kept-until-ttl"), also=of("get-unknown-32602"))
class ForgetsWhatWasFetched(Bug):
    """Once somebody has the result the task is deleted."""

    def __init__(self) -> None:
        self._fetched: set[str] = set()

    def asked(self, message: Message, head: Head) -> Message:
        if method_of(message) == "tasks/get" and task_id_of(message) in self._fetched:
            message["params"]["taskId"] = "nothing"
        return message

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(request) == "tasks/result" and "result" in message:
            self._fetched.add(task_id_of(request))
        return [message]


@plant(*of("purged-reads-as-not-found"))
class ExpiredIsGone(Bug):
    """Short lifetimes are granted, and what is over has a code of its own."""

    def __init__(self) -> None:
        self._short: dict[str, tuple[int, datetime]] = {}

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
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
                return [error(request, -32001, "That is over")]
        return [message]
