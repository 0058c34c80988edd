"""Bugs of HTTP in 2025-11-25: endpoint, origins, sessions, versions."""

import json

from tests.conformance.planting import (
    HTTP,
    Bug,
    ClientChange,
    ClientMessage,
    Head,
    Instead,
    Message,
    ResponseHead,
    old,
    plant,
    variant,
)

SESSION = "mcp-session-id"
VERSION = "mcp-protocol-version"


# --- the endpoint and callers --------------------------------------------------------------


class _AnswersGet(Bug):
    """Answer the first proper GET."""

    instead: Instead

    def __init__(self) -> None:
        self.ended: set[str] = set()
        self.is_done = False

    def client_bytes(self, body: bytes, head: Head) -> bytes | Instead | None:
        session = head.headers.get(SESSION, "")
        if head.method == "DELETE":
            self.ended.add(session)
        is_proper = not {"origin", "last-event-id"} & head.headers.keys()
        if head.method == "GET" and is_proper and session not in self.ended and not self.is_done:
            self.is_done = True
            return self.instead
        return body


variant(_AnswersGet, "answers_get_stream_with_404", *old("http-single-endpoint",
    "get-stream-sse-or-405"), transports=HTTP, instead=Instead(status=404))  # fmt: skip
variant(_AnswersGet, "answers_get_stream_with_html", *old("get-stream-sse-or-405"),
    transports=HTTP, instead=Instead(status=200, headers={"content-type": "text/html"})
)  # fmt: skip


@plant(*old("http-origin-validated", "http-origin-403"), transports=HTTP)
class IgnoresOrigin(Bug):
    def client_message(self, message: Message, head: Head) -> Message | Instead | None:
        head.headers.pop("origin", None)
        return message

    def client_bytes(self, body: bytes, head: Head) -> bytes | Instead | None:
        head.headers.pop("origin", None)
        return body


@plant(*old("http-origin-403"), transports=HTTP, base=ResponseHead)
def refuses_origins_with_400(request: Message | None, head: Head) -> None:
    head.status = 400 if head.status == 403 else head.status


@plant(*old("http-authentication"), also=old("tool-access-controlled"), transports=HTTP)
class TakesAnonymousCallersForTheLastOne(Bug):
    last = ""

    def client_message(self, message: Message, head: Head) -> Message | Instead | None:
        self.last = head.headers.setdefault("authorization", self.last)
        return message


# --- responses to POST -------------------------------------------------------------------------


@plant(*old("http-202-for-notification"), transports=HTTP, base=ResponseHead)
def accepts_notifications_with_200(request: Message | None, head: Head) -> None:
    head.status = 200 if head.status == 202 else head.status


@plant(*old("http-error-for-refused-notification"), transports=HTTP, base=ClientMessage)
def refuses_notifications_with_200(message: Message, head: Head) -> Message | Instead | None:
    if "id" in message or isinstance(message.get("method"), str):
        return message
    error = {"code": -32600, "message": "Invalid request"}
    return Instead(({"jsonrpc": "2.0", "error": error},))


@plant(*old("http-json-or-sse"), transports=HTTP, base=ResponseHead)
def sends_json_as_plain_text(request: Message | None, head: Head) -> None:
    if request is not None and request.get("method") == "ping" and head.status == 200:
        head.headers["content-type"] = "text/plain"


# --- sessions ------------------------------------------------------------------------------------


class _RenamesSessions(Bug):
    """Replace session ids."""

    def __init__(self) -> None:
        self.real: dict[str, str] = {}

    def new_id(self, real: str) -> str:
        raise NotImplementedError

    def response_head(self, request: Message | None, head: Head) -> None:
        if SESSION in head.headers:
            real = head.headers[SESSION]
            head.headers[SESSION] = self.new_id(real)
            self.real[head.headers[SESSION]] = real

    def client_message(self, message: Message, head: Head) -> Message | Instead | None:
        self._lead_back(head)
        return message

    def client_bytes(self, body: bytes, head: Head) -> bytes | Instead | None:
        self._lead_back(head)
        return body

    def _lead_back(self, head: Head) -> None:
        if head.headers.get(SESSION) in self.real:
            head.headers[SESSION] = self.real[head.headers[SESSION]]


@plant(*old("session-id-secure"), transports=HTTP)
class CountsSessionIds(_RenamesSessions):
    def new_id(self, real: str) -> str:
        return f"session-of-a-client-{len(self.real):06}"


@plant(*old("session-id-visible-ascii"), transports=HTTP)
class CreatesSessionIdsWithSpaces(_RenamesSessions):
    def new_id(self, real: str) -> str:
        return f"{real[:20]} {real[20:]}"


@plant(*old("session-id-missing-400"), transports=HTTP)
class AnswersMissingSessionWith404(Bug):
    def __init__(self) -> None:
        self.missing: list[str] = []

    def client_message(self, message: Message, head: Head) -> Message | Instead | None:
        if SESSION not in head.headers and message.get("method") == "tools/list":
            self.missing.append(json.dumps(message))
        return message

    def response_head(self, request: Message | None, head: Head) -> None:
        if head.status == 400 and json.dumps(request) in self.missing:
            head.status = 404


@plant(*old("session-ended-404"), transports=HTTP, base=ResponseHead)
def answers_ended_session_with_400(request: Message | None, head: Head) -> None:
    head.status = 400 if head.status == 404 else head.status


# --- versions ------------------------------------------------------------------------------------


@plant(*old("protocol-version-assumed"), transports=HTTP, base=ClientMessage)
def requires_version_header(message: Message, head: Head) -> Message | Instead | None:
    if VERSION not in head.headers and SESSION in head.headers:
        error = {"code": -32600, "message": "No version"}
        answer = {"jsonrpc": "2.0", "id": message.get("id"), "error": error}
        return Instead((answer,), status=400)
    return message


@plant(*old("protocol-version-bad-400"), transports=HTTP, base=ClientChange)
def ignores_version_header(message: Message, head: Head) -> None:
    if VERSION in head.headers:
        head.headers[VERSION] = "2025-11-25"
