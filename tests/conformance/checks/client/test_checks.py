"""Histories by hand: what a check of clients condemns, what it accepts, and what it leaves alone.

They are told from the side of the client, whose requests are the ones that are `request`ed.
"""

from typing import Any, Final, Literal

import attrs
import pytest

from taskmachine.adapters.conformance.catalogue import load_checks
from taskmachine.adapters.conformance.clients.view import STOPPED, as_client, original
from taskmachine.adapters.conformance.history import Entry, History, Http, Kind
from taskmachine.adapters.conformance.judging import CLIENT_CHECKS
from tests.conformance.histories.told import Told, a_task, told

Revision = Literal["2025-11-25", "2026-07-28"]

OLD: Final = "2025-11-25"
NEW: Final = "2026-07-28"
META = "io.modelcontextprotocol/"
RELATED = META + "related-task"
TASKS = META + "tasks"


def seen(story: Told, left: str | None = "exit status 0", after_ms: float = 100) -> History:
    """The history as the tester has it."""
    history = as_client(story.history)
    entries = list(history.entries)
    if left is not None:
        at = entries[-1].at + after_ms
        entries.append(Entry(len(entries), at, Kind.EXITED, "A", 0, text=left))
    return attrs.evolve(history, entries=tuple(entries))


def outcomes(id: str, history: History) -> set[str]:
    """What the check of that requirement sees."""
    load_checks()
    return {observation.outcome for observation in CLIENT_CHECKS[id].observe(history)}


def meta(capabilities: Any = None, **more: Any) -> dict[str, Any]:
    """Of a request of 2026-07-28."""
    declared = {"extensions": {TASKS: {}}} if capabilities is None else capabilities
    return {
        META + "protocolVersion": NEW,
        META + "clientCapabilities": declared,
        META + "clientInfo": {"name": "a", "version": "1"},
        **more,
    }


def hello(capabilities: Any = None) -> Told:
    """A client of 2025-11-25 that has begun, with these capabilities."""
    params = {"protocolVersion": OLD, "capabilities": capabilities or {}, "clientInfo": {}}
    server: Any = {
        "tools": {},
        "tasks": {"requests": {"tools": {"call": {}}}, "list": {}, "cancel": {}},
    }
    story = told(OLD, "stdio").request("initialize", params, id=0)
    story.answer({"protocolVersion": OLD, "capabilities": server})
    return story.say({"jsonrpc": "2.0", "method": "notifications/initialized"})


def asked(method: str, params: Any, answer: Any, capabilities: Any) -> Told:
    """A request of the server, and what the client says to it."""
    story = hello(capabilities).hear(
        {"jsonrpc": "2.0", "id": "q", "method": method, "params": params}
    )
    return story.say({"jsonrpc": "2.0", "id": "q", **answer})


def call(params: Any = None, **more: Any) -> Told:
    """A tool call of 2026-07-28."""
    sent = {"name": "t", "arguments": {}, "_meta": meta(), **(params or {})}
    return told(NEW, "stdio").request("tools/call", sent, id=1, **more)


def task(status: str = "working", **more: Any) -> dict[str, Any]:
    """A task of 2026-07-28."""
    return {"taskId": "task-a", "status": status, "pollIntervalMs": 100, **more}


FORM = {"mode": "form", "message": "?", "requestedSchema": {"type": "object"}}
ACCEPT = {"result": {"action": "accept", "content": {}}}
SAMPLED = {"result": {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"}}
TOOLS = [{"name": "weather", "inputSchema": {"type": "object"}}]
AS_TASKS: Any = {
    "elicitation": {},
    "sampling": {},
    "tasks": {"requests": {"elicitation": {"create": {}}, "sampling": {"createMessage": {}}}},
}
DETAILED = {"2025-11-25:meta-prefix-format": "a..b/c", "2025-11-25:meta-label-format": "1a.b/c",
            "2025-11-25:meta-name-format": "a.b/-c", "2025-11-25:meta-prefix-reserved": "a.mcp/x",
            "2025-11-25:meta-prefix-reverse-dns": "example.com/x"}  # fmt: skip


def listing(*cursors: Any) -> Told:
    """A client that lists tools with these cursors; there are two pages."""
    story = hello()
    for cursor in cursors:
        params = {} if cursor is None else {"cursor": cursor}
        more = {"nextCursor": "two"} if cursor is None else {}
        story.request("tools/list", params).answer({"tools": [], **more})
    return story


CASES: list[tuple[str, str, History]] = [
    # --- messages ---------------------------------------------------------------------------
    ("2025-11-25:jsonrpc-2-0", "bad", seen(hello().say({"id": 1, "method": "ping"}))),
    ("2025-11-25:jsonrpc-2-0", "good", seen(hello())),
    ("2025-11-25:request-id-type", "bad", seen(hello().request("ping", id=1.5))),
    ("2025-11-25:request-id-type", "good", seen(hello().request("ping", id="x"))),
    ("2026-07-28:request-id-not-null", "good", seen(call())),
    ("2025-11-25:notification-without-id", "bad", seen(hello().request("notifications/x", id=5))),
    ("2026-07-28:request-id-not-in-use", "bad",
     seen(call().request("tools/list", {"_meta": meta()}, id=1))),
    ("2026-07-28:request-id-not-in-use", "good",
     seen(call().request("tools/list", {"_meta": meta()}, id=2))),
    ("2026-07-28:progress-token-type", "bad", seen(call({"_meta": meta(progressToken=None)}))),
    ("2026-07-28:progress-token-unique", "bad",
     seen(call({"_meta": meta(progressToken="p")}).request(
         "tools/call", {"name": "t", "_meta": meta(progressToken="p")}, id=2))),
    ("2026-07-28:trace-context-format", "bad", seen(call({"_meta": meta(traceparent="x")}))),
    ("2026-07-28:trace-context-format", "good",
     seen(call({"_meta": meta(traceparent=f"00-{'a' * 32}-{'b' * 16}-01")}))),
    *((id, "bad", seen(hello().request("ping", {"_meta": {key: 1}})))
      for id, key in DETAILED.items()),
    ("2025-11-25:cancelled-same-direction", "bad", seen(hello().say(
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "?"}}))),
    # --- the begin --------------------------------------------------------------------------
    ("2025-11-25:initialize-first", "bad", seen(told(OLD, "stdio").request("tools/list"))),
    ("2025-11-25:initialize-first", "good", seen(hello())),
    ("2025-11-25:initialize-not-cancelled", "bad", seen(hello().say(
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 0}}))),
    ("2025-11-25:cursors-not-persisted", "bad", seen(listing("two"))),
    ("2025-11-25:cursors-not-persisted", "good", seen(listing(None, "two"))),
    ("2025-11-25:missing-cursor-is-end", "good", seen(listing(None, "two"))),
    ("2025-11-25:missing-cursor-is-end", "bad", seen(listing(None, "two", "two"))),
    ("2025-11-25:missing-cursor-is-end", "good", seen(listing(None, "two", None, "two"))),
    ("2025-11-25:capability-shape", "bad", seen(hello({"tasks": {"requests": True}}))),
    ("2025-11-25:capability-shape", "good", seen(hello(AS_TASKS))),
    ("2025-11-25:client-capability-keys", "bad",
     seen(hello({"tasks": {"requests": {"tools": {"call": {}}}}}))),
    ("2025-11-25:client-capability-keys", "good", seen(hello(AS_TASKS))),
    # --- what the server asks ---------------------------------------------------------------
    ("2025-11-25:elicitation-declared", "bad",
     seen(asked("elicitation/create", FORM, ACCEPT, {}))),
    ("2025-11-25:elicitation-declared", "good",
     seen(asked("elicitation/create", FORM, ACCEPT, {"elicitation": {}}))),
    ("2025-11-25:elicitation-empty-is-form", "good",
     seen(asked("elicitation/create", FORM, ACCEPT, {"elicitation": {}}))),
    ("2025-11-25:elicitation-one-mode", "bad", seen(asked(
        "elicitation/create", FORM, {"error": {"code": -1, "message": ""}}, {"elicitation": {}}))),
    ("2025-11-25:elicitation-three-actions", "good", seen(asked(
        "elicitation/create", FORM, {"result": {"action": "decline"}}, {"elicitation": {}}))),
    ("2025-11-25:elicitation-three-actions", "bad", seen(asked(
        "elicitation/create", FORM, {"result": {"action": "later"}}, {"elicitation": {}}))),
    ("2025-11-25:sampling-declared", "bad",
     seen(asked("sampling/createMessage", {}, SAMPLED, {}))),
    ("2025-11-25:result-field", "bad",
     seen(asked("elicitation/create", FORM, {"result": 1}, {"elicitation": {}}))),
    ("2025-11-25:error-code-integer", "bad", seen(asked(
        "ping", {}, {"error": {"code": "x", "message": ""}}, {}))),
    ("2025-11-25:error-code-and-message", "bad", seen(asked("ping", {}, {"error": {}}, {}))),
    ("2025-11-25:related-task-value-shape", "bad", seen(asked(
        "elicitation/create", FORM, {"result": {"_meta": {RELATED: "x"}}}, {}))),
    # --- tasks of the client ----------------------------------------------------------------
    ("2025-11-25:create-result-returned", "bad", seen(asked(
        "elicitation/create", {**FORM, "task": {}}, ACCEPT, AS_TASKS))),
    ("2025-11-25:create-result-returned", "good", seen(asked(
        "elicitation/create", {**FORM, "task": {}}, {"result": {"task": a_task()}}, AS_TASKS))),
    ("2025-11-25:undeclared-type-processed-normally", "good", seen(asked(
        "elicitation/create", {**FORM, "task": {}}, ACCEPT, {"elicitation": {}}))),
    ("2025-11-25:undeclared-type-processed-normally", "bad", seen(asked(
        "elicitation/create", {**FORM, "task": {}}, {"result": {"task": a_task()}},
        {"elicitation": {}}))),
    ("2025-11-25:undeclared-type-processed-normally", "bad", seen(asked(
        "elicitation/create", {**FORM, "task": {}}, {"error": {"code": -32600, "message": ""}},
        {"elicitation": {}}))),
    ("2025-11-25:capability-declared", "bad", seen(asked(
        "elicitation/create", {**FORM, "task": {}}, {"result": {"task": a_task()}}, {}))),
    ("2025-11-25:list-bad-cursor-32602", "bad", seen(asked(
        "tasks/list", {"cursor": "?"}, {"result": {"tasks": []}}, AS_TASKS))),
    ("2025-11-25:list-capability", "bad", seen(asked(
        "tasks/list", {}, {"error": {"code": -32601, "message": ""}}, AS_TASKS))),
    ("2025-11-25:cancel-capability", "bad", seen(asked(
        "tasks/cancel", {"taskId": "x"}, {"error": {"code": -32601, "message": ""}}, AS_TASKS))),
    ("2025-11-25:sampling-tools-declared", "bad", seen(asked(
        "sampling/createMessage",
        {"tools": TOOLS, "messages": [{"role": "user", "content": [{"type": "tool_result"}]}]},
        SAMPLED, {"sampling": {}}))),
    # --- tasks of the server ----------------------------------------------------------------
    ("2025-11-25:task-field-asks-for-task", "bad", seen(hello().create(a_task(), task=True))),
    ("2025-11-25:no-related-task-on-list-request", "bad", seen(hello().request(
        "tasks/list", {"_meta": {RELATED: {"taskId": "task-a"}}}))),
    ("2025-11-25:status-notification-not-relied-on", "bad",
     seen(hello().create(a_task()), STOPPED, 9_000)),
    ("2025-11-25:status-notification-not-relied-on", "nothing",
     seen(hello().create(a_task()), STOPPED, 1_000)),
    ("2025-11-25:status-notification-not-relied-on", "good",
     seen(hello().create(a_task()).get(a_task(status="completed")))),
    ("2025-11-25:poll-until-terminal", "nothing",
     seen(hello().create(a_task()).get(a_task()), "exit status 1")),
    ("2025-11-25:poll-until-terminal", "nothing",
     seen(hello().create(a_task()).get(a_task(status="input_required")))),
    ("2025-11-25:poll-until-terminal", "bad", seen(hello().create(a_task()).get(a_task()))),
    ("2025-11-25:poll-until-terminal", "nothing", seen(
        hello().create(a_task()).get(a_task()).request("tasks/cancel", {"taskId": "task-a"}))),
    # One short gap is an accident, and a poll after an answer is no poll too much.
    ("2025-11-25:poll-interval-respected", "nothing", seen(
        hello().create(a_task()).get(a_task(pollInterval=900)).get(a_task(pollInterval=900)))),
    ("2025-11-25:poll-interval-respected", "good", seen(
        hello().create(a_task()).get(a_task(pollInterval=900)).wait(600)
        .get(a_task(pollInterval=900)))),
    ("2025-11-25:poll-interval-respected", "nothing", seen(
        hello().create(a_task()).get(a_task(pollInterval=900))
        .request("tasks/result", {"taskId": "task-a"}).get(a_task(pollInterval=900))
        .request("tasks/result", {"taskId": "task-a"}).get(a_task(pollInterval=900)))),
    ("2025-11-25:result-called-on-input-required", "good", seen(
        hello().create(a_task()).request("tasks/result", {"taskId": "task-a"}, id="r")
        .get(a_task(status="input_required")).get(a_task(status="input_required"))
        .get(a_task(status="input_required")))),
    ("2026-07-28:client-uses-task-id", "bad", seen(
        call().answer({"resultType": "task", **task()})
        .request("tasks/get", {"taskId": "other", "_meta": meta()}))),
    ("2026-07-28:method-prefix-reserved", "bad", seen(
        told(NEW, "stdio").request("tasks/result", {"taskId": "task-a", "_meta": meta()}))),
    ("2026-07-28:extension-identifier", "bad",
     seen(call({"_meta": meta({"extensions": {"tasks": {}}})}))),
    ("2026-07-28:extension-id-format", "bad",
     seen(call({"_meta": meta({"extensions": {"tasks": {}}})}))),
    ("2026-07-28:capability-empty-object", "bad",
     seen(call({"_meta": meta({"extensions": {TASKS: True}})}))),
    ("2026-07-28:capability-empty-object", "good", seen(call())),
    ("2026-07-28:extension-label-reserved", "bad", seen(call({"_meta": meta(**{TASKS: {}})}))),
    ("2026-07-28:listen-with-task-ids", "bad", seen(told(NEW, "stdio").request(
        "subscriptions/listen", {"taskIds": ["task-a"], "_meta": meta()}))),
    ("2026-07-28:listen-with-task-ids", "good", seen(told(NEW, "stdio").request(
        "subscriptions/listen", {"notifications": {"taskIds": ["task-a"]}, "_meta": meta()}))),
    ("2026-07-28:one-sided-extension", "bad", seen(
        told(NEW, "stdio").request("server/discover").answer({"capabilities": {}})
        .request("tasks/get", {"taskId": "task-a", "_meta": meta()}))),
    ("2026-07-28:era-cached", "bad", seen(
        told(NEW, "stdio").request("server/discover").request("server/discover")
        .request("server/discover").request("server/discover"))),
    ("2026-07-28:stdio-cancelled-notification", "bad", seen(call().say(
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}}))),
    ("2026-07-28:client-handles-both-results", "nothing", seen(
        call().answer({"resultType": "task", **task()}), "exit status 1", 1_000)),
    ("2026-07-28:client-handles-both-results", "warning", seen(
        call().answer({"resultType": "task", **task()}), after_ms=1_000)),
    ("2026-07-28:stdio-process-outlives-task", "bad", seen(
        call().answer({"resultType": "task", **task()})
        .request("tools/call", {"name": "t", "_meta": meta()}, id=2, line=2)
        .answer({"resultType": "task", "taskId": "task-b", "status": "working"}))),
    ("2026-07-28:elicitation-declared", "bad", seen(
        call().answer({"resultType": "task", **task()})
        .get(task("input_required", inputRequests={
            "k": {"method": "elicitation/create", "params": FORM}}))
        .request("tasks/update", {"taskId": "task-a", "inputResponses": {"k": ACCEPT["result"]}}))),
]  # fmt: skip


@pytest.mark.parametrize(
    ("id", "expected", "history"),
    CASES,
    ids=[f"{id} {expected} {number}" for number, (id, expected, _) in enumerate(CASES)],
)
def test_a_history_is_judged(id: str, expected: str, history: History) -> None:
    found = outcomes(id, history)
    if expected == "nothing":
        assert not found
    else:
        assert expected in found
        assert found <= {expected, "good"}


JUNK: list[Any] = [None, 1, "x", [], [1], {}, {"x": None}]
METHODS = ("tools/list", "tools/call", "tasks/get", "tasks/update", "tasks/list", "tasks/cancel")


@pytest.mark.parametrize("junk", JUNK, ids=repr)
@pytest.mark.parametrize("revision", [OLD, NEW])
def test_no_check_falls_over_what_a_client_says(revision: Revision, junk: Any) -> None:
    """Fields of any type, in every place."""
    load_checks()
    story = told(revision, "stdio").request("initialize", junk, id=0).answer({"capabilities": {}})
    story.create(a_task()).create(task("input_required", inputRequests={}))
    for method in METHODS:
        fields = dict.fromkeys(
            ("_meta", "taskId", "task", "cursor", "arguments", "inputResponses", "name"), junk
        )
        story.request(method, junk).request(method, fields)
        story.request(method, {**fields, "taskId": "task-a", "_meta": dict.fromkeys(meta(), junk)})
    for kind in ("elicitation/create", "sampling/createMessage", "tasks/get", "tasks/list"):
        question = {"jsonrpc": "2.0", "id": kind, "method": kind, "params": {**FORM, "task": {}}}
        story.hear(question).say({"id": kind, "result": junk}).say({"id": kind, "error": junk})
    story.say(junk).say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": junk})
    story.say(
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": junk}}
    )
    for check in set(CLIENT_CHECKS.values()):
        list(check.observe(seen(story)))


def test_evidence_is_as_the_tester_saw_it() -> None:
    history = seen(hello())
    [first, *_] = as_client(history).entries
    assert first.kind is Kind.SENT
    assert original(history, first) is history.entries[0]


def test_the_view_of_the_client_is_the_other_side() -> None:
    history = seen(hello().create(a_task()), None)
    assert not history.exchanges
    assert [e.method for e in as_client(history).exchanges] == ["initialize", "tools/call"]
    kinds = [entry.kind for entry in as_client(as_client(history)).entries]
    assert kinds == [entry.kind for entry in history.entries]


def test_accept_lists_types_one_by_one() -> None:
    http = Http("POST", 0, {"accept": "text/event-stream;q=0.5,  application/json"})
    entry = Entry(0, 0, Kind.HEARD, "A", 1, 1, {"id": 1, "method": "ping"}, None, http)
    assert outcomes("2026-07-28:http-accept-both", History(NEW, "http", (entry,))) == {"good"}
