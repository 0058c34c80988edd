"""Bugs of messages, results and errors in 2026-07-28."""

from typing import Any, Final

from tests.conformance.bugs.mcp_2026_07_28.transports.endpoint import VERSION
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
from tests.conformance.variations import tasks_in

_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
_TASKS: Final = "io.modelcontextprotocol/tasks"


class _Answers(Bug):
    """Change the responses to one method, or to one id."""

    method: str | None = None
    id: Any = None

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is not None and (request.get("method") == self.method or self._is_id(request)):
            self.change(message)
        return [message]

    def _is_id(self, request: Message) -> bool:
        return self.id is not None and request.get("id") == self.id

    def change(self, message: Message) -> None:
        """In place."""


# --- messages --------------------------------------------------------------------------------


@plant(*new("jsonrpc-2-0"), base=_Answers, id="7")
def answers_with_jsonrpc_1_0(message: Message) -> None:
    message["jsonrpc"] = "1.0"


@plant(*new("result-same-id"), also=("answers",), base=_Answers, id=2**53 - 1)
def answers_numeric_ids_as_text(message: Message) -> None:
    message["id"] = str(message["id"])


@plant(*new("result-field"), also=new("tools-list-answered"), base=_Answers, id="7")
def answers_with_a_list_as_result(message: Message) -> None:
    message["result"] = message["result"]["tools"]


@plant(*new("error-same-id"), also=("answers",), base=_Answers, id="unknown-7")
def answers_errors_with_another_id(message: Message) -> None:
    message["id"] = "somebody"


@plant(*new("error-code-and-message"), base=_Answers, id="unknown-7")
def sends_errors_without_message(message: Message) -> None:
    del message["error"]["message"]


@plant(
    *new("error-code-integer"), also=new("http-unknown-method-404"), base=_Answers, id="unknown-7"
)
def sends_error_codes_as_text(message: Message) -> None:
    message["error"]["code"] = str(message["error"]["code"])


@plant(*new("notification-not-answered"), also=new("http-202-for-notification",
    "http-error-for-refused-notification", "error-same-id", "invalid-cancellation-ignored"),
    base=ClientMessage)  # fmt: skip
def responds_to_unknown_notifications(message: Message, head: Head) -> Message | Instead | None:
    if message.get("method") != "notifications/no-such-notification":
        return message
    error = {"code": -32601, "message": "no such notification"}
    answer = {"jsonrpc": "2.0", "id": None, "error": error}
    return Instead((answer,), 200, {"content-type": "application/json"})


@plant(*new("notification-without-id"), also=new("server-sends-no-requests"), base=ServerChange)
def sends_notifications_with_ids(message: Message, request: Message | None) -> None:
    if str(message.get("method")).startswith("notifications/"):
        message["id"] = "notification-1"


# --- results ---------------------------------------------------------------------------------


@plant(*new("result-type-present", "modern-request-served-statelessly"), base=_Answers,
    method="tools/list")  # fmt: skip
def omits_result_type_of_tool_lists(message: Message) -> None:
    message.get("result", {}).pop("resultType", None)


@plant(
    *new("result-type-complete-means-final"), also=new("tools-list-answered"), base=_Answers, id="7"
)
def completes_without_content(message: Message) -> None:
    del message["result"]["tools"]


@plant(*new("result-type-input-required-means-more"), also=new("mrtr-something-to-do"))
class RequiresInputWithoutRequests(_Answers):
    method = "tools/call"

    def change(self, message: Message) -> None:
        if message.get("error", {}).get("code") == -32021:
            del message["error"]
            message["result"] = {
                "resultType": "input_required",
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "n", "version": "1"}},
            }

    def response_head(self, request: Message | None, head: Head) -> None:
        is_call = request is not None and request.get("method") == "tools/call"
        if is_call and head.status == 400 and meta_of(request).get(_CAPABILITIES) == {}:
            head.status = 200


@plant(*new("result-types-from-capabilities"), base=_Answers, id="7")
def sends_unknown_result_type(message: Message) -> None:
    message["result"]["resultType"] = "splendid"


# --- codes -----------------------------------------------------------------------------------


class _FailsWith(Bug):
    """Send this code in failed tasks."""

    code = 0

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        for task in tasks_in(message):
            if "error" in task:
                task["error"]["code"] = self.code
        return [message]


variant(_FailsWith, "fails_tasks_with_legacy_code", *new("legacy-codes-avoided"), code=-32001)
variant(
    _FailsWith, "fails_tasks_with_reserved_code", *new("reserved-codes-not-invented"), code=-32055
)


variant(_FailsWith, "fails_tasks_with_old_code", *new("old-codes-not-sent"), code=-32042)
variant(_FailsWith, "fails_tasks_with_jsonrpc_code", *new("own-codes-outside-range"), code=-32150)


@plant(*new("reserved-codes-as-defined"), also=new("http-unknown-method-404"), base=_Answers,
    id="unknown-7")  # fmt: skip
def sends_32022_for_unknown_methods(message: Message) -> None:
    data = {"supported": ["2026-07-28"], "requested": "2026-07-28"}
    message["error"] |= {"code": -32022, "data": data}


# --- capabilities ----------------------------------------------------------------------------


@plant(*new("undeclared-capability-32021"), also=new("missing-capability-names-extension",
    "listen-missing-capability-32021"), base=ServerChange)  # fmt: skip
def omits_missing_capabilities(message: Message, request: Message | None) -> None:
    if message.get("error", {}).get("code") == -32021:
        del message["error"]["data"]


@plant(*new("undeclared-capability-400"), transports=HTTP, base=ResponseHead)
def refuses_missing_capability_with_200(request: Message | None, head: Head) -> None:
    declared = meta_of(request).get(_CAPABILITIES)
    if declared == {} and head.status == 400 and VERSION in meta_of(request):
        head.status = 200


@plant(*new("undeclared-capability-not-used"), also=new("elicitation-declared-modes-only",
    "mrtr-declared-kinds-only"), base=ClientChange)  # fmt: skip
def elicits_from_every_client_with_tasks(message: Message, head: Head) -> None:
    declared = meta_of(message).get(_CAPABILITIES)
    if isinstance(declared, dict) and "extensions" in declared:
        declared["elicitation"] = {"form": {}}


@plant(*new("no-state-from-earlier-requests", "one-sided-extension",
    "result-types-from-capabilities"), also=new("get-missing-capability-32021",
    "update-missing-capability-32021", "cancel-missing-capability-32021",
    "legacy-capability-is-undeclared", "no-task-for-undeclared", "task-parameter-ignored")
)  # fmt: skip
class RemembersCapabilities(Bug):
    def __init__(self) -> None:
        self._is_declared = False

    def client_message(self, message: Message, head: Head) -> Message:
        declared = meta_of(message).get(_CAPABILITIES)
        if isinstance(declared, dict):
            self._is_declared |= "extensions" in declared
            if self._is_declared:
                declared.setdefault("extensions", {_TASKS: {}})
        return message
