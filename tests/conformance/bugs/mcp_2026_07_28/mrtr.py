"""Bugs of multi round-trip requests."""

from typing import Any

from tests.conformance.bugs.tools import SIGNED
from tests.conformance.planting import (
    HTTP,
    Bug,
    ClientChange,
    ClientMessage,
    Head,
    Instead,
    Message,
    ServerChange,
    ServerMessage,
    new,
    plant,
)

NEW = "2026-07-28"
EXTRA = "no-such-question"
FORM = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}
ASKED = {
    "method": "elicitation/create",
    "params": {"mode": "form", "message": "Which size?", "requestedSchema": FORM},
}


def asks(message: Message, request: Message | None) -> bool:
    """Return whether a call is answered with input requests."""
    result = message.get("result")
    is_call = request is not None and request["method"] == "tools/call"
    return is_call and isinstance(result, dict) and result.get("resultType") == "input_required"


def call_of(message: Message) -> Message | None:
    """Return the parameters of a call."""
    params = message.get("params")
    is_call = message.get("method") == "tools/call" and isinstance(params, dict)
    return params if is_call else None


def refused(message: Message, code: int = -32602, status: int = 200) -> Instead:
    """Return an error, by default for invalid parameters."""
    error = {"code": code, "message": "That is wrong"}
    return Instead(({"jsonrpc": "2.0", "id": message["id"], "error": error},), status=status)


# --- asking ----------------------------------------------------------------------------------


@plant(*new("server-sends-no-requests", "questions-by-mrtr"),
    also=new("sse-no-buffering-header"), base=ServerMessage)  # fmt: skip
def sends_elicitation_requests(message: Message, request: Message | None) -> list[Any]:
    if not asks(message, request):
        return [message]
    return [{"jsonrpc": "2.0", "id": "question", **ASKED}, message]


@plant(*new("mrtr-no-other-requests"), also=new("get-result-type-complete",
    "task-questions-not-mrtr"), base=ServerChange)  # fmt: skip
def answers_get_as_input_required(message: Message, request: Message | None) -> None:
    result = message.get("result")
    is_get = request is not None and request["method"] == "tasks/get"
    if is_get and isinstance(result, dict) and result.get("status") == "input_required":
        result["resultType"] = "input_required"


@plant(*new("input-request-kinds"), base=ServerChange)
def requests_unknown_kind_of_input(message: Message, request: Message | None) -> None:
    if asks(message, request):
        message["result"]["inputRequests"]["moon"] = {"method": "moon/get", "params": {}}


@plant(*new("mrtr-something-to-do"), also=new("result-type-input-required-means-more"),
    base=ServerChange)  # fmt: skip
def requires_input_without_anything_to_do(message: Message, request: Message | None) -> None:
    if asks(message, request):
        del message["result"]["inputRequests"], message["result"]["requestState"]


@plant(*new("mrtr-declared-kinds-only"), also=new("elicitation-declared-modes-only",
    "undeclared-capability-not-used"), base=ServerMessage)  # fmt: skip
def requires_undeclared_input(message: Message, request: Message | None) -> list[Any]:
    params = call_of(request or {}) or {}
    if message.get("error", {}).get("code") != -32021 or params.get("name") != "tailor":
        return [message]
    result = {"resultType": "input_required", "inputRequests": {"size": ASKED}, **SIGNED}
    return [{"jsonrpc": "2.0", "id": message["id"], "result": result}]


@plant(*new("mrtr-no-assumed-retry"), also=("answers",))
class WaitsForInputBeforeNextCall(Bug):
    def __init__(self) -> None:
        self._asking: set[Any] = set()
        self._waiting = 0

    def client_message(self, message: Message, head: Head) -> Message | None:
        params = call_of(message)
        if params is None or {"requestState", "inputResponses"} & params.keys():
            return message
        if params.get("name") in self._asking and self._waiting < 3:
            self._waiting += 1
            return None
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is not None and asks(message, request):
            self._asking.add(request["params"]["name"])
        return [message]


# --- answers ---------------------------------------------------------------------------------


@plant(*new("input-responses-validated"), base=ClientChange)
def accepts_malformed_responses(message: Message, head: Head) -> None:
    params = call_of(message) or {}
    responses = params.get("inputResponses")
    if isinstance(responses, dict) and params.get("name") == "tailor":
        for key, answer in responses.items():
            if not isinstance(answer, dict) or answer.get("action") == 7:
                responses[key] = {"action": "accept", "content": {"size": 1}}


@plant(*new("input-responses-malformed-error"), base=ClientChange)
def ignores_malformed_input_responses(message: Message, head: Head) -> None:
    params = call_of(message) or {}
    if not isinstance(params.get("inputResponses", {}), dict):
        del params["inputResponses"]


@plant(*new("input-responses-extra-ignored"), base=ClientMessage)
def refuses_extra_responses(message: Message, head: Head) -> Message | Instead | None:
    responses = (call_of(message) or {}).get("inputResponses")
    return refused(message) if isinstance(responses, dict) and EXTRA in responses else message


@plant(*new("missing-answers-asked-again"), base=ClientMessage)
def refuses_missing_responses(message: Message, head: Head) -> Message | Instead | None:
    params = call_of(message) or {}
    is_retry = "requestState" in params or "inputResponses" in params
    return refused(message) if is_retry and not params.get("inputResponses") else message


# --- states ----------------------------------------------------------------------------------


class _States(Bug):
    """Record request states with their calls and callers."""

    def __init__(self) -> None:
        self.handed: dict[str, Message] = {}
        self.owners: dict[str, str] = {}
        self._callers: dict[str, str] = {}

    def client_message(self, message: Message, head: Head) -> Message | Instead:
        params = call_of(message)
        if params is None:
            return message
        self._callers[str(params)] = head.headers.get("authorization", "")
        state = params.get("requestState")
        return self.call_with_state(message, params, head) if isinstance(state, str) else message

    def call_with_state(self, message: Message, params: Message, head: Head) -> Message | Instead:
        """Handle a call with a request state."""
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is not None and asks(message, request):
            state = message["result"]["requestState"]
            self.handed[state] = request["params"]
            self.owners[state] = self._callers.get(str(request["params"]), "")
        return [message]


@plant(*new("request-state-protected", "request-state-rejected-if-tampered"))
class RepairsChangedStates(_States):
    def call_with_state(self, message: Message, params: Message, head: Head) -> Message:
        if params["requestState"] not in self.handed:
            for state, call in self.handed.items():
                if call["name"] == params.get("name"):
                    params["requestState"] = state
        return message


@plant(*new("request-state-untrusted"), transports=HTTP)
class FailsOnUnknownStates(_States):
    def call_with_state(self, message: Message, params: Message, head: Head) -> Message | Instead:
        if params["requestState"] in self.handed:
            return message
        return refused(message, -32603, 500)


@plant(*new("request-state-bound-to-request"))
class AcceptsStatesForOtherCalls(_States):
    def call_with_state(self, message: Message, params: Message, head: Head) -> Message:
        call = self.handed.get(params["requestState"])
        if call is not None:
            params |= {"name": call["name"], "arguments": call.get("arguments", {})}
        return message


@plant(*new("request-state-bound-to-principal"), transports=HTTP)
class AcceptsStatesOfOtherCallers(_States):
    def call_with_state(self, message: Message, params: Message, head: Head) -> Message:
        owner = self.owners.get(params["requestState"])
        if owner:
            head.headers["authorization"] = owner
        return message
