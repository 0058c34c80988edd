"""A bug in front of an HTTP server: ASGI around the correct application."""

import asyncio
import secrets
from collections.abc import Callable
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from taskmachine.adapters.transports.http.asgi import headers_of
from taskmachine.adapters.transports.http.disconnects import disconnected
from taskmachine.adapters.transports.http.sse import event
from taskmachine.adapters.transports.http.streams import EVENT_STREAM
from tests.conformance.planting import HANG_UP, STAY, Ending, Head, Instead, Later, Message
from tests.conformance.proxy.between import Between, as_bytes, as_object, as_request

__all__ = ["BrokenApplication"]

EVENTS: Final = "text/event-stream"
JSON: Final = "application/json"
SESSION: Final = "mcp-session-id"

Headers = list[tuple[bytes, bytes]]


class BrokenApplication:
    """ASGI.  `drop` closes every connection; it is called when the bug ends the process."""

    def __init__(self, app: ASGIApp, between: Between, drop: Callable[[], None]) -> None:
        self._app = app
        self._between = between
        self._drop = drop
        self._is_gone = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._is_gone:
            self._drop()
            return
        body = await _body(receive)
        if body is None:  # left before it had said everything
            return
        head = Head(scope["method"], headers=headers_of(scope))
        asked = as_object(body)
        bug = self._between.bug
        passed: Message | bytes | Instead | None
        if asked is None:
            passed = self._between.watched(bug.client_bytes, body, body, head)
        else:
            passed = self._between.watched(bug.client_message, asked, as_object(body), head)
        if isinstance(passed, Instead):
            await self._answer_instead(passed, send)
        elif passed is None:
            await _swallow(asked, receive, send)
        else:
            if isinstance(passed, dict):
                body = body if passed == asked else as_bytes(passed)
                _mirror(asked or {}, passed, head, headers_of(scope))
            else:
                body = passed
            answer = _Answer(self._between, asked, head, send)
            answer.expect(passed)
            await self._app(
                {**scope, "headers": _changed(scope["headers"], head, body)},
                _again(body, receive),
                answer.take,
            )
            if answer.is_held:
                await disconnected(receive)

    async def _answer_instead(self, instead: Instead, send: Send) -> None:
        body, kind = b"", JSON
        if instead.raw is not None:
            body = instead.raw
        elif len(instead.messages) == 1:
            body = as_bytes(instead.messages[0])
        elif instead.messages:
            body, kind = b"".join(map(_framed, instead.messages)), EVENTS
        if not (instead.exits and not body):
            described = {"content-type": kind} if body else {}
            described |= {"content-length": str(len(body)), **instead.headers}
            await _start(send, Head("", instead.status, described))
            await send({"type": "http.response.body", "body": body})
        if instead.exits:
            self._is_gone = True
            self._drop()


class _Answer:
    """One HTTP answer of the correct server, on its way through the bug."""

    def __init__(
        self, between: Between, asked: Message | None, asked_head: Head, send: Send
    ) -> None:
        self._between = between
        self._asked = asked
        self._method = asked_head.method
        self._session = asked_head.headers.get(SESSION, "")
        self._line = self._session or f"alone {id(self)}"  # it cannot be resumed
        self._send = send
        self._head = Head()
        self._is_stream = self._is_started = self._is_over = False
        self._seen = bytearray()
        self._filling = b""
        self.is_held = False
        """Whether the bug does not let it end."""

    def expect(self, passed: Message | bytes) -> None:
        """Handle the response to a request that replaces that of the client."""
        if self._asked is not None and isinstance(passed, dict) and "id" in passed:
            self._between.remember(self._line, passed["id"], self._asked)

    async def take(self, message: Any) -> None:
        """Handle an ASGI `send` of the application."""
        if self._is_over or self.is_held:
            return
        if message["type"] == "http.response.start":
            headers = {name.decode(): value.decode("latin-1") for name, value in message["headers"]}
            self._head = Head(self._method, message["status"], headers)
            self._is_stream = headers.get("content-type") == EVENTS
            answered = self._between.bug.response_head
            self._between.watched(answered, None, as_request(self._asked), self._head)
            if self._is_stream and not self._may_be_json:
                await self._begin()
            return
        self._seen += message.get("body", b"")
        if self._is_stream:
            await self._take_events()
        if message.get("more_body") or self._is_over or self.is_held:
            return
        if self._is_stream:
            await self._end()
        else:
            await self._take_whole(bytes(self._seen))

    @property
    def _may_be_json(self) -> bool:
        return (
            self._between.bug.waits_for_json
            and self._asked is not None
            and self._asked.get("method") != "subscriptions/listen"
        )

    # --- JSON ----------------------------------------------------------------------------------

    async def _take_whole(self, body: bytes) -> None:
        message = as_object(body)
        if message is None:
            await self._whole(body)
            return
        said = self._said(message)
        while len(said) == 1 and isinstance(said[0], Later):
            await asyncio.sleep(said[0].seconds)
            said = [said[0].message]
        if len(said) == 1 and not isinstance(said[0], Ending):
            await self._whole(as_bytes(said[0]))
        elif said:
            self._head.headers |= {k.decode(): v.decode() for k, v in EVENT_STREAM}
            await self._begin()
            if self._session or SESSION in self._head.headers:  # 2025-11-25:sse-priming-event
                await self._put(
                    b"id: %s.0\nretry: 1000\ndata: \n\n" % secrets.token_hex(16).encode()
                )
            await self._write(said)
            if not self.is_held:
                await self._end()
        else:
            self.is_held = True

    async def _whole(self, body: bytes) -> None:
        if "content-length" in self._head.headers:
            self._head.headers["content-length"] = str(len(body))
        await self._begin()
        await self._end(body)

    # --- streams -------------------------------------------------------------------------------

    async def _take_events(self) -> None:
        while b"\n\n" in self._seen and not (self._is_over or self.is_held):
            block, _, rest = bytes(self._seen).partition(b"\n\n")
            self._seen = bytearray(rest)
            await self._take_event(block + b"\n\n")

    async def _take_event(self, block: bytes) -> None:
        lines = block.split(b"\n")
        data = b"\n".join(line[6:] for line in lines if line.startswith(b"data: "))
        message = as_object(data)
        if message is None:
            self._filling += self._between.watched(
                self._between.bug.stream_block, block, block, self._head
            )
            if self._is_started:
                await self._fill()
            return
        if not self._is_started:  # it waits for what would be the only message
            if "method" not in message:
                self._is_stream = False
                self._head.headers["content-type"] = JSON
                await self._take_whole(data)
                return
            if "id" not in message:
                return
            await self._begin()
            await self._fill()
        described = b"".join(
            line + b"\n" for line in lines if line and not line.startswith(b"data: ")
        )
        said = self._said(message)
        await self._write(said, described)
        self.is_held |= "method" not in message and not said

    async def _write(self, said: list[Any], described: bytes = b"event: message\n") -> None:
        """`described` are the lines of the event that the first message takes the place of."""
        for one in said:
            while isinstance(one, Later):
                await asyncio.sleep(one.seconds)
                one = one.message
            if one is STAY:
                self.is_held = True
                return
            if one is HANG_UP:
                await self._end()
                return
            await self._put(_framed(one, described))
            described = b"event: message\n"

    def _said(self, message: Message) -> list[Any]:
        # On the answer to a POST also what has no id, or another one.
        if self._method == "POST":
            return self._between.answer(message, self._asked, self._head)
        return self._between.server_message(self._line, message, self._head)

    # --- bytes ---------------------------------------------------------------------------------

    async def _begin(self) -> None:
        self._is_started = True
        if self._head.headers.get("content-type") == EVENTS:
            self._head.headers.pop("content-length", None)
        await _start(self._send, self._head)

    async def _fill(self) -> None:
        filling, self._filling = self._filling, b""
        await self._put(filling)

    async def _put(self, body: bytes) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": True})

    async def _end(self, body: bytes = b"") -> None:
        self._is_over = True
        await self._send({"type": "http.response.body", "body": body})


def _framed(message: Any, described: bytes = b"event: message\n") -> bytes:
    body = as_bytes(message)
    is_raw = isinstance(message, bytes) and message.endswith(b"\n")
    return body if is_raw else described + event(body)


async def _start(send: Send, head: Head) -> None:
    headers = [(name.encode(), value.encode("latin-1")) for name, value in head.headers.items()]
    await send({"type": "http.response.start", "status": head.status, "headers": headers})


async def _swallow(asked: Message | None, receive: Receive, send: Send) -> None:
    if asked is not None and {"method", "id"} <= asked.keys():
        await disconnected(receive)
    else:
        await _start(send, Head("", 202, {"content-length": "0"}))
        await send({"type": "http.response.body", "body": b""})


async def _body(receive: Receive) -> bytes | None:
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body += message.get("body", b"")
        if not message.get("more_body"):
            return bytes(body)


def _again(body: bytes, receive: Receive) -> Receive:
    """The body once more; then whatever comes, which can only be that the client leaves."""
    is_told = False

    async def receive_again() -> Any:
        nonlocal is_told
        if is_told:
            return await receive()
        is_told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def _changed(headers: Headers, head: Head, body: bytes) -> Headers:
    """Return the headers as received, also repeated ones, with the changes."""
    before = headers_of({"headers": headers})
    if "content-length" in before:
        head.headers["content-length"] = str(len(body))
    kept = [(k, v) for k, v in headers if head.headers.get(k.decode()) == before[k.decode()]]
    names = {name.decode() for name, _ in kept}
    new = [(k.encode(), v.encode("latin-1")) for k, v in head.headers.items() if k not in names]
    return [*kept, *new]


def _mirror(asked: Message, passed: Message, head: Head, before: dict[str, str]) -> None:
    """Headers that mirrored the message mirror the changed one."""
    for name, read in (("mcp-method", _method), ("mcp-name", _name)):
        was, now = read(asked), read(passed)
        if was != now and before.get(name) == was and head.headers.get(name) == was:
            head.headers.pop(name)
            if isinstance(now, str):
                head.headers[name] = now


def _method(message: Message) -> Any:
    return message.get("method")


def _name(message: Message) -> Any:
    params = message.get("params")
    if not isinstance(params, dict):
        return None
    return params.get("taskId", params.get("name", params.get("uri")))
