"""Streamable HTTP and stdio of 2026-07-28."""

from typing import Any

from tests.conformance.checks.cases import Rows, bad, good, note, nothing, table, warning
from tests.conformance.histories.wire_2026_07_28 import (
    LISTED,
    MCP,
    VERSION,
    StatelessWire,
    http,
    shown,
    stdio,
)

TWO = {"A": "a", "B": "b"}
META = {"_meta": {VERSION: "2026-07-28"}}
SUBSCRIBED = {"_meta": {MCP + "subscriptionId": "l1"}}


def modern_only() -> Any:
    """Begin with a server that refuses `initialize`."""
    history = http().discover()
    history.request("initialize", {"protocolVersion": "2025-11-25"}).head(400).error(-32601)
    return history


def elsewhere(status: int) -> Any:
    """Send a request with a foreign Origin."""
    return http().ask("tools/list", headers={"origin": "https://evil.example"}).head(status)


def listens(history: StatelessWire, id: str = "l1", **how: Any) -> Any:
    """Subscribe; the server acknowledges."""
    history.ask(
        "subscriptions/listen", {"notifications": {"taskIds": ["t1"]}}, id=id, **how
    ).stream()
    meta = {"_meta": {MCP + "subscriptionId": id}}
    return history.push("notifications/subscriptions/acknowledged", meta)


def versioned(header: str | None, body: str | None = "2026-07-28", history: Any = None) -> Any:
    """List tools with these versions in header and body."""
    found: StatelessWire = http() if history is None else history
    return found.ask("tools/list", meta={VERSION: body}, headers={"mcp-protocol-version": header})


def asked_for_oldest(agreed: str = "2025-11-25") -> Any:
    """Propose 2025-03-26 to a server that agrees on another version."""
    history = http().discover("2026-07-28").list_tools()
    return history.request("initialize", {"protocolVersion": "2025-03-26"}).answer(
        {"protocolVersion": agreed}
    )


OLD = "1900-01-01"


SESSION = {"mcp-session-id": "s"}
LAST = {"last-event-id": "1"}


def streamed(**headers: Any) -> Any:
    """Call a tool; the server answers with a stream."""
    history = http().ask("tools/call", {"name": "a"}, id=1, meta={"progressToken": "p"})
    return history.head(200, "text/event-stream", **headers)


def progress(token: Any) -> dict[str, Any]:
    return {"progressToken": token, "progress": 1}


def later(history: Any) -> Any:
    """Send another request 6 s later; it is answered."""
    return history.request("tools/list", {}, after=6000).answer(LISTED)


def left() -> Any:
    """Disconnect from a subscription; another request follows."""
    return listens(http(), "l1").disconnect().ask("tasks/get", {"taskId": "t1"}, id=2)


def cancelled() -> Any:
    """Cancel a call; two other requests are answered."""
    history: Any = stdio().ask("tools/call", {"name": "a"}, id="c", meta={"progressToken": "p"})
    return history.notify("notifications/cancelled", {"requestId": "c"}).list_tools().list_tools()


ROWS: Rows = {
    "http-single-endpoint": [
        good(http().list_tools(), http().ask("x/y").head(404).error(-32601)),
        nothing(http().ask("tools/list").head(429).end()),
        bad(
            http().ask("tools/list").head(405).end(),
            http().ask("tools/list").head(404).end(),
        ),
    ],
    "http-origin-validated": [
        good(elsewhere(403).end()),
        nothing(elsewhere(429)),
        bad(elsewhere(200).answer(LISTED)),
    ],
    "http-origin-403": [good(elsewhere(403).end()), bad(elsewhere(400).error(-32600))],
    "http-origin-403-body": [
        good(elsewhere(403).error(-32600, id=None)),
        note(elsewhere(403).error(-32600)),
    ],
    "http-authentication": [
        good(http(principals=TWO).ask("tools/list").head(401)),
        note(http().list_tools()),
        bad(http(principals=TWO).list_tools()),
    ],
    "http-202-for-notification": [
        good(http().notify("n", META).head(202, "").end()),
        nothing(http().notify("n", META).head(400)),
        bad(
            http().notify("n", META).head(200, "").end(),
            http().notify("n", META).head(202).answer({}, id=1),
        ),
    ],
    "http-error-for-refused-notification": [
        good(http().notify("n", META).head(400).error(-32600, id=None)),
        warning(http().send({"method": 7}).head(202)),
        bad(http().notify("n", META).head(200).error(-32600, id=None)),
    ],
    "http-refused-notification-body": [
        good(http().notify("n", META).head(400)),
        note(http().notify("n", META).head(400).error(-32600, id=5)),
    ],
    "http-json-or-sse": [
        good(
            http().list_tools(),
            http().ask("tools/list").head(200, "application/json; charset=utf-8"),
            http().ask("tools/list").stream().answer(LISTED),
        ),
        bad(http().ask("tools/list").head(200, "text/plain").answer(LISTED)),
    ],
    "http-version-mismatch-32020": [
        good(versioned("2025-11-25").head(400).error(-32020)),
        nothing(
            versioned("2025-11-25").head(400).error(-32600),
            versioned(OLD).head(400).error(-32022),
            versioned(OLD).head(429).error(-32600),
            versioned(OLD).head(400).error(-32603),
        ),
        bad(
            versioned("2025-11-25").answer(LISTED),
            versioned("2027-01-01", history=http().discover("2026-07-28", "2027-01-01"))
            .head(400)
            .error(-32022),
            versioned(OLD).head(400).error(-32600),
        ),
    ],
    "http-unsupported-version-400": [
        good(versioned(OLD, OLD).head(400).error(-32022)),
        nothing(versioned("2025-11-25", "2025-11-25").head(200).error(-32022)),
        bad(versioned(OLD, OLD).head(200).error(-32022)),
    ],
    "http-unknown-method-404": [
        good(
            http().ask("tasks/list").head(404).error(-32601),
            http().ask("x/y").head(404).error(-32601),
        ),
        nothing(
            http().ask("x/y").head(429).error(-32600),
            http().ask("x/y").head(200).answer({}),
            http().ask("tools/call", {"name": "a"}).head(200).error(-32602),
        ),
        bad(http().ask("x/y").head(200).error(-32601), http().ask("x/y").head(404).end()),
    ],
    "http-version-header-missing-legacy": [good(versioned(None).answer(LISTED))],
    "http-version-header-missing-refused": [
        good(versioned(None, history=asked_for_oldest()).head(400).error(-32020)),
        nothing(
            versioned(None, history=asked_for_oldest("2025-03-26")).answer(LISTED),
            versioned(None, history=http().discover()).answer(LISTED),
        ),
        bad(
            versioned(None, history=asked_for_oldest()).answer(LISTED),
            versioned(None, history=asked_for_oldest()).head(400).error(-32600),
        ),
    ],
    "http-get-delete-405": [
        good(modern_only().send(method="GET").head(405)),
        nothing(
            http().discover().send(method="GET").head(404),
            modern_only().send(method="GET").head(401),
        ),
        bad(modern_only().send(method="DELETE").head(404)),
    ],
    "http-session-id-ignored": [
        good(modern_only().list_tools(headers=SESSION)),
        nothing(http().discover().list_tools().ask("tools/list", headers=SESSION).error(-32600)),
        bad(
            modern_only().list_tools().ask("tools/list", headers=SESSION).head(404).error(-32600),
            modern_only().ask("tools/list").head(200, mcp_session_id="s").answer(LISTED),
        ),
    ],
    "http-last-event-id-ignored": [
        good(listens(modern_only(), headers=LAST)),
        bad(modern_only().list_tools().ask("tools/list", headers=LAST).head(400).error(-32600)),
    ],
    "sse-not-resumable": [
        good(listens(http(), headers=LAST), http().send(method="GET", headers=LAST).head(405)),
        bad(
            listens(http(), headers=LAST).push(
                "notifications/tasks", {"_meta": {MCP + "subscriptionId": "l0"}}
            ),
            http().send(method="GET", headers=LAST).stream().answer({}, id=3),
        ),
    ],
    "sse-notifications-before-response": [
        good(streamed().push("notifications/progress", progress("p")).answer({})),
        nothing(streamed().answer({})),
    ],
    "sse-notifications-related": [
        good(
            streamed().push("notifications/progress", progress("p")),
            streamed().push("notifications/message", {}),
            listens(http()),
        ),
        bad(
            streamed().push("notifications/progress", progress("q")),
            streamed().push("notifications/tasks", {}),
        ),
    ],
    "sse-ends-after-response": [
        good(streamed().answer({}).end(), later(streamed().answer({}).end())),
        nothing(
            streamed().answer({}).disconnect(after=6000),
            streamed().answer({}).disconnect(),
            listens(http()).disconnect(after=9000),
        ),
        bad(
            later(streamed().answer({})).end(post=1),
            later(streamed().answer({})),
            streamed().answer({}).push("notifications/x"),
        ),
    ],
    "sse-no-buffering-header": [
        good(streamed(x_accel_buffering="no")),
        nothing(http().list_tools()),
        bad(streamed()),
    ],
    "http-silence-after-cancel": [
        good(left().answer(shown()), listens(left().answer(shown()), "l2")),
        nothing(http().list_tools()),
        bad(
            left().stream().push("notifications/tasks", SUBSCRIBED),
            left().stream().answer({}, id="l1"),
            streamed()
            .disconnect()
            .ask("tools/list")
            .stream()
            .push("notifications/progress", progress("p")),
        ),
    ],
    "stdio-stdout-only-mcp": [good(stdio().list_tools()), bad(stdio().receive(text="starting..."))],
    "stdio-no-embedded-newlines": [
        good(stdio().list_tools()),
        bad(stdio().receive(text="{").receive(text="}")),
    ],
    "stdio-silence-after-cancel": [
        good(cancelled()),
        nothing(
            stdio()
            .ask("tools/list", id="c")
            .notify("notifications/cancelled", {"requestId": "c"})
            .answer(LISTED, id="c")
        ),
        warning(cancelled().answer({}, id="c")),
        bad(cancelled().push("notifications/progress", progress("p"))),
    ],
    "stdio-exit-on-eof": [
        good(stdio().list_tools().disconnect().exit()),
        nothing(stdio().disconnect().time_out(after=2000), stdio().list_tools().exit()),
        bad(stdio().disconnect().time_out(after=5001)),
    ],
    "messages-utf8": [
        good(stdio().ask("tools/list", id="é").answer(LISTED)),
        bad(stdio().receive(text='{"a": "\N{REPLACEMENT CHARACTER}"')),
    ],
    "binding-delivers": [
        good(http().list_tools()),
        nothing(listens(http()).end(), http().ask("tools/list").head(500).end()),
        bad(http().ask("tools/list").stream().end()),
    ],
    "binding-may-mirror": [good(http().list_tools())],
}

CASES = table("2026-07-28", ROWS)
