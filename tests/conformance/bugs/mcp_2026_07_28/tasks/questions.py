"""Bugs of the tasks extension: input requests, acknowledgements, cancellation."""

from typing import Any

from tests.conformance.bugs.mcp_2026_07_28.extension import ENDS, TASKS, Answers, Shown, is_modern
from tests.conformance.planting import (
    Bug,
    ClientMessage,
    Head,
    Instead,
    Message,
    error,
    method_of,
    new,
    plant,
    task_id_of,
    variant,
)


def _replies(request: Message) -> dict[str, Any]:
    found = request["params"].get("inputResponses")
    return found if isinstance(found, dict) else {}


# --- questions -----------------------------------------------------------------------------------


class _Asking(Shown):
    """Change the input requests of a task."""

    hook = "change_requests"

    methods = ("tasks/get",)

    def change(self, task: Message) -> None:
        if task.get("status") == "input_required":
            self.change_requests(task, task["inputRequests"])

    def change_requests(self, task: Message, asked: dict[str, Any]) -> None:
        """In place."""


@plant(*new("key-not-two-requests", "keys-unique-for-life"),
    also=new("notification-is-whole-task", "info-changes-nothing"))  # fmt: skip
class ChangesInputRequestsWithEachPoll(_Asking):
    def change_requests(self, task: Message, asked: dict[str, Any]) -> None:
        for question in asked.values():
            words = f"{self.times[task['taskId']]} times asked"
            field = "message" if "message" in question["params"] else "systemPrompt"
            question["params"][field] = words


@plant(*new("key-not-reused-after-answer", "keys-unique-for-life"), also=new("terminal-final",
    "notification-is-whole-task", "last-updated-at-iso", "info-changes-nothing"))  # fmt: skip
class RepeatsAnsweredInputRequests(Shown):
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


@plant(*new("input-requests-complete", "questions-repeated-until-answered"),
    also=new("get-input-required-has-requests", "info-changes-nothing"))  # fmt: skip
class HidesInputRequestsInEverySecondPoll(_Asking):
    def change_requests(self, task: Message, asked: dict[str, Any]) -> None:
        if self.times[task["taskId"]] % 2 == 0:
            task["inputRequests"] = {}


@plant(*new("questions-answered-by-update"), also=new("elicitation-refusals-handled",
    "server-info-sent"), base=ClientMessage)  # fmt: skip
def loses_acknowledged_responses(message: Message, head: Head) -> Message | Instead | None:
    if method_of(message) == "tasks/update" and _replies(message) and is_modern(message):
        return Instead(
            ({"jsonrpc": "2.0", "id": message["id"], "result": {"resultType": "complete"}},)
        )
    return message


class _Updates(Bug):
    """Refuse some responses; record the keys of each task and the ended tasks."""

    def __init__(self) -> None:
        self.keys: dict[Any, set[str]] = {}
        self.answered_keys: dict[Any, set[str]] = {}
        self.over: set[Any] = set()

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        task = message.get("result", message.get("params", {}))
        if isinstance(task, dict) and isinstance(task.get("taskId"), str):
            self.keys.setdefault(task["taskId"], set()).update(task.get("inputRequests", {}))
            if task.get("status") in ENDS:
                self.over.add(task["taskId"])
        return [message]

    def client_message(self, message: Message, head: Head) -> Message | Instead:
        id = task_id_of(message)
        if method_of(message) == "tasks/update" and isinstance(id, str) and is_modern(message):
            if _replies(message) and self.is_refused(id, set(_replies(message))):
                return Instead((error(message, -32602, "Invalid params: not requested"),))
            self.answered_keys.setdefault(id, set()).update(_replies(message))
        return message

    def is_refused(self, id: str, keys: set[str]) -> bool:
        """Return whether these responses are refused."""
        return False


@plant(*new("ignore-never-issued-keys"), also=new("input-responses-extra-ignored"))
class RefusesUnknownResponseKeys(_Updates):
    def is_refused(self, id: str, keys: set[str]) -> bool:
        return id in self.keys and not keys & self.keys[id]


@plant(*new("ignore-answered-keys"), also=new("ignore-superseded-keys"))
class RefusesSecondResponse(_Updates):
    def is_refused(self, id: str, keys: set[str]) -> bool:
        answered = self.answered_keys.get(id, set()) & self.keys.get(id, set())
        return bool(keys & answered)


@plant(*new("ignore-superseded-keys"), also=new("ignore-answered-keys", "ignore-never-issued-keys"))
class RefusesLateResponse(_Updates):
    def is_refused(self, id: str, keys: set[str]) -> bool:
        return id in self.over


@plant(*new("partial-stays-input-required"), also=new("partial-answers"), base=_Asking)
def continues_with_one_of_two_responses(task: Message, asked: dict[str, Any]) -> None:
    more = {"message": "And why?", "requestedSchema": {"type": "object", "properties": {}}}
    asked["why"] = {"method": "elicitation/create", "params": {"mode": "form", **more}}


# --- acknowledgements ----------------------------------------------------------------------------


class _Chatty(Answers):
    def change(self, message: Message, request: Message) -> Message:
        if "result" in message:
            message["result"]["status"] = "working"
        return message


variant(
    _Chatty, "acknowledges_update_with_status", *new("update-ack-empty"), methods=("tasks/update",)
)


variant(
    _Chatty, "acknowledges_cancel_with_status", *new("cancel-ack-empty"), methods=("tasks/cancel",)
)


class _Untyped(Answers):
    def change(self, message: Message, request: Message) -> Message:
        message.get("result", {}).pop("resultType", None)
        return message


variant(_Untyped, "acknowledges_update_without_type", *new("update-result-type-complete"),
    also=new("result-type-present", "modern-request-served-statelessly"),
    methods=("tasks/update",))  # fmt: skip
variant(_Untyped, "acknowledges_cancel_without_type", *new("cancel-result-type-complete"),
    also=new("result-type-present", "modern-request-served-statelessly"),
    methods=("tasks/cancel",))  # fmt: skip


class _NoCancel(_Updates):
    def client_message(self, message: Message, head: Head) -> Message | Instead:
        id = task_id_of(message)
        is_known = isinstance(id, str) and id in self.keys and TASKS in str(message)
        if method_of(message) == "tasks/cancel" and is_known and self.is_kept(id):
            return Instead((error(message, -32603, "The task cannot be cancelled"),))
        return message

    def is_kept(self, id: Any) -> bool:
        """Return whether the task cannot be cancelled."""
        return False


@plant(*new("cancel-cooperative"), also=new("cancelled-request-stopped"))
class RefusesCancelOfRunningTask(_NoCancel):
    def is_kept(self, id: Any) -> bool:
        return id not in self.over


@plant(*new("cancel-terminal-acked"))
class RefusesCancelOfEndedTask(_NoCancel):
    def is_kept(self, id: Any) -> bool:
        return id in self.over
