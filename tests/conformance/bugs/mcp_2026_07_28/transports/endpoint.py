"""Bugs of Streamable HTTP and of pipes in 2026-07-28."""

import json
from typing import Any, Final

from tests.conformance.broken_server import TOKENS
from tests.conformance.planting import (
    HTTP,
    STDIO,
    Bug,
    ClientChange,
    ClientMessage,
    Head,
    Instead,
    Later,
    Message,
    ResponseHead,
    ServerMessage,
    meta_of,
    new,
    plant,
)

NEW: Final = "2026-07-28"
VERSION: Final = "io.modelcontextprotocol/protocolVersion"


def refusal(message: Message, code: int, words: str = "no", status: int = 400) -> Instead:
    """Return an error in place of the correct response."""
    error = {"code": code, "message": words}
    answer = {"jsonrpc": "2.0", "id": message["id"], "error": error}
    return Instead((answer,), status, {"content-type": "application/json"})


# --- the endpoint ----------------------------------------------------------------------------


@plant(*new("http-single-endpoint"), transports=HTTP, base=ClientMessage)
def refuses_listen_with_405(message: Message, head: Head) -> Message | Instead | None:
    is_listen = message.get("method") == "subscriptions/listen"
    return Instead(status=405) if is_listen else message


@plant(*new("http-origin-validated", "http-origin-403"), transports=HTTP, base=ClientChange)
def accepts_every_origin(message: Message, head: Head) -> None:
    head.headers.pop("origin", None)


@plant(*new("http-origin-403"), transports=HTTP, base=ClientMessage)
def answers_foreign_origins_with_400(message: Message, head: Head) -> Message | Instead | None:
    return Instead(status=400) if "origin" in head.headers else message


@plant(*new("http-authentication"), also=new("auth-on-each-request", "tool-access-controlled"),
    transports=HTTP, base=ClientChange)  # fmt: skip
def takes_anonymous_callers_for_a(message: Message, head: Head) -> None:
    head.headers.setdefault("authorization", f"Bearer {TOKENS[0]}")


# --- statuses and types ----------------------------------------------------------------------


@plant(*new("http-202-for-notification"), transports=HTTP, base=ResponseHead)
def answers_notifications_with_200(request: Message | None, head: Head) -> None:
    head.status = 200 if head.status == 202 else head.status


@plant(*new("http-error-for-refused-notification"), transports=HTTP, base=ClientMessage)
def sends_notification_errors_with_200(message: Message, head: Head) -> Message | Instead | None:
    if "id" in message or isinstance(message.get("method"), str):
        return message
    return Instead(({"jsonrpc": "2.0", "error": {"code": -32600, "message": "no"}},))


@plant(*new("http-json-or-sse"), transports=HTTP, base=ResponseHead)
def lists_tools_as_plain_text(request: Message | None, head: Head) -> None:
    is_list = request is not None and request.get("method") == "tools/list"
    if is_list and head.status == 200:
        head.headers["content-type"] = "text/plain; charset=utf-8"


def _differ(message: Message, head: Head) -> bool:
    version = head.headers.get("mcp-protocol-version")
    return version is not None and meta_of(message).get(VERSION, version) != version


@plant(*new("http-version-mismatch-32020"), transports=HTTP, base=ClientChange)
def prefers_version_in_body(message: Message, head: Head) -> None:
    if _differ(message, head) and meta_of(message)[VERSION] == NEW:
        head.headers["mcp-protocol-version"] = NEW


@plant(*new("http-version-mismatch-32020"), transports=HTTP, base=ClientMessage)
def refuses_version_mismatch_with_32600(message: Message, head: Head) -> Message | Instead | None:
    return refusal(message, -32600) if _differ(message, head) else message


@plant(*new("http-unsupported-version-400"), transports=HTTP)
class RefusesUnknownVersionsWith200(Bug):
    def __init__(self) -> None:
        self._unknown: list[Any] = []

    def client_message(self, message: Message, head: Head) -> Message:
        if meta_of(message).get(VERSION, NEW) != NEW and not _differ(message, head):
            self._unknown.append(message.get("id"))
        return message

    def response_head(self, request: Message | None, head: Head) -> None:
        if request is not None and request["id"] in self._unknown and head.status == 400:
            head.status = 200


@plant(*new("http-unknown-method-404"), transports=HTTP, base=ResponseHead)
def refuses_unknown_methods_with_200(request: Message | None, head: Head) -> None:
    if request is not None and "id" in request and head.status == 404:
        head.status = 200


@plant(*new("http-version-header-missing-refused"), transports=HTTP, base=ClientChange)
def fills_in_missing_version_header(message: Message, head: Head) -> None:
    if VERSION in meta_of(message):
        head.headers.setdefault("mcp-protocol-version", meta_of(message)[VERSION])


# --- without earlier revisions ---------------------------------------------------------------


class ModernOnly(Bug):
    """Support no earlier revision; refuse their clients correctly."""

    words = f"this server speaks {NEW}"

    def client_message(self, message: Message, head: Head) -> Message | Instead:
        head.headers.pop("mcp-session-id", None)
        if message.get("method") == "initialize":
            return refusal(message, -32601, self.words)
        if "id" in message and VERSION not in meta_of(message):
            return refusal(message, -32602, "no version")
        return message

    def client_bytes(self, body: bytes, head: Head) -> bytes | Instead:
        return Instead(status=405) if head.method in ("GET", "DELETE") else body

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        result, error = message.get("result", {}), message.get("error", {})
        if "supportedVersions" in result:
            result["supportedVersions"] = [NEW]
        if error.get("code") == -32022:
            error["data"]["supported"] = [NEW]
        return [message]


@plant(*new("http-get-delete-405"), transports=HTTP)
class AnswersGetAndDeleteWith404(ModernOnly):
    def client_bytes(self, body: bytes, head: Head) -> bytes | Instead:
        return Instead(status=404) if head.method in ("GET", "DELETE") else body


@plant(*new("http-session-id-ignored"), transports=HTTP)
class RefusesSessionHeader(ModernOnly):
    def client_message(self, message: Message, head: Head) -> Message | Instead:
        if "mcp-session-id" in head.headers:
            return refusal(message, -32600, "no such session", 404)
        return super().client_message(message, head)


@plant(*new("http-session-id-ignored"), transports=HTTP)
class AssignsSessionIds(ModernOnly):
    def response_head(self, request: Message | None, head: Head) -> None:
        if request is not None and request.get("method") == "tools/list":
            head.headers["mcp-session-id"] = "1"


@plant(*new("http-last-event-id-ignored"), transports=HTTP)
class RefusesLastEventId(ModernOnly):
    def client_message(self, message: Message, head: Head) -> Message | Instead:
        if "last-event-id" in head.headers:
            return refusal(message, -32600, "no such event")
        return super().client_message(message, head)


# --- every transport -------------------------------------------------------------------------


@plant(*new("messages-utf8"), also=("answers", *new("binding-delivers",
    "stdio-stdout-only-mcp")), base=ServerMessage)  # fmt: skip
def answers_in_latin_1(message: Message, request: Message | None) -> list[Any]:
    id = message.get("id")
    if not isinstance(id, str) or id.isascii() or "result" not in message:
        return [message]
    return [json.dumps(message, ensure_ascii=False).encode("latin-1", "replace")]


@plant(*new("binding-delivers"), also=("answers",), transports=HTTP, base=ClientMessage)
def ends_streams_without_response(message: Message, head: Head) -> Message | Instead | None:
    stream = {"content-type": "text/event-stream", "x-accel-buffering": "no"}
    return Instead(headers=stream) if message.get("id") == "7" else message


# --- pipes -----------------------------------------------------------------------------------


@plant(*new("stdio-stdout-only-mcp"), transports=STDIO, base=ServerMessage)
def logs_to_stdout(message: Message, request: Message | None) -> list[Any]:
    is_list = request is not None and request.get("method") == "tools/list"
    return [b"INFO: tools were listed\n", message] if is_list else [message]


@plant(*new("stdio-no-embedded-newlines"), also=new("stdio-stdout-only-mcp"), transports=STDIO,
    base=ServerMessage)  # fmt: skip
def writes_messages_with_newlines(message: Message, request: Message | None) -> list[Any]:
    if request is None or request.get("method") != "tools/list":
        return [message]
    told = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info"}}
    return [json.dumps(told, indent=2).encode() + b"\n", message]


@plant(*new("stdio-exit-on-eof"), transports=STDIO)
class ExitsLateOnEof(Bug):
    def __init__(self) -> None:
        self._is_told = False

    def client_message(self, message: Message, head: Head) -> Message:
        self._is_told |= message.get("method") == "notifications/no-such-notification"
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        is_call = request is not None and request.get("method") == "tools/call"
        if not is_call or not self._is_told:
            return [message]
        told = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info"}}
        return [message, Later(7.0, told)]
