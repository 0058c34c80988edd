"""Minimal ASGI requests and responses, for the endpoint's hot path."""

import asyncio
from collections.abc import Iterable, Mapping

from starlette.types import Message, Receive, Scope, Send

from taskmachine.protocol.jsonvalue import encode_json
from taskmachine.statemachine import TaskmachineError

__all__ = ["Headers", "Refusal", "headers_of", "read_body", "respond"]

Headers = Iterable[tuple[bytes, bytes]]


class Refusal(TaskmachineError):
    """An HTTP request is refused before it is decoded as a protocol message."""

    def __init__(self, status: int, code: int, message: str, headers: Headers = ()) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = tuple(headers)

    def body(self) -> bytes:
        """Return a JSON-RPC error response without an id, as both revisions allow."""
        error = {"code": self.code, "message": self.message}
        return encode_json({"jsonrpc": "2.0", "error": error})


def headers_of(scope: Scope) -> dict[str, str]:
    """Return the headers by lower-case name; the last one if a header is repeated."""
    headers = {}
    for name, value in scope["headers"]:
        # Whitespace around a value is not part of it, but not every parser removes it.
        headers[name.decode("latin-1")] = value.decode("latin-1").strip(" \t")
    return headers


async def respond(send: Send, status: int, body: bytes = b"", headers: Headers = ()) -> None:
    """Send a whole response, as JSON if there is a body."""
    described = [(b"content-length", b"%d" % len(body)), *headers]
    if body:
        described.append((b"content-type", b"application/json"))
    await send({"type": "http.response.start", "status": status, "headers": described})
    await send({"type": "http.response.body", "body": body})


async def read_body(
    receive: Receive, headers: Mapping[str, str], limit: int, timeout_s: float
) -> bytes:
    """Return the whole body; `Refusal` if it is too large, too slow, or cut off."""
    announced = headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limit:
        raise _too_large(limit)
    message = await receive()
    if not message.get("more_body") and message["type"] == "http.request":
        body: bytes = message.get("body", b"")  # most come in one piece
    else:
        body = await _whole_body(message, receive, limit, timeout_s)
    if len(body) > limit:
        raise _too_large(limit)
    return body


async def _whole_body(message: Message, receive: Receive, limit: int, timeout_s: float) -> bytes:
    pieces = bytearray()
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                if message["type"] != "http.request":
                    raise Refusal(400, -32700, "Parse error: the body was cut off")
                pieces += message.get("body", b"")
                if not message.get("more_body") or len(pieces) > limit:
                    return bytes(pieces)
                message = await receive()
    except TimeoutError:
        why = f"Invalid request: send the whole body within {timeout_s:g} s"
        raise Refusal(408, -32600, why, [(b"connection", b"close")]) from None


def _too_large(limit: int) -> Refusal:
    return Refusal(413, -32600, f"Invalid request: send at most {limit} bytes")
