"""The few words of ASGI that the endpoint speaks itself: it is the hot path of the server."""

import asyncio
from collections.abc import Iterable, Mapping

from starlette.types import Receive, Scope, Send

from taskmachine.protocol.jsonvalue import encode_json
from taskmachine.statemachine import TaskmachineError

__all__ = ["Headers", "Refusal", "headers_of", "read_body", "respond"]

Headers = Iterable[tuple[bytes, bytes]]


class Refusal(TaskmachineError):
    """The request is refused as HTTP, before it is one of the protocol."""

    def __init__(self, status: int, code: int, message: str, headers: Headers = ()) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.headers = tuple(headers)

    def body(self) -> bytes:
        """An error response that has no id, as both revisions allow."""
        error = {"code": self.code, "message": self.message}
        return encode_json({"jsonrpc": "2.0", "error": error})


def headers_of(scope: Scope) -> dict[str, str]:
    """By lower-case name; of repeated ones the last."""
    # The whitespace around values is not theirs, and not every parser takes it away.
    return {
        name.decode("latin-1"): value.decode("latin-1").strip(" \t")
        for name, value in scope["headers"]
    }


async def respond(send: Send, status: int, body: bytes = b"", headers: Headers = ()) -> None:
    """A whole answer; JSON if there is a body."""
    described = [(b"content-length", b"%d" % len(body)), *headers]
    if body:
        described.append((b"content-type", b"application/json"))
    await send({"type": "http.response.start", "status": status, "headers": described})
    await send({"type": "http.response.body", "body": body})


async def read_body(
    receive: Receive, headers: Mapping[str, str], limit: int, timeout_s: float
) -> bytes:
    """The whole body; `Refusal` if it is too large, too slow, or cut off."""
    announced = headers.get("content-length", "")
    if announced.isdigit() and int(announced) > limit:
        raise _too_large(limit)
    # Most come in one piece, and need no clock: see `connections` for those that never begin.
    body, is_whole = await _piece(receive)
    try:
        if not is_whole:
            async with asyncio.timeout(timeout_s):
                pieces = bytearray(body)
                while not is_whole and len(pieces) <= limit:
                    body, is_whole = await _piece(receive)
                    pieces += body
                body = bytes(pieces)
    except TimeoutError:
        why = f"Invalid request: send the whole body within {timeout_s:g} s"
        raise Refusal(408, -32600, why, [(b"connection", b"close")]) from None
    if len(body) > limit:
        raise _too_large(limit)
    return body


async def _piece(receive: Receive) -> tuple[bytes, bool]:
    message = await receive()
    if message["type"] != "http.request":
        raise Refusal(400, -32700, "Parse error: the body was cut off")
    return message.get("body", b""), not message.get("more_body")


def _too_large(limit: int) -> Refusal:
    return Refusal(413, -32600, f"Invalid request: send at most {limit} bytes")
