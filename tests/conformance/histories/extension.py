"""Histories of the tasks extension by hand: requests carry all that they must."""

from collections.abc import Mapping
from typing import Any, Final, Literal, Self

import pytest

from taskmachine.adapters.conformance.history import MISSING, Kind
from taskmachine.adapters.conformance.judging import CHECKS
from tests.conformance.histories.told import Told, a_task

__all__ = [
    "BOTH",
    "KINDS",
    "QUESTION",
    "SUBSCRIPTION",
    "TASKS",
    "Extension",
    "numbered",
    "outcomes",
    "piped",
    "posted",
    "task",
]

TASKS: Final = "io.modelcontextprotocol/tasks"
SUBSCRIPTION: Final = "io.modelcontextprotocol/subscriptionId"
KINDS: Final[Mapping[str, Any]] = {"elicitation": {"form": {}}, "sampling": {}}
BOTH: Final[Mapping[str, str | None]] = {"A": "somebody", "B": "somebody else"}
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
    """A task of this revision, with what belongs to its status."""
    own = _PAYLOADS.get(status, {}) if isinstance(status, str) else {}
    return a_task(id, status, **{"ttl": MISSING, "ttlMs": 60_000, **own, **fields})


class Extension(Told):
    """A history in the making."""

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
        """A request that has no fault."""
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
        """A call of a tool."""
        return self.ask("tools/call", {"name": tool, "arguments": {}, **(more or {})}, **how)

    def create(
        self, shown: Any = None, *, tool: str = "tool", task: Any = None, **how: Any
    ) -> Self:
        """A call of a tool becomes this task."""
        made = _begun() if shown is None else shown
        return self.call(tool=tool, **how).answer({"resultType": "task", **made})

    def get(self, shown: Any, *, takes_ms: float = 0, **how: Any) -> Self:
        """`tasks/get` shows this task."""
        self.ask("tasks/get", {"taskId": shown.get("taskId", "task-a")}, **how)
        return self.wait(takes_ms).answer({"resultType": "complete", **shown})

    def misses(self, id: Any = "task-a", code: int = -32602, **how: Any) -> Self:
        """`tasks/get` does not find this task."""
        return self.ask("tasks/get", {"taskId": id}, **how).error(code, "Task not found")

    def update(
        self, replies: Mapping[str, Any] | None = None, id: Any = "task-a", **how: Any
    ) -> Self:
        """`tasks/update`, to be answered."""
        given = {"size": {"action": "accept", "content": {"size": 1}}}
        params = {"taskId": id, "inputResponses": given if replies is None else dict(replies)}
        return self.ask("tasks/update", params, **how)

    def cancel(self, id: Any = "task-a", **how: Any) -> Self:
        """`tasks/cancel`, to be answered."""
        return self.ask("tasks/cancel", {"taskId": id}, **how)

    def acknowledge(self, **more: Any) -> Self:
        """An empty result."""
        return self.answer({"resultType": "complete", **more})

    def discover(self, extensions: Any = MISSING, **capabilities: Any) -> Self:
        """`server/discover`, with the extension unless others are given."""
        declared = {TASKS: {}} if extensions is MISSING else extensions
        found = {"extensions": declared, **capabilities}
        return self.ask("server/discover").answer({"resultType": "complete", "capabilities": found})

    def initialize_old(self, **capabilities: Any) -> Self:
        """A session of 2025-11-25, on a line of its own."""
        params = {"protocolVersion": "2025-11-25", "capabilities": {"extensions": {TASKS: {}}}}
        self.request("initialize", params, line=2)
        return self.answer({"protocolVersion": "2025-11-25", "capabilities": capabilities})

    # --- subscriptions ---------------------------------------------------------------------------

    def listen(self, *ids: str, id: Any = 77, agreed: Any = MISSING, **how: Any) -> Self:
        """A subscription to tasks, acknowledged unless `agreed` is None."""
        self.ask("subscriptions/listen", {"notifications": {"taskIds": list(ids)}}, id=id, **how)
        if agreed is not None:
            found = {"taskIds": list(ids)} if agreed is MISSING else agreed
            self.tell("notifications/subscriptions/acknowledged", on=id, notifications=found)
        return self

    def tell(self, method: str, *, on: Any = 77, named: Any = MISSING, **params: Any) -> Self:
        """A notification of a subscription."""
        params["_meta"] = {SUBSCRIPTION: on if named is MISSING else named}
        return self.notify(method, params, on=on)

    def tell_task(self, shown: Mapping[str, Any], *, on: Any = 77) -> Self:
        """A subscription tells of a task."""
        return self.tell("notifications/tasks", on=on, **shown)

    def end(self, *, on: Any = 77) -> Self:
        """The target ends the stream."""
        asked = self._asked[on]
        self._add(Kind.ENDED, asked.caller, asked.line, asked.post, MISSING)
        return self


def _begun() -> dict[str, Any]:
    """A task that has just begun."""
    return task()


def posted(principals: Mapping[str, str | None] | None = None) -> Any:
    """Over HTTP."""
    return Extension("2026-07-28", "http", principals or {"A": None, "B": None})


def piped() -> Any:
    """Over a pipe."""
    return Extension("2026-07-28", "stdio", {"A": None, "B": None})


def numbered(*rows: tuple[Any, ...]) -> list[Any]:
    """Rows of a table as parameters of a test, each with a name of its own."""
    return [pytest.param(*row, id=f"{row[0]}-{number}") for number, row in enumerate(rows)]


def outcomes(id: str, tale: Told) -> set[Literal["good", "bad", "warning", "note"]]:
    """What the check of a requirement says of a history."""
    return {one.outcome for one in CHECKS[f"2026-07-28:{id}"].observe(tale.history)}
