"""Streamable HTTP and stdio of 2025-11-25, without streams."""

from tests.conformance.checks.cases import (
    BAD,
    GOOD,
    MIXED,
    NOTHING,
    WARNING,
    Rows,
    bad,
    good,
    mixed,
    note,
    nothing,
    row,
    table,
)
from tests.conformance.histories.wire import Wire, http, stdio

SESSION = {"mcp-session-id": "0123456789abcdef0123456789abcdef"}
HEADERS = {**SESSION, "mcp-protocol-version": "2025-11-25"}
EVENTS = {**HEADERS, "accept": "text/event-stream"}
FOREIGN = {**HEADERS, "origin": "https://evil.example"}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}


def hello(session: str | None = SESSION["mcp-session-id"]) -> Wire:
    """Initialize a session."""
    asked = http().request("initialize", {})
    head = asked.head() if session is None else asked.head(mcp_session_id=session)
    return head.answer(HELLO).end()


def get(wire: Wire, **more: str) -> Wire:
    named = {name.replace("_", "-"): value for name, value in more.items()}
    return wire.send(method="GET", headers={**EVENTS, **named})


# --- bytes ---------------------------------------------------------------------------------------


# --- the endpoint and callers --------------------------------------------------------------


# --- responses to POST -------------------------------------------------------------------------


# --- sessions ------------------------------------------------------------------------------------


def sessions(*ids: str) -> Wire:
    wire = http()
    for line, id in enumerate(ids):
        wire.on(line).request("initialize", {}).head(200, mcp_session_id=id).answer(HELLO).end()
    return wire


def ended(status: int = 200) -> Wire:
    return hello().send(method="DELETE", headers=HEADERS).head(status, "").end()


def foreign_origin() -> Wire:
    """Send a request with a foreign Origin; the response is missing."""
    return hello().request("ping", headers=FOREIGN)


def tools(principal: str | None) -> Wire:
    return http(principals={"A": principal}).request("tools/list")


SOMEWHERE = {**HEADERS, "origin": "https://app.somewhere.org"}
TWO_IDS = ("9f8e7d6c5b4a39281706f5e4d3c2b1a0", "0a1b2c3d4e5f60718293a4b5c6d7e8f9")
UUID_7 = ("018f5b6e-0000-7aaa-9bcd-1234567890ab", "018f5b6e-0000-7f31-8e02-fedcba987654")
COUNTED = ("session-000000000001", "session-000000000002")
SPACES = ("9f8e7d6c5b4a 9281706f5e4d3c2b1a0", "0a1b2c3d4e5f60718293a4b5c6d7e8 9")

ROWS: Rows = {
    "http-origin-validated http-origin-403": [
        good(foreign_origin().head(403)),
        nothing(foreign_origin().head(401), foreign_origin().head(405), foreign_origin()),
        bad(foreign_origin().head(200).answer({})),
        row(foreign_origin().head(400), GOOD, BAD),
    ],
    "http-origin-validated": [nothing(hello().request("ping", headers=SOMEWHERE).answer({}))],
    "http-origin-403-body": [
        good(hello().request("ping", id=7, headers=FOREIGN).head(403)),
        note(hello().request("ping", id=7, headers=FOREIGN).head(403).error(-32600, id=7)),
    ],
    "http-refused-notification-body": [
        good(hello().notify("notifications/x", headers=HEADERS).head(400).error(-32600, id=None))
    ],
    "http-authentication": [
        good(tools("Bearer a").head(401)),
        note(tools(None).answer({})),
        bad(tools("Bearer a").answer({})),
    ],
    "session-id-secure session-id-visible-ascii session-id-assigned": [
        good(sessions(*TWO_IDS), sessions(*UUID_7)),
        row(sessions(*COUNTED), BAD, GOOD, GOOD),
        row(sessions(TWO_IDS[0], TWO_IDS[0]), BAD, GOOD, GOOD),
        row(sessions("17", "99"), MIXED, GOOD, GOOD),
        row(sessions(*SPACES), GOOD, BAD, GOOD),
    ],
    "messages-utf8": [
        good(
            stdio().request("ping", id="ü").answer({}),
            stdio().request("ping", id="a").answer({}, id="?"),
        ),
        nothing(stdio().request("ping").receive(text="hello")),
        bad(stdio().request("ping").receive(text='{"a": "\N{REPLACEMENT CHARACTER}"')),
        mixed(
            stdio().request("ping", id="ü").answer({}, id="Ã¼"),
            stdio().request("ping", id="ü").answer({}, id="?"),
        ),
    ],
    "stdio-no-embedded-newlines stdio-stdout-only-mcp": [
        good(
            stdio().request("ping").answer({}),
            stdio().receive({"jsonrpc": "1.0", "id": 1, "result": {}}),
        ),
        nothing(http().request("ping").head(500, "text/plain").receive(text="oh")),
        row(
            stdio().receive(text='{"jsonrpc": "2.0",').receive(text='"method": "a"}'), BAD, NOTHING
        ),
        row(stdio().receive(text='{"a": "two').receive(text='lines"}'), BAD, NOTHING),
        row(stdio().receive(text="INFO: started").request("ping").answer({}), GOOD, MIXED),
        row(stdio().receive({"level": "info"}), GOOD, BAD),
        row(stdio().receive(5), GOOD, BAD),
    ],
    "http-single-endpoint get-stream-sse-or-405": [
        good(get(hello()).stream(), get(hello()).head(405, "")),
        nothing(
            get(hello()).head(429),
            get(hello()).head(503),
            get(hello(), origin="https://evil.example").head(403),
            get(hello(), mcp_protocol_version="1900-01-01").head(400),
            http().send(method="GET", headers={"accept": "text/event-stream"}).head(400),
        ),
        bad(get(hello()).head(404).request("ping", headers=HEADERS).answer({})),
        row(get(hello()).head(200, "text/html"), GOOD, BAD),
        # a served request afterwards shows that the session was found
        nothing(get(hello()).head(404)),
        # a second stream may be refused
        good(get(get(hello()).stream()).head(409)),
    ],
    "http-202-for-notification http-error-for-refused-notification": [
        nothing(
            http().notify("notifications/x").head(503),
            http().request("ping").head(200).answer({}),
            http().request("ping").head(400).error(-32600),
        ),
        bad(http().notify("notifications/x").head(202).error(-32601, id=None)),
        row(http().notify("notifications/x").head(202, ""), GOOD, NOTHING),
        row(http().send({"jsonrpc": "2.0", "id": 1, "result": {}}).head(202, ""), GOOD, NOTHING),
        row(http().notify("notifications/x").head(200), BAD, NOTHING),
        row(http().notify("notifications/x").head(204, ""), BAD, NOTHING),
        row(http().notify("notifications/x").head(202).receive({}), BAD, NOTHING),
        row(http().notify("notifications/x").head(400), NOTHING, GOOD),
        row(http().send({"jsonrpc": "2.0", "method": 5}).head(400), NOTHING, GOOD),
        row(http().send({"jsonrpc": "2.0", "method": 5}).head(202, ""), NOTHING, WARNING),
        row(
            http().send({"jsonrpc": "2.0", "method": 5}).head(200).error(-1, id=None), NOTHING, BAD
        ),
    ],
    "http-json-or-sse": [
        good(
            http().request("ping").answer({}),
            http().request("ping").stream().answer({}),
            http().request("ping").head(200, "application/json; charset=utf-8").answer({}),
        ),
        nothing(
            http().request("ping").head(400, "text/plain"),
            http().notify("notifications/x").head(202, ""),
        ),
        bad(
            http().request("ping").head(200, "text/plain").answer({}),
            http().request("ping").head(202, ""),
        ),
    ],
    "session-id-missing-400": [
        good(hello().request("ping").head(400)),
        nothing(
            hello().request("ping").answer({}),
            hello().request("ping").head(429),
            hello(None).request("ping").head(404),
            hello().request("ping", headers=HEADERS).head(404),
        ),
        bad(hello().request("ping").head(404), hello().request("ping").head(200).error(-32600)),
    ],
    "session-ended-404 session-delete-405": [
        good(
            ended().request("ping", headers=HEADERS).head(404),
            ended(204).request("ping", headers=HEADERS).head(404),
        ),
        row(ended().request("ping", headers=HEADERS).head(400), BAD, GOOD),
        row(ended().request("ping", headers=HEADERS).answer({}), BAD, GOOD),
        row(ended().request("ping", headers=HEADERS).head(503), NOTHING, GOOD),
        row(ended(405).request("ping", headers=HEADERS).answer({}), NOTHING, GOOD),
        row(
            ended().request("ping", headers={"mcp-session-id": "another"}).head(400), NOTHING, GOOD
        ),
    ],
    "protocol-version-assumed protocol-version-bad-400": [
        nothing(
            hello().request("ping", headers=SESSION).head(429),
            hello(None).request("ping").head(400),
            hello().request("ping", headers=HEADERS).head(400),
            hello()
            .request("ping", headers={**SESSION, "mcp-protocol-version": "2099-01-01"})
            .answer({}),
        ),
        row(hello().request("ping", headers=SESSION).answer({}), GOOD, NOTHING),
        row(hello().request("ping", headers=SESSION).head(400), BAD, NOTHING),
        row(
            hello()
            .request("ping", headers={**SESSION, "mcp-protocol-version": "1900-01-01"})
            .head(400),
            NOTHING,
            GOOD,
        ),
        row(
            hello().request("ping", headers={**SESSION, "mcp-protocol-version": "new"}).answer({}),
            NOTHING,
            BAD,
        ),
    ],
}

CASES = table("2025-11-25", ROWS)
