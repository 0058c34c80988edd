"""Every kind of bad request gets its status, code and message; the connection stays usable."""

import base64
import json
from collections.abc import Callable
from typing import Any, Final

import attrs
import pytest

from tests.requirements import covers
from tests.wire_faults.clients import Modern, Session, meta
from tests.wire_faults.server_process import Server
from tests.wire_faults.wire import BOTH, Answer, request_bytes

SETTINGS: Final = {"transport": {"body_bytes": 100_000}}

LIST: Final[dict[str, Any]] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/list",
    "params": {"_meta": meta()},
}
GREET: Final[dict[str, Any]] = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "greet", "arguments": {"name": "you"}, "_meta": meta()},
}


def modern(
    message: Any = LIST, *, without: str = "", method: str = "POST", **changed: str
) -> bytes:
    """Return a valid request of 2026-07-28, apart from the given changes."""
    body = message if isinstance(message, bytes) else json.dumps(message).encode()
    call = message if isinstance(message, dict) else LIST
    headers = {
        "Content-Type": "application/json",
        "Accept": BOTH,
        "MCP-Protocol-Version": "2026-07-28",
        "Mcp-Method": call.get("method", "tools/list"),
    }
    if call.get("method") == "tools/call":
        headers["Mcp-Name"] = call["params"]["name"]
    headers |= {name.replace("_", "-"): value for name, value in changed.items()}
    headers.pop(without, None)
    return request_bytes(method, "/mcp", headers, body)


def with_params(message: dict[str, Any], **params: Any) -> dict[str, Any]:
    return {**message, "params": {**message["params"], **params}}


def sentinel(text: str) -> str:
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


@attrs.frozen
class Row:
    """A request and the expected response."""

    request: bytes | Callable[[Session], bytes]
    status: int
    code: int | str | None = None
    header: tuple[str, str] | None = None


def in_session(method: str = "POST", body: bytes | None = None, **changed: str) -> Any:
    """Return a valid request of 2025-11-25 in a session, apart from the given changes."""

    def make(session: Session) -> bytes:
        headers = {"Content-Type": "application/json", "Accept": BOTH, **session.headers}
        headers |= {name.replace("_", "-"): value for name, value in changed.items()}
        return request_bytes(method, "/mcp", headers, body)

    return make


def chunked(size: int) -> bytes:
    headers = {"Content-Type": "application/json", "Accept": BOTH, "Transfer-Encoding": "chunked"}
    chunk = b"%x\r\n%s\r\n" % (10_000, b" " * 10_000)
    return request_bytes("POST", "/mcp", headers, chunk * (size // 10_000) + b"0\r\n\r\n")


PING: Final = b'{"jsonrpc":"2.0","id":5,"method":"ping"}'

TABLE: Final = {
    "wrong content type": Row(modern(Content_Type="text/plain"), 415, -32600),
    "no content type": Row(modern(without="Content-Type"), 415, -32600),
    "a form": Row(modern(Content_Type="application/x-www-form-urlencoded"), 415, -32600),
    "accepts only JSON": Row(modern(Accept="application/json"), 406, -32600),
    "accepts only events": Row(modern(Accept="text/event-stream"), 406, -32600),
    "accepts something else": Row(modern(Accept="text/html"), 406, -32600),
    "a stream that accepts no events": Row(in_session("GET", Accept="text/html"), 406, -32600),
    "announced too large": Row(modern(b" " * 100_001), 413, -32600),
    "chunked too large": Row(chunked(200_000), 413, -32600),
    "not JSON": Row(modern(b"{"), 400, -32700),
    "empty": Row(modern(b""), 400, -32700),
    "not UTF-8": Row(modern(b'{"jsonrpc":"2.0","id":1,"method":"\xff"}'), 400, -32700),
    "nested too deep": Row(modern(b"[" * 200 + b"]" * 200), 400, -32700),
    "a batch": Row(modern(b"[" + PING + b"]"), 400, -32600),
    "a text": Row(modern(b'"ping"'), 400, -32600),
    "an id that is null": Row(modern({**LIST, "id": None}), 400, -32600),
    "an id that is a fraction": Row(modern({**LIST, "id": 1.5}), 400, -32600),
    "an endless id": Row(modern({**LIST, "id": "x" * 10_000}), 400, -32600),
    "params that are a list": Row(modern({**LIST, "params": []}), 400, -32602),
    "no jsonrpc": Row(modern({"id": 1, "method": "tools/list"}), 400, -32600),
    "unknown session": Row(in_session(body=PING, MCP_Session_Id="nobody"), 404, -32600),
    "unknown session, GET": Row(in_session("GET", MCP_Session_Id="nobody"), 404, -32600),
    "unknown session, DELETE": Row(in_session("DELETE", MCP_Session_Id="nobody"), 404, -32600),
    "neither session nor metadata": Row(
        request_bytes("POST", "/mcp", {"Content-Type": "application/json"}, PING), 400, -32600
    ),
    "GET without a session": Row(
        request_bytes("GET", "/mcp", {"Accept": "text/event-stream"}), 400, -32600
    ),
    "a version that the session has not": Row(
        in_session(body=PING, MCP_Protocol_Version="2025-06-18"), 400, -32600
    ),
    "PUT": Row(modern(method="PUT"), 405, -32600, ("allow", "GET, POST, DELETE")),
    "PATCH": Row(modern(method="PATCH"), 405, -32600, ("allow", "GET, POST, DELETE")),
    "OPTIONS": Row(modern(method="OPTIONS"), 405, -32600, ("allow", "GET, POST, DELETE")),
    "GET of 2026-07-28": Row(
        request_bytes("GET", "/mcp", {"MCP-Protocol-Version": "2026-07-28"}),
        405,
        -32600,
        ("allow", "POST"),
    ),
    "another method in the header": Row(modern(Mcp_Method="tools/call"), 400, -32020),
    "no method in the header": Row(modern(without="Mcp-Method"), 400, -32020),
    "another name in the header": Row(modern(GREET, Mcp_Name="hold"), 400, -32020),
    "no name in the header": Row(modern(GREET, without="Mcp-Name"), 400, -32020),
    "broken base64 in the header": Row(modern(GREET, Mcp_Name="=?base64?%?="), 400, -32020),
    "no version in the header": Row(modern(without="MCP-Protocol-Version"), 400, -32020),
    "versions that disagree": Row(modern(MCP_Protocol_Version="2025-11-25"), 400, -32020),
    "unsupported version": Row(
        modern(
            with_params(LIST, _meta=meta(version="2099-01-01")), MCP_Protocol_Version="2099-01-01"
        ),
        400,
        -32022,
    ),
    "unsupported version without metadata": Row(
        modern({**LIST, "params": {}}, MCP_Protocol_Version="1999-01-01"), 400, -32022
    ),
    "unknown method": Row(modern({**LIST, "method": "tools/undo"}), 404, -32601),
    "missing metadata": Row(modern({**LIST, "params": {}}), 400, -32602),
    "metadata of another type": Row(modern({**LIST, "params": {"_meta": 7}}), 400, -32602),
    "a task without the extension": Row(
        modern(
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tasks/get",
                "params": {"taskId": "x", "_meta": meta(tasks=False)},
            },
            Mcp_Name="x",
        ),
        400,
        -32021,
    ),
    "a response where there are none": Row(
        modern({"jsonrpc": "2.0", "id": 1, "result": {}}), 400, -32600
    ),
    "foreign origin": Row(modern(Origin="https://evil.example"), 403, -32600),
    "origin without a name": Row(modern(Origin="null"), 403, -32600),
    "foreign host": Row(modern(Host="evil.example"), 403, -32600),
    "foreign host with a port": Row(modern(Host="evil.example:80"), 403, -32600),
    "nowhere": Row(request_bytes("GET", "/nowhere"), 404, -32600),
    "an unknown task": Row(request_bytes("GET", "/tasks/x"), 404, "task_not_found"),
    "POST to a task": Row(request_bytes("POST", "/tasks/x", {}, b"{}"), 405, "method_not_allowed"),
    "a bad timeout": Row(request_bytes("GET", "/tasks/x/poll?timeout=-1"), 400, "bad_timeout"),
    "accepted: a sentinel": Row(modern(GREET, Mcp_Name=sentinel("greet")), 200),
    "accepted: an origin of this machine": Row(modern(Origin="http://localhost:3000"), 200),
    "accepted: this machine by name": Row(modern(Host="localhost:8000"), 200),
    "accepted: a charset": Row(modern(Content_Type="application/json; charset=utf-8"), 200),
    "accepted: anything": Row(modern(Accept="*/*"), 200),
}


@pytest.fixture(scope="module")
def session(server: Server) -> Session:
    return Session(server)


@covers(
    "2025-11-25:session-id-missing-400",
    "2025-11-25:http-single-message-body",
    "2026-07-28:meta-missing-400",
    "2026-07-28:undeclared-capability-400",
    "2026-07-28:header-mismatch-400",
    "2026-07-28:http-unsupported-version-400",
    "2026-07-28:http-unknown-method-404",
    "2026-07-28:http-single-message-body",
)
@pytest.mark.parametrize("name", TABLE)
def test_bad_input_is_refused_with_a_reason(name: str, server: Server, session: Session) -> None:
    row = TABLE[name]
    data = row.request if isinstance(row.request, bytes) else row.request(session)
    client = Modern(server)
    with client.wire() as wire:
        wire.send(data)
        answer = wire.answer()
        assert answer.status == row.status, answer
        _check_body(answer, row)
        if answer.headers.get("connection") != "close":
            # The server has read the refused request to its end: the next one is answered.
            wire.send(client.request("tools/list"))
            assert wire.answer().status == 200


def _check_body(answer: Answer, row: Row) -> None:
    if row.status == 200:
        assert "result" in answer.json
        return
    assert answer.headers["content-type"] == "application/json"
    error = answer.json["error"]
    assert error["code"] == row.code
    assert len(error["message"]) > 10
    if isinstance(row.code, int):
        assert answer.json["jsonrpc"] == "2.0"
    if row.code == -32022:
        assert error["data"]["supported"] == ["2026-07-28"]
    if row.header is not None:
        name, value = row.header
        assert answer.headers[name] == value
