"""Bugs of the tasks extension: refusals, declarations, and the older revision."""

from typing import ClassVar, Final

from tests.conformance.bugs.mcp_2026_07_28.extension import (
    TASKS,
    Answers,
    capabilities,
    declare,
    error,
    ext,
    is_modern,
    method_of,
)
from tests.conformance.planting import Bug, Head, Instead, Message, plant

__all__: list[str] = []

_METHODS: Final = ("tasks/get", "tasks/update", "tasks/cancel")


# --- refusals ------------------------------------------------------------------------------------


class _Declaring(Bug):
    """Takes some requests as if they had declared the extension."""

    methods: tuple[str, ...] = ()

    def asked(self, message: Message, head: Head) -> Message:
        if method_of(message) in self.methods:
            declare(message)
        return message


_NOT_NEEDED: Final = ext("undeclared-capability-32021", "no-state-from-earlier-requests")


@plant(
    *ext("get-missing-capability-32021"),
    also=(*ext("legacy-capability-is-undeclared", "standard-jsonrpc-errors"), *_NOT_NEEDED),
)
class ExtGetForEverybody(_Declaring):
    """Who did not declare the extension may read."""

    methods = ("tasks/get",)


@plant(*ext("update-missing-capability-32021"), also=_NOT_NEEDED)
class ExtUpdateForEverybody(_Declaring):
    """Who did not declare the extension may answer."""

    methods = ("tasks/update",)


@plant(*ext("cancel-missing-capability-32021"), also=_NOT_NEEDED)
class ExtCancelForEverybody(_Declaring):
    """Who did not declare the extension may cancel."""

    methods = ("tasks/cancel",)


@plant(
    *ext("no-task-for-undeclared", "legacy-capability-is-undeclared", "task-parameter-ignored"),
    also=(
        *_NOT_NEEDED,
        *ext(
            "one-sided-extension",
            "undeclared-capability-not-used",
            "result-types-from-capabilities",
        ),
    ),
)
class ExtTasksForEverybody(_Declaring):
    """Who did not declare the extension gets tasks."""

    methods = ("tools/call",)


@plant(
    *ext("missing-capability-names-extension"),
    also=ext("undeclared-capability-32021", "one-sided-extension"),
)
class ExtRefusalNamesNothing(Answers):
    """Something is missing, and nobody knows what."""

    methods = ("tools/call", *_METHODS)

    def change(self, message: Message, request: Message) -> Message:
        if message.get("error", {}).get("code") == -32021:
            message["error"]["data"] = {}
        return message


@plant(
    *ext("missing-capability-32021"),
    also=ext("undeclared-capability-32021", "one-sided-extension", "tool-protocol-errors"),
)
class ExtTaskOnlyToolIsHidden(Answers):
    """A tool that needs a task is not there for others, as in the older revision."""

    methods = ("tools/call",)

    def change(self, message: Message, request: Message) -> Message:
        if message.get("error", {}).get("code") == -32021 and TASKS in str(message):
            return error(request, -32601, "Method not found: the tool needs a task")
        return message


@plant(*ext("informative-error-messages"))
class ExtErrorsAreAllAlike(Answers):
    """One message for everything."""

    methods = _METHODS

    def change(self, message: Message, request: Message) -> Message:
        if "error" in message:
            message["error"]["message"] = "Error"
        return message


class _StillThere(Bug):
    method: ClassVar[str]
    result: ClassVar[Message]

    def asked(self, message: Message, head: Head) -> Message | Instead:
        if method_of(message) == self.method and is_modern(message):
            answer = {"resultType": "complete", **self.result}
            return Instead(({"jsonrpc": "2.0", "id": message["id"], "result": answer},))
        return message


@plant(*ext("no-tasks-list"), also=ext("server-info-sent"))
class ExtListIsThere(_StillThere):
    """As in the older revision."""

    method = "tasks/list"
    result: ClassVar[Message] = {"tasks": []}


@plant(*ext("tasks-result-gone-32601"), also=ext("server-info-sent"))
class ExtResultIsThere(_StillThere):
    """As in the older revision."""

    method = "tasks/result"
    result: ClassVar[Message] = {"content": []}


@plant(
    *ext("auth-on-each-request"),
    also=ext("tool-access-controlled", "http-authentication", "request-state-bound-to-principal"),
    transports=("http",),
)
class ExtEverybodyIsA(Bug):
    """Nobody looks at the credentials of task requests: whoever came first may see everything."""

    first: str | None = None

    def asked(self, message: Message, head: Head) -> Message:
        self.first = self.first or head.headers.get("authorization")
        if method_of(message) in (*_METHODS, "subscriptions/listen") and self.first is not None:
            head.headers["authorization"] = self.first
        return message


# --- declarations --------------------------------------------------------------------------------


class _Discover(Answers):
    methods = ("server/discover",)

    def change(self, message: Message, request: Message) -> Message:
        if "result" in message:
            self.change_capabilities(message["result"]["capabilities"])
        return message

    def change_capabilities(self, declared: Message) -> None:
        """In place."""


@plant(
    *ext("server-declares-in-discover", "legacy-servers-migrate"),
    also=ext("result-types-from-capabilities", "one-sided-extension"),
)
class ExtUndeclared(_Discover):
    """Tasks, without a word about it."""

    def change_capabilities(self, declared: Message) -> None:
        declared["extensions"].pop(TASKS)


@plant(
    *ext("extension-identifier", "server-declares-in-discover", "legacy-servers-migrate"),
    also=ext("extension-id-format", "result-types-from-capabilities", "one-sided-extension"),
)
class ExtMisnamed(_Discover):
    """Nearly its name."""

    def change_capabilities(self, declared: Message) -> None:
        declared["extensions"]["modelcontextprotocol.io/tasks"] = declared["extensions"].pop(TASKS)


@plant(*ext("capability-empty-object"), also=ext("discover-result-fields"))
class ExtDeclaredByTrue(_Discover):
    """A switch instead of an object."""

    def change_capabilities(self, declared: Message) -> None:
        declared["extensions"][TASKS] = True


@plant(*ext("legacy-capabilities-not-advertised"))
class ExtOldCapabilitiesToo(_Discover):
    """Both, to be on the safe side."""

    def change_capabilities(self, declared: Message) -> None:
        declared["tasks"] = {"list": {}, "cancel": {}}


@plant(*ext("extension-label-reserved"))
class ExtLabelInMeta(Answers):
    """The label of the extension marks its answers."""

    methods = _METHODS

    def change(self, message: Message, request: Message) -> Message:
        if "result" in message:
            message["result"].setdefault("_meta", {})[TASKS] = {}
        return message


@plant(
    *ext("server-decides-alone"),
    also=ext("capability-empty-object", "reserved-codes-as-defined"),
)
class ExtTasksOnRequest(Bug):
    """Only who asks for a task gets one, as in the older revision."""

    def asked(self, message: Message, head: Head) -> Message:
        if method_of(message) == "tools/call" and "task" not in message["params"]:
            capabilities(message).pop("extensions", None)
        return message


@plant(*ext("task-parameter-ignored"))
class ExtTaskParameterRefused(Bug):
    """It is unknown, so it is wrong."""

    def asked(self, message: Message, head: Head) -> Message | Instead:
        is_call = method_of(message) == "tools/call" and is_modern(message)
        if is_call and "task" in message["params"]:
            return Instead((error(message, -32602, "Invalid params: params.task"),))
        return message


@plant(
    *ext("legacy-capability-is-undeclared"),
    also=(*_NOT_NEEDED, *ext("get-missing-capability-32021")),
)
class ExtOldCapabilityCounts(Bug):
    """Who could handle old tasks can handle new ones."""

    def asked(self, message: Message, head: Head) -> Message:
        is_meant = method_of(message) in ("tools/call", "tasks/get")
        if is_meant and "tasks" in capabilities(message) and "task" not in message["params"]:
            declare(message)
        return message


# --- the older revision --------------------------------------------------------------------------


@plant(
    *ext("extension-not-under-2025-11-25"),
    also=ext("initialize-selects-legacy"),
)
class ExtOnOldSessions(Bug):
    """Who names the extension gets tasks in any revision."""

    is_named = False

    def asked(self, message: Message, head: Head) -> Message:
        if method_of(message) == "initialize":
            self.is_named = TASKS in str(message)
        if method_of(message) == "tools/call" and self.is_named and not is_modern(message):
            message["params"].setdefault("task", {})
        return message


@plant(*ext("legacy-tasks-still-served"), also=ext("initialize-selects-legacy", "both-eras"))
class ExtOldTasksForgotten(Bug):
    """Old tasks are made, and not served."""

    def asked(self, message: Message, head: Head) -> Message | Instead:
        is_old = not is_modern(message) and "_meta" not in (message.get("params") or {})
        if is_old and method_of(message) in ("tasks/get", "tasks/cancel"):
            return Instead((error(message, -32601, "Method not found"),))
        return message
