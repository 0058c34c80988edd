"""Bugs of `subscriptions/listen`, and of what the tasks extension adds to it."""

from typing import Any, Final

from tests.conformance.bugs.mcp_2026_07_28.extension import (
    ENDS,
    TASKS,
    Shown,
    declare,
    ext,
    is_modern,
    method_of,
)
from tests.conformance.planting import HANG_UP, Bug, Head, Message, plant

__all__: list[str] = []

_ID: Final = "io.modelcontextprotocol/subscriptionId"
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_TOLD: Final = "notifications/tasks"


def _notice(method: str, like: Message, **params: Any) -> Message:
    """Another notification of the same subscription."""
    params["_meta"] = {_ID: like["params"]["_meta"][_ID]}
    return {"jsonrpc": "2.0", "method": method, "params": params}


class _Notices(Bug):
    """Changes what a subscription says."""

    method: str

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        return self.told(message) if message.get("method") == self.method else [message]

    def told(self, message: Message) -> list[Any]:
        """What is said instead."""
        return [message]


class _Acknowledgements(_Notices):
    method = _ACKNOWLEDGED

    def told(self, message: Message) -> list[Any]:
        self.change(message["params"]["notifications"])
        return [message]

    def change(self, agreed: Message) -> None:
        """In place."""


# --- the acknowledgement -------------------------------------------------------------------------


@plant(
    *ext("ack-first", "nothing-before-ack"),
    also=ext("only-requested-notifications"),
)
class SubTellsBeforeIt(_Notices):
    """Something is told before it is agreed upon."""

    method = _ACKNOWLEDGED

    def told(self, message: Message) -> list[Any]:
        return [_notice("notifications/tools/list_changed", message), message]


@plant(*ext("ack-is-subset"))
class SubAgreesToMore(_Acknowledgements):
    """It agrees to what nobody asked for."""

    def change(self, agreed: Message) -> None:
        agreed["toolsListChanged"] = True
        agreed["promptsListChanged"] = True


@plant(*ext("ack-lists-task-ids", "ack-is-subset"))
class SubAgreesToOtherTasks(_Acknowledgements):
    """It agrees to tell of a task that nobody named."""

    def change(self, agreed: Message) -> None:
        if "taskIds" in agreed:
            agreed["taskIds"].append("a-task-of-somebody-else")


@plant(*ext("subscription-id-is-request-id"), also=ext("subscription-id-in-meta"))
class SubIdIsText(Bug):
    """A number becomes a text."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        meta = (message.get("params") or {}).get("_meta", {})
        if "method" in message and _ID in meta:
            meta[_ID] = str(meta[_ID])
        return [message]


# --- what is told --------------------------------------------------------------------------------


@plant(*ext("only-requested-notifications"))
class SubTellsMore(_Notices):
    """Changes of tools are told to everybody."""

    method = _ACKNOWLEDGED

    def told(self, message: Message) -> list[Any]:
        if message["params"]["notifications"].get("toolsListChanged"):
            return [message]
        return [message, _notice("notifications/tools/list_changed", message)]


@plant(*ext("notifications-only-for-listened-ids"))
class SubTellsOfOthers(_Notices):
    """Another task is told of, too."""

    method = _TOLD

    def told(self, message: Message) -> list[Any]:
        other = {**message["params"], "taskId": f"{message['params']['taskId']}-and-another"}
        return [message, {**message, "params": other}]


@plant(
    *ext("notification-is-whole-task"),
    also=ext("status-completed", "status-failed", "status-input-required"),
)
class SubTellsHalf(Shown):
    """What a task ended with has to be asked for."""

    methods = ("notifications",)

    def change(self, task: Message) -> None:
        for name in ("result", "error", "inputRequests"):
            task.pop(name, None)


@plant(*ext("notification-is-whole-task"), also=ext("terminal-final", "status-cancelled"))
class SubTellsEndsTooEarly(Shown):
    """A task that works is told to be cancelled."""

    methods = ("notifications",)

    def change(self, task: Message) -> None:
        if task.get("status") == "working":
            task.update(status="cancelled", statusMessage="It was cancelled")


@plant(
    *ext("no-progress-on-listen", "only-requested-notifications"),
    also=ext(
        "progress-token-known",
        "progress-operation-running",
        "progress-increases",
        "sse-notifications-related",
    ),
)
class SubTellsProgress(_Notices):
    """Progress is told as well."""

    method = _TOLD

    def told(self, message: Message) -> list[Any]:
        progress = _notice("notifications/progress", message, progressToken="some", progress=1)
        return [progress, message]


@plant(*ext("no-log-messages-on-listen", "only-requested-notifications"))
class SubTellsLogs(_Notices):
    """The log is told as well."""

    method = _TOLD

    def told(self, message: Message) -> list[Any]:
        log = _notice("notifications/message", message, level="info", data="it changed")
        return [log, message]


@plant(
    *ext("method-prefix-reserved"),
    also=ext("only-requested-notifications"),
)
class SubTellsInOldWords(_Notices):
    """The notification of the older revision comes, too."""

    method = _TOLD

    def told(self, message: Message) -> list[Any]:
        old = {name: value for name, value in message["params"].items() if name != "_meta"}
        return [message, _notice("notifications/tasks/status", message, **old)]


@plant(
    *ext("no-progress-for-tasks"),
    also=ext(
        *("progress-token-known", "progress-operation-running", "progress-increases"),
        *(
            "progress-stops-after-completion",
            "sse-notifications-related",
            "sse-no-buffering-header",
        ),
        "request-scoped-notifications",
    ),
)
class ExtProgressGoesOn(Bug):
    """Progress of a call is told after it became a task."""

    def __init__(self) -> None:
        self.tokens: dict[Any, Any] = {}

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        result = message.get("result")
        if request is None or not isinstance(result, dict) or not is_modern(request):
            return [message]
        token = request["params"]["_meta"].get("progressToken")
        if method_of(request) == "tools/call" and token is not None:
            self.tokens[result.get("taskId")] = token
        elif method_of(request) == "tasks/get" and result.get("taskId") in self.tokens:
            known = self.tokens.pop(result["taskId"])
            told = {"progressToken": known, "progress": 1}
            return [{"jsonrpc": "2.0", "method": "notifications/progress", "params": told}, message]
        return [message]


# --- refusals and the end ------------------------------------------------------------------------


@plant(
    *ext("listen-missing-capability-32021"),
    also=ext("undeclared-capability-32021", "no-state-from-earlier-requests"),
)
class SubForEverybody(Bug):
    """Who did not declare the extension may listen to tasks."""

    def asked(self, message: Message, head: Head) -> Message:
        if method_of(message) == "subscriptions/listen" and TASKS not in str(message):
            declare(message)
        return message


@plant(
    *ext("listen-final-response"),
    also=ext("listen-teardown-cancelled"),
    transports=("http",),
)
class SubEndsWithoutWord(_Notices):
    """When its task is over the stream just ends."""

    method = _TOLD

    def told(self, message: Message) -> list[Any]:
        return [message, HANG_UP] if message["params"]["status"] in ENDS else [message]


@plant(
    *ext("listen-final-response-shape"),
    also=ext("listen-teardown-cancelled", "result-type-present", "server-info-sent"),
    transports=("http",),
)
class SubEndsWithMuch(_Notices):
    """When its task is over the stream ends with all sorts of things."""

    method = _TOLD

    def told(self, message: Message) -> list[Any]:
        if message["params"]["status"] not in ENDS:
            return [message]
        id = message["params"]["_meta"][_ID]
        result = {"reason": "the task is over"}
        return [message, {"jsonrpc": "2.0", "id": id, "result": result}, HANG_UP]


@plant(
    *ext("no-subscription-state-kept"),
    also=ext(
        *("subscription-id-in-meta", "sse-notifications-related", "sse-no-buffering-header"),
        "request-scoped-notifications",
    ),
)
class SubTellsEverywhere(Bug):
    """Whoever looks at a task is told of it as well."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if method_of(request) == "tasks/get" and is_modern(request) and "result" in message:
            told = {name: v for name, v in message["result"].items() if name != "resultType"}
            told["_meta"] = {_ID: "an-old-subscription"}
            return [{"jsonrpc": "2.0", "method": _TOLD, "params": told}, message]
        return [message]
