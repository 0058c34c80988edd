"""The floor: a minimal ASGI application on uvicorn and uvloop, like our server.

It answers every request with a constant: the body of the last PUT.
Run as `python -m taskmachine.adapters.cli.bench.floor`, it prints its address.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

import uvicorn

Message = MutableMapping[str, Any]

IDLE_S: Final = 600
"""Long enough to stay connected while other servers are measured."""

_constant = b"{}"


async def floor(
    scope: Message,
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    global _constant
    body = b""
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            break
    if scope["method"] == "PUT":
        _constant = body
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(_constant)),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": _constant})


if __name__ == "__main__":
    uvicorn.run(
        floor,
        host="127.0.0.1",
        port=0,
        loop="uvloop",
        http="httptools",
        lifespan="off",
        access_log=False,
        timeout_keep_alive=IDLE_S,
    )
