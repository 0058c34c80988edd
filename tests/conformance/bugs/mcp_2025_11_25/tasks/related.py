"""Bugs in which task a message of 2025-11-25 belongs to, and in tasks that ask."""

from typing import Any, Final

from tests.conformance.bugs.mcp_2025_11_25.tasks.shown import (
    Answers,
    method_of,
    of,
    params_of,
    task_id_of,
)
from tests.conformance.planting import Bug, Head, Later, Message, plant
from tests.conformance.variations import tasks_in

__all__: list[str] = []

RELATED: Final = "io.modelcontextprotocol/related-task"


def _related(message: Message) -> Any:
    """The task that a request with that metadata names."""
    meta = params_of(message).get("_meta")
    related = meta.get(RELATED) if isinstance(meta, dict) else None
    return related.get("taskId") if isinstance(related, dict) else None


# --- where it is wanted ----------------------------------------------------------------------


@plant(*of("related-task-on-question", "related-task-on-task-messages"))
class NamelessQuestions(Bug):
    """Questions do not say whose they are."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(message) == "elicitation/create":
            message["params"].pop("_meta", None)
        return [message]


@plant(*of("related-task-on-progress", "related-task-on-task-messages"))
class NamelessProgress(Bug):
    """Progress does not say whose it is."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(message) == "notifications/progress":
            message["params"].pop("_meta", None)
        return [message]


@plant(*of("related-task-on-result", "related-task-on-task-messages"))
class NamelessResults(Answers):
    """Results do not say whose they are."""

    method = "tasks/result"

    def change(self, result: Message, request: Message) -> None:
        result.pop("_meta", None)


@plant(*of("related-task-value-shape", "no-related-task-on-task-results"))
class MetadataIsText(Answers):
    """The id alone, where it is not wanted either."""

    method = "tasks/get"

    def change(self, result: Message, request: Message) -> None:
        result["_meta"] = {RELATED: task_id_of(request)}


@plant(*of("side-channel-allowed"), also=of("request-id-not-reused"))
class AsksTwice(Bug):
    """A question is sent again before it is answered."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        is_question = method_of(message) == "elicitation/create"
        return [message, message] if is_question else [message]


# --- where it is not -------------------------------------------------------------------------


@plant(*of("no-related-task-on-task-results"))
class MetadataOnLists(Answers):
    """A cancelled task is named twice."""

    method = "tasks/cancel"

    def change(self, result: Message, request: Message) -> None:
        result["_meta"] = {RELATED: {"taskId": task_id_of(request)}}


@plant(*of("no-related-task-on-status-notification"))
class MetadataOnNotifications(Bug):
    """A status notification names its task twice."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(message) == "notifications/tasks/status":
            id = message["params"]["taskId"]
            message["params"]["_meta"] = {RELATED: {"taskId": id}}
        return [message]


@plant(*of("related-task-ignored-on-task-requests"), also=("answers",))
class HangsOnMetadata(Bug):
    """A look with metadata is never answered."""

    def asked(self, message: Message, head: Head) -> Message | None:
        is_get = method_of(message) == "tasks/get"
        return None if is_get and _related(message) is not None else message


@plant(*of("related-task-ignored-on-task-requests", "task-id-param-decides"), also=of(
    "related-task-on-result", "related-task-on-task-messages", "cancelled-before-answer",
    "status-cancelled",
))  # fmt: skip
class MetadataDecides(Bug):
    """The task in the metadata is the one that is meant."""

    def asked(self, message: Message, head: Head) -> Message:
        other = _related(message)
        if method_of(message).startswith("tasks/") and other is not None:
            message["params"]["taskId"] = other
        return message


# --- progress --------------------------------------------------------------------------------


@plant(*of("progress-supported-on-tasks"), also=of(
    "progress-token-known", "progress-after-create-result", "progress-same-token"
))  # fmt: skip
class AnotherToken(Bug):
    """Progress of a task has a token of its own."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(message) == "notifications/progress" and _related(message) is not None:
            message["params"]["progressToken"] = "own"
        return [message]


@plant(
    *of("cancel-stops-work"),
    also=of("progress-operation-running", "progress-stops-at-terminal"),
    transports=("stdio",),
)
class GoesOnAfterCancel(Bug):
    """The work of a cancelled task goes on, as its progress shows."""

    def __init__(self) -> None:
        self._last: dict[Any, Message] = {}

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
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


@plant(*of("input-required-when-asking"))
class AsksAtWork(Bug):
    """When somebody listens a task that asks is at work."""

    def __init__(self) -> None:
        self._heard: set[Any] = set()

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(message) in ("elicitation/create", "sampling/createMessage"):
            self._heard.add(_related(message))
        for task in tasks_in(message):
            if task["status"] == "input_required" and task["taskId"] in self._heard:
                task["status"] = "working"
        return [message]


@plant(*of("leaves-input-required-when-answered"), also=("answers",))
class AnswerIsLost(Bug):
    """Every second answer to a form never arrives."""

    def __init__(self) -> None:
        self._forms: set[Any] = set()
        self._answers = 0

    def asked(self, message: Message, head: Head) -> Message | None:
        if "method" not in message and message.get("id") in self._forms:
            self._answers += 1
            if self._answers % 2 == 0:
                return None
        return message

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(message) == "elicitation/create":
            self._forms.add(message["id"])
        return [message]


@plant(
    *of("status-input-required", "status-working"),
    also=of("cancelled-same-direction"),
    transports=("stdio",),
)
class AsksNothing(Bug):
    """A task needs input, and does not say which."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        return [] if method_of(message) == "elicitation/create" else [message]


@plant(*of("question-task-id-matches"), also=of("sse-messages-related"))
class QuestionsNameTheFirst(Bug):
    """All questions that are open belong to the first task that asked."""

    def __init__(self) -> None:
        self._open: dict[Any, Any] = {}

    def asked(self, message: Message, head: Head) -> Message:
        if "method" not in message:
            self._open.pop(message.get("id"), None)
        return message

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(message) == "elicitation/create" and _related(message) is not None:
            first = next(iter(self._open.values()), _related(message))
            self._open[message["id"]] = first
            message["params"]["_meta"][RELATED]["taskId"] = first
        return [message]
