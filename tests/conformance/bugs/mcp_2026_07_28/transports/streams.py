"""Bugs of streams, and of requests that are given up, in 2026-07-28."""

from typing import Any, Final

from tests.conformance.planting import (
    HTTP,
    STDIO,
    Bug,
    ClientMessage,
    Head,
    Instead,
    Message,
    ResponseHead,
    meta_of,
    new,
    plant,
)

_MADE_OF_JSON: Final = ("2026-07-28:sse-no-buffering-header",)
"""A stream that only the bug makes has the headers of JSON."""


def _notification(method: str, **params: Any) -> Message:
    return {"jsonrpc": "2.0", "method": method, "params": params}


@plant(*new("sse-notifications-related"), also=_MADE_OF_JSON, transports=HTTP)
class SendsListChangesOnCallStreams(Bug):
    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        is_call = request is not None and request.get("method") == "tools/call"
        if not is_call or head.status != 200:
            return [message]
        return [_notification("notifications/tools/list_changed"), message]


@plant(*new("sse-ends-after-response"), also=_MADE_OF_JSON, transports=HTTP)
class SendsNotificationAfterResponse(Bug):
    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is None or request.get("method") != "tools/list" or head.status != 200:
            return [message]
        return [message, _notification("notifications/message", level="info", data="done")]


@plant(*new("sse-no-buffering-header"), transports=HTTP, base=ResponseHead)
def omits_buffering_header(request: Message | None, head: Head) -> None:
    head.headers.pop("x-accel-buffering", None)


@plant(*new("sse-not-resumable"), also=new("http-silence-after-cancel",
    "subscription-id-is-request-id"), transports=HTTP)  # fmt: skip
class ResumesSubscriptions(Bug):
    def __init__(self) -> None:
        self._told: list[Message] = []
        self._resumed: set[str] = set()

    def client_message(self, message: Message, head: Head) -> Message:
        if "last-event-id" in head.headers:
            self._resumed.add(str(message.get("id")))
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if message.get("method") != "notifications/subscriptions/acknowledged":
            return [message]
        id = message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]
        before = self._told[-1:] if id in self._resumed else []
        self._told.append(message)
        return [message, *before]


@plant(*new("http-silence-after-cancel"), also=(*new("sse-notifications-related",
    "no-progress-for-tasks", "progress-operation-running", "progress-stops-after-completion",
    "progress-token-known"), *_MADE_OF_JSON), transports=HTTP)  # fmt: skip
class ReportsProgressOfDisconnectedCalls(Bug):
    def __init__(self) -> None:
        self._tokens: list[Any] = []
        self._told = 1_000

    def client_message(self, message: Message, head: Head) -> Message:
        if "progressToken" in meta_of(message):
            self._tokens.append(meta_of(message)["progressToken"])
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is not None and meta_of(request).get("progressToken") in self._tokens:
            self._tokens.remove(meta_of(request)["progressToken"])
        is_get = request is not None and request.get("method") == "tasks/get"
        if not is_get or not self._tokens or head.status != 200:
            return [message]
        self._told += 1
        told = [{"progressToken": token, "progress": self._told} for token in self._tokens]
        return [*(_notification("notifications/progress", **one) for one in told), message]


@plant(*new("stdio-silence-after-cancel"), also=new("cancelled-request-not-answered"),
    transports=STDIO, base=ClientMessage)  # fmt: skip
def ignores_cancelled_notifications(message: Message, head: Head) -> Message | Instead | None:
    return None if message.get("method") == "notifications/cancelled" else message
