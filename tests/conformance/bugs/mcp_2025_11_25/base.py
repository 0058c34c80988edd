"""Messages and `_meta` of 2025-11-25, done wrong."""

import json
from typing import Any, ClassVar

from tests.conformance.planting import Bug, Head, Instead, Message, plant

RELATED = "io.modelcontextprotocol/related-task"


def is_ping(request: Message | None, id: Any) -> bool:
    """Whether it is the ping with that id."""
    return request is not None and request.get("method") == "ping" and request["id"] == id


def is_question(message: Message) -> bool:
    """Whether the server asks."""
    return "method" in message and "id" in message


# --- envelopes -----------------------------------------------------------------------------------


@plant("2025-11-25:jsonrpc-2-0")
class WrongJsonrpc(Bug):
    """Speaks of another version of JSON-RPC."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        return [message | {"jsonrpc": "2.1"} if is_ping(request, 0) else message]


@plant("2025-11-25:result-same-id", also=("answers",))
class StringifiesIds(Bug):
    """Large numbers come back as strings."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        is_large = is_ping(request, 2**53 - 1)
        return [message | {"id": str(message["id"])} if is_large else message]


@plant("2025-11-25:result-field", also=("answers",))
class NullResult(Bug):
    """Nothing is `null`."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        return [message | {"result": None} if is_ping(request, -1) else message]


@plant("2025-11-25:error-same-id", also=("answers",))
class ErrorsLoseTheirId(Bug):
    """An error does not say what it is about."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        return [message | {"id": None} if message.get("id") == "error" else message]


class _WrongError(Bug):
    error: ClassVar[Message]

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        is_unknown = request is not None and request.get("method") == "nobody/knows/this"
        return [message | {"error": self.error} if is_unknown else message]


@plant("2025-11-25:error-code-and-message")
class ErrorsHaveNoMessage(_WrongError):
    """A code must do."""

    error: ClassVar[Message] = {"code": -32601}


@plant("2025-11-25:error-code-integer")
class ErrorsHaveNames(_WrongError):
    """A word instead of a number."""

    error: ClassVar[Message] = {"code": "METHOD_NOT_FOUND", "message": "Method not found"}


@plant(
    "2025-11-25:notification-not-answered",
    also=(
        "2025-11-25:http-202-for-notification",
        "2025-11-25:http-error-for-refused-notification",
        "2025-11-25:invalid-cancellation-ignored",
    ),
)
class AnswersNotifications(Bug):
    """Complains about what is unknown, though nobody asked."""

    def asked(self, message: Message, head: Head) -> Message | Instead | None:
        is_unknown = message.get("method") == "notifications/nobody-knows-this"
        if is_unknown and message.get("params") == {"a": 1}:
            error = {"code": -32601, "message": "Method not found"}
            return Instead(({"jsonrpc": "2.0", "id": None, "error": error},))
        return message


@plant("2025-11-25:notification-without-id")
class NumbersNotifications(Bug):
    """The first status notification has an id."""

    count = 0

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if message.get("method") == "notifications/tasks/status":
            self.count += 1
            if self.count == 1:
                return [message | {"id": "told-1"}]
        return [message]

    def asked(self, message: Message, head: Head) -> Message | Instead | None:
        return None if message.get("id") == "told-1" else message


# --- ids of questions ----------------------------------------------------------------------------


class _RenamesQuestions(Bug):
    """Questions have other ids; answers are led back by the task that they name."""

    def __init__(self) -> None:
        self.ids: dict[str, Any] = {}

    def new_id(self) -> Any:
        raise NotImplementedError

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        related = message.get("params", {}).get("_meta", {}).get(RELATED)
        if is_question(message) and related is not None:
            self.ids[related["taskId"]] = message["id"]
            return [message | {"id": self.new_id()}]
        is_withdrawn = message.get("method") == "notifications/cancelled"
        return [] if is_withdrawn else [message]  # under the old id nobody knows it

    def asked(self, message: Message, head: Head) -> Message | Instead | None:
        result = message.get("result")
        related = result.get("_meta", {}).get(RELATED) if isinstance(result, dict) else None
        if "method" not in message and related is not None:
            return message | {"id": self.ids[related["taskId"]]}
        return message


@plant("2025-11-25:request-id-type")
class FractionalIds(_RenamesQuestions):
    """Ids are numbers between numbers."""

    count = 0

    def new_id(self) -> Any:
        self.count += 1
        return self.count + 0.5


@plant(
    "2025-11-25:request-id-not-null",
    also=(
        "2025-11-25:request-id-not-reused",
        "2025-11-25:message-on-one-stream",
        "2025-11-25:side-channel-allowed",
    ),
)
class NullIds(_RenamesQuestions):
    """Questions have the id null."""

    def new_id(self) -> Any:
        return None


@plant(
    "2025-11-25:request-id-not-reused",
    also=("2025-11-25:message-on-one-stream", "2025-11-25:side-channel-allowed"),
)
class AlwaysTheSameId(_RenamesQuestions):
    """Every question has the id 1."""

    def new_id(self) -> Any:
        return 1


# --- `_meta` -------------------------------------------------------------------------------------


class _AddsMeta(Bug):
    key: ClassVar[str]

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is not None and request.get("method") == "tools/list" and "result" in message:
            message["result"].setdefault("_meta", {})[self.key] = 1
        return [message]


@plant("2025-11-25:meta-prefix-format")
class TwoDotsInAPrefix(_AddsMeta):
    """Two dots in a row."""

    key = "org..example/seen"


@plant("2025-11-25:meta-label-format")
class DigitBeginsALabel(_AddsMeta):
    """A label begins with a digit."""

    key = "org.1example/seen"


@plant("2025-11-25:meta-name-format")
class UnderscoreBeginsAName(_AddsMeta):
    """A name begins with an underscore."""

    key = "_seen"


@plant("2025-11-25:meta-prefix-reverse-dns")
class PrefixIsADomainForwards(_AddsMeta):
    """A domain name the usual way round."""

    key = "example.org/seen"


@plant("2025-11-25:meta-prefix-reserved")
class TakesAPrefixOfMcp(_AddsMeta):
    """A key of its own under a prefix of MCP."""

    key = "com.mcp/seen"


@plant("2025-11-25:meta-no-assumptions")
class RefusesUnknownKeys(Bug):
    """Only known keys may be in `_meta`."""

    def asked(self, message: Message, head: Head) -> Message | Instead | None:
        params = message.get("params")
        meta = params.get("_meta") if isinstance(params, dict) else None
        if isinstance(meta, dict) and "io.modelcontextprotocol/nobody-knows-this" in meta:
            error = {"code": -32602, "message": "Unknown key in _meta"}
            return Instead(({"jsonrpc": "2.0", "id": message["id"], "error": error},))
        return message


# --- bytes ---------------------------------------------------------------------------------------

NOTICE = {
    "jsonrpc": "2.0",
    "method": "notifications/message",
    "params": {"level": "info", "data": "grüße"},
}


class _SaysMore(Bug):
    """Something on the output, before the answer to a ping."""

    more: ClassVar[bytes]

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        return [self.more, message] if is_ping(request, 0) else [message]


@plant(
    "2025-11-25:messages-utf8",
    also=("2025-11-25:stdio-stdout-only-mcp",),
    transports=("stdio",),
)
class WritesLatin1(_SaysMore):
    """Encodes in another way."""

    more = json.dumps(NOTICE, ensure_ascii=False).encode("latin-1")


@plant("2025-11-25:stdio-no-embedded-newlines", transports=("stdio",))
class WritesPretty(_SaysMore):
    """A message on many lines."""

    more = json.dumps(NOTICE, indent=2).encode()


@plant("2025-11-25:stdio-stdout-only-mcp", transports=("stdio",))
class ChatsOnStdout(_SaysMore):
    """A line for whoever reads the log."""

    more = b"INFO: ping"


@plant(
    "2025-11-25:messages-utf8",
    also=("2025-11-25:result-same-id", "answers"),
    transports=("http",),
)
class MisreadsUtf8(Bug):
    """Reads ids in one encoding and writes them in another."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        id = message.get("id")
        if "method" not in message and "result" in message and isinstance(id, str):
            return [message | {"id": id.encode().decode("latin-1")}]
        return [message]
