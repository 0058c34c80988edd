"""Transports of a dialect: choice of the dialect, sessions, headers and statuses."""

from typing import Any

import pytest

from taskmachine.protocol import DIALECTS, MCP
from taskmachine.protocol.dialects.mcp_2026_07_28.headers import headers_of
from taskmachine.protocol.dialects.receiver import ReceiverDialect, choose
from taskmachine.protocol.errors import HeaderMismatch, MalformedMessage, UnsupportedVersion
from taskmachine.protocol.jsonrpc import (
    Error,
    ErrorResponse,
    Message,
    Notification,
    Request,
    ResultResponse,
)
from taskmachine.protocol.offer import Offer, Tool
from taskmachine.statemachine import TaskmachineError
from tests.oracle import judge
from tests.protocol.plain_2026_07_28 import on_the_wire
from tests.requirements import covers

OLD, NEW, ERLMCP = (DIALECTS[name].receiver for name in ("2025-11-25", "2026-07-28", "erlmcp"))

META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
SCHEMA = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
OFFER = Offer({}, {"greet": Tool({"name": "greet", "inputSchema": SCHEMA})})
PLAIN = Request(1, "tools/list")
MODERN = Request(1, "tools/list", {"_meta": META})
CANCEL = Notification("notifications/cancelled", {"requestId": 1})
ANSWER = ResultResponse(1, {})


def words(dialect: ReceiverDialect, error: TaskmachineError) -> Error:
    return dialect.messages.encode_error(None, error).error


@covers(
    "2026-07-28:modern-request-served-statelessly",
    "2026-07-28:initialize-selects-legacy",
    "2026-07-28:http-version-header-missing-legacy",
)
@pytest.mark.parametrize(
    ("message", "version", "owner"),
    [
        (MODERN, None, NEW),
        (MODERN, "2025-11-25", NEW),  # and is refused, as the header says otherwise
        (Request(1, "initialize"), None, OLD),
        (PLAIN, None, OLD),
        (PLAIN, "2025-11-25", OLD),
        (PLAIN, "2025-03-26", OLD),
        (PLAIN, "2026-07-28", NEW),
        (PLAIN, "1999-01-01", NEW),  # a client of neither is refused by the newest
        (Request(1, "server/discover"), None, NEW),
        (Request(1, "server/discover"), "2025-11-25", OLD),
        (Request(1, "tools/list", {"_meta": "x"}), None, OLD),
        (CANCEL, None, OLD),
        (CANCEL, "2026-07-28", NEW),
        (ANSWER, None, OLD),
        (ANSWER, "2026-07-28", NEW),
        (None, None, OLD),
        (None, "2026-07-28", NEW),
    ],
)
def test_a_message_belongs_to_one_dialect(
    message: Message | None, version: str | None, owner: ReceiverDialect
) -> None:
    assert choose(MCP, message, version) is owner
    assert choose((ERLMCP,), message, version) is ERLMCP


def test_a_version_header_alone_is_claimed_only_by_its_own_dialect() -> None:
    for message in (None, PLAIN, CANCEL):
        assert NEW.claims(message, "2026-07-28")
        assert not OLD.claims(message, "2026-07-28")
        assert not NEW.claims(message, "1999-01-01")
        assert not OLD.claims(message, "1999-01-01")


@covers("2026-07-28:http-get-delete-405")
def test_sessions_begin_as_each_dialect_begins_them() -> None:
    hello = Request(1, "initialize")
    assert [d.is_stateless for d in (OLD, NEW, ERLMCP)] == [False, True, False]
    assert [d.shows_metadata for d in (OLD, NEW, ERLMCP)] == [False, False, True]
    assert [d.begins_session(hello) for d in (OLD, NEW, ERLMCP)] == [True, False, True]
    assert [d.begins_session(PLAIN) for d in (OLD, NEW, ERLMCP)] == [False, False, True]
    assert [d.begins_session(CANCEL) for d in (OLD, NEW, ERLMCP)] == [False, False, True]


def test_a_client_without_a_session_learns_how_to_begin() -> None:
    assert "initialize" in OLD.how_to_begin
    assert "2026-07-28" in NEW.how_to_begin
    assert "erlmcp" in ERLMCP.how_to_begin


@covers("2025-11-25:protocol-version-bad-400")
@pytest.mark.parametrize("message", [PLAIN, CANCEL, ANSWER, None])
def test_a_session_keeps_its_version(message: Message | None) -> None:
    session = {"mcp-session-id": "s"}
    OLD.check_headers(session, message, {})
    OLD.check_headers({**session, "mcp-protocol-version": "2025-11-25"}, message, {})
    with pytest.raises(MalformedMessage) as error:
        OLD.check_headers({**session, "mcp-protocol-version": "2025-06-18"}, message, {})
    assert words(OLD, error.value).code == -32600


@covers("2025-11-25:server-other-version")
def test_initialize_accepts_a_version_header_that_is_not_yet_negotiated() -> None:
    hello = Request(1, "initialize")
    OLD.check_headers({"mcp-protocol-version": "2025-06-18"}, hello, {})


def test_erlmcp_has_no_versions() -> None:
    headers = {"mcp-session-id": "s", "mcp-protocol-version": "1999-01-01"}
    ERLMCP.check_headers(headers, PLAIN, ERLMCP.mirrored(OFFER))


@covers("2026-07-28:http-unsupported-version-400")
@pytest.mark.parametrize("message", [PLAIN, CANCEL])
def test_a_message_that_only_its_header_places_needs_a_known_version(message: Message) -> None:
    NEW.check_headers({"mcp-protocol-version": "2026-07-28"}, message, {})
    NEW.check_headers({}, message, {})
    with pytest.raises(UnsupportedVersion) as error:
        NEW.check_headers({"mcp-protocol-version": "1999-01-01"}, message, {})
    assert words(NEW, error.value).data == {"supported": ["2026-07-28"], "requested": "1999-01-01"}


@covers("2026-07-28:client-sends-no-responses")
@pytest.mark.parametrize("message", [ANSWER, ErrorResponse(1, Error(-1, "no"))])
def test_clients_send_no_responses(message: Message) -> None:
    with pytest.raises(MalformedMessage) as error:
        NEW.check_headers({"mcp-protocol-version": "2026-07-28"}, message, {})
    assert words(NEW, error.value).code == -32600


@covers(
    "2026-07-28:header-mismatch-32020",
    "2026-07-28:header-missing-rejected",
    "2026-07-28:header-body-mismatch-rejected",
    "2026-07-28:http-version-mismatch-32020",
    "2026-07-28:http-version-header-missing-refused",
    "2026-07-28:param-header-failure-32020",
    "2026-07-28:param-header-missing-rejected",
    "2026-07-28:reserved-codes-as-defined",
)
def test_headers_of_a_request_repeat_its_body() -> None:
    params = {"name": "greet", "arguments": {"region": "north"}, "_meta": META}
    call = Request(1, "tools/call", params)
    mirrored = NEW.mirrored(OFFER)
    headers = {name.lower(): value for name, value in headers_of(call, mirrored["greet"]).items()}
    NEW.check_headers(headers, call, mirrored, repeated=["accept"])
    bad: list[dict[str, str]] = [
        {name: value for name, value in headers.items() if name != left_out} for left_out in headers
    ]
    bad += [{**headers, name: "x"} for name in headers]
    assert len(bad) == 8, "version, method, name and one parameter"
    for sent in bad:
        with pytest.raises(HeaderMismatch) as error:
            NEW.check_headers(sent, call, mirrored)
        seen = on_the_wire(NEW.messages.encode_error(call.id, error.value))
        judge("2026-07-28", "HeaderMismatchError").validate(seen)
        assert seen["error"]["code"] == -32020
    with pytest.raises(HeaderMismatch, match="mcp-name is repeated"):
        NEW.check_headers(headers, call, mirrored, repeated=["accept", "mcp-name"])


def test_the_name_of_no_tool_has_no_parameters_to_repeat() -> None:
    for name in ("other", 5):
        call = Request(1, "tools/call", {"name": name, "_meta": META})
        headers = {
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/call",
            "mcp-name": str(name),
        }
        NEW.check_headers(headers, call, NEW.mirrored(OFFER))


@covers(
    "2026-07-28:http-unknown-method-404",
    "2026-07-28:meta-missing-400",
    "2026-07-28:undeclared-capability-400",
    "2026-07-28:header-mismatch-400",
    "2026-07-28:http-unsupported-version-400",
)
@pytest.mark.parametrize(
    ("code", "request_", "status"),
    [
        (-32601, MODERN, 404),
        (-32600, MODERN, 400),
        (-32020, MODERN, 400),
        (-32021, MODERN, 400),
        (-32022, MODERN, 400),
        (-32602, PLAIN, 400),
        (-32602, Request(1, "tools/list", {"_meta": {}}), 400),
        (-32602, MODERN, 200),
        (-32603, MODERN, 200),
        (-1, PLAIN, 200),
    ],
)
def test_the_http_status_follows_the_error_code_and_the_dialect(
    code: int, request_: Request, status: int
) -> None:
    response = ErrorResponse(1, Error(code, "no"))
    assert NEW.http_status(response, request_) == status
    assert OLD.http_status(response, request_) == 200
    assert ERLMCP.http_status(response, request_) == 200


@pytest.mark.parametrize("name", DIALECTS)
def test_a_result_is_ok(name: str) -> None:
    assert DIALECTS[name].receiver.http_status(ANSWER, PLAIN) == 200
