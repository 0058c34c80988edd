"""Bugs of messages, results and errors in 2026-07-28."""

from typing import Any, Final

from tests.conformance.bugs.mcp_2026_07_28.transports.endpoint import VERSION, meta_of
from tests.conformance.planting import Bug, Head, Instead, Message, plant
from tests.conformance.variations import tasks_in

__all__: list[str] = []

_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
_TASKS: Final = "io.modelcontextprotocol/tasks"
_HTTP: Final = ("http",)


class _Answers(Bug):
    """Changes the answers to one method, or to one id."""

    method: str | None = None
    id: Any = None

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is not None and (request.get("method") == self.method or self._is_id(request)):
            self.change(message)
        return [message]

    def _is_id(self, request: Message) -> bool:
        return self.id is not None and request.get("id") == self.id

    def change(self, message: Message) -> None:
        """In place."""


# --- messages --------------------------------------------------------------------------------


@plant("2026-07-28:jsonrpc-2-0")
class OldJsonRpc(_Answers):
    """The version before."""

    id = "7"

    def change(self, message: Message) -> None:
        message["jsonrpc"] = "1.0"


@plant("2026-07-28:result-same-id", also=("answers",))
class NumbersBecomeTexts(_Answers):
    """A large id comes back as a text."""

    id = 2**53 - 1

    def change(self, message: Message) -> None:
        message["id"] = str(message["id"])


@plant("2026-07-28:result-field", also=("2026-07-28:tools-list-answered",))
class ResultIsAList(_Answers):
    """The tools themselves are the result."""

    id = "7"

    def change(self, message: Message) -> None:
        message["result"] = message["result"]["tools"]


@plant("2026-07-28:error-same-id", also=("answers",))
class ErrorsHaveOtherIds(_Answers):
    """An error for nobody."""

    id = "unknown-7"

    def change(self, message: Message) -> None:
        message["id"] = "somebody"


@plant("2026-07-28:error-code-and-message")
class ErrorsSayNothing(_Answers):
    """A code is all there is."""

    id = "unknown-7"

    def change(self, message: Message) -> None:
        del message["error"]["message"]


@plant("2026-07-28:error-code-integer", also=("2026-07-28:http-unknown-method-404",))
class CodesAreTexts(_Answers):
    """A code with quotes."""

    id = "unknown-7"

    def change(self, message: Message) -> None:
        message["error"]["code"] = str(message["error"]["code"])


@plant(
    "2026-07-28:notification-not-answered",
    also=(
        "2026-07-28:http-202-for-notification",
        "2026-07-28:http-error-for-refused-notification",
        "2026-07-28:error-same-id",
        "2026-07-28:invalid-cancellation-ignored",
    ),
)
class NotificationsAreAnswered(Bug):
    """What nobody knows is complained about."""

    def asked(self, message: Message, head: Head) -> Message | Instead:
        if message.get("method") != "notifications/nobody-knows":
            return message
        error = {"code": -32601, "message": "no such notification"}
        answer = {"jsonrpc": "2.0", "id": None, "error": error}
        return Instead((answer,), 200, {"content-type": "application/json"})


@plant("2026-07-28:notification-without-id", also=("2026-07-28:server-sends-no-requests",))
class NotificationsHaveIds(Bug):
    """So that they can be told apart."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if str(message.get("method")).startswith("notifications/"):
            message["id"] = "notification-1"
        return [message]


# --- results ---------------------------------------------------------------------------------


@plant("2026-07-28:result-type-present", "2026-07-28:modern-request-served-statelessly")
class ListsHaveNoType(_Answers):
    """As in the revision before."""

    method = "tools/list"

    def change(self, message: Message) -> None:
        message.get("result", {}).pop("resultType", None)


@plant("2026-07-28:result-type-complete-means-final", also=("2026-07-28:tools-list-answered",))
class CompleteIsEmpty(_Answers):
    """Complete, with nothing in it."""

    id = "7"

    def change(self, message: Message) -> None:
        del message["result"]["tools"]


@plant(
    "2026-07-28:result-type-input-required-means-more",
    also=("2026-07-28:mrtr-something-to-do",),
)
class AsksForNothing(_Answers):
    """Input is required, and nobody says which."""

    method = "tools/call"

    def change(self, message: Message) -> None:
        if message.get("error", {}).get("code") == -32021:
            del message["error"]
            message["result"] = {
                "resultType": "input_required",
                "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "n", "version": "1"}},
            }

    def answered(self, request: Message | None, head: Head) -> None:
        is_call = request is not None and request.get("method") == "tools/call"
        if is_call and head.status == 400 and meta_of(request).get(_CAPABILITIES) == {}:
            head.status = 200


@plant("2026-07-28:result-types-from-capabilities")
class OwnResultType(_Answers):
    """A type that was never heard of."""

    id = "7"

    def change(self, message: Message) -> None:
        message["result"]["resultType"] = "splendid"


# --- codes -----------------------------------------------------------------------------------


class _FailsWith(Bug):
    """Tasks that failed have this code."""

    code = 0

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        for task in tasks_in(message):
            if "error" in task:
                task["error"]["code"] = self.code
        return [message]


@plant("2026-07-28:legacy-codes-avoided")
class LegacyCode(_FailsWith):
    """A code that anybody may have used."""

    code = -32001


@plant("2026-07-28:reserved-codes-not-invented")
class InventedCode(_FailsWith):
    """A code that MCP may define one day."""

    code = -32055


@plant("2026-07-28:old-codes-not-sent")
class CodeOfTheRevisionBefore(_FailsWith):
    """A code that is not there any more."""

    code = -32042


@plant("2026-07-28:own-codes-outside-range")
class OwnCodeInTheWrongPlace(_FailsWith):
    """A code that JSON-RPC keeps for itself."""

    code = -32150


@plant("2026-07-28:reserved-codes-as-defined", also=("2026-07-28:http-unknown-method-404",))
class VersionsAreToBlame(_Answers):
    """-32022 for what has nothing to do with versions."""

    id = "unknown-7"

    def change(self, message: Message) -> None:
        data = {"supported": ["2026-07-28"], "requested": "2026-07-28"}
        message["error"] |= {"code": -32022, "data": data}


# --- capabilities ----------------------------------------------------------------------------


@plant(
    "2026-07-28:undeclared-capability-32021",
    also=(
        "2026-07-28:missing-capability-names-extension",
        "2026-07-28:listen-missing-capability-32021",
    ),
)
class DoesNotSayWhatIsMissing(Bug):
    """-32021 and no word which capability."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if message.get("error", {}).get("code") == -32021:
            del message["error"]["data"]
        return [message]


@plant("2026-07-28:undeclared-capability-400", transports=_HTTP)
class MissingCapabilitiesAreOk(Bug):
    """-32021 with status 200."""

    def answered(self, request: Message | None, head: Head) -> None:
        declared = meta_of(request).get(_CAPABILITIES)
        if declared == {} and head.status == 400 and VERSION in meta_of(request):
            head.status = 200


@plant(
    "2026-07-28:undeclared-capability-not-used",
    also=("2026-07-28:elicitation-declared-modes-only", "2026-07-28:mrtr-declared-kinds-only"),
)
class EverybodyCanAnswer(Bug):
    """Whoever knows tasks is asked."""

    def asked(self, message: Message, head: Head) -> Message:
        declared = meta_of(message).get(_CAPABILITIES)
        if isinstance(declared, dict) and "extensions" in declared:
            declared["elicitation"] = {"form": {}}
        return message


@plant(
    "2026-07-28:no-state-from-earlier-requests",
    "2026-07-28:one-sided-extension",
    "2026-07-28:result-types-from-capabilities",
    also=(
        "2026-07-28:get-missing-capability-32021",
        "2026-07-28:update-missing-capability-32021",
        "2026-07-28:cancel-missing-capability-32021",
        "2026-07-28:legacy-capability-is-undeclared",
        "2026-07-28:no-task-for-undeclared",
        "2026-07-28:task-parameter-ignored",
    ),
)
class CapabilitiesAreRemembered(Bug):
    """Who declared the extension once has it for ever."""

    def __init__(self) -> None:
        self._is_declared = False

    def asked(self, message: Message, head: Head) -> Message:
        declared = meta_of(message).get(_CAPABILITIES)
        if isinstance(declared, dict):
            self._is_declared |= "extensions" in declared
            if self._is_declared:
                declared.setdefault("extensions", {_TASKS: {}})
        return message
