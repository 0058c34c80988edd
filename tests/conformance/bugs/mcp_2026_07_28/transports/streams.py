"""Bugs of streams, and of requests that are given up, in 2026-07-28."""

from typing import Any, Final

from tests.conformance.bugs.mcp_2026_07_28.transports.endpoint import meta_of
from tests.conformance.planting import Bug, Head, Message, plant

__all__: list[str] = []

_HTTP: Final = ("http",)
_PIPES: Final = ("stdio",)
_MADE_OF_JSON: Final = ("2026-07-28:sse-no-buffering-header",)
"""A stream that only the bug makes has the headers of JSON."""


def _notification(method: str, **params: Any) -> Message:
    return {"jsonrpc": "2.0", "method": method, "params": params}


@plant("2026-07-28:sse-notifications-related", also=_MADE_OF_JSON, transports=_HTTP)
class ChangesAreToldAnywhere(Bug):
    """That tools have changed is told with the next call."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        is_call = request is not None and request.get("method") == "tools/call"
        if not is_call or head.status != 200:
            return [message]
        return [_notification("notifications/tools/list_changed"), message]


@plant("2026-07-28:sse-ends-after-response", also=_MADE_OF_JSON, transports=_HTTP)
class TalksOn(Bug):
    """Something more to say after the response."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is None or request.get("method") != "tools/list" or head.status != 200:
            return [message]
        return [message, _notification("notifications/message", level="info", data="done")]


@plant("2026-07-28:sse-no-buffering-header", transports=_HTTP)
class MayBeBuffered(Bug):
    """Streams without the header for proxies."""

    def answered(self, request: Message | None, head: Head) -> None:
        head.headers.pop("x-accel-buffering", None)


@plant(
    "2026-07-28:sse-not-resumable",
    also=("2026-07-28:http-silence-after-cancel", "2026-07-28:subscription-id-is-request-id"),
    transports=_HTTP,
)
class ListensGoOn(Bug):
    """Who names an event is told what was told before."""

    def __init__(self) -> None:
        self._told: list[Message] = []
        self._resumed: set[str] = set()

    def asked(self, message: Message, head: Head) -> Message:
        if "last-event-id" in head.headers:
            self._resumed.add(str(message.get("id")))
        return message

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if message.get("method") != "notifications/subscriptions/acknowledged":
            return [message]
        id = message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]
        before = self._told[-1:] if id in self._resumed else []
        self._told.append(message)
        return [message, *before]


@plant(
    "2026-07-28:http-silence-after-cancel",
    also=(
        "2026-07-28:sse-notifications-related",
        "2026-07-28:no-progress-for-tasks",
        "2026-07-28:progress-operation-running",
        "2026-07-28:progress-stops-after-completion",
        "2026-07-28:progress-token-known",
        *_MADE_OF_JSON,
    ),
    transports=_HTTP,
)
class WorkGoesOnAndIsTold(Bug):
    """The progress of a call that was left comes with the next answer."""

    def __init__(self) -> None:
        self._tokens: list[Any] = []
        self._told = 1_000

    def asked(self, message: Message, head: Head) -> Message:
        if "progressToken" in meta_of(message):
            self._tokens.append(meta_of(message)["progressToken"])
        return message

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is not None and meta_of(request).get("progressToken") in self._tokens:
            self._tokens.remove(meta_of(request)["progressToken"])
        is_get = request is not None and request.get("method") == "tasks/get"
        if not is_get or not self._tokens or head.status != 200:
            return [message]
        self._told += 1
        told = [{"progressToken": token, "progress": self._told} for token in self._tokens]
        return [*(_notification("notifications/progress", **one) for one in told), message]


@plant(
    "2026-07-28:stdio-silence-after-cancel",
    also=("2026-07-28:cancelled-request-not-answered",),
    transports=_PIPES,
)
class NothingIsEverCancelled(Bug):
    """`notifications/cancelled` is not for this server."""

    def asked(self, message: Message, head: Head) -> Message | None:
        return None if message.get("method") == "notifications/cancelled" else message
