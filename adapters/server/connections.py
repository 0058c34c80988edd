"""HTTP/1.1 on one connection, for uvicorn: the parser is httptools, the application ASGI.

Less is done for each request than by uvicorn's own protocol: 19 us instead of 30 for a bare
application (`taskmachine bench --floor ours`).  And more is bounded: a client that sends half a
header and waits, or announces a body that never comes, or asks for a stream and never reads it,
holds a connection, and nobody else could end it.
"""

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote

import attrs
import httptools
import uvicorn
from starlette.types import ASGIApp, Message, Scope

__all__ = ["Bounds", "Connection", "protocol_within"]

log: Final = logging.getLogger("taskmachine")

MAX_FRAMING: Final = 64 * 1024
"""Bytes of a request that are not its body: the parser would keep any number."""

MAX_AHEAD: Final = 64 * 1024
"""Bytes of a body that are taken before the application asks for them."""

_STATUS_LINES: Final = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode())
    for status in HTTPStatus
}
_BODILESS: Final = frozenset({204, 304})
_GONE: Final[Message] = {"type": "http.disconnect"}


@attrs.frozen
class Bounds:
    """Seconds that a client may take."""

    header_s: float
    """For a header."""
    body_s: float
    """Then for the body, unless the application is less patient."""
    stall_s: float
    """To go on reading an answer."""
    idle_s: float
    """Between an answer and the next request."""


def protocol_within(bounds: Bounds) -> Any:
    """The HTTP protocol for uvicorn, as it wants to call it."""

    def connection(*, config: uvicorn.Config, server_state: Any, app_state: Any, _loop: Any) -> Any:
        return Connection(config, server_state, bounds)

    return connection


class Connection(asyncio.Protocol):
    """One client.

    One request at a time: whoever sends another one before the answer is cut off, as nothing
    would notice that such a client left.
    """

    def __init__(self, config: uvicorn.Config, state: Any, bounds: Bounds) -> None:
        self._app: ASGIApp = config.loaded_app
        self._asgi = {"version": config.asgi_version, "spec_version": "2.3"}
        self._root_path = config.root_path
        self._most = config.limit_concurrency
        self._state = state
        self._bounds = bounds
        self._loop = asyncio.get_running_loop()
        self._parser: Any = httptools.HttpRequestParser(self)
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._expects_continue = False
        self._framing = 0
        self._is_within = False
        """Whether a request has begun that is not whole yet."""
        self._exchange: _Exchange | None = None
        self._is_pipelined = False
        self._is_held = False
        self._due: float | None = None
        self._end: Callable[[], None]
        self._timer: asyncio.TimerHandle | None = None
        self._read_due: asyncio.TimerHandle | None = None
        self.drained: asyncio.Future[None] | None = None
        """Of a client that does not read: done when it does."""

    # --- what the event loop tells -----------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._state.connections.add(self)
        self._server = _address(transport.get_extra_info("sockname"))
        self._client = _address(transport.get_extra_info("peername"))
        self._scheme = "http" if transport.get_extra_info("sslcontext") is None else "https"
        self._within(self._bounds.header_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._state.connections.discard(self)
        self._at_ease()
        if self._timer is not None:
            self._timer.cancel()
        self.resume_writing()
        if self._exchange is not None:
            self._exchange.lost()
        # No circle keeps what was sent: the parser knows this, and so does the exchange.
        self._exchange = self._parser = None

    def data_received(self, data: bytes) -> None:
        before = self._exchange
        self._framing += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:  # to nothing that we know: it is answered as it is
            if self._exchange is not None:
                self._exchange.keeps_alive = False
        except httptools.HttpParserError:
            self._refuse(b"400 Bad Request", b"Invalid HTTP request received.")
            return
        if self._is_pipelined or self._framing > MAX_FRAMING:
            if before is not None:
                before.lost()
            self.transport.abort()
        elif self._is_within and (self._due is None or self._exchange is not before):
            is_in_body = self._exchange is not None and not self._exchange.is_answered
            self._within(self._bounds.body_s if is_in_body else self._bounds.header_s)

    def pause_writing(self) -> None:
        self.drained = self._loop.create_future()
        self._read_due = self._loop.call_later(self._bounds.stall_s, self.transport.abort)

    def resume_writing(self) -> None:
        if self._read_due is not None and self.drained is not None:
            self._read_due.cancel()
            self.drained.set_result(None)
            self._read_due = self.drained = None

    def shutdown(self) -> None:
        """The server ends: as soon as the answer is written, if one is under way."""
        if self._exchange is None or self._exchange.is_answered:
            self.transport.close()
        else:
            self._exchange.keeps_alive = False

    # --- what the parser tells ---------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._exchange is not None and not self._exchange.is_answered:
            self._is_pipelined = True
        self._url = b""
        self._headers = []
        self._expects_continue = False
        self._framing = 0
        self._is_within = True
        self._due = None  # idle no more

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects_continue = True
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if self._is_pipelined:
            return
        state, version = self._state, self._parser.get_http_version()
        raw_path, query = self._target()
        path = raw_path.decode("ascii")
        scope: Scope = {
            "type": "http",
            "asgi": self._asgi,
            "http_version": version,
            "server": self._server,
            "client": self._client,
            "scheme": self._scheme,
            "root_path": self._root_path,
            "headers": self._headers,
            "state": {},
            "method": self._parser.get_method().decode("ascii"),
            "path": self._root_path + (unquote(path) if "%" in path else path),
            "raw_path": self._root_path.encode() + raw_path,
            "query_string": query,
        }
        keeps_alive = version != "1.0" and self._parser.should_keep_alive()
        self._exchange = _Exchange(self, scope, keeps_alive, self._expects_continue)
        most = self._most
        is_full = most is not None and max(len(state.connections), len(state.tasks)) >= most
        serving = self._loop.create_task(self._exchange.run(_unavailable if is_full else self._app))
        self._exchange.serving = serving
        state.tasks.add(serving)

    def on_body(self, body: bytes) -> None:
        self._framing -= 6 * len(body)  # there are five bytes around even the smallest chunk
        if self._exchange is not None and not self._is_pipelined:
            self._exchange.take(body)

    def on_message_complete(self) -> None:
        self._is_within = False
        self._at_ease()
        if self._exchange is not None and not self._is_pipelined:
            self._exchange.is_whole = True
            self._exchange.wake()

    def _target(self) -> tuple[bytes, bytes]:
        if self._url.startswith(b"/") and b"?" not in self._url and b"#" not in self._url:
            return self._url, b""  # as most
        parsed = httptools.parse_url(self._url)
        return parsed.path, parsed.query or b""

    # --- what an exchange tells --------------------------------------------------------------

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        """For every answer: uvicorn knows the date."""
        headers: list[tuple[bytes, bytes]] = self._state.default_headers
        return headers

    def hold(self) -> None:
        """Nothing more is read for now."""
        self._is_held = True
        self.transport.pause_reading()

    def go_on(self) -> None:
        """It is, again."""
        if self._is_held:
            self._is_held = False
            self.transport.resume_reading()

    def served(self, exchange: "_Exchange") -> None:
        """The application is done with it.  A callback of its task would cost 1 us more."""
        self._state.tasks.discard(exchange.serving)

    def answered(self, exchange: "_Exchange") -> None:
        """It was written, and is the end of this connection or not."""
        self._state.total_requests += 1
        if not exchange.keeps_alive:
            self.transport.close()
        elif not self.transport.is_closing():
            self.go_on()
            if self._is_within:  # what is left of the body is dropped
                self._within(self._bounds.header_s)
            else:
                self._within(self._bounds.idle_s, self.transport.close)

    def _refuse(self, status: bytes, why: bytes) -> None:
        if self._exchange is not None and not self._exchange.is_answered:
            self._exchange.lost()
            self.transport.abort()
            return
        head = b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
        self.transport.write(
            b"HTTP/1.1 %b\r\n%bcontent-length: %d\r\n\r\n%b" % (status, head, len(why), why)
        )
        self.transport.close()

    # --- how long ----------------------------------------------------------------------------

    def _within(self, seconds: float, end: Callable[[], None] | None = None) -> None:
        """Something has to happen in this time, or this is the end.

        One timer for all requests: one for each would cost 3 us.
        """
        self._due = self._loop.time() + seconds
        self._end = end or self.transport.abort
        if self._timer is None or self._timer.when() > self._due:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._loop.call_at(self._due, self._look)

    def _at_ease(self) -> None:
        self._due = None

    def _look(self) -> None:
        self._timer = None
        if self._due is None:
            return
        if self._loop.time() >= self._due:
            self._end()
        else:
            self._timer = self._loop.call_at(self._due, self._look)


class _Exchange:
    """A request and its answer: what ASGI calls `receive` and `send`."""

    __slots__ = (
        "_body", "_changed", "_connection", "_expects_continue", "_head", "_is_chunked",
        "_is_gone", "_is_told", "_left", "_scope", "_status", "is_answered", "is_whole",
        "keeps_alive", "serving",
    )  # fmt: skip

    serving: asyncio.Task[None]

    def __init__(
        self, connection: Connection, scope: Scope, keeps_alive: bool, expects_continue: bool
    ) -> None:
        self.keeps_alive = keeps_alive
        self.is_whole = False
        self.is_answered = False
        self._connection = connection
        self._scope = scope
        self._expects_continue = expects_continue
        self._body = b""
        self._is_told = False
        self._is_gone = False
        self._status: int | None = None
        self._head: list[bytes] | None = None
        self._is_chunked = False
        self._left: int | None = None
        """Bytes that were announced and are not written yet."""
        self._changed: asyncio.Future[None] | None = None

    # --- what the connection tells -----------------------------------------------------------

    def take(self, body: bytes) -> None:
        """More of the body."""
        if self.is_answered:
            return
        self._body = self._body + body if self._body else body
        if len(self._body) > MAX_AHEAD:
            self._connection.hold()
        self.wake()

    def lost(self) -> None:
        """Nobody is there any more."""
        self._is_gone = True
        self.wake()

    def wake(self) -> None:
        """Something has changed for whoever receives."""
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)

    # --- what the application does -----------------------------------------------------------

    async def run(self, app: ASGIApp) -> None:
        """Serve the request; nothing that goes wrong is silent, or leaves the client waiting."""
        try:
            await app(self._scope, self.receive, self.send)
        except BaseException:  # whatever it is, the connection must not stay
            log.exception("a request failed")
            await self._give_up()
        else:
            if not (self.is_answered or self._is_gone):
                log.error("a request was not answered")
                await self._give_up()
        finally:
            self._connection.served(self)

    async def _give_up(self) -> None:
        if self._status is None:
            await _plain(self.send, 500, b"Internal Server Error")
        elif not self.is_answered:
            self._connection.transport.close()

    async def receive(self) -> Message:
        transport = self._connection.transport
        if self._expects_continue and self._status is None and not transport.is_closing():
            transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._expects_continue = False
        while not (self._is_gone or self.is_answered):
            if self._body or (self.is_whole and not self._is_told):
                body, self._body, self._is_told = self._body, b"", self.is_whole
                return {"type": "http.request", "body": body, "more_body": not self.is_whole}
            self._connection.go_on()
            self._changed = asyncio.get_running_loop().create_future()
            await self._changed
        return _GONE

    async def send(self, message: Message) -> None:
        connection = self._connection
        while connection.drained is not None and not self._is_gone:
            await asyncio.shield(connection.drained)
        if self._is_gone:
            return
        kind = message["type"]
        if self._status is None and kind == "http.response.start":
            self._begin(message["status"], message.get("headers", ()))
        elif self._status is not None and kind == "http.response.body" and not self.is_answered:
            self._write(message.get("body", b""), is_last=not message.get("more_body"))
        else:
            raise RuntimeError(f"'{kind}' is not what comes next")

    def _begin(self, status: int, headers: Any) -> None:
        """Nothing is written before the first part of the body, as ASGI has it."""
        self._status = status
        head = self._head = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d \r\n" % status]
        for name, value in (*self._connection.default_headers, *headers):
            if name == b"content-length":
                self._left = int(value)
            elif name == b"connection" and value.lower() == b"close":
                self.keeps_alive = False
                continue  # which is said in the end
            head.append(b"%b: %b\r\n" % (name, value))
        if b"".join(head).count(b"\n") != len(head):
            self._status = None
            raise RuntimeError("a header has more than one line")

    def _write(self, body: bytes, *, is_last: bool) -> None:
        if self._head is not None:
            self._finish_head(len(body) if is_last else None, self._head)
        if self._scope["method"] == "HEAD" or self._status in _BODILESS:
            body, self._left = b"", None
        elif self._is_chunked:
            body = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
            body += b"0\r\n\r\n" if is_last else b""
        elif self._left is not None:
            self._left -= len(body)
            if self._left < 0 or (is_last and self._left):
                raise RuntimeError("the body is not as long as was announced")
        if self._head is not None:
            # Both at once; but a large body is not copied for that.
            self._connection.transport.writelines((b"".join(self._head), body))
            self._head = None
        elif body:
            self._connection.transport.write(body)
        if is_last:
            self.is_answered = True
            self.wake()
            self._connection.answered(self)

    def _finish_head(self, length: int | None, head: list[bytes]) -> None:
        """Say how long the body is, unless the application did."""
        if not self.keeps_alive:
            head.append(b"connection: close\r\n")
        if self._left is None and self._status not in _BODILESS:
            if length is not None:
                head.append(b"content-length: %d\r\n" % length)
            else:
                self._is_chunked = True
                head.append(b"transfer-encoding: chunked\r\n")
        head.append(b"\r\n")


async def _unavailable(scope: Scope, receive: Any, send: Any) -> None:
    await _plain(send, 503, b"Service Unavailable")


async def _plain(send: Any, status: int, words: bytes) -> None:
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", b"%d" % len(words)),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": words})


def _address(name: Any) -> tuple[str, int] | None:
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else None
