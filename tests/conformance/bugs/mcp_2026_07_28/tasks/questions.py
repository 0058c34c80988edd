"""Bugs of the tasks extension: questions and their answers, acknowledgements, cancelling."""

from typing import Any

from tests.conformance.bugs.mcp_2026_07_28.extension import (
    ENDS,
    TASKS,
    Answers,
    Shown,
    error,
    ext,
    is_modern,
    method_of,
    named_task,
)
from tests.conformance.planting import Bug, Head, Instead, Message, plant

__all__: list[str] = []


def _replies(request: Message) -> dict[str, Any]:
    found = request["params"].get("inputResponses")
    return found if isinstance(found, dict) else {}


# --- questions -----------------------------------------------------------------------------------


class _Asking(Shown):
    """Changes what a task asks."""

    methods = ("tasks/get",)

    def change(self, task: Message) -> None:
        if task.get("status") == "input_required":
            self.change_questions(task, task["inputRequests"])

    def change_questions(self, task: Message, asked: dict[str, Any]) -> None:
        """In place."""


@plant(
    *ext("key-not-two-requests", "keys-unique-for-life"),
    also=ext("notification-is-whole-task", "info-changes-nothing"),
)
class ExtQuestionChanges(_Asking):
    """Another question under the same key with each poll."""

    def change_questions(self, task: Message, asked: dict[str, Any]) -> None:
        for question in asked.values():
            words = f"{self.times[task['taskId']]} times asked"
            field = "message" if "message" in question["params"] else "systemPrompt"
            question["params"][field] = words


@plant(
    *ext("key-not-reused-after-answer", "keys-unique-for-life"),
    also=ext(
        *("terminal-final", "notification-is-whole-task", "last-updated-at-iso"),
        "info-changes-nothing",
    ),
)
class ExtKeyComesBack(Shown):
    """Once it was answered the question goes, and is asked again."""

    methods = ("tasks/get",)

    def __init__(self) -> None:
        super().__init__()
        self.asked_before: dict[Any, Message] = {}
        self.since: dict[Any, int] = {}

    def change(self, task: Message) -> None:
        id = task["taskId"]
        if task["status"] == "input_required":
            self.asked_before[id] = dict(task)
        elif id in self.asked_before:
            self.since[id] = self.since.get(id, 0) + 1
            turn = self.since[id]
            before = self.asked_before[id]
            times = {name: before[name] for name in ("lastUpdatedAt",)}
            if turn <= 2:
                for name in ("result", "error", "statusMessage"):
                    task.pop(name, None)
                task.update(times, status="working")
            if turn == 2:
                task.update(status="input_required", inputRequests=before["inputRequests"])


@plant(
    *ext("input-requests-complete", "questions-repeated-until-answered"),
    also=ext("get-input-required-has-requests", "info-changes-nothing"),
)
class ExtQuestionLeftOut(_Asking):
    """Every second poll does not show it."""

    def change_questions(self, task: Message, asked: dict[str, Any]) -> None:
        if self.times[task["taskId"]] % 2 == 0:
            task["inputRequests"] = {}


@plant(
    *ext("questions-answered-by-update"),
    also=ext("elicitation-refusals-handled", "server-info-sent"),
)
class ExtAnswersLost(Bug):
    """Answers are acknowledged, and forgotten."""

    def asked(self, message: Message, head: Head) -> Message | Instead:
        if method_of(message) == "tasks/update" and _replies(message) and is_modern(message):
            return Instead(
                ({"jsonrpc": "2.0", "id": message["id"], "result": {"resultType": "complete"}},)
            )
        return message


class _Updates(Bug):
    """Refuses some answers; knows which keys each task has used, and which tasks are over."""

    def __init__(self) -> None:
        self.keys: dict[Any, set[str]] = {}
        self.answered_keys: dict[Any, set[str]] = {}
        self.over: set[Any] = set()

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        task = message.get("result", message.get("params", {}))
        if isinstance(task, dict) and isinstance(task.get("taskId"), str):
            self.keys.setdefault(task["taskId"], set()).update(task.get("inputRequests", {}))
            if task.get("status") in ENDS:
                self.over.add(task["taskId"])
        return [message]

    def asked(self, message: Message, head: Head) -> Message | Instead:
        id = named_task(message)
        if method_of(message) == "tasks/update" and isinstance(id, str) and is_modern(message):
            if _replies(message) and self.is_refused(id, set(_replies(message))):
                return Instead((error(message, -32602, "Invalid params: nobody asked"),))
            self.answered_keys.setdefault(id, set()).update(_replies(message))
        return message

    def is_refused(self, id: str, keys: set[str]) -> bool:
        """Whether these answers are."""
        return False


@plant(*ext("ignore-never-issued-keys"), also=ext("input-responses-extra-ignored"))
class ExtUnknownKeyRefused(_Updates):
    """Who answers what nobody asked is told off."""

    def is_refused(self, id: str, keys: set[str]) -> bool:
        return id in self.keys and not keys & self.keys[id]


@plant(*ext("ignore-answered-keys"), also=ext("ignore-superseded-keys"))
class ExtSecondAnswerRefused(_Updates):
    """Who answers twice is told off."""

    def is_refused(self, id: str, keys: set[str]) -> bool:
        answered = self.answered_keys.get(id, set()) & self.keys.get(id, set())
        return bool(keys & answered)


@plant(
    *ext("ignore-superseded-keys"),
    also=ext("ignore-answered-keys", "ignore-never-issued-keys"),
)
class ExtLateAnswerRefused(_Updates):
    """Who answers too late is told off."""

    def is_refused(self, id: str, keys: set[str]) -> bool:
        return id in self.over


@plant(*ext("partial-stays-input-required"), also=ext("partial-answers"))
class ExtOneAnswerIsEnough(_Asking):
    """It asks two questions, and goes on with one answer."""

    def change_questions(self, task: Message, asked: dict[str, Any]) -> None:
        more = {"message": "And why?", "requestedSchema": {"type": "object", "properties": {}}}
        asked["why"] = {"method": "elicitation/create", "params": {"mode": "form", **more}}


# --- acknowledgements ----------------------------------------------------------------------------


class _Chatty(Answers):
    def change(self, message: Message, request: Message) -> Message:
        if "result" in message:
            message["result"]["status"] = "working"
        return message


@plant(*ext("update-ack-empty"))
class ExtUpdateTells(_Chatty):
    """The acknowledgement says more."""

    methods = ("tasks/update",)


@plant(*ext("cancel-ack-empty"))
class ExtCancelTells(_Chatty):
    """The acknowledgement says more."""

    methods = ("tasks/cancel",)


class _Untyped(Answers):
    def change(self, message: Message, request: Message) -> Message:
        message.get("result", {}).pop("resultType", None)
        return message


@plant(
    *ext("update-result-type-complete"),
    also=ext("result-type-present", "modern-request-served-statelessly"),
)
class ExtUpdateUntyped(_Untyped):
    """The acknowledgement has no type."""

    methods = ("tasks/update",)


@plant(
    *ext("cancel-result-type-complete"),
    also=ext("result-type-present", "modern-request-served-statelessly"),
)
class ExtCancelUntyped(_Untyped):
    """The acknowledgement has no type."""

    methods = ("tasks/cancel",)


class _NoCancel(_Updates):
    def asked(self, message: Message, head: Head) -> Message | Instead:
        id = named_task(message)
        is_known = isinstance(id, str) and id in self.keys and TASKS in str(message)
        if method_of(message) == "tasks/cancel" and is_known and self.is_kept(id):
            return Instead((error(message, -32603, "The task cannot be cancelled"),))
        return message

    def is_kept(self, id: Any) -> bool:
        """Whether that task cannot be cancelled."""
        return False


@plant(*ext("cancel-cooperative"), also=ext("cancelled-request-stopped"))
class ExtRunningCannotBeCancelled(_NoCancel):
    """What has begun goes on."""

    def is_kept(self, id: Any) -> bool:
        return id not in self.over


@plant(*ext("cancel-terminal-acked"))
class ExtEndedCannotBeCancelled(_NoCancel):
    """As in the older revision."""

    def is_kept(self, id: Any) -> bool:
        return id in self.over
