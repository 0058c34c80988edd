"""Bugs of `_meta`, of state between requests, and of versions in 2026-07-28."""

from typing import Any, Final

from tests.conformance.broken_server import TOKENS
from tests.conformance.bugs.mcp_2026_07_28.transports.endpoint import (
    NEW,
    VERSION,
    ModernOnly,
    refusal,
)
from tests.conformance.planting import (
    HTTP,
    Bug,
    ClientChange,
    ClientMessage,
    Head,
    Instead,
    Message,
    ResponseHead,
    ServerChange,
    meta_of,
    new,
    plant,
    variant,
)

_MCP: Final = "io.modelcontextprotocol/"
_CAPABILITIES: Final = _MCP + "clientCapabilities"

# --- keys ------------------------------------------------------------------------------------


class _Adds(Bug):
    """Add a key to `_meta` of tool lists."""

    key = ""
    value: Any = True

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if "tools" in message.get("result", {}):
            message["result"].setdefault("_meta", {})[self.key] = self.value
        return [message]


variant(_Adds, "adds_meta_key_with_empty_label", *new("meta-prefix-format"), key="org..example/key")
variant(_Adds, "adds_meta_label_that_starts_with_hyphen", *new("meta-label-format"),
    key="org.-example/key")  # fmt: skip
variant(_Adds, "adds_meta_name_that_starts_with_hyphen", *new("meta-name-format"),
    key="org.example/-key")  # fmt: skip
variant(_Adds, "adds_meta_prefix_as_domain", *new("meta-prefix-reverse-dns"), key="example.org/key")


variant(_Adds, "adds_meta_key_of_mcp", *new("meta-prefix-reserved"), key="dev.mcp/key")
variant(_Adds, "sends_invalid_traceparent", *new("trace-context-format"), key="traceparent",
    value="here")  # fmt: skip


@plant(*new("meta-no-assumptions"), base=ClientMessage)
def refuses_unknown_keys_in_meta(message: Message, head: Head) -> Message | Instead | None:
    is_list = message.get("method") == "tools/list"
    is_strange = is_list and _MCP + "no-such-key" in meta_of(message)
    return refusal(message, -32602, "unknown metadata") if is_strange else message


@plant(*new("meta-missing-32602"), base=ClientChange)
def fills_in_missing_capabilities(message: Message, head: Head) -> None:
    if VERSION in meta_of(message):
        meta_of(message).setdefault(_CAPABILITIES, {"extensions": {_MCP + "tasks": {}}})


@plant(*new("meta-missing-400"), transports=HTTP, base=ResponseHead)
def refuses_missing_meta_with_200(request: Message | None, head: Head) -> None:
    found = meta_of(request)
    if VERSION in found and _CAPABILITIES not in found and head.status == 400:
        head.status = 200


# --- state -----------------------------------------------------------------------------------


@plant(*new("many-conversations"), also=new("task-id-string"))
class ShowsAnotherTask(Bug):
    def __init__(self) -> None:
        self._gets = 0

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        is_get = request is not None and request.get("method") == "tasks/get"
        if request is not None and is_get and "taskId" in message.get("result", {}):
            self._gets += 1
            if self._gets == 5:
                message["result"]["taskId"] = "a-task-of-another-client-012345678"
        return [message]


@plant(*new("connection-not-required"), also=new("kept-until-ttl",
    "durable-before-create-answer", "wait-for-consistency", "get-working"), transports=HTTP
)  # fmt: skip
class BindsTasksToConnections(Bug):
    def __init__(self) -> None:
        self._created: dict[str, int] = {}

    def client_message(self, message: Message, head: Head) -> Message | Instead:
        params = message.get("params")
        task_id = params.get("taskId") if isinstance(params, dict) else None
        since, id = self._created.get(str(task_id), 0), message.get("id")
        if message.get("method") == "tasks/get" and isinstance(id, int) and id < since:
            return refusal(message, -32602, "no such task", 200)
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if message.get("result", {}).get("resultType") == "task" and isinstance(message["id"], int):
            self._created[message["result"]["taskId"]] = message["id"]
        return [message]


@plant(*new("state-by-explicit-id"), also=new("get-unknown-32602", "task-id-string"))
class FillsInMissingTaskId(Bug):
    def __init__(self) -> None:
        self._last: str | None = None

    def client_message(self, message: Message, head: Head) -> Message:
        params = message.get("params")
        if message.get("method") == "tasks/get" and isinstance(params, dict):
            if "taskId" not in params and self._last is not None:
                params["taskId"] = head.headers["mcp-name"] = self._last
            elif isinstance(params.get("taskId"), str):
                self._last = params["taskId"]
        return message


# --- names -----------------------------------------------------------------------------------


@plant(*new("server-info-sent"), base=ServerChange)
def omits_server_info_of_tasks(message: Message, request: Message | None) -> None:
    is_get = request is not None and request.get("method") == "tasks/get"
    if is_get and "result" in message:
        message["result"].get("_meta", {}).pop(_MCP + "serverInfo", None)


def _client(message: Message) -> Any:
    info = meta_of(message).get(_MCP + "clientInfo")
    return info.get("name") if isinstance(info, dict) else None


@plant(*new("info-changes-nothing"), base=ClientMessage)
def refuses_a_client_by_name(message: Message, head: Head) -> Message | Instead | None:
    is_list = message.get("method") == "tools/list"
    is_it = is_list and _client(message) == "another-client"
    return refusal(message, -32602, "not for you") if is_it else message


@plant(*new("info-not-for-security"), also=new("auth-on-each-request", "info-changes-nothing"),
    transports=HTTP, base=ClientChange)  # fmt: skip
def authorizes_by_client_name(message: Message, head: Head) -> None:
    is_get, is_named = message.get("method") == "tasks/get", _client(message) != "another-client"
    if is_get and is_named and head.headers.get("authorization") == f"Bearer {TOKENS[1]}":
        head.headers["authorization"] = f"Bearer {TOKENS[0]}"


@plant(
    *new("subscription-id-in-meta"), also=new("ack-first", "nothing-before-ack"), base=ServerChange
)
def acknowledges_without_subscription_id(message: Message, request: Message | None) -> None:
    if message.get("method") == "notifications/subscriptions/acknowledged":
        message["params"]["_meta"].pop(_MCP + "subscriptionId")


# --- versions --------------------------------------------------------------------------------


@plant(*new("unsupported-version-32022"), base=ServerChange)
def omits_supported_versions(message: Message, request: Message | None) -> None:
    if message.get("error", {}).get("code") == -32022:
        message["error"].pop("data")


@plant(*new("unsupported-version-32022"), base=ClientChange)
def serves_any_version(message: Message, head: Head) -> None:
    version = meta_of(message).get(VERSION)
    is_same = head.headers.get("mcp-protocol-version", version) == version
    if version == "1900-01-01" and is_same:
        meta_of(message)[VERSION] = NEW


@plant(*new("discover-implemented"), also=new("http-unknown-method-404"), base=ClientMessage)
def discovers_only_with_numeric_id(message: Message, head: Head) -> Message | Instead | None:
    is_it = message.get("method") == "server/discover" and isinstance(message.get("id"), str)
    return refusal(message, -32601, status=404) if is_it else message


@plant(*new("discover-result-fields"), base=ServerChange)
def discovers_without_versions(message: Message, request: Message | None) -> None:
    if isinstance(message.get("id"), str):
        message.get("result", {}).pop("supportedVersions", None)


@plant(*new("extension-id-format"), base=ServerChange)
def declares_extension_without_prefix(message: Message, request: Message | None) -> None:
    capabilities = message.get("result", {}).get("capabilities")
    if isinstance(capabilities, dict) and "extensions" in capabilities:
        capabilities["extensions"]["splendid"] = {}


@plant(*new("initialize-refusal-names-versions"))
class RefusesInitializeWithoutReason(ModernOnly):
    words = "no"


@plant(*new("initialize-selects-legacy"), base=ClientMessage)
def requires_meta_of_legacy_sessions(message: Message, head: Head) -> Message | Instead | None:
    is_old = message.get("method") == "tools/list" and not meta_of(message)
    return refusal(message, -32602, "no metadata") if is_old else message
