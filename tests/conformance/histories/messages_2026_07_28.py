"""Handwritten histories of the tasks extension; requests carry the required metadata."""

from collections.abc import Mapping
from typing import Any, Final, Self

from taskmachine.adapters.conformance.history import MISSING, Kind
from tests.conformance.histories.messages import Messages, a_task

__all__ = [
    "BOTH", "KINDS", "QUESTION", "SUBSCRIPTION", "TASKS",
    "StatelessMessages", "http", "stdio", "task",
]  # fmt: skip

TASKS: Final = "io.modelcontextprotocol/tasks"
SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
KINDS: Final[Mapping[str, Any]] = {"elicitation": {"form": {}}, "sampling": {}}
BOTH: Final[Mapping[str, str | None]] = {"A": "alice", "B": "bob"}
_MCP: Final = "io.modelcontextprotocol/"
_NAMED: Final = {"tools/call": "name"}
QUESTION: Final[Mapping[str, Any]] = {
    "method": "elicitation/create",
    "params": {
        "mode": "form",
        "message": "Which size?",
        "requestedSchema": {
            "type": "object",
            "properties": {"size": {"type": "integer"}},
            "required": ["size"],
        },
    },
}


_PAYLOADS: Final[Mapping[Any, Mapping[str, Any]]] = {
    "completed": {"result": {"content": []}},
    "failed": {"error": {"code": -32603, "message": "no"}, "statusMessage": "It failed"},
    "input_required": {"inputRequests": {"size": QUESTION}},
}


def task(id: Any = "task-a", status: Any = "working", **fields: Any) -> dict[str, Any]:
    """Return a task of this revision, with the payload of its status."""
    own = _PAYLOADS.get(status, {}) if isinstance(status, str) else {}
    return a_task(id, status, **{"ttl": MISSING, "ttlMs": 60_000, **own, **fields})


class StatelessMessages(Messages):
    """A history builder for 2026-07-28."""

    def ask(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        declares: bool = True,
        capabilities: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Self:
        """Send a correct request."""
        declared = dict(KINDS if capabilities is None else capabilities)
        if declares:
            declared["extensions"] = {TASKS: {}}
        params = dict(params or {})
        named = params.get(_NAMED.get(method, "taskId"))
        own = {} if method.startswith("subscriptions") or not isinstance(named, str) else named
        params["_meta"] = {
            f"{_MCP}protocolVersion": "2026-07-28",
            f"{_MCP}clientInfo": {"name": "a", "version": "1"},
            f"{_MCP}clientCapabilities": declared,
            **(meta or {}),
        }
        usual = {
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": method,
            "authorization": "Bearer token",
        }
        usual |= {"mcp-name": own} if isinstance(own, str) else {}
        sent = {name: value for name, value in {**usual, **(headers or {})}.items() if value}
        return self.request(method, params, headers=sent, **options)

    def call(
        self, *, tool: str = "tool", more: Mapping[str, Any] | None = None, **how: Any
    ) -> Self:
        """Call a tool."""
        return self.ask("tools/call", {"name": tool, "arguments": {}, **(more or {})}, **how)

    def create(
        self, shown: Any = None, *, tool: str = "tool", task: Any = None, **how: Any
    ) -> Self:
        """Call a tool; the target creates this task."""
        made = _new_task() if shown is None else shown
        return self.call(tool=tool, **how).answer({"resultType": "task", **made})

    def get(self, *shown: Any, takes_ms: float = 0, **how: Any) -> Self:
        """Poll once for each of these tasks, which `tasks/get` returns."""
        for task in shown:
            self.ask("tasks/get", {"taskId": task.get("taskId", "task-a")}, **how)
            self.wait(takes_ms).answer({"resultType": "complete", **task})
        return self

    def not_found(self, id: Any = "task-a", code: int = -32602, **how: Any) -> Self:
        """Poll; `tasks/get` answers with an error."""
        return self.ask("tasks/get", {"taskId": id}, **how).error(code, "Task not found")

    def update(
        self, replies: Mapping[str, Any] | None = None, id: Any = "task-a", **how: Any
    ) -> Self:
        """Send `tasks/update`."""
        given = {"size": {"action": "accept", "content": {"size": 1}}}
        params = {"taskId": id, "inputResponses": given if replies is None else dict(replies)}
        return self.ask("tasks/update", params, **how)

    def cancel(self, id: Any = "task-a", **how: Any) -> Self:
        """Send `tasks/cancel`."""
        return self.ask("tasks/cancel", {"taskId": id}, **how)

    def acknowledge(self, **more: Any) -> Self:
        """Answer with an empty result."""
        return self.answer({"resultType": "complete", **more})

    def discover(self, extensions: Any = MISSING, **capabilities: Any) -> Self:
        """Perform `server/discover`; the target declares the tasks extension by default."""
        declared = {TASKS: {}} if extensions is MISSING else extensions
        found = {"extensions": declared, **capabilities}
        return self.ask("server/discover").answer({"resultType": "complete", "capabilities": found})

    def initialize_old(self, **capabilities: Any) -> Self:
        """Begin a session of 2025-11-25 on a line of its own."""
        params = {"protocolVersion": "2025-11-25", "capabilities": {"extensions": {TASKS: {}}}}
        self.request("initialize", params, line=2)
        return self.answer({"protocolVersion": "2025-11-25", "capabilities": capabilities})

    # --- subscriptions ---------------------------------------------------------------------------

    def listen(self, *ids: str, id: Any = 77, agreed: Any = MISSING, **how: Any) -> Self:
        """Subscribe to tasks; the target acknowledges unless `agreed` is None."""
        self.ask("subscriptions/listen", {"notifications": {"taskIds": list(ids)}}, id=id, **how)
        if agreed is not None:
            found = {"taskIds": list(ids)} if agreed is MISSING else agreed
            self.announce("notifications/subscriptions/acknowledged", on=id, notifications=found)
        return self

    def announce(self, method: str, *, on: Any = 77, named: Any = MISSING, **params: Any) -> Self:
        """Receive a notification of a subscription."""
        params["_meta"] = {SUBSCRIPTION: on if named is MISSING else named}
        return self.push(method, params, on=on)

    def announce_task(self, shown: Mapping[str, Any], *, on: Any = 77) -> Self:
        """Receive `notifications/tasks` with this task."""
        return self.announce("notifications/tasks", on=on, **shown)

    def end(self, *, on: Any = 77) -> Self:
        """End the stream of a subscription."""
        asked = self._asked[on]
        self._add(Kind.ENDED, asked.caller, asked.line, asked.post, MISSING)
        return self


def _new_task() -> dict[str, Any]:
    return task()  # `task` is also a parameter of `create`


def http(principals: Mapping[str, str | None] | None = None) -> Any:
    """Begin a history over HTTP."""
    return StatelessMessages("2026-07-28", "http", principals or {"A": None, "B": None})


def stdio() -> Any:
    """Begin a history over stdio."""
    return StatelessMessages("2026-07-28", "stdio", {"A": None, "B": None})
