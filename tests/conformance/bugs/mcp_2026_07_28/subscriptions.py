"""Bugs of `subscriptions/listen` and of task notifications."""

from typing import Any, Final

from tests.conformance.bugs.mcp_2026_07_28.extension import ENDS, TASKS, Shown, declare, is_modern
from tests.conformance.planting import (
    HANG_UP,
    HTTP,
    Bug,
    ClientChange,
    Head,
    Message,
    ServerChange,
    ServerMessage,
    method_of,
    new,
    plant,
)

_ID: Final = "io.modelcontextprotocol/subscriptionId"
_ACKNOWLEDGED: Final = "notifications/subscriptions/acknowledged"
_TOLD: Final = "notifications/tasks"


def _notice(method: str, like: Message, **params: Any) -> Message:
    """Return another notification of the same subscription."""
    params["_meta"] = {_ID: like["params"]["_meta"][_ID]}
    return {"jsonrpc": "2.0", "method": method, "params": params}


class _Notices(Bug):
    """Replace notifications of a subscription."""

    hook = "notices"

    method: str

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        return self.notices(message) if message.get("method") == self.method else [message]

    def notices(self, message: Message) -> list[Any]:
        """Return what is sent instead."""
        return [message]


class _Acknowledgements(_Notices):
    hook = "change"
    method = _ACKNOWLEDGED

    def notices(self, message: Message) -> list[Any]:
        self.change(message["params"]["notifications"])
        return [message]

    def change(self, agreed: Message) -> None:
        """In place."""


# --- the acknowledgement -------------------------------------------------------------------------


@plant(*new("ack-first", "nothing-before-ack"), also=new("only-requested-notifications"),
    base=_Notices, method=_ACKNOWLEDGED)  # fmt: skip
def notifies_before_acknowledgement(message: Message) -> list[Any]:
    return [_notice("notifications/tools/list_changed", message), message]


@plant(*new("ack-is-subset"), base=_Acknowledgements)
def acknowledges_more_than_requested(agreed: Message) -> None:
    agreed["toolsListChanged"] = True
    agreed["promptsListChanged"] = True


@plant(*new("ack-lists-task-ids", "ack-is-subset"), base=_Acknowledgements)
def acknowledges_other_tasks(agreed: Message) -> None:
    if "taskIds" in agreed:
        agreed["taskIds"].append("a-task-of-another-client")


@plant(
    *new("subscription-id-is-request-id"), also=new("subscription-id-in-meta"), base=ServerChange
)
def sends_subscription_id_as_text(message: Message, request: Message | None) -> None:
    meta = (message.get("params") or {}).get("_meta", {})
    if "method" in message and _ID in meta:
        meta[_ID] = str(meta[_ID])


# --- notifications --------------------------------------------------------------------------------


@plant(*new("only-requested-notifications"), base=_Notices, method=_ACKNOWLEDGED)
def notifies_of_tool_changes_unasked(message: Message) -> list[Any]:
    if message["params"]["notifications"].get("toolsListChanged"):
        return [message]
    return [message, _notice("notifications/tools/list_changed", message)]


@plant(*new("notifications-only-for-listened-ids"), base=_Notices, method=_TOLD)
def notifies_of_other_tasks(message: Message) -> list[Any]:
    other = {**message["params"], "taskId": f"{message['params']['taskId']}-and-another"}
    return [message, {**message, "params": other}]


@plant(*new("notification-is-whole-task"), also=new("status-completed", "status-failed",
    "status-input-required"), base=Shown, methods=("notifications",))  # fmt: skip
def notifies_without_payload(task: Message) -> None:
    for name in ("result", "error", "inputRequests"):
        task.pop(name, None)


@plant(*new("notification-is-whole-task"), also=new("terminal-final", "status-cancelled"),
    base=Shown, methods=("notifications",))  # fmt: skip
def notifies_of_cancellation_too_early(task: Message) -> None:
    if task.get("status") == "working":
        task.update(status="cancelled", statusMessage="It was cancelled")


@plant(*new("no-progress-on-listen", "only-requested-notifications"),
    also=new("progress-token-known", "progress-operation-running", "progress-increases",
    "sse-notifications-related"), base=_Notices, method=_TOLD)  # fmt: skip
def notifies_of_progress_on_listen(message: Message) -> list[Any]:
    progress = _notice("notifications/progress", message, progressToken="some", progress=1)
    return [progress, message]


@plant(
    *new("no-log-messages-on-listen", "only-requested-notifications"), base=_Notices, method=_TOLD
)
def notifies_of_logs_on_listen(message: Message) -> list[Any]:
    log = _notice("notifications/message", message, level="info", data="it changed")
    return [log, message]


@plant(*new("method-prefix-reserved"), also=new("only-requested-notifications"), base=_Notices,
    method=_TOLD)  # fmt: skip
def sends_legacy_status_notifications(message: Message) -> list[Any]:
    old = {name: value for name, value in message["params"].items() if name != "_meta"}
    return [message, _notice("notifications/tasks/status", message, **old)]


@plant(*new("no-progress-for-tasks"), also=new("progress-token-known",
    "progress-operation-running", "progress-increases", "progress-stops-after-completion",
    "sse-notifications-related", "sse-no-buffering-header", "request-scoped-notifications")
)  # fmt: skip
class ReportsProgressOfTasks(Bug):
    def __init__(self) -> None:
        self.tokens: dict[Any, Any] = {}

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
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


@plant(*new("listen-missing-capability-32021"), also=new("undeclared-capability-32021",
    "no-state-from-earlier-requests"), base=ClientChange)  # fmt: skip
def subscribes_undeclared_clients(message: Message, head: Head) -> None:
    if method_of(message) == "subscriptions/listen" and TASKS not in str(message):
        declare(message)


@plant(*new("listen-final-response"), also=new("listen-teardown-cancelled"), transports=HTTP,
    base=_Notices, method=_TOLD)  # fmt: skip
def ends_subscription_without_response(message: Message) -> list[Any]:
    return [message, HANG_UP] if message["params"]["status"] in ENDS else [message]


@plant(*new("listen-final-response-shape"), also=new("listen-teardown-cancelled",
    "result-type-present", "server-info-sent"), transports=HTTP, base=_Notices, method=_TOLD
)  # fmt: skip
def ends_subscription_with_extra_fields(message: Message) -> list[Any]:
    if message["params"]["status"] not in ENDS:
        return [message]
    id = message["params"]["_meta"][_ID]
    result = {"reason": "the task has ended"}
    return [message, {"jsonrpc": "2.0", "id": id, "result": result}, HANG_UP]


@plant(*new("no-subscription-state-kept"), also=new("subscription-id-in-meta",
    "sse-notifications-related", "sse-no-buffering-header", "request-scoped-notifications"),
    base=ServerMessage)  # fmt: skip
def notifies_on_every_connection(message: Message, request: Message | None) -> list[Any]:
    if method_of(request) == "tasks/get" and is_modern(request) and "result" in message:
        told = {name: v for name, v in message["result"].items() if name != "resultType"}
        told["_meta"] = {_ID: "an-old-subscription"}
        return [{"jsonrpc": "2.0", "method": _TOLD, "params": told}, message]
    return [message]
