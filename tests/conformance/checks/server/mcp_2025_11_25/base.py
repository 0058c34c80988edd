"""Messages, lifecycle, versions and capabilities of 2025-11-25."""

from typing import Any

from tests.conformance.checks.cases import (
    BAD,
    GOOD,
    MIXED,
    NOTE,
    NOTHING,
    Rows,
    bad,
    good,
    mixed,
    note,
    nothing,
    row,
    table,
    warning,
)
from tests.conformance.histories.wire import Wire, http, stdio

QUESTION = "elicitation/create"
INFO = {"name": "a", "version": "1"}


def hello(
    wire: Wire,
    proposed: str = "2025-11-25",
    agreed: str = "2025-11-25",
    *,
    declared: Any = None,
    offered: Any = None,
) -> Wire:
    """Perform `initialize`."""
    params = {"protocolVersion": proposed, "capabilities": declared or {}}
    fields = {"protocolVersion": agreed, "capabilities": offered or {}, "serverInfo": INFO}
    return wire.request("initialize", params).answer(fields)


def ready(wire: Wire, **how: Any) -> Wire:
    return hello(wire, **how).notify("notifications/initialized")


# --- requests of the target ----------------------------------------------------------------------


# --- what is tolerated ---------------------------------------------------------------------------

UNKNOWN = {"_meta": {"io.modelcontextprotocol/unknown": 1}}


# --- initialization ------------------------------------------------------------------------------


def http_hello(wire: Wire) -> Wire:
    fields = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": INFO}
    return wire.on(1).request("initialize", {}).head(mcp_session_id="s").answer(fields)


# --- versions ------------------------------------------------------------------------------------


def second(agreed: str, proposed: str = "2025-11-25") -> Wire:
    """Propose a version to a target that supports 2025-11-25."""
    return hello(hello(stdio()).on(2), proposed, agreed)


TASK = {"task": {"taskId": "t", "status": "working"}}


def older(offered: Any = None) -> Wire:
    return ready(stdio(), proposed="2025-06-18", agreed="2025-06-18", offered=offered)


# --- capabilities --------------------------------------------------------------------------------


def proposed(wire: Wire) -> Wire:
    """Propose an unknown version; the response is missing."""
    return wire.request("initialize", {"protocolVersion": "1900-01-01"})


def introduced(**change: Any) -> Wire:
    fields = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": INFO} | change
    return stdio().request("initialize", {}).answer(fields)


def used(declared: Any, method: str, **params: Any) -> Wire:
    """Receive a request from a target; the tester declared these capabilities."""
    return ready(stdio(), declared=declared).push(method, params, id=1)


SAMPLING = "sampling/createMessage"
SAMPLING_TASKS: dict[str, Any] = {"requests": {"sampling": {"createMessage": {}}}}

ROWS: Rows = {
    "request-id-type request-id-not-null": [
        good(*(stdio().push(QUESTION, id=id) for id in (1, "a", 2.0))),
        row(stdio().push(QUESTION, id=1.5), BAD, GOOD),
        row(stdio().push(QUESTION, id=True), BAD, GOOD),
        row(stdio().push(QUESTION, id=[]), BAD, GOOD),
        row(stdio().push(QUESTION, id=None), NOTHING, BAD),
    ],
    "meta-name-characters result-any-object": [
        good(stdio().request("ping", {"_meta": {"org.example/a_b-c.d": 1}}).answer({}))
    ],
    "base-protocol-supported": [
        good(hello(stdio())),
        nothing(stdio().request("initialize").error(-1)),
        bad(stdio().request("initialize", {}).error(-32601)),
    ],
    "initialize-answered": [
        good(introduced(), introduced(instructions="none")),
        bad(
            introduced(protocolVersion=None),
            introduced(capabilities=[]),
            introduced(serverInfo="me"),
            introduced(serverInfo={"name": "me"}),
        ),
    ],
    "only-negotiated-capabilities": [
        good(
            used({"elicitation": {}}, QUESTION),
            used({"elicitation": {"form": {}}}, QUESTION, mode="form"),
            used({"elicitation": {"url": {}}}, QUESTION, mode="url"),
            used({"sampling": {}}, SAMPLING),
            used({}, "ping"),
            used({"tasks": {}}, "tasks/get", taskId="t"),
            used({"sampling": {}, "tasks": SAMPLING_TASKS}, SAMPLING, task={}),
            ready(stdio()).request("tools/call", {"name": "a"}).answer(TASK),
        ),
        bad(
            used({}, QUESTION),
            used({"elicitation": {"form": {}}}, QUESTION, mode="url"),
            used({"elicitation": {}}, SAMPLING),
            used({}, "roots/list"),
            used({}, "tasks/get", taskId="t"),
            used({"sampling": {}, "tasks": {}}, SAMPLING, task={}),
        ),
    ],
    "request-id-not-reused": [
        good(
            stdio().push(QUESTION, id=1).push(QUESTION, id=2),
            stdio().push(QUESTION, id=1).push(QUESTION, id="1"),
            stdio().push(QUESTION, id=1).on(2).push(QUESTION, id=1),
        ),
        mixed(
            stdio().push(QUESTION, id=1).push(QUESTION, id=1),
            http().request("a").push(QUESTION, id=1).request("b").push(QUESTION, {"x": 1}, id=1),
        ),
        # the same request on a resumed stream
        good(http().request("a").push(QUESTION, id=1).request("b").push(QUESTION, id=1)),
    ],
    "meta-no-assumptions": [
        good(stdio().request("ping", UNKNOWN).answer({})),
        nothing(
            stdio().request("ping").answer({}).request("ping", UNKNOWN).error(-32603),
            stdio().request("ping", UNKNOWN).error(-32602),
            stdio().request("ping", {"_meta": {"progressToken": 1}}).answer({}),
            stdio().request("tasks/get", UNKNOWN).error(-32602),
        ),
        bad(stdio().request("ping").answer({}).request("ping", UNKNOWN).error(-32602)),
    ],
    "initialize-first": [
        good(
            hello(stdio().request("tools/list").error(-32600)),
            http_hello(http().on(2).request("tools/list").head(400).on(1)),
        ),
        nothing(
            hello(stdio().request("ping").answer({})),
            hello(stdio()).request("tools/list").answer({"tools": []}),
            http_hello(http())
            .request("tools/list", headers={"mcp-session-id": "s"})
            .answer({"tools": []}),
        ),
        bad(
            hello(stdio().request("tools/list").answer({"tools": []})),
            http_hello(http().on(2).request("tools/list").answer({"tools": []}).on(1)),
        ),
        # answered after initialization
        nothing(hello(stdio().request("tools/list", id=7)).answer({"tools": []}, id=7)),
        # without sessions, lines cannot be told apart
        nothing(hello(http().on(2).request("tools/list").answer({"tools": []}).on(1))),
    ],
    "server-waits-for-initialized": [
        good(hello(stdio()).request("ping").answer({}).notify("notifications/initialized")),
        nothing(
            ready(stdio()).push(QUESTION, id=1),
            hello(stdio()).push("ping", id=1).notify("notifications/initialized"),
            hello(stdio()).push("notifications/message").notify("notifications/initialized"),
        ),
        bad(
            hello(stdio()).push(QUESTION, id=1).notify("notifications/initialized"),
            hello(stdio()).push(QUESTION, id=1),
        ),
    ],
    "server-same-version server-other-version server-version-latest": [
        good(second("2025-11-25", "1900-01-01"), second("2026-07-28", "1900-01-01")),
        row(second("2025-11-25"), GOOD, NOTHING, NOTHING),
        row(second("2025-06-18"), MIXED, NOTHING, NOTHING),
        row(second("2024-11-05", "1900-01-01"), GOOD, GOOD, BAD),
        row(second("1900-01-01", "1900-01-01"), GOOD, BAD, NOTHING),
        row(second("the-latest", "the-latest"), GOOD, BAD, NOTHING),
        row(second("2025-11-25", "2025-06-18"), GOOD, NOTHING, NOTHING),
    ],
    "server-other-version negotiation-errors-handled": [
        nothing(stdio().request("initialize", {"protocolVersion": "2025-11-25"}).time_out()),
        row(
            proposed(stdio()).error(-32602),
            NOTE,
            GOOD,
        ),
        row(
            proposed(stdio()).error(-32603),
            BAD,
            GOOD,
        ),
        row(
            proposed(stdio()).time_out(),
            NOTHING,
            BAD,
        ),
        row(proposed(stdio()).exit(), NOTHING, BAD),
        row(proposed(http()).head(400), NOTHING, GOOD),
        row(
            proposed(http()).head(429).error(-1),
            NOTHING,
            GOOD,
        ),
    ],
    "version-respected": [
        good(older().request("tools/call", {"name": "a"}).answer({"content": []})),
        nothing(older(), ready(stdio()).request("tools/call", {"name": "a"}).answer(TASK)),
        note(older({"tasks": {}})),
        warning(older().request("tools/call", {"name": "a", "task": {}}).answer(TASK)),
        bad(
            older().request("tools/call", {"name": "a"}).answer(TASK),
            older().push("notifications/tasks/status", {"taskId": "t"}),
        ),
    ],
}

CASES = table("2025-11-25", ROWS)
