"""The checks of the base protocol of 2026-07-28, against histories written by hand."""

from collections.abc import Callable
from typing import Any

import pytest

from taskmachine.adapters.conformance.catalogue import load_checks, requirements_of_servers
from taskmachine.adapters.conformance.judging import CHECKS
from tests.conformance.checks.server.mcp_2026_07_28.transports.test_endpoint import (
    ROWS as ROWS_OF_TRANSPORTS,
)
from tests.conformance.checks.server.mcp_2026_07_28.transports.test_headers import (
    ROWS as ROWS_OF_HEADERS,
)
from tests.conformance.histories.modern import (
    CAPABILITIES,
    CLIENT,
    LISTED,
    MCP,
    SERVER,
    TASKS,
    VERSION,
    Modern,
    by_http,
    by_pipe,
    outcomes,
    shown,
)

load_checks()

PASS, FAIL, WARN, NOTE, SILENT = {"good"}, {"bad"}, {"warning"}, {"note"}, set[str]()
Row = tuple[str, Callable[[], Any], set[str]]
NOTHING: dict[str, Any] = {CAPABILITIES: {}}
COMPLETE = {"resultType": "complete"}


def called(meta: Any = None) -> Any:
    return by_http().ask("tools/call", {"name": "a", "arguments": {}}, meta=meta)


def got(fields: Any, meta: Any = None) -> Any:
    return by_http().ask("tasks/get", {"taskId": "t1"}, meta=meta).answer(fields)


def failed(code: Any) -> Any:
    return got(shown(status="failed", error={"code": code, "message": "no"}))


def refused(code: Any, **how: Any) -> Any:
    return by_http().ask("tools/list").head(400).error(code, **how)


MESSAGES: list[Row] = [
    ("jsonrpc-2-0", lambda: by_pipe().lists(), PASS),
    ("jsonrpc-2-0", lambda: by_pipe().ask("tools/list").says({"id": 1, "result": {}}), FAIL),
    ("result-same-id", lambda: by_pipe().ask("x", id="7").answer({}), PASS),
    ("result-same-id", lambda: by_pipe().ask("x", id="7").answer({}, id=7), FAIL),
    ("result-field", lambda: by_pipe().lists(), PASS),
    ("result-field", lambda: by_pipe().ask("tools/list").answer([]), FAIL),
    ("error-same-id", lambda: by_pipe().ask("x").error(-32601), PASS),
    ("error-same-id", lambda: by_pipe().ask("x").error(-32601, id="y"), FAIL),
    ("error-code-and-message", lambda: refused(-32602), PASS),
    ("error-code-and-message", lambda: refused(-32602, message=None), FAIL),
    ("error-code-and-message", lambda: failed(-31000), PASS),
    ("error-code-integer", lambda: refused(-32602), PASS),
    ("error-code-integer", lambda: refused("-32602"), FAIL),
    ("error-code-integer", lambda: failed("x"), FAIL),
    ("notification-not-answered", lambda: by_pipe().notify("n").lists(), PASS),
    ("notification-not-answered", lambda: by_pipe().notify("n").error(-32601, id=None), FAIL),
    ("notification-without-id", lambda: by_pipe().tells("notifications/tasks", {}), PASS),
    ("notification-without-id", lambda: by_pipe().tells("notifications/tasks", {}, id=1), FAIL),
]

RESULTS: list[Row] = [
    ("result-any-object", lambda: by_http().lists(), PASS),
    ("result-type-present", lambda: by_http().lists(), PASS),
    ("result-type-present", lambda: by_http().ask("tools/list").answer({"tools": []}), FAIL),
    ("result-type-present", lambda: by_http().ask("x").answer({"resultType": 1}), FAIL),
    ("result-type-present", lambda: by_http().request("initialize", {}).answer({}), SILENT),
    ("result-type-complete-means-final", lambda: by_http().lists(), PASS),
    ("result-type-complete-means-final", lambda: called().answer(COMPLETE), FAIL),
    ("result-type-complete-means-final", lambda: called().answer({"resultType": "x"}), SILENT),
    (
        "result-type-input-required-means-more",
        lambda: called().answer({"resultType": "input_required", "requestState": "x"}),
        PASS,
    ),
    (
        "result-type-input-required-means-more",
        lambda: called().answer({"resultType": "input_required"}),
        FAIL,
    ),
    ("extensions-add-result-types", lambda: by_http().creates(), PASS),
    ("result-types-from-capabilities", lambda: by_http().creates(), PASS),
    ("result-types-from-capabilities", lambda: by_http().creates(meta=NOTHING), FAIL),
    ("result-types-from-capabilities", lambda: called().answer({"resultType": "x"}), FAIL),
    (
        "result-types-from-capabilities",
        lambda: called({CAPABILITIES: {"extensions": {"org.x/y": {}}}}).answer({"resultType": "x"}),
        SILENT,
    ),
]

VERSIONED = {VERSION: "1900-01-01"}


def required(**missing: Any) -> dict[str, Any]:
    return {"data": {"requiredCapabilities": missing}}


ERRORS: list[Row] = [
    ("error-data-optional", lambda: refused(-32602, data=1), PASS),
    ("legacy-codes-avoided", lambda: refused(-32602), PASS),
    ("legacy-codes-avoided", lambda: refused(-32001), FAIL),
    ("legacy-codes-avoided", lambda: failed(-32000), FAIL),
    ("legacy-codes-avoided", lambda: by_http().request("initialize", {}).error(-32000), SILENT),
    ("reserved-codes-not-invented", lambda: refused(-32021), PASS),
    ("reserved-codes-not-invented", lambda: refused(-32050), FAIL),
    ("reserved-codes-not-invented", lambda: failed(-32099), FAIL),
    ("old-codes-not-sent", lambda: refused(-32602), PASS),
    ("old-codes-not-sent", lambda: refused(-32002), FAIL),
    ("old-codes-not-sent", lambda: failed(-32042), FAIL),
    ("own-codes-outside-range", lambda: failed(-31000), PASS),
    ("own-codes-outside-range", lambda: failed(1), PASS),
    ("own-codes-outside-range", lambda: failed(-32100), FAIL),
    ("reserved-codes-as-defined", lambda: refused(-32020), FAIL),
    ("reserved-codes-as-defined", lambda: by_pipe().ask("x").error(-32020), FAIL),
    (
        "reserved-codes-as-defined",
        lambda: by_http().ask("x", headers={"mcp-method": "y"}).head(400).error(-32020),
        PASS,
    ),
    ("reserved-codes-as-defined", lambda: refused(-32022), FAIL),
    (
        "reserved-codes-as-defined",
        lambda: by_http().ask("x", headers={"mcp-protocol-version": "1"}).error(-32022),
        PASS,
    ),
    ("reserved-codes-as-defined", lambda: refused(-32021, **required(**TASKS)), FAIL),
    ("reserved-codes-as-defined", lambda: refused(-32021, **required(sampling={})), PASS),
    (
        "reserved-codes-as-defined",
        lambda: (
            called({CAPABILITIES: {"elicitation": {"url": {}}}})
            .head(400)
            .error(-32021, **required(elicitation={}))
        ),
        PASS,
    ),
    ("undeclared-capability-32021", lambda: refused(-32021, **required(sampling={})), PASS),
    ("undeclared-capability-32021", lambda: refused(-32021), FAIL),
    ("undeclared-capability-32021", lambda: refused(-32021, data=["sampling"]), FAIL),
    ("undeclared-capability-400", lambda: refused(-32021), PASS),
    ("undeclared-capability-400", lambda: by_http().ask("x").head(200).error(-32021), FAIL),
]

STRANGE = {MCP + "nobody-knows": 1}
OTHER = {CLIENT: {"name": "b", "version": "1"}}


def listed(tale: Modern, **how: Any) -> Any:
    """A list that could be served: its twin was."""
    return tale.lists().ask("tools/list", **how)


KEYS: list[Row] = [
    ("meta-no-assumptions", lambda: by_http().lists(meta=STRANGE), PASS),
    ("meta-no-assumptions", lambda: listed(by_http(), meta=STRANGE).error(-32602), FAIL),
    ("meta-no-assumptions", lambda: listed(by_http(), meta=STRANGE).error(-32603), SILENT),
    ("meta-no-assumptions", lambda: by_http().ask("x", meta=STRANGE).error(-32601), SILENT),
    ("meta-name-characters", lambda: by_http().lists(meta={"org.x/a-b_c.d": 1}), PASS),
    (
        "meta-missing-32602",
        lambda: listed(by_http(), meta={CAPABILITIES: None}).head(400).error(-32602),
        PASS,
    ),
    ("meta-missing-32602", lambda: by_http().lists(meta={CAPABILITIES: None}), FAIL),
    ("meta-missing-32602", lambda: greeted().lists(meta={VERSION: None}), FAIL),
    ("meta-missing-32602", lambda: by_http().lists(meta={VERSION: None}), SILENT),
    (
        "meta-missing-32602",
        lambda: listed(by_http(), meta={CAPABILITIES: None}).head(400).error(-32600),
        FAIL,
    ),
    (
        "meta-missing-32602",
        lambda: listed(greeted(), meta={VERSION: None}).head(400).error(-32020),
        SILENT,
    ),
    ("meta-missing-32602", lambda: by_pipe().lists(meta={VERSION: None}), SILENT),
    ("meta-missing-32602", lambda: by_http().lists(meta={CLIENT: None}), SILENT),
    (
        "meta-missing-400",
        lambda: listed(by_http(), meta={CAPABILITIES: None}).head(400).error(-32602),
        PASS,
    ),
    (
        "meta-missing-400",
        lambda: listed(by_http(), meta={CAPABILITIES: None}).head(200).error(-32602),
        FAIL,
    ),
    ("server-info-sent", lambda: by_http().ask("tools/list").answer({"_meta": SERVER}), PASS),
    ("server-info-sent", lambda: by_http().lists(), FAIL),
    ("server-info-sent", lambda: refused(-32602), SILENT),
    ("info-changes-nothing", lambda: by_http().lists().lists(meta=OTHER), PASS),
    ("info-changes-nothing", lambda: listed(by_http(), meta=OTHER).error(-32600), FAIL),
    ("info-changes-nothing", lambda: listed(by_http(), meta=OTHER).head(429).ends(), SILENT),
    (
        "info-changes-nothing",
        lambda: (
            by_http()
            .lists()
            .ask("tasks/get", {"taskId": "t1"}, meta=OTHER)
            .answer(shown(status="failed"))
            .ask("tasks/get", {"taskId": "t1"})
            .answer(shown(status="completed"))
        ),
        SILENT | {"bad"},
    ),
]


@pytest.mark.parametrize(
    ("name", "fine", "wrong"),
    [
        ("meta-prefix-format", "org.x/y", "org..x/y"),
        ("meta-label-format", "org.x-1/y", "org.1x/y"),
        ("meta-name-format", "org.x/a-b", "org.x/-a"),
        ("meta-prefix-reverse-dns", "org.example/x", "example.org/x"),
        ("meta-prefix-reserved", MCP + "serverInfo", "com.mcp.tools/x"),
    ],
)
def test_what_a_check_says_of_a_key(name: str, fine: str, wrong: str) -> None:
    for key, expected in ((fine, PASS), (wrong, FAIL)):
        tale = by_http().ask("tools/list").answer({**LISTED, "_meta": {key: 1}})
        assert outcomes(f"2026-07-28:{name}", tale) == expected


def undeclared(tale: Modern, result: Any) -> Any:
    return tale.ask("tasks/get", {"taskId": "t1"}, meta=NOTHING).answer(result)


def elsewhere(code: int | None) -> Any:
    """A task of line 1, asked for on line 2, then again on line 1."""
    tale = by_http().creates().on(2).ask("tasks/get", {"taskId": "t1"})
    tale = tale.answer(shown()) if code is None else tale.error(code)
    return tale.on(1).ask("tasks/get", {"taskId": "t1"}).answer(shown())


FORM: dict[str, Any] = {"inputRequests": {"q": {"method": "elicitation/create", "params": {}}}}
CAN_ANSWER = {CAPABILITIES: {**TASKS, "elicitation": {}}}


def asking(create: Any, poll: Any) -> Any:
    """A task that asks, created and polled with these capabilities."""
    tale = by_http().creates(meta=create).ask("tasks/get", {"taskId": "t1"}, meta=poll)
    return tale.answer(shown(status="input_required", **FORM))


def told_on_listen(meta: Any) -> Any:
    tale = by_http().ask("subscriptions/listen", {"notifications": {}}, id="l").stream()
    return tale.tells("notifications/subscriptions/acknowledged", {"_meta": meta})


def traced(key: str, value: Any) -> Any:
    return by_http().ask("tools/list").answer({**LISTED, "_meta": {key: value}})


TRACE = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"

STATE: list[Row] = [
    (
        "no-state-from-earlier-requests",
        lambda: by_http().creates().ask("tasks/get", {"taskId": "t1"}, meta=NOTHING).error(-32021),
        PASS,
    ),
    ("no-state-from-earlier-requests", lambda: undeclared(by_http().creates(), shown()), FAIL),
    ("no-state-from-earlier-requests", lambda: undeclared(by_http(), shown()), SILENT),
    (
        "no-state-from-earlier-requests",
        lambda: by_http().creates().creates("t2", meta=NOTHING),
        FAIL,
    ),
    ("many-conversations", lambda: got(shown()), SILENT),
    (
        "many-conversations",
        lambda: got(shown()).ask("tasks/get", {"taskId": "t2"}).answer(shown("t2")),
        PASS,
    ),
    ("many-conversations", lambda: got(shown("t2")), FAIL),
    ("connection-not-required", lambda: elsewhere(None), PASS),
    ("connection-not-required", lambda: elsewhere(-32602), FAIL),
    ("connection-not-required", lambda: elsewhere(-32603), SILENT),
    ("state-by-explicit-id", lambda: got(shown()), PASS),
    ("state-by-explicit-id", lambda: by_http().ask("tasks/get", {}).answer(shown()), FAIL),
    ("state-by-explicit-id", lambda: by_http().ask("tasks/get", {}).error(-32602), SILENT),
    ("undeclared-capability-not-used", lambda: asking(CAN_ANSWER, CAN_ANSWER), PASS),
    ("undeclared-capability-not-used", lambda: asking(CAN_ANSWER, None), NOTE),
    ("undeclared-capability-not-used", lambda: asking(None, None), FAIL),
    (
        "undeclared-capability-not-used",
        lambda: called().answer({"resultType": "input_required", **FORM}),
        FAIL,
    ),
    ("subscription-id-in-meta", lambda: told_on_listen({MCP + "subscriptionId": "l"}), PASS),
    ("subscription-id-in-meta", lambda: told_on_listen({}), FAIL),
    ("subscription-id-in-meta", lambda: by_pipe().tells("notifications/tasks", {}), FAIL),
    ("subscription-id-in-meta", lambda: by_pipe().tells("notifications/progress", {}), SILENT),
    ("trace-context-format", lambda: traced("traceparent", TRACE), PASS),
    ("trace-context-format", lambda: traced("traceparent", "00-0-0-0"), FAIL),
    ("trace-context-format", lambda: traced("tracestate", "a=1,b=2"), PASS),
    ("trace-context-format", lambda: traced("tracestate", "a"), FAIL),
    ("trace-context-format", lambda: traced("baggage", "a=1;p=2, b=3"), PASS),
    ("trace-context-format", lambda: traced("baggage", 5), FAIL),
]


def greeted(result: Any = None, code: int = -32601, words: str = "no") -> Any:
    """An `initialize`, after discovery."""
    tale = by_http().discovers().request("initialize", {"protocolVersion": "2025-11-25"})
    if result is None:
        return tale.head(400).error(code, words)
    return tale.head(200, mcp_session_id="s").answer(result)


def listed_of_old(code: int | None) -> Any:
    """A list of tools in a session of the revision before."""
    headers = {"mcp-session-id": "s", "mcp-protocol-version": "2025-11-25"}
    tale = greeted({"protocolVersion": "2025-11-25"}).request("tools/list", {}, headers=headers)
    return tale.answer({"tools": []}) if code is None else tale.error(code)


def unknown_version() -> Any:
    return by_http().ask(
        "tools/list", meta=VERSIONED, headers={"mcp-protocol-version": "1900-01-01"}
    )


def discovered(**changed: Any) -> Any:
    extensions: dict[str, Any] = {"extensions": {MCP + "tasks": {}}}
    fields = {"supportedVersions": ["2026-07-28"], "capabilities": extensions, **COMPLETE}
    return by_http().ask("server/discover").answer({**fields, **changed})


SUPPORTED = {"data": {"supported": ["2026-07-28"], "requested": "1900-01-01"}}

VERSIONS: list[Row] = [
    ("unsupported-version-32022", lambda: unknown_version().error(-32022, **SUPPORTED), PASS),
    ("unsupported-version-32022", lambda: unknown_version().error(-32022), FAIL),
    ("unsupported-version-32022", lambda: unknown_version().error(-32602), FAIL),
    ("unsupported-version-32022", lambda: unknown_version().answer(LISTED), FAIL),
    ("unsupported-version-32022", lambda: unknown_version().error(-32603), SILENT),
    ("discover-implemented", lambda: by_http().discovers(), PASS),
    ("discover-implemented", lambda: by_http().ask("server/discover").error(-32601), FAIL),
    ("discover-implemented", lambda: by_http().ask("server/discover").error(-32603), SILENT),
    ("discover-result-fields", lambda: discovered(), PASS),
    ("discover-result-fields", lambda: discovered(supportedVersions=[]), FAIL),
    ("discover-result-fields", lambda: discovered(capabilities=[]), FAIL),
    ("extension-id-format", lambda: discovered(), PASS),
    (
        "extension-id-format",
        lambda: discovered(capabilities={"extensions": {"tasks": {}}}),
        FAIL,
    ),
    (
        "extension-id-format",
        lambda: discovered(capabilities={"extensions": {"-x/tasks": {}}}),
        FAIL,
    ),
    ("one-sided-extension", lambda: called(NOTHING).answer(COMPLETE), PASS),
    ("one-sided-extension", lambda: called(NOTHING).error(-32021), PASS),
    ("one-sided-extension", lambda: by_http().creates(meta=NOTHING), FAIL),
    ("both-eras", lambda: greeted(), PASS),
    (
        "initialize-refusal-names-versions",
        lambda: greeted(words="only 2026-07-28"),
        PASS,
    ),
    ("initialize-refusal-names-versions", lambda: greeted(), FAIL),
    ("initialize-refusal-names-versions", lambda: greeted({"protocolVersion": "x"}), SILENT),
    (
        "modern-request-served-statelessly",
        lambda: greeted({"a": 1}).ask("tools/list").answer(LISTED),
        PASS,
    ),
    (
        "modern-request-served-statelessly",
        lambda: greeted({"a": 1}).ask("tools/list").answer({"tools": []}),
        FAIL,
    ),
    ("both-eras-concurrently", lambda: greeted({"a": 1}).ask("tools/list").answer(LISTED), PASS),
    ("initialize-selects-legacy", lambda: listed_of_old(None), PASS),
    ("initialize-selects-legacy", lambda: listed_of_old(-32602), FAIL),
    ("initialize-selects-legacy", lambda: listed_of_old(-32603), SILENT),
]

ROWS = [*MESSAGES, *RESULTS, *ERRORS, *KEYS, *STATE, *VERSIONS]


@pytest.mark.parametrize(("name", "tale", "expected"), ROWS)
def test_what_a_check_says(name: str, tale: Callable[[], Any], expected: set[str]) -> None:
    seen = outcomes(f"2026-07-28:{name}", tale())
    assert seen - {"good"} == expected - {"good"}
    assert seen >= expected


def foreign(*codes: int | None) -> Any:
    """The task of A as B gets it: first under another name, then under the name of A."""
    tale: Any = by_http().creates()
    for meta, code in zip((OTHER, None), codes, strict=True):
        tale.on(2, "B").ask("tasks/get", {"taskId": "t1"}, meta=meta)
        tale = tale.answer(shown()) if code is None else tale.error(code)
    return tale


@pytest.mark.parametrize(
    ("codes", "expected"),
    [((-32602, -32602), PASS), ((-32602, None), FAIL), ((None, None), SILENT)],
)
def test_the_name_of_a_client_opens_no_door(
    codes: tuple[int | None, ...], expected: set[str]
) -> None:
    known = {"A": "a", "B": "b"}
    assert outcomes("2026-07-28:info-not-for-security", foreign(*codes), known) == expected
    assert outcomes("2026-07-28:info-not-for-security", foreign(*codes)) == SILENT


PAGES = ("basic/index", "basic/versioning", "basic/transports/", "server/discover")
OF_THEIR_OWN = ("http-authentication", "info-not-for-security", "meta-")  # tests, not rows
GARBAGE: list[Any] = [None, True, 1.5, "x", [], [[]], {}, {"a": []}, [{"name": []}]]


@pytest.mark.parametrize("value", GARBAGE)
def test_no_check_stumbles_over_garbage(value: Any) -> None:
    names: tuple[str, ...] = (
        "resultType",
        "taskId",
        "status",
        "inputRequests",
        "result",
        "error",
        "content",
    )
    names = (*names, "supportedVersions", "capabilities", "tools", "protocolVersion", "_meta")
    marked = {"name": "a", "inputSchema": {"properties": {"n": mark_of(value)}}}
    for tale in (by_http(), by_pipe()):
        for method in ("server/discover", "tools/list", "tools/call", "tasks/get", "initialize"):
            for meta in (None, NOTHING, OTHER, STRANGE):
                params = {"taskId": "t1", "name": "a", "arguments": {"n": 1}}
                tale.ask(method, params, meta=meta).answer(dict.fromkeys(names, value))
            tale.ask(method).answer(value)
            tale.ask(method).error(value, value, data=value)
            tale.ask(method).error(-32021, data={"requiredCapabilities": value})
            tale.ask(method).error(-32022, data={"supported": value})
        tale.ask("tools/list").answer({**LISTED, "tools": [marked, value]})
        tale.ask("tasks/get", {"taskId": value}).answer(shown(status=value, error={"code": value}))
        tale.tells("notifications/tasks", value).tells("notifications/progress", {"x": value})
        tale.notify("notifications/cancelled", {"requestId": value}).says(value)
        for id, row in requirements_of_servers("2026-07-28").items():
            if id in CHECKS and row.page.startswith(PAGES):
                outcomes(id, tale)


def mark_of(value: Any) -> dict[str, Any]:
    return {"type": value, "x-mcp-header": value}


def test_every_check_of_these_pages_is_seen_to_accept_and_to_condemn() -> None:
    said: dict[str, set[str]] = {}
    for name, _, expected in [*ROWS, *ROWS_OF_TRANSPORTS, *ROWS_OF_HEADERS]:
        said.setdefault(name, set()).update(expected)
    for id, row in requirements_of_servers("2026-07-28").items():
        name = id.partition(":")[2]
        if id not in CHECKS or not row.page.startswith(PAGES) or name.startswith(OF_THEIR_OWN):
            continue
        assert "good" in said.get(name, ()), name
        assert row.level == "MAY" or said[name] & {"bad", "warning"}, name
