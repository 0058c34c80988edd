"""The checks of transports of 2025-11-25, against histories written by hand."""

from collections.abc import Callable

import pytest

from taskmachine.adapters.conformance.catalogue import load_checks
from taskmachine.adapters.conformance.history import History
from taskmachine.adapters.conformance.judging import CHECKS
from tests.conformance.histories.wire import Wire, pipe, web

load_checks()

SESSION = {"mcp-session-id": "0123456789abcdef0123456789abcdef"}
HEADERS = {**SESSION, "mcp-protocol-version": "2025-11-25"}
EVENTS = {**HEADERS, "accept": "text/event-stream"}
FOREIGN = {**HEADERS, "origin": "https://evil.example"}
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {}}

Tell = Callable[[Wire], Wire]


def outcomes(name: str, history: History) -> set[str]:
    return {seen.outcome for seen in CHECKS[f"2025-11-25:{name}"].observe(history)}


def hello(session: str | None = SESSION["mcp-session-id"]) -> Wire:
    """An initialized session."""
    asked = web().request("initialize", {})
    told = asked.head() if session is None else asked.head(mcp_session_id=session)
    return told.answer(HELLO).ends()


def get(wire: Wire, **more: str) -> Wire:
    named = {name.replace("_", "-"): value for name, value in more.items()}
    return wire.sent(method="GET", headers={**EVENTS, **named})


# --- bytes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (pipe().request("ping", id="ü").answer({}), {"good"}),
        (pipe().request("ping", id="ü").answer({}, id="Ã¼"), {"good", "bad"}),
        (pipe().request("ping", id="ü").answer({}, id="?"), {"good", "bad"}),
        (pipe().request("ping", id="a").answer({}, id="?"), {"good"}),
        (pipe().request("ping").says(text='{"a": "\N{REPLACEMENT CHARACTER}"'), {"bad"}),
        (pipe().request("ping").says(text="hello"), set()),
    ],
)
def test_messages_are_utf8(wire: Wire, expected: set[str]) -> None:
    assert outcomes("messages-utf8", wire.history) == expected


@pytest.mark.parametrize(
    ("wire", "lines", "only"),
    [
        (pipe().request("ping").answer({}), {"good"}, {"good"}),
        (pipe().says(text='{"jsonrpc": "2.0",').says(text='"method": "a"}'), {"bad"}, set()),
        (pipe().says(text='{"a": "two').says(text='lines"}'), {"bad"}, set()),
        (pipe().says(text="INFO: started").request("ping").answer({}), {"good"}, {"good", "bad"}),
        (pipe().says({"level": "info"}), {"good"}, {"bad"}),
        (pipe().says(5), {"good"}, {"bad"}),
        (pipe().says({"jsonrpc": "1.0", "id": 1, "result": {}}), {"good"}, {"good"}),
        (web().request("ping").head(500, "text/plain").says(text="oh"), set(), set()),
    ],
)
def test_the_output_of_a_pipe_is_messages_on_lines(
    wire: Wire, lines: set[str], only: set[str]
) -> None:
    assert outcomes("stdio-no-embedded-newlines", wire.history) == lines
    assert outcomes("stdio-stdout-only-mcp", wire.history) == only


# --- the endpoint, and who may come --------------------------------------------------------------


@pytest.mark.parametrize(
    ("wire", "one", "stream"),
    [
        (get(hello()).stream(), {"good"}, {"good"}),
        (get(hello()).head(405, ""), {"good"}, {"good"}),
        (get(hello()).head(200, "text/html"), {"good"}, {"bad"}),
        (get(hello()).head(429), set(), set()),
        (get(hello()).head(503), set(), set()),
        (get(hello(), origin="https://evil.example").head(403), set(), set()),
        (get(hello(), mcp_protocol_version="1900-01-01").head(400), set(), set()),
        (web().sent(method="GET", headers={"accept": "text/event-stream"}).head(400), set(), set()),
        # Only what is served afterwards shows that it was not the session that was not found.
        (get(hello()).head(404), set(), set()),
        (
            get(hello()).head(404).request("ping", headers=HEADERS).answer({}),
            {"bad"},
            {"bad"},
        ),
        # One stream is enough.
        (get(get(hello()).stream()).head(409), {"good"}, {"good"}),
    ],
)
def test_get_is_a_stream_or_not_allowed(wire: Wire, one: set[str], stream: set[str]) -> None:
    assert outcomes("http-single-endpoint", wire.history) == one
    assert outcomes("get-stream-sse-or-405", wire.history) == stream


@pytest.mark.parametrize(
    ("tell", "validated", "forbidden"),
    [
        (lambda wire: wire.head(403), {"good"}, {"good"}),
        (lambda wire: wire.head(400), {"good"}, {"bad"}),
        (lambda wire: wire.head(200).answer({}), {"bad"}, {"bad"}),
        (lambda wire: wire.head(401), set(), set()),
        (lambda wire: wire.head(405), set(), set()),
        (lambda wire: wire, set(), set()),
    ],
)
def test_foreign_origins_are_forbidden(
    tell: Tell, validated: set[str], forbidden: set[str]
) -> None:
    history = tell(hello().request("ping", headers=FOREIGN)).history
    assert outcomes("http-origin-validated", history) == validated
    assert outcomes("http-origin-403", history) == forbidden


def test_an_origin_that_may_be_ours_is_not_judged() -> None:
    headers = {**HEADERS, "origin": "https://app.somewhere.org"}
    history = hello().request("ping", headers=headers).answer({}).history
    assert outcomes("http-origin-validated", history) == set()


def test_the_body_of_a_refusal_has_no_id() -> None:
    refused = hello().request("ping", id=7, headers=FOREIGN).head(403)
    assert outcomes("http-origin-403-body", refused.history) == {"good"}
    assert outcomes("http-origin-403-body", refused.error(-32600, id=7).history) == {"note"}
    notified = hello().notify("notifications/x", headers=HEADERS).head(400).error(-32600, id=None)
    assert outcomes("http-refused-notification-body", notified.history) == {"good"}


@pytest.mark.parametrize(
    ("principal", "tell", "expected"),
    [
        ("Bearer a", lambda wire: wire.head(401), {"good"}),
        ("Bearer a", lambda wire: wire.answer({}), {"bad"}),
        (None, lambda wire: wire.answer({}), {"note"}),
    ],
)
def test_credentials_are_wanted(principal: str | None, tell: Tell, expected: set[str]) -> None:
    wire = tell(web().request("tools/list"))
    history = History("2025-11-25", "http", wire.entries, {"A": principal})
    assert outcomes("http-authentication", history) == expected


# --- what a POST is told -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wire", "accepted", "refused"),
    [
        (web().notify("notifications/x").head(202, ""), {"good"}, set()),
        (web().sent({"jsonrpc": "2.0", "id": 1, "result": {}}).head(202, ""), {"good"}, set()),
        (web().notify("notifications/x").head(200), {"bad"}, set()),
        (web().notify("notifications/x").head(204, ""), {"bad"}, set()),
        (web().notify("notifications/x").head(202).says({}), {"bad"}, set()),
        (web().notify("notifications/x").head(400), set(), {"good"}),
        (web().notify("notifications/x").head(503), set(), set()),
        (web().notify("notifications/x").head(202).error(-32601, id=None), {"bad"}, {"bad"}),
        (web().sent({"jsonrpc": "2.0", "method": 5}).head(400), set(), {"good"}),
        (web().sent({"jsonrpc": "2.0", "method": 5}).head(202, ""), set(), {"warning"}),
        (web().sent({"jsonrpc": "2.0", "method": 5}).head(200).error(-1, id=None), set(), {"bad"}),
        (web().request("ping").head(200).answer({}), set(), set()),
        (web().request("ping").head(400).error(-32600), set(), set()),
    ],
)
def test_one_way_messages(wire: Wire, accepted: set[str], refused: set[str]) -> None:
    assert outcomes("http-202-for-notification", wire.history) == accepted
    assert outcomes("http-error-for-refused-notification", wire.history) == refused


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (web().request("ping").answer({}), {"good"}),
        (web().request("ping").stream().answer({}), {"good"}),
        (web().request("ping").head(200, "application/json; charset=utf-8").answer({}), {"good"}),
        (web().request("ping").head(200, "text/plain").answer({}), {"bad"}),
        (web().request("ping").head(202, ""), {"bad"}),
        (web().request("ping").head(400, "text/plain"), set()),
        (web().notify("notifications/x").head(202, ""), set()),
    ],
)
def test_answers_are_json_or_events(wire: Wire, expected: set[str]) -> None:
    assert outcomes("http-json-or-sse", wire.history) == expected


# --- sessions ------------------------------------------------------------------------------------


def sessions(*ids: str) -> Wire:
    wire = web()
    for line, id in enumerate(ids):
        wire.on(line).request("initialize", {}).head(200, mcp_session_id=id).answer(HELLO).ends()
    return wire


@pytest.mark.parametrize(
    ("ids", "secure", "visible"),
    [
        (["9f8e7d6c5b4a39281706f5e4d3c2b1a0", "0a1b2c3d4e5f60718293a4b5c6d7e8f9"], "good", "good"),
        (["018f5b6e-0000-7aaa-9bcd-1234567890ab", "018f5b6e-0000-7f31-8e02-fedcba987654"],
         "good", "good"),
        (["session-000000000001", "session-000000000002"], "bad", "good"),
        (["9f8e7d6c5b4a39281706f5e4d3c2b1a0", "9f8e7d6c5b4a39281706f5e4d3c2b1a0"], "bad", "good"),
        (["17", "99"], "bad", "good"),
        (["9f8e7d6c5b4a 9281706f5e4d3c2b1a0", "0a1b2c3d4e5f60718293a4b5c6d7e8 9"], "good", "bad"),
    ],
)  # fmt: skip
def test_session_ids(ids: list[str], secure: str, visible: str) -> None:
    history = sessions(*ids).history
    assert secure in outcomes("session-id-secure", history)
    assert ("bad" in outcomes("session-id-secure", history)) == (secure == "bad")
    assert outcomes("session-id-visible-ascii", history) == {visible}
    assert outcomes("session-id-assigned", history) == {"good"}


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (hello().request("ping").head(400), {"good"}),
        (hello().request("ping").head(404), {"bad"}),
        (hello().request("ping").head(200).error(-32600), {"bad"}),
        (hello().request("ping").answer({}), set()),
        (hello().request("ping").head(429), set()),
        (hello(None).request("ping").head(404), set()),
        (hello().request("ping", headers=HEADERS).head(404), set()),
    ],
)
def test_a_missing_session_gets_400(wire: Wire, expected: set[str]) -> None:
    assert outcomes("session-id-missing-400", wire.history) == expected


def ended(status: int = 200) -> Wire:
    return hello().sent(method="DELETE", headers=HEADERS).head(status, "").ends()


@pytest.mark.parametrize(
    ("wire", "expected"),
    [
        (ended().request("ping", headers=HEADERS).head(404), {"good"}),
        (ended(204).request("ping", headers=HEADERS).head(404), {"good"}),
        (ended().request("ping", headers=HEADERS).head(400), {"bad"}),
        (ended().request("ping", headers=HEADERS).answer({}), {"bad"}),
        (ended().request("ping", headers=HEADERS).head(503), set()),
        (ended(405).request("ping", headers=HEADERS).answer({}), set()),
        (ended().request("ping", headers={"mcp-session-id": "another"}).head(400), set()),
    ],
)
def test_an_ended_session_gets_404(wire: Wire, expected: set[str]) -> None:
    assert outcomes("session-ended-404", wire.history) == expected
    assert outcomes("session-delete-405", wire.history) == {"good"}


@pytest.mark.parametrize(
    ("wire", "assumed", "refused"),
    [
        (hello().request("ping", headers=SESSION).answer({}), {"good"}, set()),
        (hello().request("ping", headers=SESSION).head(400), {"bad"}, set()),
        (hello().request("ping", headers=SESSION).head(429), set(), set()),
        (hello(None).request("ping").head(400), set(), set()),
        (hello().request("ping", headers=HEADERS).head(400), set(), set()),
        (
            hello().request("ping", headers={**SESSION, "mcp-protocol-version": "1900-01-01"})
            .head(400), set(), {"good"},
        ),
        (
            hello().request("ping", headers={**SESSION, "mcp-protocol-version": "new"}).answer({}),
            set(), {"bad"},
        ),
        (
            hello().request("ping", headers={**SESSION, "mcp-protocol-version": "2099-01-01"})
            .answer({}), set(), set(),
        ),
    ],
)  # fmt: skip
def test_versions_in_headers(wire: Wire, assumed: set[str], refused: set[str]) -> None:
    assert outcomes("protocol-version-assumed", wire.history) == assumed
    assert outcomes("protocol-version-bad-400", wire.history) == refused
