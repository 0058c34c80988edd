"""Handwritten histories of messages, where HTTP details do not matter."""

from collections.abc import Mapping
from typing import Any, Final, Literal, Self

from taskmachine.adapters.conformance.history import MISSING, Entry, History, Http, Kind

__all__ = ["CAPABILITIES", "Messages", "a_task", "messages", "server"]

CAPABILITIES: Final[Mapping[str, Any]] = {
    "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
    "tools": {},
}

SECOND_MS = 1000.0


def a_task(id: Any = "task-a", status: Any = "working", **fields: Any) -> dict[str, Any]:
    """Return a complete task of 2025-11-25."""
    task = {
        "taskId": id,
        "status": status,
        "createdAt": "2026-11-16T10:00:00.000Z",
        "lastUpdatedAt": "2026-11-16T10:00:00.000Z",
        "ttl": 60_000,
    }
    return {name: value for name, value in (task | fields).items() if value is not MISSING}


class Messages:
    """A history builder; each step takes 10 ms and returns the builder."""

    def __init__(
        self,
        revision: Literal["2025-11-25", "2026-07-28"],
        transport: Literal["stdio", "http"],
        principals: Mapping[str, str | None],
    ) -> None:
        self._revision = revision
        self._transport = transport
        self._principals = principals
        self._entries: list[Entry] = []
        self._at = 0.0
        self._asked: dict[Any, Entry] = {}
        self._last: Any = None

    @property
    def history(self) -> History:
        """The history so far."""
        return History(self._revision, self._transport, tuple(self._entries), self._principals)

    def wait(self, ms: float) -> Self:
        """Let time pass."""
        self._at += ms
        return self

    # --- the tester ------------------------------------------------------------------------------

    def request(
        self,
        method: str,
        params: Any = MISSING,
        *,
        id: Any = None,
        caller: str = "A",
        line: int = 1,
        headers: Mapping[str, str] | None = None,
    ) -> Self:
        """Send a request; over HTTP in a POST of its own."""
        id = len(self._entries) if id is None else id
        message = {"jsonrpc": "2.0", "id": id, "method": method}
        if params is not MISSING:
            message["params"] = params
        post, http = None, None
        if self._transport == "http":
            post, http = len(self._entries), Http("POST", headers=dict(headers or {}))
        self._asked[id] = self._add(Kind.SENT, caller, line, post, message, http)
        self._last = id
        return self

    def send(self, message: Any, *, caller: str = "A", line: int = 1) -> Self:
        """Send a notification, or the response to a request of the target."""
        self._add(Kind.SENT, caller, line, self._new_post(), message)
        return self

    def time_out(self, *, after_ms: float = 10 * SECOND_MS, of: Any = None) -> Self:
        """Stop waiting for the response to the last request, or to the one with that id."""
        asked = self._asked[self._last if of is None else of]
        self._at = max(self._at, asked.at + after_ms)
        self._add(Kind.GAVE_UP, asked.caller, asked.line, asked.post, asked.message)
        return self

    # --- the target ------------------------------------------------------------------------------

    def answer(
        self,
        result: Any,
        *,
        to: Any = None,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> Self:
        """Answer the last request, or the one with that id."""
        return self._respond({"result": result}, to, status, headers)

    def error(
        self,
        code: Any,
        message: Any = "no",
        *,
        data: Any = MISSING,
        to: Any = None,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
    ) -> Self:
        """Refuse the last request, or the one with that id."""
        error = {"code": code, "message": message}
        if data is not MISSING:
            error["data"] = data
        return self._respond({"error": error}, to, status, headers)

    def receive(self, message: Any, *, on: Any = None, line: int = 1, caller: str = "A") -> Self:
        """Receive a message on the stream of the request `on`, or on a stream of its own."""
        asked = self._asked.get(on)
        post = self._new_post() if asked is None else asked.post
        self._add(Kind.HEARD, caller, line, post, message)
        return self

    def push(self, method: str, params: Any = None, *, on: Any = None, line: int = 1) -> Self:
        """Receive a notification."""
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        return self.receive(message, on=on, line=line)

    # --- exchanges -------------------------------------------------------------------------------

    def initialize(self, capabilities: Any, *, line: int = 1, **options: Any) -> Self:
        """Perform the handshake of 2025-11-25."""
        self.request("initialize", {"capabilities": {}}, line=line, **options)
        return self.answer({"protocolVersion": self._revision, "capabilities": capabilities})

    def create(self, shown: Any, *, tool: str = "tool", task: Any = None, **options: Any) -> Self:
        """Call a tool; the target creates this task."""
        params: dict[str, Any] = {"name": tool, "arguments": {}}
        if self._revision == "2025-11-25":
            params["task"] = {} if task is None else task
            return self.request("tools/call", params, **options).answer({"task": shown})
        self.request("tools/call", params, **options)
        return self.answer({"resultType": "task", **shown})

    def get(self, *shown: Any, takes_ms: float = 0, **options: Any) -> Self:
        """Poll once for each of these tasks, which `tasks/get` returns."""
        more = {} if self._revision == "2025-11-25" else {"resultType": "complete"}
        for task in shown:
            self.request("tasks/get", {"taskId": task.get("taskId")}, **options)
            self.wait(takes_ms).answer({**more, **task})
        return self

    def _respond(self, body: Any, to: Any, status: int, headers: Mapping[str, str] | None) -> Self:
        id = self._last if to is None else to
        asked = self._asked[id]
        if asked.post is not None:
            head = Http(status=status, headers=headers or {"content-type": "application/json"})
            self._add(Kind.HEAD, asked.caller, asked.line, asked.post, MISSING, head)
        message = {"jsonrpc": "2.0", "id": id, **body}
        self._add(Kind.HEARD, asked.caller, asked.line, asked.post, message)
        return self

    def _new_post(self) -> int | None:
        return len(self._entries) if self._transport == "http" else None

    def _add(
        self,
        kind: Kind,
        caller: str,
        line: int,
        post: int | None,
        message: Any,
        http: Http | None = None,
    ) -> Entry:
        self._at += 10
        entry = Entry(len(self._entries), self._at, kind, caller, line, post, message, None, http)
        self._entries.append(entry)
        return entry


def messages(
    revision: Literal["2025-11-25", "2026-07-28"] = "2025-11-25",
    transport: Literal["stdio", "http"] = "http",
    principals: Mapping[str, str | None] | None = None,
) -> Messages:
    """Begin a history; without principals, callers have no credentials."""
    return Messages(revision, transport, principals or {"A": None, "B": None})


def server(
    support: Any = "optional",
    *,
    capabilities: Any = CAPABILITIES,
    transport: Literal["stdio", "http"] = "http",
    principals: Mapping[str, str | None] | None = None,
) -> Messages:
    """Begin with an initialized server of 2025-11-25 that lists one tool with this taskSupport."""
    tool: dict[str, Any] = {"name": "tool", "inputSchema": {"type": "object"}}
    if support is not MISSING:
        tool["execution"] = {"taskSupport": support}
    history = messages("2025-11-25", transport, principals).initialize(capabilities)
    return history.request("tools/list").answer({"tools": [tool]})
