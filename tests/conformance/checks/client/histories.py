"""Checks of clients: histories from the side of the client, which sends the requests."""

from typing import Any, Final, Self

import attrs

from taskmachine.adapters.conformance.clients.view import STOPPED, as_client
from taskmachine.adapters.conformance.history import Entry, History, Kind
from taskmachine.adapters.conformance.judging import CLIENT_CHECKS
from tests.conformance.checks.cases import Rows, bad, good, mixed, nothing, table, warning
from tests.conformance.histories.messages import Messages, a_task

OLD: Final = "2025-11-25"
NEW: Final = "2026-07-28"
META = "io.modelcontextprotocol/"
RELATED = META + "related-task"
TASKS = META + "tasks"
FORM = {"mode": "form", "message": "?", "requestedSchema": {"type": "object"}}
ACCEPT = {"result": {"action": "accept", "content": {}}}
SAMPLED = {"result": {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"}}
CREATED = {"result": {"task": a_task()}}
TOOLS = [{"name": "weather", "inputSchema": {"type": "object"}}]
TOOL_RESULTS = [{"role": "user", "content": [{"type": "tool_result"}]}]
AS_TASKS: Any = {
    "elicitation": {},
    "sampling": {},
    "tasks": {"requests": {"elicitation": {"create": {}}, "sampling": {"createMessage": {}}}},
}


class ClientMessages(Messages):
    """A history builder over stdio; the client process exits at the end."""

    exit: str | None = "exit status 0"
    exit_after_ms: float = 100

    @property
    def history(self) -> History:
        """The history as the tester recorded it."""
        history = as_client(super().history)
        entries = list(history.entries)
        if self.exit is not None:
            at = entries[-1].at + self.exit_after_ms
            entries.append(Entry(len(entries), at, Kind.EXITED, "A", 0, text=self.exit))
        return attrs.evolve(history, entries=tuple(entries))

    def exits(self, status: str | None = "exit status 0", after_ms: float = 100) -> Self:
        """Choose how the process exits; None if it does not."""
        self.exit, self.exit_after_ms = status, after_ms
        return self

    def cancel(self, params: Any) -> Self:
        """Cancel a request."""
        return self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})


def begin(revision: Any) -> ClientMessages:
    return ClientMessages(revision, "stdio", {"A": None, "B": None})


def meta(capabilities: Any = None, **more: Any) -> dict[str, Any]:
    """Return the metadata of a request of 2026-07-28."""
    declared = {"extensions": {TASKS: {}}} if capabilities is None else capabilities
    return {
        META + "protocolVersion": NEW,
        META + "clientCapabilities": declared,
        META + "clientInfo": {"name": "a", "version": "1"},
        **more,
    }


def hello(capabilities: Any = None) -> ClientMessages:
    """Initialize a client of 2025-11-25 with these capabilities."""
    params = {"protocolVersion": OLD, "capabilities": capabilities or {}, "clientInfo": {}}
    server: Any = {
        "tools": {},
        "tasks": {"requests": {"tools": {"call": {}}}, "list": {}, "cancel": {}},
    }
    history = begin(OLD).request("initialize", params, id=0)
    history.answer({"protocolVersion": OLD, "capabilities": server})
    return history.send({"jsonrpc": "2.0", "method": "notifications/initialized"})


def asked(method: str, params: Any, answer: Any, capabilities: Any = None) -> ClientMessages:
    """Answer a request of the server."""
    history = hello(capabilities)
    history.receive({"jsonrpc": "2.0", "id": "q", "method": method, "params": params})
    return history.send({"jsonrpc": "2.0", "id": "q", **answer})


def elicited(answer: Any, can: Any = None, **params: Any) -> ClientMessages:
    """Answer an elicitation; the default client can elicit, but not as a task."""
    declared = {"elicitation": {}} if can is None else can
    return asked("elicitation/create", {**FORM, **params}, answer, declared)


def refusal(code: Any) -> dict[str, Any]:
    return {"error": {"code": code, "message": ""}}


def created(*polls: Any, **fields: Any) -> ClientMessages:
    """Create a task, then poll it."""
    return hello().create(a_task(), **fields).get(*polls)


def call(params: Any = None, **more: Any) -> ClientMessages:
    """Call a tool in 2026-07-28."""
    sent = {"name": "t", "arguments": {}, "_meta": meta(), **(params or {})}
    return begin(NEW).request("tools/call", sent, id=1, **more)


def ask(history: ClientMessages, method: str, **params: Any) -> ClientMessages:
    return history.request(method, {**params, "_meta": meta()})


def task(status: str = "working", **more: Any) -> dict[str, Any]:
    """Return a task of 2026-07-28."""
    return {"taskId": "task-a", "status": status, "pollIntervalMs": 100, **more}


def called() -> ClientMessages:
    """Call a tool in 2026-07-28; the server creates a task."""
    return call().answer({"resultType": "task", **task()})


def listing(*cursors: Any) -> ClientMessages:
    """List tools with these cursors; there are two pages."""
    history = hello()
    for cursor in cursors:
        params = {} if cursor is None else {"cursor": cursor}
        more = {"nextCursor": "two"} if cursor is None else {}
        history.request("tools/list", params).answer({"tools": [], **more})
    return history


KEYS = {
    "meta-prefix-format": "a..b/c",
    "meta-label-format": "1a.b/c",
    "meta-name-format": "a.b/-c",
    "meta-prefix-reserved": "a.mcp/x",
    "meta-prefix-reverse-dns": "example.com/x",
}
SLOW = a_task(pollInterval=900)
NAMED = {"taskId": "task-a"}

OLD_ROWS: Rows = {
    **{
        name: [bad(hello().request("ping", {"_meta": {key: 1}}))] for name, key in KEYS.items()
    },
    "jsonrpc-2-0": [good(hello()), mixed(hello().send({"id": 1, "method": "ping"}))],
    "request-id-type": [
        good(hello().request("ping", id="x")),
        mixed(hello().request("ping", id=1.5)),
    ],
    "notification-without-id": [mixed(hello().request("notifications/x", id=5))],
    "cancelled-same-direction": [bad(hello().cancel({"requestId": "?"}))],
    "initialize-first": [good(hello()), bad(begin(OLD).request("tools/list"))],
    "initialize-not-cancelled": [bad(hello().cancel({"requestId": 0}))],
    "cursors-not-persisted": [good(listing(None, "two")), bad(listing("two"))],
    "missing-cursor-is-end": [
        good(listing(None, "two"), listing(None, "two", None, "two")),
        mixed(listing(None, "two", "two")),
    ],
    "capability-shape": [good(hello(AS_TASKS)), bad(hello({"tasks": {"requests": True}}))],
    "client-capability-keys": [
        good(hello(AS_TASKS)),
        bad(hello({"tasks": {"requests": {"tools": {"call": {}}}}})),
    ],
    # --- requests of the server ---
    "elicitation-declared": [good(elicited(ACCEPT)), bad(elicited(ACCEPT, {}))],
    "elicitation-empty-is-form": [good(elicited(ACCEPT))],
    "elicitation-one-mode": [bad(elicited(refusal(-1)))],
    "elicitation-three-actions": [
        good(elicited({"result": {"action": "decline"}})),
        bad(elicited({"result": {"action": "later"}})),
    ],
    "sampling-declared": [bad(asked("sampling/createMessage", {}, SAMPLED))],
    "result-field": [bad(elicited({"result": 1}))],
    "error-code-integer": [bad(asked("ping", {}, refusal("x")))],
    "error-code-and-message": [bad(asked("ping", {}, {"error": {}}))],
    "related-task-value-shape": [bad(elicited({"result": {"_meta": {RELATED: "x"}}}, {}))],
    # --- tasks of the client ---
    "create-result-returned": [
        good(elicited(CREATED, AS_TASKS, task={})),
        bad(elicited(ACCEPT, AS_TASKS, task={})),
    ],
    "undeclared-type-processed-normally": [
        good(elicited(ACCEPT, task={})),
        bad(elicited(CREATED, task={}), elicited(refusal(-32600), task={})),
    ],
    "capability-declared": [bad(elicited(CREATED, {}, task={}))],
    "list-bad-cursor-32602": [
        bad(asked("tasks/list", {"cursor": "?"}, {"result": {"tasks": []}}, AS_TASKS))
    ],
    "list-capability": [bad(asked("tasks/list", {}, refusal(-32601), AS_TASKS))],
    "cancel-capability": [bad(asked("tasks/cancel", {"taskId": "x"}, refusal(-32601), AS_TASKS))],
    "sampling-tools-declared": [
        bad(
            asked(
                "sampling/createMessage",
                {"tools": TOOLS, "messages": TOOL_RESULTS},
                SAMPLED,
                {"sampling": {}},
            )
        )
    ],
    # --- tasks of the server ---
    "task-field-asks-for-task": [bad(created(task=True))],
    "no-related-task-on-list-request": [
        bad(hello().request("tasks/list", {"_meta": {RELATED: NAMED}}))
    ],
    "status-notification-not-relied-on": [
        good(created(a_task(status="completed"))),
        nothing(created().exits(STOPPED, 1_000)),
        bad(created().exits(STOPPED, 9_000)),
    ],
    "poll-until-terminal": [
        nothing(
            created(a_task()).exits("exit status 1"),
            created(a_task(status="input_required")),
            created(a_task()).request("tasks/cancel", NAMED),
        ),
        bad(created(a_task())),
    ],
    "poll-interval-respected": [
        good(created(SLOW).wait(600).get(SLOW)),
        # one short interval is an accident; a poll after an answer is not too early
        nothing(
            created(SLOW, SLOW),
            created(SLOW).request("tasks/result", NAMED).get(SLOW)
            .request("tasks/result", NAMED).get(SLOW),
        ),
    ],
    "result-called-on-input-required": [
        good(
            created().request("tasks/result", NAMED, id="r")
            .get(*[a_task(status="input_required")] * 3)
        )
    ],
}  # fmt: skip

NEW_ROWS: Rows = {
    "request-id-not-null": [good(call())],
    "request-id-not-in-use": [
        good(call().request("tools/list", {"_meta": meta()}, id=2)),
        bad(call().request("tools/list", {"_meta": meta()}, id=1)),
    ],
    "progress-token-type": [bad(call({"_meta": meta(progressToken=None)}))],
    "progress-token-unique": [
        bad(
            call({"_meta": meta(progressToken="p")}).request(
                "tools/call", {"name": "t", "_meta": meta(progressToken="p")}, id=2
            )
        )
    ],
    "trace-context-format": [
        good(call({"_meta": meta(traceparent=f"00-{'a' * 32}-{'b' * 16}-01")})),
        bad(call({"_meta": meta(traceparent="x")})),
    ],
    "client-uses-task-id": [bad(ask(called(), "tasks/get", taskId="other"))],
    "method-prefix-reserved": [bad(ask(begin(NEW), "tasks/result", taskId="task-a"))],
    "extension-identifier extension-id-format": [
        bad(call({"_meta": meta({"extensions": {"tasks": {}}})}))
    ],
    "capability-empty-object": [
        good(call()),
        bad(call({"_meta": meta({"extensions": {TASKS: True}})})),
    ],
    "extension-label-reserved": [bad(call({"_meta": meta(**{TASKS: {}})}))],
    "listen-with-task-ids": [
        good(ask(begin(NEW), "subscriptions/listen", notifications={"taskIds": ["task-a"]})),
        bad(ask(begin(NEW), "subscriptions/listen", taskIds=["task-a"])),
    ],
    "one-sided-extension": [
        bad(
            ask(
                begin(NEW).request("server/discover").answer({"capabilities": {}}),
                "tasks/get",
                taskId="task-a",
            )
        )
    ],
    "era-cached": [
        bad(
            begin(NEW).request("server/discover").request("server/discover")
            .request("server/discover").request("server/discover")
        )
    ],
    "stdio-cancelled-notification": [bad(call().cancel({}))],
    "client-handles-both-results": [
        nothing(called().exits("exit status 1", 1_000)),
        warning(called().exits(after_ms=1_000)),
    ],
    "stdio-process-outlives-task": [
        bad(
            called()
            .request("tools/call", {"name": "t", "_meta": meta()}, id=2, line=2)
            .answer({"resultType": "task", "taskId": "task-b", "status": "working"})
        )
    ],
    "elicitation-declared": [
        bad(
            called()
            .get(
                task(
                    "input_required",
                    inputRequests={"k": {"method": "elicitation/create", "params": FORM}},
                )
            )
            .request(
                "tasks/update", {"taskId": "task-a", "inputResponses": {"k": ACCEPT["result"]}}
            )
        )
    ],
}  # fmt: skip

CASES = table(OLD, OLD_ROWS, checks=CLIENT_CHECKS) + table(NEW, NEW_ROWS, checks=CLIENT_CHECKS)
