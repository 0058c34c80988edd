"""Questions inside of results, done wrong."""

from typing import Any

from tests.conformance.bugs.tools import SIGNED
from tests.conformance.planting import Bug, Head, Instead, Message, plant

NEW = "2026-07-28"
EXTRA = "nobody-asked-for-this"
FORM = {"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"]}
ASKED = {
    "method": "elicitation/create",
    "params": {"mode": "form", "message": "Which size?", "requestedSchema": FORM},
}


def asks(message: Message, request: Message | None) -> bool:
    """Whether a call is answered with questions."""
    result = message.get("result")
    is_call = request is not None and request["method"] == "tools/call"
    return is_call and isinstance(result, dict) and result.get("resultType") == "input_required"


def call_of(message: Message) -> Message | None:
    """The parameters of a call."""
    params = message.get("params")
    is_call = message.get("method") == "tools/call" and isinstance(params, dict)
    return params if is_call else None


def refused(message: Message, code: int = -32602, status: int = 200) -> Instead:
    """An error; usually for wrong parameters."""
    error = {"code": code, "message": "That is wrong"}
    return Instead(({"jsonrpc": "2.0", "id": message["id"], "error": error},), status=status)


# --- asking ----------------------------------------------------------------------------------


@plant(
    f"{NEW}:server-sends-no-requests",
    f"{NEW}:questions-by-mrtr",
    also=(f"{NEW}:sse-no-buffering-header",),
)
class AsksTheOldWay(Bug):
    """What a call asks is sent as a request, too."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if not asks(message, request):
            return [message]
        return [{"jsonrpc": "2.0", "id": "question", **ASKED}, message]


@plant(
    f"{NEW}:mrtr-no-other-requests",
    also=(f"{NEW}:get-result-type-complete", f"{NEW}:task-questions-not-mrtr"),
)
class TasksAskLikeCalls(Bug):
    """`tasks/get` of a task that asks has the result type of a call that asks."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        result = message.get("result")
        is_get = request is not None and request["method"] == "tasks/get"
        if is_get and isinstance(result, dict) and result.get("status") == "input_required":
            result["resultType"] = "input_required"
        return [message]


@plant(f"{NEW}:input-request-kinds")
class AsksForTheMoon(Bug):
    """A question that no client knows."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if asks(message, request):
            message["result"]["inputRequests"]["moon"] = {"method": "moon/get", "params": {}}
        return [message]


@plant(f"{NEW}:mrtr-something-to-do", also=(f"{NEW}:result-type-input-required-means-more",))
class NothingToDo(Bug):
    """Input is required, but nobody knows which."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if asks(message, request):
            del message["result"]["inputRequests"], message["result"]["requestState"]
        return [message]


@plant(
    f"{NEW}:mrtr-declared-kinds-only",
    also=(f"{NEW}:elicitation-declared-modes-only", f"{NEW}:undeclared-capability-not-used"),
)
class AsksWhoeverCalls(Bug):
    """Whoever cannot be asked is asked."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        params = call_of(request or {}) or {}
        if message.get("error", {}).get("code") != -32021 or params.get("name") != "tailor":
            return [message]
        result = {"resultType": "input_required", "inputRequests": {"size": ASKED}, **SIGNED}
        return [{"jsonrpc": "2.0", "id": message["id"], "result": result}]


@plant(f"{NEW}:mrtr-no-assumed-retry", also=("answers",))
class WaitsForTheAnswer(Bug):
    """Once a call has asked, the next one has to wait for the answer."""

    def __init__(self) -> None:
        self._asking: set[Any] = set()
        self._waiting = 0

    def asked(self, message: Message, head: Head) -> Message | None:
        params = call_of(message)
        if params is None or {"requestState", "inputResponses"} & params.keys():
            return message
        if params.get("name") in self._asking and self._waiting < 3:
            self._waiting += 1
            return None
        return message

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is not None and asks(message, request):
            self._asking.add(request["params"]["name"])
        return [message]


# --- answers ---------------------------------------------------------------------------------


@plant(f"{NEW}:input-responses-validated")
class GuessesAnswers(Bug):
    """An answer without the shape of one is taken for consent."""

    def asked(self, message: Message, head: Head) -> Message:
        params = call_of(message) or {}
        responses = params.get("inputResponses")
        if isinstance(responses, dict) and params.get("name") == "tailor":
            for key, answer in responses.items():
                if not isinstance(answer, dict) or answer.get("action") == 7:
                    responses[key] = {"action": "accept", "content": {"size": 1}}
        return message


@plant(f"{NEW}:input-responses-malformed-error")
class IgnoresMalformedAnswers(Bug):
    """Answers that are no object are not looked at."""

    def asked(self, message: Message, head: Head) -> Message:
        params = call_of(message) or {}
        if not isinstance(params.get("inputResponses", {}), dict):
            del params["inputResponses"]
        return message


@plant(f"{NEW}:input-responses-extra-ignored")
class RefusesMoreThanItAsked(Bug):
    """An answer too much is an error."""

    def asked(self, message: Message, head: Head) -> Message | Instead:
        responses = (call_of(message) or {}).get("inputResponses")
        return refused(message) if isinstance(responses, dict) and EXTRA in responses else message


@plant(f"{NEW}:missing-answers-asked-again")
class RefusesLessThanItAsked(Bug):
    """An answer too few is an error."""

    def asked(self, message: Message, head: Head) -> Message | Instead:
        params = call_of(message) or {}
        is_retry = "requestState" in params or "inputResponses" in params
        return refused(message) if is_retry and not params.get("inputResponses") else message


# --- states ----------------------------------------------------------------------------------


class _States(Bug):
    """Knows which states there are, and for what."""

    def __init__(self) -> None:
        self.handed: dict[str, Message] = {}
        self.owners: dict[str, str] = {}
        self._callers: dict[str, str] = {}

    def asked(self, message: Message, head: Head) -> Message | Instead:
        params = call_of(message)
        if params is None:
            return message
        self._callers[str(params)] = head.headers.get("authorization", "")
        state = params.get("requestState")
        return self.meddle(message, params, head) if isinstance(state, str) else message

    def meddle(self, message: Message, params: Message, head: Head) -> Message | Instead:
        """A call comes with a state."""
        return message

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is not None and asks(message, request):
            state = message["result"]["requestState"]
            self.handed[state] = request["params"]
            self.owners[state] = self._callers.get(str(request["params"]), "")
        return [message]


@plant(f"{NEW}:request-state-protected", f"{NEW}:request-state-rejected-if-tampered")
class RepairsStates(_States):
    """A state that was changed is taken for the one that it was."""

    def meddle(self, message: Message, params: Message, head: Head) -> Message:
        if params["requestState"] not in self.handed:
            for state, call in self.handed.items():
                if call["name"] == params.get("name"):
                    params["requestState"] = state
        return message


@plant(f"{NEW}:request-state-untrusted", transports=("http",))
class StatesAreFatal(_States):
    """A state that it never made is too much for it."""

    def meddle(self, message: Message, params: Message, head: Head) -> Message | Instead:
        if params["requestState"] in self.handed:
            return message
        return refused(message, -32603, 500)


@plant(f"{NEW}:request-state-bound-to-request")
class StatesFitEverywhere(_States):
    """A state is good for every call."""

    def meddle(self, message: Message, params: Message, head: Head) -> Message:
        call = self.handed.get(params["requestState"])
        if call is not None:
            params |= {"name": call["name"], "arguments": call.get("arguments", {})}
        return message


@plant(f"{NEW}:request-state-bound-to-principal", transports=("http",))
class StatesFitEverybody(_States):
    """A state is good for every caller."""

    def meddle(self, message: Message, params: Message, head: Head) -> Message:
        owner = self.owners.get(params["requestState"])
        if owner:
            head.headers["authorization"] = owner
        return message
