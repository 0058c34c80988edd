"""JSON-RPC messages and keys of `_meta`, which both revisions check alike."""

from typing import Any

from tests.conformance.checks.cases import (
    BAD,
    GOOD,
    NOTE,
    NOTHING,
    Rows,
    bad,
    good,
    mixed,
    nothing,
    row,
    table,
    warning,
)  # fmt: skip
from tests.conformance.histories.wire import Wire, http, stdio

ERROR = {"code": -32602, "message": "no"}


def response(**fields: Any) -> Wire:
    """Receive a response to request 1."""
    return received({"jsonrpc": "2.0", "id": 1, **fields})


def received(message: Any) -> Wire:
    return stdio().request("ping", id=1).receive(message)


def answers(sent: Any, received: Any) -> list[Wire]:
    """Send an id and receive another, over both transports."""
    return [begin().request("ping", id=sent).answer({}, id=received) for begin in (stdio, http)]


def refused(wire: Wire, id: Any) -> Wire:
    return wire.request("tasks/get", id=1).error(-32602, id=id)


def notified(wire: Wire) -> Wire:
    return wire.notify("notifications/x")


def notifications(begin: Any) -> Wire:
    """Receive a notification and a request."""
    wire: Wire = begin().request("ping")
    return wire.push("notifications/progress").push("ping", id=1)


def keyed(key: str) -> Wire:
    """Receive a result with this key in `_meta`."""
    return stdio().request("ping").answer({"_meta": {key: 1}})


BATCH = [{"jsonrpc": "2.0", "id": 7, "method": "ping"}]

ROWS: Rows = {
    "jsonrpc-2-0": [
        good(
            response(result={}),
            response(error=ERROR),
            received({"jsonrpc": "2.0", "error": ERROR}),
            received({"jsonrpc": "2.0", "method": "ping", "id": "a"}),
            stdio().request("ping").push("notifications/progress", {"progress": 1}),
        ),
        bad(
            received({"id": 1, "result": {}}),
            response(jsonrpc="1.0", result={}),
            response(jsonrpc=2.0, result={}),
            response(),
            response(result={}, error=ERROR),
            response(method="ping", result={}),
            response(method=5),
            received({"jsonrpc": "2.0", "method": "x", "params": [1]}),
            received([{"jsonrpc": "2.0", "id": 1, "result": {}}]),
            received(None),
            received("hello"),
        ),
    ],
    # the body of an HTTP error is free text
    "jsonrpc-2-0 error-code-and-message error-code-integer error-same-id result-field": [
        nothing(http().request("ping").head(401).receive({"error": "invalid_token"}))
    ],
    "result-field": [
        good(response(result={})),
        nothing(response(error=ERROR)),
        bad(response(), response(result=None), response(result=[]), response(result="done")),
    ],
    "result-same-id": [
        good(*answers(1, 1), *answers(1, 1.0), *answers("a", "a")),
        bad(*answers(2, "2"), *answers("1", 1), *answers(1, 2), *answers(1, None)),
        bad(*answers(1, True)),
        # any order on stdio; a resumed stream may carry the result of an earlier POST
        good(
            stdio().request("ping", id=1).request("ping", id="1")
            .answer({}, id="1").answer({}, id=1),
            http().request("tasks/result", id=1).head().disconnect().send(method="GET")
            .answer({}, id=1),
        ),
        # the result of another POST
        bad(http().request("ping", id=1).request("ping", id=2).answer({}, id=1)),
    ],
    "error-same-id": [
        good(
            refused(stdio(), 1),
            stdio().send(text="{not json").error(-32700, id=None),
            stdio().send(text="{not json").receive({"jsonrpc": "2.0", "error": ERROR}),
            stdio().send([1]).error(-32600, id=None),
            stdio().send({"jsonrpc": "2.0", "id": 7}).error(-32600, id=7),
            stdio().send({"jsonrpc": "2.0", "id": 7}).error(-32600, id=None),
            stdio().send(BATCH).error(-32600, id=7),
            http().request("tasks/get", id=1).head(404).error(-32600, id=None),
        ),
        nothing(notified(stdio()).error(-32601, id=None)),
        warning(http().request("tasks/get", id=1).head(400).error(-32600, id="server-error")),
        bad(
            refused(stdio(), None),
            refused(stdio(), "1"),
            refused(http(), "server-error"),
            refused(http(), None),
        ),
    ],
    "error-code-and-message error-code-integer": [
        good(response(error=ERROR), response(error=ERROR | {"data": 1})),
        good(response(error={"code": -32602.0, "message": "no"})),
        row(response(error={"code": -32602}), BAD, GOOD),
        row(response(error={"message": "no"}), BAD, NOTHING),
        row(response(error={"code": -32602, "message": 5}), BAD, GOOD),
        row(response(error={"code": "-32602", "message": "no"}), GOOD, BAD),
        row(response(error={"code": 1.5, "message": "no"}), GOOD, BAD),
        row(response(error={"code": True, "message": "no"}), GOOD, BAD),
        row(response(error="no"), BAD, NOTHING),
        row(response(error=None), BAD, NOTHING),
    ],
    "notification-without-id": [
        good(notifications(stdio), notifications(http)),
        mixed(*(notifications(b).push("notifications/progress", id=1) for b in (stdio, http))),
    ],
    "notification-not-answered": [
        good(
            notified(stdio()).request("ping").answer({}),
            notified(http()).head(202),
            notified(http()).head(400).error(-32600, id=None),
        ),
        nothing(
            notified(stdio()),
            notified(stdio().send(text="{")).error(-32700, id=None),
            http().send({"jsonrpc": "2.0", "method": 5}).error(-32600, id=None),
            notified(http()),
        ),
        bad(
            notified(stdio()).error(-32601, id=None),
            notified(stdio()).receive({"jsonrpc": "2.0", "result": {}}),
            notified(http()).head(200).answer({}, id=None),
            notified(http()).head(202).error(-32601, id=None),
        ),
    ],
    "meta-prefix-format meta-label-format meta-name-format": [
        row(keyed("progressToken"), NOTHING, NOTHING, GOOD),
        good(*map(keyed, ("com.example/key", "com.example/", "com.ex-ample.a1/k_e-y.1"))),
        row(keyed("/key"), BAD, NOTHING, GOOD),
        row(keyed("com..example/key"), BAD, NOTHING, GOOD),
        row(keyed(".com/key"), BAD, NOTHING, GOOD),
        row(keyed("com.example/a/b"), BAD, NOTHING, GOOD),
        row(keyed("1com.example/key"), GOOD, BAD, GOOD),
        row(keyed("com.example-/key"), GOOD, BAD, GOOD),
        row(keyed("com.ex_ample/key"), GOOD, BAD, GOOD),
        row(keyed("_fastmcp"), NOTHING, NOTHING, BAD),
        row(keyed("com.example/key-"), GOOD, GOOD, BAD),
        row(keyed("a b"), NOTHING, NOTHING, NOTE),
        row(keyed("é"), NOTHING, NOTHING, BAD),
    ],
    "meta-prefix-reverse-dns meta-prefix-reserved": [
        good(keyed("io.modelcontextprotocol/related-task")),
        row(keyed("io.modelcontextprotocol/of-an-extension"), GOOD, NOTE),
        row(keyed("com.mcp.tools/x"), GOOD, BAD),
        row(keyed("dev.mcp/x"), GOOD, BAD),
        row(keyed("com.example.mcp/x"), GOOD, NOTHING),
        row(keyed("example.com/x"), BAD, NOTHING),
        row(keyed("example/x"), BAD, NOTHING),
        nothing(keyed("alpha.beta/x"), keyed("plain")),
    ],
}  # fmt: skip

FAILED = {"taskId": "t", "status": "failed", "error": {"code": "x"}}

CASES = [
    *table("2025-11-25", ROWS),
    *table(
        "2026-07-28",
        {
            "error-code-and-message error-code-integer": [
                bad(http("2026-07-28").request("tasks/get", {"taskId": "t"}).answer(FAILED))
            ]
        },
    ),
]
