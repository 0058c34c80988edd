"""Bugs of `_meta`, of state between requests, and of versions in 2026-07-28."""

from typing import Any, Final

from tests.conformance.broken_server import TOKENS
from tests.conformance.bugs.mcp_2026_07_28.transports.endpoint import (
    NEW,
    VERSION,
    ModernOnly,
    meta_of,
    refusal,
)
from tests.conformance.planting import Bug, Head, Instead, Message, plant

__all__: list[str] = []

_MCP: Final = "io.modelcontextprotocol/"
_CAPABILITIES: Final = _MCP + "clientCapabilities"
_HTTP: Final = ("http",)

# --- keys ------------------------------------------------------------------------------------


class _Adds(Bug):
    """Adds a key to `_meta` of lists of tools."""

    key = ""
    value: Any = True

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if "tools" in message.get("result", {}):
            message["result"].setdefault("_meta", {})[self.key] = self.value
        return [message]


@plant("2026-07-28:meta-prefix-format")
class EmptyLabel(_Adds):
    """Two dots."""

    key = "org..example/key"


@plant("2026-07-28:meta-label-format")
class LabelWithAHyphenFirst(_Adds):
    """A label that begins with a hyphen."""

    key = "org.-example/key"


@plant("2026-07-28:meta-name-format")
class NameWithAHyphenFirst(_Adds):
    """A name that begins with a hyphen."""

    key = "org.example/-key"


@plant("2026-07-28:meta-prefix-reverse-dns")
class DomainForwards(_Adds):
    """As one writes it on a letter."""

    key = "example.org/key"


@plant("2026-07-28:meta-prefix-reserved")
class KeyOfMcp(_Adds):
    """As if MCP had said so."""

    key = "dev.mcp/key"


@plant("2026-07-28:trace-context-format")
class TraceOfNothing(_Adds):
    """A trace that cannot be followed."""

    key = "traceparent"
    value = "here"


@plant("2026-07-28:meta-no-assumptions")
class UnknownKeysAreRefused(Bug):
    """What is reserved must be known."""

    def asked(self, message: Message, head: Head) -> Message | Instead:
        is_list = message.get("method") == "tools/list"
        is_strange = is_list and _MCP + "nobody-knows" in meta_of(message)
        return refusal(message, -32602, "unknown metadata") if is_strange else message


@plant("2026-07-28:meta-missing-32602")
class NoCapabilitiesAreNone(Bug):
    """What is missing is empty."""

    def asked(self, message: Message, head: Head) -> Message:
        if VERSION in meta_of(message):
            meta_of(message).setdefault(_CAPABILITIES, {"extensions": {_MCP + "tasks": {}}})
        return message


@plant("2026-07-28:meta-missing-400", transports=_HTTP)
class MissingMetaIsOk(Bug):
    """The refusal has status 200."""

    def answered(self, request: Message | None, head: Head) -> None:
        found = meta_of(request)
        if VERSION in found and _CAPABILITIES not in found and head.status == 400:
            head.status = 200


# --- state -----------------------------------------------------------------------------------


@plant("2026-07-28:many-conversations", also=("2026-07-28:task-id-string",))
class TasksAreMixedUp(Bug):
    """Now and then another task is shown."""

    def __init__(self) -> None:
        self._gets = 0

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        is_get = request is not None and request.get("method") == "tasks/get"
        if request is not None and is_get and "taskId" in message.get("result", {}):
            self._gets += 1
            if self._gets == 5:
                message["result"]["taskId"] = "a-task-of-somebody-else-0123456789"
        return [message]


@plant(
    "2026-07-28:connection-not-required",
    also=(
        "2026-07-28:kept-until-ttl",
        "2026-07-28:durable-before-create-answer",
        "2026-07-28:wait-for-consistency",
        "2026-07-28:get-working",
    ),
    transports=_HTTP,
)
class TasksBelongToALine(Bug):
    """Who counts from one again is somebody else."""

    def __init__(self) -> None:
        self._created: dict[str, int] = {}

    def asked(self, message: Message, head: Head) -> Message | Instead:
        params = message.get("params")
        task_id = params.get("taskId") if isinstance(params, dict) else None
        since, id = self._created.get(str(task_id), 0), message.get("id")
        if message.get("method") == "tasks/get" and isinstance(id, int) and id < since:
            return refusal(message, -32602, "no such task", 200)
        return message

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if message.get("result", {}).get("resultType") == "task" and isinstance(message["id"], int):
            self._created[message["result"]["taskId"]] = message["id"]
        return [message]


@plant(
    "2026-07-28:state-by-explicit-id",
    also=("2026-07-28:get-unknown-32602", "2026-07-28:task-id-string"),
)
class TheLastTaskIsMeant(Bug):
    """Who names no task means the one before."""

    def __init__(self) -> None:
        self._last: str | None = None

    def asked(self, message: Message, head: Head) -> Message:
        params = message.get("params")
        if message.get("method") == "tasks/get" and isinstance(params, dict):
            if "taskId" not in params and self._last is not None:
                params["taskId"] = head.headers["mcp-name"] = self._last
            elif isinstance(params.get("taskId"), str):
                self._last = params["taskId"]
        return message


# --- names -----------------------------------------------------------------------------------


@plant("2026-07-28:server-info-sent")
class TasksAreAnonymous(Bug):
    """Answers about tasks do not say whose they are."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        is_get = request is not None and request.get("method") == "tasks/get"
        if is_get and "result" in message:
            message["result"].get("_meta", {}).pop(_MCP + "serverInfo", None)
        return [message]


def _client(message: Message) -> Any:
    info = meta_of(message).get(_MCP + "clientInfo")
    return info.get("name") if isinstance(info, dict) else None


@plant("2026-07-28:info-changes-nothing")
class SomeClientsAreNotServed(Bug):
    """A name that it does not like."""

    def asked(self, message: Message, head: Head) -> Message | Instead:
        is_list = message.get("method") == "tools/list"
        is_it = is_list and _client(message) == "somebody-else"
        return refusal(message, -32602, "not for you") if is_it else message


@plant(
    "2026-07-28:info-not-for-security",
    also=("2026-07-28:auth-on-each-request", "2026-07-28:info-changes-nothing"),
    transports=_HTTP,
)
class NamesAreTrusted(Bug):
    """Who has the name of the creator may see the task."""

    def asked(self, message: Message, head: Head) -> Message:
        is_get, is_named = message.get("method") == "tasks/get", _client(message) != "somebody-else"
        if is_get and is_named and head.headers.get("authorization") == f"Bearer {TOKENS[1]}":
            head.headers["authorization"] = f"Bearer {TOKENS[0]}"
        return message


@plant("2026-07-28:subscription-id-in-meta")
class NotificationsOfNoSubscription(Bug):
    """Nobody knows why they came."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if message.get("method") == "notifications/subscriptions/acknowledged":
            message["params"]["_meta"].pop(_MCP + "subscriptionId")
        return [message]


# --- versions --------------------------------------------------------------------------------


@plant("2026-07-28:unsupported-version-32022")
class DoesNotSayWhichVersions(Bug):
    """-32022 and no list."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if message.get("error", {}).get("code") == -32022:
            message["error"].pop("data")
        return [message]


@plant("2026-07-28:unsupported-version-32022")
class AnyVersionIsFine(Bug):
    """Whatever version a request is of, it is served."""

    def asked(self, message: Message, head: Head) -> Message:
        version = meta_of(message).get(VERSION)
        is_same = head.headers.get("mcp-protocol-version", version) == version
        if version == "1900-01-01" and is_same:
            meta_of(message)[VERSION] = NEW
        return message


@plant("2026-07-28:discover-implemented", also=("2026-07-28:http-unknown-method-404",))
class DiscoveryNeedsANumber(Bug):
    """With a text as its id it is not there."""

    def asked(self, message: Message, head: Head) -> Message | Instead:
        is_it = message.get("method") == "server/discover" and isinstance(message.get("id"), str)
        return refusal(message, -32601, status=404) if is_it else message


@plant("2026-07-28:discover-result-fields")
class DiscoveryHasNoVersions(Bug):
    """It says everything but that, now and then."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if isinstance(message.get("id"), str):
            message.get("result", {}).pop("supportedVersions", None)
        return [message]


@plant("2026-07-28:extension-id-format")
class ExtensionOfNobody(Bug):
    """A name without a prefix."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        capabilities = message.get("result", {}).get("capabilities")
        if isinstance(capabilities, dict) and "extensions" in capabilities:
            capabilities["extensions"]["splendid"] = {}
        return [message]


@plant("2026-07-28:initialize-refusal-names-versions")
class JustNo(ModernOnly):
    """Whoever comes with `initialize` is told nothing."""

    words = "no"


@plant("2026-07-28:initialize-selects-legacy")
class SessionsNeedMeta(Bug):
    """The rules of this revision for everybody."""

    def asked(self, message: Message, head: Head) -> Message | Instead:
        is_old = message.get("method") == "tools/list" and not meta_of(message)
        return refusal(message, -32602, "no metadata") if is_old else message
