"""The checks of the transports of 2026-07-28, against histories written by hand."""

from collections.abc import Callable
from typing import Any

import pytest

from taskmachine.adapters.conformance.catalogue import load_checks
from tests.conformance.histories.modern import (
    LISTED,
    MCP,
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
META = {"_meta": {VERSION: "2026-07-28"}}
SUBSCRIBED = {"_meta": {MCP + "subscriptionId": "l1"}}


def modern_only() -> Any:
    """The target has refused `initialize`."""
    tale = by_http().discovers()
    tale.request("initialize", {"protocolVersion": "2025-11-25"}).head(400).error(-32601)
    return tale


def elsewhere(status: int) -> Any:
    """A request from a page of nobody."""
    return by_http().ask("tools/list", headers={"origin": "https://evil.example"}).head(status)


def listens(tale: Modern, id: str = "l1", **how: Any) -> Any:
    """A subscription that was acknowledged."""
    tale.ask("subscriptions/listen", {"notifications": {"taskIds": ["t1"]}}, id=id, **how).stream()
    meta = {"_meta": {MCP + "subscriptionId": id}}
    return tale.tells("notifications/subscriptions/acknowledged", meta)


ENDPOINT: list[Row] = [
    ("http-single-endpoint", lambda: by_http().lists(), PASS),
    ("http-single-endpoint", lambda: by_http().ask("tools/list").head(405).ends(), FAIL),
    ("http-single-endpoint", lambda: by_http().ask("tools/list").head(404).ends(), FAIL),
    ("http-single-endpoint", lambda: by_http().ask("x/y").head(404).error(-32601), PASS),
    ("http-single-endpoint", lambda: by_http().ask("tools/list").head(429).ends(), SILENT),
    ("http-origin-validated", lambda: elsewhere(403).ends(), PASS),
    ("http-origin-validated", lambda: elsewhere(200).answer(LISTED), FAIL),
    ("http-origin-validated", lambda: elsewhere(429), SILENT),
    ("http-origin-403", lambda: elsewhere(403).ends(), PASS),
    ("http-origin-403", lambda: elsewhere(400).error(-32600), FAIL),
    ("http-origin-403-body", lambda: elsewhere(403).error(-32600, id=None), PASS),
    ("http-origin-403-body", lambda: elsewhere(403).error(-32600), NOTE),
    ("http-authentication", lambda: by_http().lists(), NOTE),
    ("http-202-for-notification", lambda: by_http().notify("n", META).head(202, "").ends(), PASS),
    ("http-202-for-notification", lambda: by_http().notify("n", META).head(200, "").ends(), FAIL),
    (
        "http-202-for-notification",
        lambda: by_http().notify("n", META).head(202).answer({}, id=1),
        FAIL,
    ),
    ("http-202-for-notification", lambda: by_http().notify("n", META).head(400), SILENT),
    (
        "http-error-for-refused-notification",
        lambda: by_http().notify("n", META).head(400).error(-32600, id=None),
        PASS,
    ),
    (
        "http-error-for-refused-notification",
        lambda: by_http().notify("n", META).head(200).error(-32600, id=None),
        FAIL,
    ),
    ("http-error-for-refused-notification", lambda: by_http().sent({"method": 7}).head(202), WARN),
    ("http-refused-notification-body", lambda: by_http().notify("n", META).head(400), PASS),
    (
        "http-refused-notification-body",
        lambda: by_http().notify("n", META).head(400).error(-32600, id=5),
        NOTE,
    ),
    ("http-json-or-sse", lambda: by_http().lists(), PASS),
    (
        "http-json-or-sse",
        lambda: by_http().ask("tools/list").head(200, "application/json; charset=utf-8"),
        PASS,
    ),
    ("http-json-or-sse", lambda: by_http().ask("tools/list").stream().answer(LISTED), PASS),
    (
        "http-json-or-sse",
        lambda: by_http().ask("tools/list").head(200, "text/plain").answer(LISTED),
        FAIL,
    ),
]


def versioned(header: str | None, body: str | None = "2026-07-28", tale: Any = None) -> Any:
    """A list of tools under these versions."""
    found: Modern = by_http() if tale is None else tale
    return found.ask("tools/list", meta={VERSION: body}, headers={"mcp-protocol-version": header})


def asked_for_oldest() -> Any:
    """The target did not want to speak 2025-03-26."""
    tale = by_http().discovers("2026-07-28").lists()
    tale.request("initialize", {"protocolVersion": "2025-03-26"})
    tale.answer({"protocolVersion": "2025-11-25"})
    return tale


def speaks_oldest() -> Any:
    """The target does."""
    tale = by_http().discovers("2026-07-28").lists()
    tale.request("initialize", {"protocolVersion": "2025-03-26"})
    tale.answer({"protocolVersion": "2025-03-26"})
    return tale


OLD = "1900-01-01"

STATUSES: list[Row] = [
    (
        "http-version-mismatch-32020",
        lambda: versioned("2025-11-25").head(400).error(-32020),
        PASS,
    ),
    ("http-version-mismatch-32020", lambda: versioned("2025-11-25").answer(LISTED), FAIL),
    (
        "http-version-mismatch-32020",
        lambda: (
            versioned("2027-01-01", tale=by_http().discovers("2026-07-28", "2027-01-01"))
            .head(400)
            .error(-32022)
        ),
        FAIL,
    ),
    (
        "http-version-mismatch-32020",
        lambda: versioned("2025-11-25").head(400).error(-32600),
        SILENT,
    ),
    ("http-version-mismatch-32020", lambda: versioned(OLD).head(400).error(-32600), FAIL),
    ("http-version-mismatch-32020", lambda: versioned(OLD).head(400).error(-32022), SILENT),
    ("http-version-mismatch-32020", lambda: versioned(OLD).head(429).error(-32600), SILENT),
    ("http-version-mismatch-32020", lambda: versioned(OLD).head(400).error(-32603), SILENT),
    ("http-unsupported-version-400", lambda: versioned(OLD, OLD).head(400).error(-32022), PASS),
    ("http-unsupported-version-400", lambda: versioned(OLD, OLD).head(200).error(-32022), FAIL),
    (
        "http-unsupported-version-400",
        lambda: versioned("2025-11-25", "2025-11-25").head(200).error(-32022),
        SILENT,
    ),
    ("http-unknown-method-404", lambda: by_http().ask("tasks/list").head(404).error(-32601), PASS),
    ("http-unknown-method-404", lambda: by_http().ask("x/y").head(404).error(-32601), PASS),
    ("http-unknown-method-404", lambda: by_http().ask("x/y").head(200).error(-32601), FAIL),
    ("http-unknown-method-404", lambda: by_http().ask("x/y").head(404).ends(), FAIL),
    ("http-unknown-method-404", lambda: by_http().ask("x/y").head(429).error(-32600), SILENT),
    ("http-unknown-method-404", lambda: by_http().ask("x/y").head(200).answer({}), SILENT),
    (
        "http-unknown-method-404",
        lambda: by_http().ask("tools/call", {"name": "a"}).head(200).error(-32602),
        SILENT,
    ),
    ("http-version-header-missing-legacy", lambda: versioned(None).answer(LISTED), PASS),
    (
        "http-version-header-missing-refused",
        lambda: versioned(None, tale=asked_for_oldest()).head(400).error(-32020),
        PASS,
    ),
    (
        "http-version-header-missing-refused",
        lambda: versioned(None, tale=asked_for_oldest()).answer(LISTED),
        FAIL,
    ),
    (
        "http-version-header-missing-refused",
        lambda: versioned(None, tale=asked_for_oldest()).head(400).error(-32600),
        FAIL,
    ),
    (
        "http-version-header-missing-refused",
        lambda: versioned(None, tale=speaks_oldest()).answer(LISTED),
        SILENT,
    ),
    (
        "http-version-header-missing-refused",
        lambda: versioned(None, tale=by_http().discovers()).answer(LISTED),
        SILENT,
    ),
]

SESSION = {"mcp-session-id": "s"}
LAST = {"last-event-id": "1"}

OF_OLD: list[Row] = [
    ("http-get-delete-405", lambda: modern_only().sent(method="GET").head(405), PASS),
    ("http-get-delete-405", lambda: modern_only().sent(method="DELETE").head(404), FAIL),
    ("http-get-delete-405", lambda: by_http().discovers().sent(method="GET").head(404), SILENT),
    ("http-get-delete-405", lambda: modern_only().sent(method="GET").head(401), SILENT),
    ("http-session-id-ignored", lambda: modern_only().lists(headers=SESSION), PASS),
    (
        "http-session-id-ignored",
        lambda: modern_only().lists().ask("tools/list", headers=SESSION).head(404).error(-32600),
        FAIL,
    ),
    (
        "http-session-id-ignored",
        lambda: modern_only().ask("tools/list").head(200, mcp_session_id="s").answer(LISTED),
        FAIL,
    ),
    (
        "http-session-id-ignored",
        lambda: by_http().discovers().lists().ask("tools/list", headers=SESSION).error(-32600),
        SILENT,
    ),
    ("http-last-event-id-ignored", lambda: listens(modern_only(), headers=LAST), PASS),
    (
        "http-last-event-id-ignored",
        lambda: modern_only().lists().ask("tools/list", headers=LAST).head(400).error(-32600),
        FAIL,
    ),
    ("sse-not-resumable", lambda: listens(by_http(), headers=LAST), PASS),
    (
        "sse-not-resumable",
        lambda: listens(by_http(), headers=LAST).tells(
            "notifications/tasks", {"_meta": {MCP + "subscriptionId": "l0"}}
        ),
        FAIL,
    ),
    (
        "sse-not-resumable",
        lambda: by_http().sent(method="GET", headers=LAST).stream().answer({}, id=3),
        FAIL,
    ),
    ("sse-not-resumable", lambda: by_http().sent(method="GET", headers=LAST).head(405), PASS),
]


def streamed(**headers: Any) -> Any:
    """A plain call that is answered by a stream."""
    tale = by_http().ask("tools/call", {"name": "a"}, id=1, meta={"progressToken": "p"})
    return tale.head(200, "text/event-stream", **headers)


def progress(token: Any) -> dict[str, Any]:
    return {"progressToken": token, "progress": 1}


def later(tale: Any) -> Any:
    """Another request is answered 6 s later."""
    return tale.request("tools/list", {}, after=6000).answer(LISTED)


def left() -> Any:
    """A subscription that was left; another request goes on."""
    return listens(by_http(), "l1").leaves().ask("tasks/get", {"taskId": "t1"}, id=2)


STREAMS: list[Row] = [
    (
        "sse-notifications-before-response",
        lambda: streamed().tells("notifications/progress", progress("p")).answer({}),
        PASS,
    ),
    ("sse-notifications-before-response", lambda: streamed().answer({}), SILENT),
    (
        "sse-notifications-related",
        lambda: streamed().tells("notifications/progress", progress("p")),
        PASS,
    ),
    ("sse-notifications-related", lambda: streamed().tells("notifications/message", {}), PASS),
    ("sse-notifications-related", lambda: listens(by_http()), PASS),
    (
        "sse-notifications-related",
        lambda: streamed().tells("notifications/progress", progress("q")),
        FAIL,
    ),
    ("sse-notifications-related", lambda: streamed().tells("notifications/tasks", {}), FAIL),
    ("sse-ends-after-response", lambda: streamed().answer({}).ends(), PASS),
    ("sse-ends-after-response", lambda: later(streamed().answer({})).ends(post=1), FAIL),
    ("sse-ends-after-response", lambda: later(streamed().answer({})), FAIL),
    ("sse-ends-after-response", lambda: later(streamed().answer({}).ends()), PASS),
    ("sse-ends-after-response", lambda: streamed().answer({}).leaves(after=6000), SILENT),
    ("sse-ends-after-response", lambda: streamed().answer({}).leaves(), SILENT),
    ("sse-ends-after-response", lambda: streamed().answer({}).tells("notifications/x"), FAIL),
    ("sse-ends-after-response", lambda: listens(by_http()).leaves(after=9000), SILENT),
    ("sse-no-buffering-header", lambda: streamed(x_accel_buffering="no"), PASS),
    ("sse-no-buffering-header", lambda: streamed(), FAIL),
    ("sse-no-buffering-header", lambda: by_http().lists(), SILENT),
    ("http-silence-after-cancel", lambda: left().answer(shown()), PASS),
    (
        "http-silence-after-cancel",
        lambda: left().stream().tells("notifications/tasks", SUBSCRIBED),
        FAIL,
    ),
    ("http-silence-after-cancel", lambda: left().stream().answer({}, id="l1"), FAIL),
    (
        "http-silence-after-cancel",
        lambda: (
            streamed()
            .leaves()
            .ask("tools/list")
            .stream()
            .tells("notifications/progress", progress("p"))
        ),
        FAIL,
    ),
    ("http-silence-after-cancel", lambda: listens(left().answer(shown()), "l2"), PASS),
    ("http-silence-after-cancel", lambda: by_http().lists(), SILENT),
]


def cancelled() -> Any:
    """A call that was cancelled; two others were answered since."""
    tale: Any = by_pipe().ask("tools/call", {"name": "a"}, id="c", meta={"progressToken": "p"})
    return tale.notify("notifications/cancelled", {"requestId": "c"}).lists().lists()


PIPES: list[Row] = [
    ("stdio-stdout-only-mcp", lambda: by_pipe().lists(), PASS),
    ("stdio-stdout-only-mcp", lambda: by_pipe().says(text="starting..."), FAIL),
    ("stdio-no-embedded-newlines", lambda: by_pipe().lists(), PASS),
    ("stdio-no-embedded-newlines", lambda: by_pipe().says(text="{").says(text="}"), FAIL),
    ("stdio-silence-after-cancel", lambda: cancelled(), PASS),
    (
        "stdio-silence-after-cancel",
        lambda: cancelled().tells("notifications/progress", progress("p")),
        FAIL,
    ),
    ("stdio-silence-after-cancel", lambda: cancelled().answer({}, id="c"), WARN),
    (
        "stdio-silence-after-cancel",
        lambda: (
            by_pipe()
            .ask("tools/list", id="c")
            .notify("notifications/cancelled", {"requestId": "c"})
            .answer(LISTED, id="c")
        ),
        SILENT,
    ),
    ("stdio-exit-on-eof", lambda: by_pipe().lists().leaves().exits(), PASS),
    ("stdio-exit-on-eof", lambda: by_pipe().leaves().gives_up(after=5001), FAIL),
    ("stdio-exit-on-eof", lambda: by_pipe().leaves().gives_up(after=2000), SILENT),
    ("stdio-exit-on-eof", lambda: by_pipe().lists().exits(), SILENT),
    ("messages-utf8", lambda: by_pipe().ask("tools/list", id="é").answer(LISTED), PASS),
    ("messages-utf8", lambda: by_pipe().says(text='{"a": "\N{REPLACEMENT CHARACTER}"'), FAIL),
    ("binding-delivers", lambda: by_http().lists(), PASS),
    ("binding-delivers", lambda: by_http().ask("tools/list").stream().ends(), FAIL),
    ("binding-delivers", lambda: listens(by_http()).ends(), SILENT),
    ("binding-delivers", lambda: by_http().ask("tools/list").head(500).ends(), SILENT),
    ("binding-may-mirror", lambda: by_http().lists(), PASS),
]

ROWS = [*ENDPOINT, *STATUSES, *OF_OLD, *STREAMS, *PIPES]


@pytest.mark.parametrize(("name", "tale", "expected"), ROWS)
def test_what_a_check_says(name: str, tale: Callable[[], Any], expected: set[str]) -> None:
    seen = outcomes(f"2026-07-28:{name}", tale())
    assert seen - {"good"} == expected - {"good"}
    assert seen >= expected


def test_credentials_count_where_there_are_some() -> None:
    known = {"A": "a", "B": "b"}
    served = by_http().lists()
    refused = by_http().ask("tools/list").head(401)
    assert outcomes("2026-07-28:http-authentication", served, known) == FAIL
    assert outcomes("2026-07-28:http-authentication", refused, known) == PASS
