"""Bugs of related-task metadata and input requests of 2025-11-25."""

from typing import Any, Final

from tests.conformance.bugs.mcp_2025_11_25.tasks.tasks import Answers
from tests.conformance.planting import (
    STDIO,
    Bug,
    ClientChange,
    ClientMessage,
    Head,
    Instead,
    Later,
    Message,
    ServerChange,
    ServerMessage,
    method_of,
    old,
    params_of,
    plant,
    task_id_of,
)
from tests.conformance.variations import tasks_in

RELATED: Final = "io.modelcontextprotocol/related-task"


def _related(message: Message) -> Any:
    """The task that a request with that metadata names."""
    meta = params_of(message).get("_meta")
    related = meta.get(RELATED) if isinstance(meta, dict) else None
    return related.get("taskId") if isinstance(related, dict) else None


# --- where it is wanted ----------------------------------------------------------------------


@plant(*old("related-task-on-question", "related-task-on-task-messages"), base=ServerChange)
def elicits_without_related_task(message: Message, request: Message | None) -> None:
    if method_of(message) == "elicitation/create":
        message["params"].pop("_meta", None)


@plant(*old("related-task-on-progress", "related-task-on-task-messages"), base=ServerChange)
def reports_progress_without_related_task(message: Message, request: Message | None) -> None:
    if method_of(message) == "notifications/progress":
        message["params"].pop("_meta", None)


@plant(*old("related-task-on-result", "related-task-on-task-messages"), base=Answers,
    method="tasks/result")  # fmt: skip
def answers_result_without_related_task(result: Message, request: Message) -> None:
    result.pop("_meta", None)


@plant(*old("related-task-value-shape", "no-related-task-on-task-results"), base=Answers,
    method="tasks/get")  # fmt: skip
def sends_related_task_as_text(result: Message, request: Message) -> None:
    result["_meta"] = {RELATED: task_id_of(request)}


@plant(*old("side-channel-allowed"), also=old("request-id-not-reused"), base=ServerMessage)
def sends_elicitations_twice(message: Message, request: Message | None) -> list[Any]:
    is_question = method_of(message) == "elicitation/create"
    return [message, message] if is_question else [message]


# --- where it is not -------------------------------------------------------------------------


@plant(*old("no-related-task-on-task-results"), base=Answers, method="tasks/cancel")
def adds_related_task_to_cancel_result(result: Message, request: Message) -> None:
    result["_meta"] = {RELATED: {"taskId": task_id_of(request)}}


@plant(*old("no-related-task-on-status-notification"), base=ServerChange)
def adds_related_task_to_status_notifications(message: Message, request: Message | None) -> None:
    if method_of(message) == "notifications/tasks/status":
        id = message["params"]["taskId"]
        message["params"]["_meta"] = {RELATED: {"taskId": id}}


@plant(*old("related-task-ignored-on-task-requests"), also=("answers",), base=ClientMessage)
def never_answers_get_with_related_task(message: Message, head: Head) -> Message | Instead | None:
    is_get = method_of(message) == "tasks/get"
    return None if is_get and _related(message) is not None else message


@plant(*old("related-task-ignored-on-task-requests", "task-id-param-decides"),
    also=old("related-task-on-result", "related-task-on-task-messages",
    "cancelled-before-answer", "status-cancelled"), base=ClientChange)  # fmt: skip
def prefers_related_task_to_task_id(message: Message, head: Head) -> None:
    other = _related(message)
    if method_of(message).startswith("tasks/") and other is not None:
        message["params"]["taskId"] = other


# --- progress --------------------------------------------------------------------------------


@plant(*old("progress-supported-on-tasks"), also=old("progress-token-known",
    "progress-after-create-result", "progress-same-token"), base=ServerChange)  # fmt: skip
def reports_progress_with_another_token(message: Message, request: Message | None) -> None:
    if method_of(message) == "notifications/progress" and _related(message) is not None:
        message["params"]["progressToken"] = "own"


@plant(*old("cancel-stops-work"), also=old("progress-operation-running",
    "progress-stops-at-terminal"), transports=STDIO)  # fmt: skip
class ReportsProgressAfterCancel(Bug):
    def __init__(self) -> None:
        self._last: dict[Any, Message] = {}

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(message) == "notifications/progress" and _related(message) is not None:
            self._last[_related(message)] = message
        last = self._last.get(task_id_of(request))
        if method_of(request) != "tasks/cancel" or "result" not in message or last is None:
            return [message]
        more = []
        for step in (0.12, 0.2, 5.4, 5.6):
            params = {**last["params"], "progress": last["params"]["progress"] + step}
            more.append(Later(step, {**last, "params": params}))
        return [message, *more]


# --- tasks that ask --------------------------------------------------------------------------


@plant(*old("input-required-when-asking"))
class ShowsWorkingWhileItElicits(Bug):
    def __init__(self) -> None:
        self._heard: set[Any] = set()

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(message) in ("elicitation/create", "sampling/createMessage"):
            self._heard.add(_related(message))
        for task in tasks_in(message):
            if task["status"] == "input_required" and task["taskId"] in self._heard:
                task["status"] = "working"
        return [message]


@plant(*old("leaves-input-required-when-answered"), also=("answers",))
class LosesEverySecondElicitationResponse(Bug):
    def __init__(self) -> None:
        self._forms: set[Any] = set()
        self._answers = 0

    def client_message(self, message: Message, head: Head) -> Message | None:
        if "method" not in message and message.get("id") in self._forms:
            self._answers += 1
            if self._answers % 2 == 0:
                return None
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(message) == "elicitation/create":
            self._forms.add(message["id"])
        return [message]


@plant(*old("status-input-required", "status-working"), also=old("cancelled-same-direction"),
    transports=STDIO, base=ServerMessage)  # fmt: skip
def requires_input_without_elicitation(message: Message, request: Message | None) -> list[Any]:
    return [] if method_of(message) == "elicitation/create" else [message]


@plant(*old("question-task-id-matches"), also=old("sse-messages-related"))
class NamesTheFirstTaskInEveryElicitation(Bug):
    def __init__(self) -> None:
        self._open: dict[Any, Any] = {}

    def client_message(self, message: Message, head: Head) -> Message:
        if "method" not in message:
            self._open.pop(message.get("id"), None)
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(message) == "elicitation/create" and _related(message) is not None:
            first = next(iter(self._open.values()), _related(message))
            self._open[message["id"]] = first
            message["params"]["_meta"][RELATED]["taskId"] = first
        return [message]
