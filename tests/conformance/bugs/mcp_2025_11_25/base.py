"""Bugs of messages and `_meta` of 2025-11-25."""

import json
from typing import Any, ClassVar

from tests.conformance.planting import (
    HTTP,
    STDIO,
    Bug,
    ClientMessage,
    Head,
    Instead,
    Message,
    ServerMessage,
    old,
    plant,
    variant,
)

RELATED = "io.modelcontextprotocol/related-task"


def is_ping(request: Message | None, id: Any) -> bool:
    """Whether it is the ping with that id."""
    return request is not None and request.get("method") == "ping" and request["id"] == id


def is_question(message: Message) -> bool:
    """Whether the server asks."""
    return "method" in message and "id" in message


# --- envelopes -----------------------------------------------------------------------------------


@plant(*old("jsonrpc-2-0"), base=ServerMessage)
def answers_ping_with_jsonrpc_2_1(message: Message, request: Message | None) -> list[Any]:
    return [message | {"jsonrpc": "2.1"} if is_ping(request, 0) else message]


@plant(*old("result-same-id"), also=("answers",), base=ServerMessage)
def answers_large_ids_as_strings(message: Message, request: Message | None) -> list[Any]:
    is_large = is_ping(request, 2**53 - 1)
    return [message | {"id": str(message["id"])} if is_large else message]


@plant(*old("result-field"), also=("answers",), base=ServerMessage)
def answers_with_null_result(message: Message, request: Message | None) -> list[Any]:
    return [message | {"result": None} if is_ping(request, -1) else message]


@plant(*old("error-same-id"), also=("answers",), base=ServerMessage)
def answers_errors_without_id(message: Message, request: Message | None) -> list[Any]:
    return [message | {"id": None} if message.get("id") == "error" else message]


class _WrongError(Bug):
    error: ClassVar[Message]

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        is_unknown = request is not None and request.get("method") == "no/such/method"
        return [message | {"error": self.error} if is_unknown else message]


variant(_WrongError, "omits_error_messages", *old("error-code-and-message"), error={"code": -32601})
variant(_WrongError, "sends_error_codes_as_words", *old("error-code-integer"),
    error={"code": "METHOD_NOT_FOUND", "message": "Method not found"})  # fmt: skip


@plant(*old("notification-not-answered"), also=old("http-202-for-notification",
    "http-error-for-refused-notification", "invalid-cancellation-ignored"), base=ClientMessage
)  # fmt: skip
def answers_unknown_notifications(message: Message, head: Head) -> Message | Instead | None:
    is_unknown = message.get("method") == "notifications/no-such-notification"
    if is_unknown and message.get("params") == {"a": 1}:
        error = {"code": -32601, "message": "Method not found"}
        return Instead(({"jsonrpc": "2.0", "id": None, "error": error},))
    return message


@plant(*old("notification-without-id"))
class SendsAStatusNotificationWithId(Bug):
    count = 0

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if message.get("method") == "notifications/tasks/status":
            self.count += 1
            if self.count == 1:
                return [message | {"id": "told-1"}]
        return [message]

    def client_message(self, message: Message, head: Head) -> Message | Instead | None:
        return None if message.get("id") == "told-1" else message


# --- ids of questions ----------------------------------------------------------------------------


class _RenamesQuestions(Bug):
    """Questions have other ids; answers are led back by the task that they name."""

    def __init__(self) -> None:
        self.ids: dict[str, Any] = {}

    def new_id(self) -> Any:
        raise NotImplementedError

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        related = message.get("params", {}).get("_meta", {}).get(RELATED)
        if is_question(message) and related is not None:
            self.ids[related["taskId"]] = message["id"]
            return [message | {"id": self.new_id()}]
        is_withdrawn = message.get("method") == "notifications/cancelled"
        return [] if is_withdrawn else [message]  # the client does not know the old id

    def client_message(self, message: Message, head: Head) -> Message | Instead | None:
        result = message.get("result")
        related = result.get("_meta", {}).get(RELATED) if isinstance(result, dict) else None
        if "method" not in message and related is not None:
            return message | {"id": self.ids[related["taskId"]]}
        return message


@plant(*old("request-id-type"))
class SendsFractionalRequestIds(_RenamesQuestions):
    count = 0

    def new_id(self) -> Any:
        self.count += 1
        return self.count + 0.5


@plant(*old("request-id-not-null"), also=old("request-id-not-reused", "message-on-one-stream",
    "side-channel-allowed"))  # fmt: skip
class SendsNullRequestIds(_RenamesQuestions):
    def new_id(self) -> Any:
        return None


@plant(*old("request-id-not-reused"), also=old("message-on-one-stream", "side-channel-allowed"))
class ReusesOneRequestId(_RenamesQuestions):
    def new_id(self) -> Any:
        return 1


# --- `_meta` -------------------------------------------------------------------------------------


class _AddsMeta(Bug):
    key: ClassVar[str]

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is not None and request.get("method") == "tools/list" and "result" in message:
            message["result"].setdefault("_meta", {})[self.key] = 1
        return [message]


variant(
    _AddsMeta, "adds_meta_key_with_two_dots", *old("meta-prefix-format"), key="org..example/seen"
)


variant(_AddsMeta, "adds_meta_label_that_starts_with_digit", *old("meta-label-format"),
    key="org.1example/seen")  # fmt: skip
variant(
    _AddsMeta, "adds_meta_name_that_starts_with_underscore", *old("meta-name-format"), key="_seen"
)


variant(_AddsMeta, "adds_meta_prefix_in_domain_order", *old("meta-prefix-reverse-dns"),
    key="example.org/seen")  # fmt: skip
variant(_AddsMeta, "adds_meta_key_under_reserved_prefix", *old("meta-prefix-reserved"),
    key="com.mcp/seen")  # fmt: skip


@plant(*old("meta-no-assumptions"), base=ClientMessage)
def refuses_unknown_meta_keys(message: Message, head: Head) -> Message | Instead | None:
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    if isinstance(meta, dict) and "io.modelcontextprotocol/no-such-key" in meta:
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

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        return [self.more, message] if is_ping(request, 0) else [message]


variant(_SaysMore, "writes_latin_1_before_ping", *old("messages-utf8"),
    also=old("stdio-stdout-only-mcp"), transports=STDIO, more=json.dumps(NOTICE,
    ensure_ascii=False).encode("latin-1"))  # fmt: skip
variant(_SaysMore, "writes_indented_json", *old("stdio-no-embedded-newlines"), transports=STDIO,
    more=json.dumps(NOTICE, indent=2).encode())  # fmt: skip
variant(_SaysMore, "writes_log_lines_to_stdout", *old("stdio-stdout-only-mcp"), transports=STDIO,
    more=b"INFO: ping")  # fmt: skip


@plant(*old("messages-utf8"), also=(*old("result-same-id"), "answers"), transports=HTTP,
    base=ServerMessage)  # fmt: skip
def decodes_ids_as_latin_1(message: Message, request: Message | None) -> list[Any]:
    id = message.get("id")
    if "method" not in message and "result" in message and isinstance(id, str):
        return [message | {"id": id.encode().decode("latin-1")}]
    return [message]
