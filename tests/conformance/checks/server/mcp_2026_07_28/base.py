"""Base protocol of 2026-07-28: messages, errors, `_meta`, statelessness, versions."""

from typing import Any

from tests.conformance.checks.cases import Rows, bad, good, note, nothing, table
from tests.conformance.histories.wire_2026_07_28 import (
    CAPABILITIES,
    CLIENT,
    LISTED,
    MCP,
    SERVER,
    TASKS,
    VERSION,
    StatelessWire,
    http,
    shown,
    stdio,
)

UNDECLARED: dict[str, Any] = {CAPABILITIES: {}}
COMPLETE = {"resultType": "complete"}


def called(meta: Any = None) -> Any:
    return http().ask("tools/call", {"name": "a", "arguments": {}}, meta=meta)


def got(fields: Any, meta: Any = None) -> Any:
    return http().ask("tasks/get", {"taskId": "t1"}, meta=meta).answer(fields)


def failed(code: Any) -> Any:
    return got(shown(status="failed", error={"code": code, "message": "no"}))


def refused(code: Any, **how: Any) -> Any:
    return http().ask("tools/list").head(400).error(code, **how)


VERSIONED = {VERSION: "1900-01-01"}


def required(**missing: Any) -> dict[str, Any]:
    return {"data": {"requiredCapabilities": missing}}


STRANGE = {MCP + "unknown-key": 1}
OTHER = {CLIENT: {"name": "b", "version": "1"}}


def listed(history: StatelessWire, **how: Any) -> Any:
    """List tools twice; the first list is answered."""
    return history.list_tools().ask("tools/list", **how)


def undeclared(history: StatelessWire, result: Any) -> Any:
    return history.ask("tasks/get", {"taskId": "t1"}, meta=UNDECLARED).answer(result)


def elsewhere(code: int | None) -> Any:
    """Create a task on line 1, poll it on line 2 and again on line 1."""
    history = http().create().on(2).ask("tasks/get", {"taskId": "t1"})
    history = history.answer(shown()) if code is None else history.error(code)
    return history.on(1).ask("tasks/get", {"taskId": "t1"}).answer(shown())


FORM: dict[str, Any] = {"inputRequests": {"q": {"method": "elicitation/create", "params": {}}}}
CAN_ANSWER = {CAPABILITIES: {**TASKS, "elicitation": {}}}


def asking(create: Any, poll: Any) -> Any:
    """Create and poll a task that requires input with these capabilities."""
    history = http().create(meta=create).ask("tasks/get", {"taskId": "t1"}, meta=poll)
    return history.answer(shown(status="input_required", **FORM))


def acknowledged(meta: Any) -> Any:
    history = http().ask("subscriptions/listen", {"notifications": {}}, id="l").stream()
    return history.push("notifications/subscriptions/acknowledged", {"_meta": meta})


def keyed(key: str, value: Any) -> Any:
    return http().ask("tools/list").answer({**LISTED, "_meta": {key: value}})


TRACE = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"


def greeted(result: Any = None, code: int = -32601, words: str = "no") -> Any:
    """Send `initialize` after discovery."""
    history = http().discover().request("initialize", {"protocolVersion": "2025-11-25"})
    if result is None:
        return history.head(400).error(code, words)
    return history.head(200, mcp_session_id="s").answer(result)


def listed_of_old(code: int | None) -> Any:
    """List tools in a session of 2025-11-25."""
    headers = {"mcp-session-id": "s", "mcp-protocol-version": "2025-11-25"}
    history = greeted({"protocolVersion": "2025-11-25"}).request("tools/list", {}, headers=headers)
    return history.answer({"tools": []}) if code is None else history.error(code)


def unknown_version() -> Any:
    return http().ask("tools/list", meta=VERSIONED, headers={"mcp-protocol-version": "1900-01-01"})


def discovered(**changed: Any) -> Any:
    extensions: dict[str, Any] = {"extensions": {MCP + "tasks": {}}}
    fields = {"supportedVersions": ["2026-07-28"], "capabilities": extensions, **COMPLETE}
    return http().ask("server/discover").answer({**fields, **changed})


SUPPORTED = {"data": {"supported": ["2026-07-28"], "requested": "1900-01-01"}}


TWO = {"A": "a", "B": "b"}


def foreign(principals: Any, *codes: int | None) -> Any:
    """Poll A's task as B: first with another clientInfo, then with that of A."""
    history: Any = http(principals=principals or {"A": None, "B": None}).create()
    for meta, code in zip((OTHER, None), codes, strict=True):
        history.on(2, "B").ask("tasks/get", {"taskId": "t1"}, meta=meta)
        history = history.answer(shown()) if code is None else history.error(code)
    return history


KEYS = {
    "meta-prefix-format": ("org.x/y", "org..x/y"),
    "meta-label-format": ("org.x-1/y", "org.1x/y"),
    "meta-name-format": ("org.x/a-b", "org.x/-a"),
    "meta-prefix-reverse-dns": ("org.example/x", "example.org/x"),
    "meta-prefix-reserved": (MCP + "serverInfo", "com.mcp.tools/x"),
}

ROWS: Rows = {
    **{
        name: [good(keyed(right, 1)), bad(keyed(wrong, 1))] for name, (right, wrong) in KEYS.items()
    },
    "info-not-for-security": [
        good(foreign(TWO, -32602, -32602)),
        bad(foreign(TWO, -32602, None)),
        nothing(
            foreign(TWO, None, None),
            foreign(None, -32602, -32602),
            foreign(None, -32602, None),
            foreign(None, None, None),
        ),
    ],
    "jsonrpc-2-0": [
        good(stdio().list_tools()),
        bad(stdio().ask("tools/list").receive({"id": 1, "result": {}})),
    ],
    "result-same-id": [
        good(stdio().ask("x", id="7").answer({})),
        bad(stdio().ask("x", id="7").answer({}, id=7)),
    ],
    "result-field": [good(stdio().list_tools()), bad(stdio().ask("tools/list").answer([]))],
    "error-same-id": [
        good(stdio().ask("x").error(-32601)),
        bad(stdio().ask("x").error(-32601, id="y")),
    ],
    "error-code-and-message": [
        good(refused(-32602), failed(-31000)),
        bad(refused(-32602, message=None)),
    ],
    "error-code-integer": [good(refused(-32602)), bad(refused("-32602"), failed("x"))],
    "notification-not-answered": [
        good(stdio().notify("n").list_tools()),
        bad(stdio().notify("n").error(-32601, id=None)),
    ],
    "notification-without-id": [
        good(stdio().push("notifications/tasks", {})),
        bad(stdio().push("notifications/tasks", {}, id=1)),
    ],
    "result-any-object": [good(http().list_tools())],
    "result-type-present": [
        good(http().list_tools()),
        nothing(http().request("initialize", {}).answer({})),
        bad(
            http().ask("tools/list").answer({"tools": []}),
            http().ask("x").answer({"resultType": 1}),
        ),
    ],
    "result-type-complete-means-final": [
        good(http().list_tools()),
        nothing(called().answer({"resultType": "x"})),
        bad(called().answer(COMPLETE)),
    ],
    "result-type-input-required-means-more": [
        good(called().answer({"resultType": "input_required", "requestState": "x"})),
        bad(called().answer({"resultType": "input_required"})),
    ],
    "extensions-add-result-types": [good(http().create())],
    "result-types-from-capabilities": [
        good(http().create()),
        nothing(
            called({CAPABILITIES: {"extensions": {"org.x/y": {}}}}).answer({"resultType": "x"})
        ),
        bad(http().create(meta=UNDECLARED), called().answer({"resultType": "x"})),
    ],
    "error-data-optional": [good(refused(-32602, data=1))],
    "legacy-codes-avoided": [
        good(refused(-32602)),
        nothing(http().request("initialize", {}).error(-32000)),
        bad(refused(-32001), failed(-32000)),
    ],
    "reserved-codes-not-invented": [good(refused(-32021)), bad(refused(-32050), failed(-32099))],
    "old-codes-not-sent": [good(refused(-32602)), bad(refused(-32002), failed(-32042))],
    "own-codes-outside-range": [good(failed(-31000), failed(1)), bad(failed(-32100))],
    "reserved-codes-as-defined": [
        good(
            http().ask("x", headers={"mcp-method": "y"}).head(400).error(-32020),
            http().ask("x", headers={"mcp-protocol-version": "1"}).error(-32022),
            refused(-32021, **required(sampling={})),
            called({CAPABILITIES: {"elicitation": {"url": {}}}})
            .head(400)
            .error(-32021, **required(elicitation={})),
        ),
        bad(
            refused(-32020),
            stdio().ask("x").error(-32020),
            refused(-32022),
            refused(-32021, **required(**TASKS)),
        ),
    ],
    "undeclared-capability-32021": [
        good(refused(-32021, **required(sampling={}))),
        bad(refused(-32021), refused(-32021, data=["sampling"])),
    ],
    "undeclared-capability-400": [
        good(refused(-32021)),
        bad(http().ask("x").head(200).error(-32021)),
    ],
    "meta-no-assumptions": [
        good(http().list_tools(meta=STRANGE)),
        nothing(
            listed(http(), meta=STRANGE).error(-32603),
            http().ask("x", meta=STRANGE).error(-32601),
        ),
        bad(listed(http(), meta=STRANGE).error(-32602)),
    ],
    "meta-name-characters": [good(http().list_tools(meta={"org.x/a-b_c.d": 1}))],
    "meta-missing-32602": [
        good(listed(http(), meta={CAPABILITIES: None}).head(400).error(-32602)),
        nothing(
            http().list_tools(meta={VERSION: None}),
            listed(greeted(), meta={VERSION: None}).head(400).error(-32020),
            stdio().list_tools(meta={VERSION: None}),
            http().list_tools(meta={CLIENT: None}),
        ),
        bad(
            http().list_tools(meta={CAPABILITIES: None}),
            greeted().list_tools(meta={VERSION: None}),
            listed(http(), meta={CAPABILITIES: None}).head(400).error(-32600),
        ),
    ],
    "meta-missing-400": [
        good(listed(http(), meta={CAPABILITIES: None}).head(400).error(-32602)),
        bad(listed(http(), meta={CAPABILITIES: None}).head(200).error(-32602)),
    ],
    "server-info-sent": [
        good(http().ask("tools/list").answer({"_meta": SERVER})),
        nothing(refused(-32602)),
        bad(http().list_tools()),
    ],
    "info-changes-nothing": [
        good(http().list_tools().list_tools(meta=OTHER)),
        nothing(listed(http(), meta=OTHER).head(429).end()),
        bad(
            listed(http(), meta=OTHER).error(-32600),
            http()
            .list_tools()
            .ask("tasks/get", {"taskId": "t1"}, meta=OTHER)
            .answer(shown(status="failed"))
            .ask("tasks/get", {"taskId": "t1"})
            .answer(shown(status="completed")),
        ),
    ],
    "no-state-from-earlier-requests": [
        good(http().create().ask("tasks/get", {"taskId": "t1"}, meta=UNDECLARED).error(-32021)),
        nothing(undeclared(http(), shown())),
        bad(
            undeclared(http().create(), shown()),
            http().create().create("t2", meta=UNDECLARED),
        ),
    ],
    "many-conversations": [
        good(got(shown()).ask("tasks/get", {"taskId": "t2"}).answer(shown("t2"))),
        nothing(got(shown())),
        bad(got(shown("t2"))),
    ],
    "connection-not-required": [
        good(elsewhere(None)),
        nothing(elsewhere(-32603)),
        bad(elsewhere(-32602)),
    ],
    "state-by-explicit-id": [
        good(got(shown())),
        nothing(http().ask("tasks/get", {}).error(-32602)),
        bad(http().ask("tasks/get", {}).answer(shown())),
    ],
    "undeclared-capability-not-used": [
        good(asking(CAN_ANSWER, CAN_ANSWER)),
        note(asking(CAN_ANSWER, None)),
        bad(asking(None, None), called().answer({"resultType": "input_required", **FORM})),
    ],
    "subscription-id-in-meta": [
        good(acknowledged({MCP + "subscriptionId": "l"})),
        nothing(stdio().push("notifications/progress", {})),
        bad(acknowledged({}), stdio().push("notifications/tasks", {})),
    ],
    "trace-context-format": [
        good(
            keyed("traceparent", TRACE),
            keyed("tracestate", "a=1,b=2"),
            keyed("baggage", "a=1;p=2, b=3"),
        ),
        bad(keyed("traceparent", "00-0-0-0"), keyed("tracestate", "a"), keyed("baggage", 5)),
    ],
    "unsupported-version-32022": [
        good(unknown_version().error(-32022, **SUPPORTED)),
        nothing(unknown_version().error(-32603)),
        bad(
            unknown_version().error(-32022),
            unknown_version().error(-32602),
            unknown_version().answer(LISTED),
        ),
    ],
    "discover-implemented": [
        good(http().discover()),
        nothing(http().ask("server/discover").error(-32603)),
        bad(http().ask("server/discover").error(-32601)),
    ],
    "discover-result-fields": [
        good(discovered()),
        bad(discovered(supportedVersions=[]), discovered(capabilities=[])),
    ],
    "extension-id-format": [
        good(discovered()),
        bad(
            discovered(capabilities={"extensions": {"tasks": {}}}),
            discovered(capabilities={"extensions": {"-x/tasks": {}}}),
        ),
    ],
    "one-sided-extension": [
        good(called(UNDECLARED).answer(COMPLETE), called(UNDECLARED).error(-32021)),
        bad(http().create(meta=UNDECLARED)),
    ],
    "both-eras": [good(greeted())],
    "initialize-refusal-names-versions": [
        good(greeted(words="only 2026-07-28")),
        nothing(greeted({"protocolVersion": "x"})),
        bad(greeted()),
    ],
    "modern-request-served-statelessly": [
        good(greeted({"a": 1}).ask("tools/list").answer(LISTED)),
        bad(greeted({"a": 1}).ask("tools/list").answer({"tools": []})),
    ],
    "both-eras-concurrently": [good(greeted({"a": 1}).ask("tools/list").answer(LISTED))],
    "initialize-selects-legacy": [
        good(listed_of_old(None)),
        nothing(listed_of_old(-32603)),
        bad(listed_of_old(-32602)),
    ],
}

CASES = table("2026-07-28", ROWS)
