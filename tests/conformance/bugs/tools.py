"""Tools and their lists, done wrong."""

from typing import Any

from taskmachine.adapters.runtime.limits import Limits
from tests.conformance.broken_server import TOKENS
from tests.conformance.planting import Bug, Head, Instead, Message, plant

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


@plant(f"{OLD}:tools-capability", f"{NEW}:tools-capability")
class ToolsInSecret(Bug):
    """There are tools, but nobody is told."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is not None and request["method"] in ("initialize", "server/discover"):
            message.get("result", {}).get("capabilities", {}).pop("tools", None)
        return [message]


@plant(f"{NEW}:tools-list-answered", also=(f"{NEW}:result-type-complete-means-final",))
class ListsWithoutTools(Bug):
    """The list of tools is not where it belongs, except for the first time."""

    def __init__(self) -> None:
        self._is_known = False

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if is_list(request, "tools") and "result" in message:
            if self._is_known:
                message["result"]["items"] = message["result"].pop("tools")
            self._is_known = True
        return [message]


@plant(f"{NEW}:tools-list-not-per-connection", transports=("stdio",))
class ToolsForOldFriends(Bug):
    """One tool is only shown to whoever has called another one."""

    def __init__(self) -> None:
        self._is_friend = False

    def asked(self, message: Message, head: Head) -> Message:
        self._is_friend |= message.get("method") == "tools/call"
        return message

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if is_list(request, "tools") and "result" in message and not self._is_friend:
            tools = message["result"]["tools"]
            message["result"]["tools"] = [tool for tool in tools if tool["name"] != "topple"]
        return [message]


@plant(f"{OLD}:tool-protocol-errors", f"{NEW}:tool-protocol-errors")
class EveryToolExists(Bug):
    """A tool that does not exist does nothing, successfully."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
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


@plant(
    f"{OLD}:tool-execution-errors",
    f"{NEW}:tool-execution-errors",
    also=(
        f"{OLD}:status-failed",
        f"{OLD}:structured-result-conforms",
        f"{OLD}:tool-input-validated",
        f"{NEW}:status-failed",
        f"{NEW}:failed-only-for-jsonrpc-errors",
        f"{NEW}:payload-matches-status",
        f"{NEW}:get-answers-by-status",
        f"{NEW}:get-failed-has-error",
        f"{NEW}:failed-status-message",
        f"{NEW}:terminal-final",
        f"{NEW}:notification-is-whole-task",
        f"{NEW}:is-error-is-completed",
    ),
)
class FailuresLookFine(Bug):
    """A tool that failed does not say so in its result; of 2026-07-28 the task says so instead."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        result = message.get("result")
        if request is None or not isinstance(result, dict):
            return [message]
        if request["method"] == "tasks/result" and result.get("isError"):
            del result["isError"]
        inner = result.get("result")
        if isinstance(inner, dict) and inner.get("isError"):
            result["status"] = "failed"
        return [message]


@plant(
    f"{OLD}:structured-result-conforms",
    f"{NEW}:structured-result-conforms",
    also=(f"{NEW}:terminal-final", f"{NEW}:notification-is-whole-task"),
)
class PromisesNumbers(Bug):
    """The schema of the result says integer, the result says a word."""

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        for result in results_in(message):
            if result.get("structuredContent", {}).get("height") is not None:
                result["structuredContent"]["height"] = "very high"
        return [message]


@plant(f"{OLD}:tool-input-validated", f"{NEW}:tool-input-validated")
class AnyArgumentsWillDo(Bug):
    """Arguments that are wrong are replaced by better ones; of 2026-07-28 so is the answer."""

    def asked(self, message: Message, head: Head) -> Message:
        if _is_wrong(message) and "task" in message["params"]:
            message["params"]["arguments"] = {"pebbles": 1}
        return message

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
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


@plant(
    f"{OLD}:tool-access-controlled",
    f"{NEW}:tool-access-controlled",
    also=(f"{OLD}:http-authentication", f"{NEW}:http-authentication"),
    transports=("http",),
)
class CallsAreFree(Bug):
    """Whoever has no credentials gets those of somebody else."""

    def asked(self, message: Message, head: Head) -> Message:
        known = [f"Bearer {token}" for token in TOKENS]
        is_known = head.headers.get("authorization") in known
        if message.get("method") == "tools/call" and not is_known:
            head.headers["authorization"] = known[0]
        return message


@plant(f"{OLD}:cursors-stable")
class CursorsMove(Bug):
    """A cursor that is used again leads elsewhere."""

    def __init__(self) -> None:
        self._used: set[Any] = set()

    def limits(self) -> Limits:
        return Limits(page=2)

    def said(self, message: Message, request: Message | None, head: Head) -> list[Any]:
        if request is not None and is_list(request, "tasks") and "result" in message:
            params = request.get("params")
            cursor = params.get("cursor") if isinstance(params, dict) else None
            if isinstance(cursor, str):
                if cursor in self._used:
                    message["result"]["tasks"].reverse()
                self._used.add(cursor)
        return [message]


@plant(
    f"{OLD}:bad-cursor-graceful",
    also=(f"{OLD}:list-bad-cursor-32602",),
    transports=("http",),
)
class BadCursorsBreakIt(Bug):
    """A cursor that was never given out is more than it can bear."""

    def asked(self, message: Message, head: Head) -> Message | Instead:
        params = message.get("params")
        if isinstance(params, dict) and params.get("cursor") == "never-given-out":
            error = {"code": -32603, "message": "Internal server error"}
            return Instead(({"jsonrpc": "2.0", "id": message["id"], "error": error},), status=500)
        return message
