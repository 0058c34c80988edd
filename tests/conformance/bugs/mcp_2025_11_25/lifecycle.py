"""Versions and capabilities of 2025-11-25, done wrong."""

from typing import Any

from tests.conformance.planting import Bug, Head, Instead, Message, plant

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


@plant("2025-11-25:base-protocol-supported", also=("2025-11-25:server-other-version",))
class NoLifecycle(Bug):
    """Does not know `initialize` if its version is strange."""

    def asked(self, message: Message, head: Head) -> Message | Instead | None:
        if proposed(message) == "the-latest":
            error = {"code": -32601, "message": "Method not found"}
            return Instead(({"jsonrpc": "2.0", "id": message["id"], "error": error},))
        return message


@plant("2025-11-25:initialize-first")
class ServesStrangers(Bug):
    """Lists its tools to everybody."""

    is_begun = False

    def asked(self, message: Message, head: Head) -> Message | Instead | None:
        is_pipe = head.method == ""
        self.is_begun |= is_pipe and message.get("method") == "initialize"
        is_strange = not self.is_begun and "mcp-session-id" not in head.headers
        if message.get("method") == "tools/list" and is_strange:
            answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"tools": []}}
            return Instead((answer,))
        return message


@plant("2025-11-25:initialize-answered")
class HasNoVersion(Bug):
    """Does not say which version of itself it is."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if proposed(request) is not None and "result" in message:
            del message["result"]["serverInfo"]["version"]
        return [message]


class _Sessions(Bug):
    """Knows by the session, or on a pipe by the process, who is talking."""

    def __init__(self) -> None:
        self.marked: set[str] = set()

    def is_marked(self, head: Head) -> bool:
        return head.headers.get("mcp-session-id", "") in self.marked

    def is_to_mark(self, request: Message) -> bool:
        raise NotImplementedError

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if proposed(request) is not None and self.is_to_mark(request or {}):
            self.marked.add(head.headers.get("mcp-session-id", ""))
        return [message]


def with_question(request: Message, id: str) -> Instead:
    """A question first, then an empty answer."""
    question = {"jsonrpc": "2.0", "id": id, **QUESTION}
    return Instead((question, {"jsonrpc": "2.0", "id": request["id"], "result": {}}))


@plant("2025-11-25:server-waits-for-initialized", also=(PRIMED,))
class Impatient(_Sessions):
    """Asks before anybody is ready."""

    def is_to_mark(self, request: Message) -> bool:
        return True

    def asked(self, message: Message, head: Head) -> Message | Instead | None:
        if message.get("method") == "notifications/initialized":
            self.marked.discard(head.headers.get("mcp-session-id", ""))
        if message.get("method") == "ping" and self.is_marked(head):
            return with_question(message, "too-early")
        return None if message.get("id") == "too-early" else message


@plant(
    "2025-11-25:only-negotiated-capabilities",
    also=(PRIMED, "2025-11-25:elicitation-declared-modes-only"),
)
class AsksAnybody(_Sessions):
    """Asks who cannot answer."""

    def is_to_mark(self, request: Message) -> bool:
        return not request["params"].get("capabilities")

    def asked(self, message: Message, head: Head) -> Message | Instead | None:
        if message.get("method") == "ping" and self.is_marked(head):
            return with_question(message, "undeclared")
        return None if message.get("id") == "undeclared" else message


# --- versions ------------------------------------------------------------------------------------


@plant(
    "2025-11-25:server-same-version",
    also=("2025-11-25:version-respected",),
)
class SometimesOlder(Bug):
    """Offers an older version to whoever can do nothing, though it speaks the newer one."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if proposed(request) == "2025-11-25" and request and not request["params"]["capabilities"]:
            message["result"]["protocolVersion"] = OLDER
            message["result"]["capabilities"].pop("tasks")
        return [message]

    def asked(self, message: Message, head: Head) -> Message | Instead | None:
        _translate(head)
        return message

    def came(self, body: bytes, head: Head) -> bytes | Instead | None:
        _translate(head)
        return body


def _translate(head: Head) -> None:
    if head.headers.get("mcp-protocol-version") == OLDER:
        head.headers["mcp-protocol-version"] = "2025-11-25"


@plant("2025-11-25:server-other-version")
class EchoesVersions(Bug):
    """Agrees to whatever is proposed."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if proposed(request) == "1900-01-01":
            message["result"]["protocolVersion"] = "1900-01-01"
        return [message]


@plant("2025-11-25:server-version-latest")
class OffersTheOldest(Bug):
    """Offers the first version of all."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if proposed(request) == "1900-01-01":
            message["result"]["protocolVersion"] = "2024-11-05"
        return [message]


@plant("2025-11-25:version-respected", also=(PRIMED,))
class TellsOldClientsOfTasks(_Sessions):
    """Status notifications for somebody who knows of no tasks."""

    def is_to_mark(self, request: Message) -> bool:
        return bool(proposed(request) == OLDER)

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if proposed(request) == OLDER:
            message["result"]["protocolVersion"] = OLDER
            message["result"]["capabilities"].pop("tasks")
        return super().said(message, request, head)

    def came(self, body: bytes, head: Head) -> bytes | Instead | None:
        _translate(head)
        return body

    def asked(self, message: Message, head: Head) -> Message | Instead | None:
        _translate(head)
        if message.get("method") != "tools/list" or not self.is_marked(head):
            return message
        now = "2026-11-16T10:00:00.000Z"
        task = {"taskId": "a-task-that-nobody-made-0123456789", "status": "working", "ttl": 60_000}
        told = {"method": "notifications/tasks/status", "params": task}
        told["params"] = task | {"createdAt": now, "lastUpdatedAt": now}
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": {"tools": []}}
        return Instead(({"jsonrpc": "2.0", **told}, answer))


@plant("2025-11-25:negotiation-errors-handled", also=("answers",))
class IgnoresOldVersions(Bug):
    """Does not talk to those who are behind."""

    def asked(self, message: Message, head: Head) -> Message | Instead | None:
        return None if proposed(message) == "1900-01-01" else message
