"""Bugs of Streamable HTTP and of pipes in 2026-07-28."""

import json
from typing import Any, Final

from tests.conformance.broken_server import TOKENS
from tests.conformance.planting import Bug, Head, Instead, Later, Message, plant

__all__ = ["NEW", "VERSION", "ModernOnly", "meta_of", "refusal"]

NEW: Final = "2026-07-28"
VERSION: Final = "io.modelcontextprotocol/protocolVersion"
_HTTP: Final = ("http",)
_PIPES: Final = ("stdio",)


def meta_of(message: Message | None) -> dict[str, Any]:
    """The `_meta` of a request."""
    params = None if message is None else message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else {}


def refusal(message: Message, code: int, words: str = "no", status: int = 400) -> Instead:
    """An error instead of what the correct server would say."""
    error = {"code": code, "message": words}
    answer = {"jsonrpc": "2.0", "id": message["id"], "error": error}
    return Instead((answer,), status, {"content-type": "application/json"})


# --- the endpoint ----------------------------------------------------------------------------


@plant("2026-07-28:http-single-endpoint", transports=_HTTP)
class SubscriptionsLiveElsewhere(Bug):
    """One method has another address."""

    def asked(self, message: Message, head: Head) -> Message | Instead:
        is_listen = message.get("method") == "subscriptions/listen"
        return Instead(status=405) if is_listen else message


@plant("2026-07-28:http-origin-validated", "2026-07-28:http-origin-403", transports=_HTTP)
class EveryOriginIsWelcome(Bug):
    """`Origin` is not looked at."""

    def asked(self, message: Message, head: Head) -> Message:
        head.headers.pop("origin", None)
        return message


@plant("2026-07-28:http-origin-403", transports=_HTTP)
class ForeignOriginsAreBadRequests(Bug):
    """400 instead of 403."""

    def asked(self, message: Message, head: Head) -> Message | Instead:
        return Instead(status=400) if "origin" in head.headers else message


@plant(
    "2026-07-28:http-authentication",
    also=("2026-07-28:auth-on-each-request", "2026-07-28:tool-access-controlled"),
    transports=_HTTP,
)
class NobodyIsSomebody(Bug):
    """Who has no token is taken for the first one."""

    def asked(self, message: Message, head: Head) -> Message:
        head.headers.setdefault("authorization", f"Bearer {TOKENS[0]}")
        return message


# --- statuses and types ----------------------------------------------------------------------


@plant("2026-07-28:http-202-for-notification", transports=_HTTP)
class NotificationsAreOk(Bug):
    """200 instead of 202."""

    def answered(self, request: Message | None, head: Head) -> None:
        head.status = 200 if head.status == 202 else head.status


@plant("2026-07-28:http-error-for-refused-notification", transports=_HTTP)
class RefusalsOfNotificationsAreOk(Bug):
    """An error in the body, and 200."""

    def asked(self, message: Message, head: Head) -> Message | Instead:
        if "id" in message or isinstance(message.get("method"), str):
            return message
        return Instead(({"jsonrpc": "2.0", "error": {"code": -32600, "message": "no"}},))


@plant("2026-07-28:http-json-or-sse", transports=_HTTP)
class ListsArePlainText(Bug):
    """JSON that says it is text."""

    def answered(self, request: Message | None, head: Head) -> None:
        is_list = request is not None and request.get("method") == "tools/list"
        if is_list and head.status == 200:
            head.headers["content-type"] = "text/plain; charset=utf-8"


def _differ(message: Message, head: Head) -> bool:
    version = head.headers.get("mcp-protocol-version")
    return version is not None and meta_of(message).get(VERSION, version) != version


@plant("2026-07-28:http-version-mismatch-32020", transports=_HTTP)
class TheVersionInTheBodyCounts(Bug):
    """What the header says is overwritten."""

    def asked(self, message: Message, head: Head) -> Message:
        if _differ(message, head) and meta_of(message)[VERSION] == NEW:
            head.headers["mcp-protocol-version"] = NEW
        return message


@plant("2026-07-28:http-version-mismatch-32020", transports=_HTTP)
class DifferentVersionsAreInvalid(Bug):
    """Another code than the one for headers."""

    def asked(self, message: Message, head: Head) -> Message | Instead:
        return refusal(message, -32600) if _differ(message, head) else message


@plant("2026-07-28:http-unsupported-version-400", transports=_HTTP)
class UnknownVersionsAreOk(Bug):
    """The error comes with 200."""

    def __init__(self) -> None:
        self._unknown: list[Any] = []

    def asked(self, message: Message, head: Head) -> Message:
        if meta_of(message).get(VERSION, NEW) != NEW and not _differ(message, head):
            self._unknown.append(message.get("id"))
        return message

    def answered(self, request: Message | None, head: Head) -> None:
        if request is not None and request["id"] in self._unknown and head.status == 400:
            head.status = 200


@plant("2026-07-28:http-unknown-method-404", transports=_HTTP)
class UnknownMethodsAreOk(Bug):
    """The error comes with 200."""

    def answered(self, request: Message | None, head: Head) -> None:
        if request is not None and "id" in request and head.status == 404:
            head.status = 200


@plant("2026-07-28:http-version-header-missing-refused", transports=_HTTP)
class NoVersionIsThisVersion(Bug):
    """A missing header is filled in."""

    def asked(self, message: Message, head: Head) -> Message:
        if VERSION in meta_of(message):
            head.headers.setdefault("mcp-protocol-version", meta_of(message)[VERSION])
        return message


# --- without earlier revisions ---------------------------------------------------------------


class ModernOnly(Bug):
    """Knows no earlier revision, and answers correctly to whoever comes with one."""

    words = f"this server speaks {NEW}"

    def asked(self, message: Message, head: Head) -> Message | Instead:
        head.headers.pop("mcp-session-id", None)
        if message.get("method") == "initialize":
            return refusal(message, -32601, self.words)
        if "id" in message and VERSION not in meta_of(message):
            return refusal(message, -32602, "no version")
        return message

    def came(self, body: bytes, head: Head) -> bytes | Instead:
        return Instead(status=405) if head.method in ("GET", "DELETE") else body

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        result, error = message.get("result", {}), message.get("error", {})
        if "supportedVersions" in result:
            result["supportedVersions"] = [NEW]
        if error.get("code") == -32022:
            error["data"]["supported"] = [NEW]
        return [message]


@plant("2026-07-28:http-get-delete-405", transports=_HTTP)
class GetIsNotFound(ModernOnly):
    """404 instead of 405."""

    def came(self, body: bytes, head: Head) -> bytes | Instead:
        return Instead(status=404) if head.method in ("GET", "DELETE") else body


@plant("2026-07-28:http-session-id-ignored", transports=_HTTP)
class SessionsAreUnknown(ModernOnly):
    """Who names a session is sent away."""

    def asked(self, message: Message, head: Head) -> Message | Instead:
        if "mcp-session-id" in head.headers:
            return refusal(message, -32600, "no such session", 404)
        return super().asked(message, head)


@plant("2026-07-28:http-session-id-ignored", transports=_HTTP)
class SessionsAreGiven(ModernOnly):
    """Every list comes with a session."""

    def answered(self, request: Message | None, head: Head) -> None:
        if request is not None and request.get("method") == "tools/list":
            head.headers["mcp-session-id"] = "1"


@plant("2026-07-28:http-last-event-id-ignored", transports=_HTTP)
class EventsAreUnknown(ModernOnly):
    """Who names an event is sent away."""

    def asked(self, message: Message, head: Head) -> Message | Instead:
        if "last-event-id" in head.headers:
            return refusal(message, -32600, "no such event")
        return super().asked(message, head)


# --- every transport -------------------------------------------------------------------------


@plant(
    "2026-07-28:messages-utf8",
    also=("answers", "2026-07-28:binding-delivers", "2026-07-28:stdio-stdout-only-mcp"),
)
class Latin1(Bug):
    """What is not ASCII is written in the old way."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        id = message.get("id")
        if not isinstance(id, str) or id.isascii() or "result" not in message:
            return [message]
        return [json.dumps(message, ensure_ascii=False).encode("latin-1", "replace")]


@plant(
    "2026-07-28:binding-delivers",
    also=("answers",),
    transports=_HTTP,
)
class SomeAnswersAreLost(Bug):
    """The stream ends, and there was nothing on it."""

    def asked(self, message: Message, head: Head) -> Message | Instead:
        stream = {"content-type": "text/event-stream", "x-accel-buffering": "no"}
        return Instead(headers=stream) if message.get("id") == "7" else message


# --- pipes -----------------------------------------------------------------------------------


@plant("2026-07-28:stdio-stdout-only-mcp", transports=_PIPES)
class LogsToTheOutput(Bug):
    """A line for whoever watches."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        is_list = request is not None and request.get("method") == "tools/list"
        return [b"INFO: tools were listed\n", message] if is_list else [message]


@plant(
    "2026-07-28:stdio-no-embedded-newlines",
    also=("2026-07-28:stdio-stdout-only-mcp",),
    transports=_PIPES,
)
class WritesBeautifully(Bug):
    """A message with newlines in it."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is None or request.get("method") != "tools/list":
            return [message]
        told = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info"}}
        return [json.dumps(told, indent=2).encode() + b"\n", message]


@plant("2026-07-28:stdio-exit-on-eof", transports=_PIPES)
class StaysForAWhile(Bug):
    """There is something to say in seven seconds, whoever listens then."""

    def __init__(self) -> None:
        self._is_told = False

    def asked(self, message: Message, head: Head) -> Message:
        self._is_told |= message.get("method") == "notifications/nobody-knows"
        return message

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        is_call = request is not None and request.get("method") == "tools/call"
        if not is_call or not self._is_told:
            return [message]
        told = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info"}}
        return [message, Later(7.0, told)]
