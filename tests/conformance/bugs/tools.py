"""Bugs of tools and lists."""

from typing import Any

from taskmachine.adapters.runtime.limits import Limits
from tests.conformance.broken_server import TOKENS
from tests.conformance.planting import (
    HTTP,
    STDIO,
    Bug,
    ClientChange,
    ClientMessage,
    Head,
    Instead,
    Message,
    ServerChange,
    ServerMessage,
    new,
    old,
    plant,
)

OLD, NEW = "2025-11-25", "2026-07-28"
SIGNED: Message = {
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "taskmachine", "version": "0.1.0"}}
}
"""What every result of 2026-07-28 has."""


def results_in(message: Message) -> list[Message]:
    """The results of tools that a message shows, to be changed in place."""
    result = message.get("result")
    if not isinstance(result, dict):
        return []
    inner = result.get("result")
    shown = [result, inner] if isinstance(inner, dict) else [result]
    return [one for one in shown if "content" in one]


def is_list(request: Message | None, kind: str) -> bool:
    """Whether a list of that kind was asked for."""
    return request is not None and request["method"] == f"{kind}/list"


@plant(*old("tools-capability"), *new("tools-capability"), base=ServerChange)
def does_not_declare_tools(message: Message, request: Message | None) -> None:
    if request is not None and request["method"] in ("initialize", "server/discover"):
        message.get("result", {}).get("capabilities", {}).pop("tools", None)


@plant(*new("tools-list-answered"), also=new("result-type-complete-means-final"))
class ListsToolsUnderAnotherKey(Bug):
    def __init__(self) -> None:
        self._is_known = False

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if is_list(request, "tools") and "result" in message:
            if self._is_known:
                message["result"]["items"] = message["result"].pop("tools")
            self._is_known = True
        return [message]


@plant(*new("tools-list-not-per-connection"), transports=STDIO)
class ListsToolsByConnection(Bug):
    def __init__(self) -> None:
        self._is_friend = False

    def client_message(self, message: Message, head: Head) -> Message:
        self._is_friend |= message.get("method") == "tools/call"
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if is_list(request, "tools") and "result" in message and not self._is_friend:
            tools = message["result"]["tools"]
            message["result"]["tools"] = [tool for tool in tools if tool["name"] != "topple"]
        return [message]


@plant(*old("tool-protocol-errors"), *new("tool-protocol-errors"), base=ServerMessage)
def calls_unknown_tools_successfully(message: Message, request: Message | None) -> list[Any]:
    if request is None or request["method"] != "tools/call" or "error" not in message:
        return [message]
    params = request.get("params")
    if not isinstance(params, dict) or "task" in params:
        return [message]
    if not str(params.get("name")).startswith("no-such-tool"):
        return [message]
    result = {
        "content": [{"type": "text", "text": "Done."}],
        "resultType": "complete",
        **SIGNED,
    }
    return [{"jsonrpc": "2.0", "id": message["id"], "result": result}]


@plant(*old("tool-execution-errors"), *new("tool-execution-errors"), also=(*old("status-failed",
    "structured-result-conforms", "tool-input-validated"), *new("status-failed",
    "failed-only-for-jsonrpc-errors", "payload-matches-status", "get-answers-by-status",
    "get-failed-has-error", "failed-status-message", "terminal-final",
    "notification-is-whole-task", "is-error-is-completed")), base=ServerMessage)  # fmt: skip
def hides_tool_errors(message: Message, request: Message | None) -> list[Any]:
    result = message.get("result")
    if request is None or not isinstance(result, dict):
        return [message]
    if request["method"] == "tasks/result" and result.get("isError"):
        del result["isError"]
    inner = result.get("result")
    if isinstance(inner, dict) and inner.get("isError"):
        result["status"] = "failed"
    return [message]


@plant(*old("structured-result-conforms"), *new("structured-result-conforms"),
    also=new("terminal-final", "notification-is-whole-task"), base=ServerChange)  # fmt: skip
def breaks_its_output_schema(message: Message, request: Message | None) -> None:
    for result in results_in(message):
        if result.get("structuredContent", {}).get("height") is not None:
            result["structuredContent"]["height"] = "very high"


@plant(*old("tool-input-validated"), *new("tool-input-validated"))
class AcceptsInvalidArguments(Bug):
    def client_message(self, message: Message, head: Head) -> Message:
        if _is_wrong(message) and "task" in message["params"]:
            message["params"]["arguments"] = {"pebbles": 1}
        return message

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is None or not _is_wrong(request) or "task" in request["params"]:
            return [message]
        fine = {"resultType": "complete", "content": [], "structuredContent": {"height": 2}}
        return [{"jsonrpc": "2.0", "id": message["id"], "result": {**fine, **SIGNED}}]


def _is_wrong(request: Message) -> bool:
    """Whether it calls a tool without what the tool needs."""
    params = request.get("params")
    if request.get("method") != "tools/call" or not isinstance(params, dict):
        return False
    arguments = params.get("arguments")
    if params.get("name") != "heap" or not isinstance(arguments, dict):
        return False
    return not isinstance(arguments.get("pebbles"), int)


@plant(*old("tool-access-controlled"), *new("tool-access-controlled"),
    also=(*old("http-authentication"), *new("http-authentication")), transports=HTTP,
    base=ClientChange)  # fmt: skip
def calls_tools_without_credentials(message: Message, head: Head) -> None:
    known = [f"Bearer {token}" for token in TOKENS]
    is_known = head.headers.get("authorization") in known
    if message.get("method") == "tools/call" and not is_known:
        head.headers["authorization"] = known[0]


@plant(*old("cursors-stable"))
class ReordersPages(Bug):
    def __init__(self) -> None:
        self._used: set[Any] = set()

    def limits(self) -> Limits:
        return Limits(page=2)

    def server_message(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is not None and is_list(request, "tasks") and "result" in message:
            params = request.get("params")
            cursor = params.get("cursor") if isinstance(params, dict) else None
            if isinstance(cursor, str):
                if cursor in self._used:
                    message["result"]["tasks"].reverse()
                self._used.add(cursor)
        return [message]


@plant(*old("bad-cursor-graceful"), also=old("list-bad-cursor-32602"), transports=HTTP,
    base=ClientMessage)  # fmt: skip
def fails_on_unknown_cursor(message: Message, head: Head) -> Message | Instead | None:
    params = message.get("params")
    if isinstance(params, dict) and params.get("cursor") == "never-given-out":
        error = {"code": -32603, "message": "Internal server error"}
        return Instead(({"jsonrpc": "2.0", "id": message["id"], "error": error},), status=500)
    return message
