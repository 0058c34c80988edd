"""Bugs of versions and capabilities of 2025-11-25."""

from typing import Any

from tests.conformance.planting import (
    Bug,
    ClientMessage,
    Head,
    Instead,
    Message,
    ServerChange,
    old,
    plant,
)

PRIMED = "2025-11-25:sse-priming-event"
"""Streams that a bug makes have no such event."""

OLDER = "2025-06-18"
QUESTION = {
    "method": "elicitation/create",
    "params": {"mode": "form", "message": "Well?", "requestedSchema": {"type": "object"}},
}


def proposed(request: Message | None) -> Any:
    """The version that an `initialize` proposes."""
    if request is None or request.get("method") != "initialize":
        return None
    return request["params"].get("protocolVersion")


# --- initialization ------------------------------------------------------------------------------


@plant(*old("base-protocol-supported"), also=old("server-other-version"), base=ClientMessage)
def does_not_implement_initialize(message: Message, head: Head) -> Message | Instead | None:
    if proposed(message) == "the-latest":
        error = {"code": -32601, "message": "Method not found"}
        return Instead(({"jsonrpc": "2.0", "id": message["id"], "error": error},))
    return message


@plant(*old("initialize-first"))
class ListsToolsBeforeInitialize(Bug):
    is_begun = False

    def client_message(self, message: Message, head: Head) -> Message | Instead | None:
        is_pipe = head.method == ""
        self.is_begun |= is_pipe and message.get("method") == "initialize"
        is_strange = not self.is_begun and "mcp-session-id" not in head.headers
        if message.get("method") == "tools/list" and is_strange:
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"tools": []}}
            return Instead((answer,))
        return message


@plant(*old("initialize-answered"), base=ServerChange)
def omits_its_version(message: Message, request: Message | None) -> None:
    if proposed(request) is not None and "result" in message:
        del message["result"]["serverInfo"]["version"]


class _Sessions(Bug):
    """Mark some clients, by session or on stdio by process."""

    def __init__(self) -> None:
        self.marked: set[str] = set()

    def is_marked(self, head: Head) -> bool:
        return head.headers.get("mcp-session-id", "") in self.marked

    def is_to_mark(self, request: Message) -> bool:
        raise NotImplementedError

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if proposed(request) is not None and self.is_to_mark(request or {}):
            self.marked.add(head.headers.get("mcp-session-id", ""))
        return [message]


def with_question(request: Message, id: str) -> Instead:
    """A question first, then an empty answer."""
    question = {"jsonrpc": "2.0", "id": id, **QUESTION}
    return Instead((question, {"jsonrpc": "2.0", "id": request["id"], "result": {}}))


@plant(*old("server-waits-for-initialized"), also=(PRIMED,))
class SendsRequestsBeforeInitialized(_Sessions):
    def is_to_mark(self, request: Message) -> bool:
        return True

    def client_message(self, message: Message, head: Head) -> Message | Instead | None:
        if message.get("method") == "notifications/initialized":
            self.marked.discard(head.headers.get("mcp-session-id", ""))
        if message.get("method") == "ping" and self.is_marked(head):
            return with_question(message, "too-early")
        return None if message.get("id") == "too-early" else message


@plant(*old("only-negotiated-capabilities"), also=(PRIMED, *old("elicitation-declared-modes-only")))
class ElicitsWithoutDeclaredCapability(_Sessions):
    def is_to_mark(self, request: Message) -> bool:
        return not request["params"].get("capabilities")

    def client_message(self, message: Message, head: Head) -> Message | Instead | None:
        if message.get("method") == "ping" and self.is_marked(head):
            return with_question(message, "undeclared")
        return None if message.get("id") == "undeclared" else message


# --- versions ------------------------------------------------------------------------------------


@plant(*old("server-same-version"), also=old("version-respected"))
class AgreesOnOlderVersion(Bug):
    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if proposed(request) == "2025-11-25" and request and not request["params"]["capabilities"]:
            message["result"]["protocolVersion"] = OLDER
            message["result"]["capabilities"].pop("tasks")
        return [message]

    def client_message(self, message: Message, head: Head) -> Message | Instead | None:
        _translate(head)
        return message

    def client_bytes(self, body: bytes, head: Head) -> bytes | Instead | None:
        _translate(head)
        return body


def _translate(head: Head) -> None:
    if head.headers.get("mcp-protocol-version") == OLDER:
        head.headers["mcp-protocol-version"] = "2025-11-25"


@plant(*old("server-other-version"), base=ServerChange)
def agrees_on_any_version(message: Message, request: Message | None) -> None:
    if proposed(request) == "1900-01-01":
        message["result"]["protocolVersion"] = "1900-01-01"


@plant(*old("server-version-latest"), base=ServerChange)
def proposes_the_oldest_version(message: Message, request: Message | None) -> None:
    if proposed(request) == "1900-01-01":
        message["result"]["protocolVersion"] = "2024-11-05"


@plant(*old("version-respected"), also=(PRIMED,))
class SendsTaskNotificationsToOlderClients(_Sessions):
    def is_to_mark(self, request: Message) -> bool:
        return bool(proposed(request) == OLDER)

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if proposed(request) == OLDER:
            message["result"]["protocolVersion"] = OLDER
            message["result"]["capabilities"].pop("tasks")
        return super().server_message(message, request, head)

    def client_bytes(self, body: bytes, head: Head) -> bytes | Instead | None:
        _translate(head)
        return body

    def client_message(self, message: Message, head: Head) -> Message | Instead | None:
        _translate(head)
        if message.get("method") != "tools/list" or not self.is_marked(head):
            return message
        now = "2026-11-16T10:00:00.000Z"
        task = {"taskId": "a-task-that-does-not-exist-0123456", "status": "working", "ttl": 60_000}
        told = {"method": "notifications/tasks/status", "params": task}
        told["params"] = task | {"createdAt": now, "lastUpdatedAt": now}
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"tools": []}}
        return Instead(({"jsonrpc": "2.0", **told}, answer))


@plant(*old("negotiation-errors-handled"), also=("answers",), base=ClientMessage)
def never_answers_old_versions(message: Message, head: Head) -> Message | Instead | None:
    return None if proposed(message) == "1900-01-01" else message
