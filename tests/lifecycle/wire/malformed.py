"""Malformed requests, and the errors that a server may return for them."""

import json
from typing import Any, Final

import attrs

from tests.lifecycle.wire.http_client import meta
from tests.lifecycle.wire.record import JSON, NEW, OLD, Wire

__all__ = ["MALFORMED", "Malformed"]


@attrs.frozen
class Malformed:
    """A request with its expected error `code`, and the HTTP statuses that are allowed."""

    wire: Wire
    body: bytes
    code: int
    status: tuple[int, ...]
    headers: JSON = attrs.field(factory=dict)


HEADERS: Final = -32_020


def _body(method: str, params: Any, **more: Any) -> bytes:
    message = {"jsonrpc": "2.0", "id": 999_999, "method": method, "params": params, **more}
    return json.dumps(message).encode()


def _new(method: str, params: JSON, code: int, status: int, **headers: str) -> Malformed:
    sent = {"Mcp-Method": method, **headers}
    return Malformed(NEW, _body(method, {**params, "_meta": meta()}), code, (status,), sent)


MALFORMED: Final = (
    Malformed(OLD, b"{", -32_700, (400,)),
    Malformed(OLD, b"[]", -32_600, (400,)),
    Malformed(OLD, b'{"jsonrpc": "2.0", "id": 999999}', -32_600, (400,)),
    Malformed(OLD, b'{"jsonrpc": "1.0", "id": 999999, "method": "ping"}', -32_600, (400,)),
    Malformed(OLD, _body("tasks/eat", {}), -32_601, (200,)),
    Malformed(OLD, _body("tasks/get", {"taskId": 7}), -32_602, (200,)),
    Malformed(OLD, _body("tasks/get", {}), -32_602, (200,)),
    Malformed(OLD, _body("tasks/list", {"cursor": "nowhere"}), -32_602, (200,)),
    Malformed(OLD, _body("tools/call", {"name": "nobody", "task": {}}), -32_602, (200,)),
    Malformed(OLD, _body("tools/call", {"name": "controlled_plain", "task": {}}), -32_601, (200,)),
    _new("tasks/list", {}, -32_601, 404),
    _new("tasks/result", {"taskId": "x"}, -32_601, 404),
    _new("tasks/get", {"taskId": 7}, -32_602, 200, **{"Mcp-Name": "7"}),
    _new("tasks/get", {"taskId": "x"}, HEADERS, 400, **{"Mcp-Name": "y"}),
    _new("tasks/get", {"taskId": "x"}, HEADERS, 400, **{"Mcp-Name": "x", "Mcp-Method": "ping"}),
    _new("tools/call", {"name": "nobody"}, -32_602, 200, **{"Mcp-Name": "nobody"}),
    Malformed(
        NEW,
        _body("tasks/get", {"taskId": "x", "_meta": meta(with_tasks=False)}),
        -32_021,
        (400,),
        {"Mcp-Method": "tasks/get", "Mcp-Name": "x"},
    ),
)
