"""Bugs of the tasks extension: refusals, declarations, and the older revision."""

from typing import ClassVar, Final

from tests.conformance.bugs.mcp_2026_07_28.extension import (
    TASKS,
    Answers,
    capabilities,
    declare,
    is_modern,
)
from tests.conformance.planting import (
    HTTP,
    Bug,
    ClientChange,
    ClientMessage,
    Head,
    Instead,
    Message,
    error,
    method_of,
    new,
    plant,
    variant,
)

_METHODS: Final = ("tasks/get", "tasks/update", "tasks/cancel")


# --- refusals ------------------------------------------------------------------------------------


class _Declaring(Bug):
    """Takes some requests as if they had declared the extension."""

    methods: tuple[str, ...] = ()

    def client_message(self, message: Message, head: Head) -> Message:
        if method_of(message) in self.methods:
            declare(message)
        return message


_NOT_NEEDED: Final = new("undeclared-capability-32021", "no-state-from-earlier-requests")


variant(_Declaring, "allows_get_without_capability", *new("get-missing-capability-32021"),
    also=(*new("legacy-capability-is-undeclared", "standard-jsonrpc-errors"), *_NOT_NEEDED),
    methods=("tasks/get",))  # fmt: skip
variant(_Declaring, "allows_update_without_capability", *new("update-missing-capability-32021"),
    also=_NOT_NEEDED, methods=("tasks/update",))  # fmt: skip
variant(_Declaring, "allows_cancel_without_capability", *new("cancel-missing-capability-32021"),
    also=_NOT_NEEDED, methods=("tasks/cancel",))  # fmt: skip
variant(_Declaring, "creates_tasks_without_capability", *new("no-task-for-undeclared",
    "legacy-capability-is-undeclared", "task-parameter-ignored"), also=(*_NOT_NEEDED,
    *new("one-sided-extension", "undeclared-capability-not-used",
    "result-types-from-capabilities")), methods=("tools/call",))  # fmt: skip


@plant(*new("missing-capability-names-extension"), also=new("undeclared-capability-32021",
    "one-sided-extension"), base=Answers, methods=("tools/call", *_METHODS))  # fmt: skip
def refuses_without_required_capabilities(message: Message, request: Message) -> Message:
    if message.get("error", {}).get("code") == -32021:
        message["error"]["data"] = {}
    return message


@plant(*new("missing-capability-32021"), also=new("undeclared-capability-32021",
    "one-sided-extension", "tool-protocol-errors"), base=Answers, methods=("tools/call",)
)  # fmt: skip
def refuses_task_only_tool_with_32601(message: Message, request: Message) -> Message:
    if message.get("error", {}).get("code") == -32021 and TASKS in str(message):
        return error(request, -32601, "Method not found: the tool needs a task")
    return message


@plant(*new("informative-error-messages"), base=Answers, methods=_METHODS)
def sends_the_same_error_message(message: Message, request: Message) -> Message:
    if "error" in message:
        message["error"]["message"] = "Error"
    return message


class _StillThere(Bug):
    method: ClassVar[str]
    result: ClassVar[Message]

    def client_message(self, message: Message, head: Head) -> Message | Instead:
        if method_of(message) == self.method and is_modern(message):
            answer = {"resultType": "complete", **self.result}
            return Instead(({"jsonrpc": "2.0", "id": message["id"], "result": answer},))
        return message


variant(_StillThere, "still_implements_tasks_list", *new("no-tasks-list"),
    also=new("server-info-sent"), method="tasks/list", result={"tasks": []})  # fmt: skip
variant(_StillThere, "still_implements_tasks_result", *new("tasks-result-gone-32601"),
    also=new("server-info-sent", "structured-result-conforms"), method="tasks/result",
    result={"content": []})  # fmt: skip


@plant(*new("auth-on-each-request"), also=new("tool-access-controlled", "http-authentication",
    "request-state-bound-to-principal"), transports=HTTP)  # fmt: skip
class IgnoresCredentialsOfTaskRequests(Bug):
    first: str | None = None

    def client_message(self, message: Message, head: Head) -> Message:
        self.first = self.first or head.headers.get("authorization")
        if method_of(message) in (*_METHODS, "subscriptions/listen") and self.first is not None:
            head.headers["authorization"] = self.first
        return message


# --- declarations --------------------------------------------------------------------------------


class _Discover(Answers):
    hook = "change_capabilities"
    methods = ("server/discover",)

    def change(self, message: Message, request: Message) -> Message:
        if "result" in message:
            self.change_capabilities(message["result"]["capabilities"])
        return message

    def change_capabilities(self, declared: Message) -> None:
        """In place."""


@plant(*new("server-declares-in-discover", "legacy-servers-migrate"),
    also=new("result-types-from-capabilities", "one-sided-extension"), base=_Discover)  # fmt: skip
def creates_tasks_without_declaration(declared: Message) -> None:
    declared["extensions"].pop(TASKS)


@plant(*new("extension-identifier", "server-declares-in-discover", "legacy-servers-migrate"),
    also=new("extension-id-format", "result-types-from-capabilities", "one-sided-extension"),
    base=_Discover)  # fmt: skip
def declares_extension_under_another_name(declared: Message) -> None:
    declared["extensions"]["modelcontextprotocol.io/tasks"] = declared["extensions"].pop(TASKS)


@plant(*new("capability-empty-object"), also=new("discover-result-fields"), base=_Discover)
def declares_extension_as_true(declared: Message) -> None:
    declared["extensions"][TASKS] = True


@plant(*new("legacy-capabilities-not-advertised"), base=_Discover)
def declares_legacy_capabilities(declared: Message) -> None:
    declared["tasks"] = {"list": {}, "cancel": {}}


@plant(*new("extension-label-reserved"), base=Answers, methods=_METHODS)
def uses_extension_label_in_meta(message: Message, request: Message) -> Message:
    if "result" in message:
        message["result"].setdefault("_meta", {})[TASKS] = {}
    return message


@plant(*new("server-decides-alone"), also=new("capability-empty-object",
    "reserved-codes-as-defined"), base=ClientChange)  # fmt: skip
def creates_tasks_only_on_request(message: Message, head: Head) -> None:
    if method_of(message) == "tools/call" and "task" not in message["params"]:
        capabilities(message).pop("extensions", None)


@plant(*new("task-parameter-ignored"), base=ClientMessage)
def refuses_task_parameter(message: Message, head: Head) -> Message | Instead | None:
    is_call = method_of(message) == "tools/call" and is_modern(message)
    if is_call and "task" in message["params"]:
        return Instead((error(message, -32602, "Invalid params: params.task"),))
    return message


@plant(*new("legacy-capability-is-undeclared"), also=(*_NOT_NEEDED,
    *new("get-missing-capability-32021")), base=ClientChange)  # fmt: skip
def accepts_legacy_capability(message: Message, head: Head) -> None:
    is_meant = method_of(message) in ("tools/call", "tasks/get")
    if is_meant and "tasks" in capabilities(message) and "task" not in message["params"]:
        declare(message)


# --- the older revision --------------------------------------------------------------------------


@plant(*new("extension-not-under-2025-11-25"), also=new("initialize-selects-legacy"))
class CreatesTasksInLegacySessions(Bug):
    is_named = False

    def client_message(self, message: Message, head: Head) -> Message:
        if method_of(message) == "initialize":
            self.is_named = TASKS in str(message)
        if method_of(message) == "tools/call" and self.is_named and not is_modern(message):
            message["params"].setdefault("task", {})
        return message


@plant(*new("legacy-tasks-still-served"), also=new("initialize-selects-legacy", "both-eras"),
    base=ClientMessage)  # fmt: skip
def does_not_serve_legacy_tasks(message: Message, head: Head) -> Message | Instead | None:
    is_old = not is_modern(message) and "_meta" not in (message.get("params") or {})
    if is_old and method_of(message) in ("tasks/get", "tasks/cancel"):
        return Instead((error(message, -32601, "Method not found"),))
    return message
