"""HTTP/1.1 for one connection: uvicorn's protocol with bounds on time and memory.

uvicorn bounds only the time between two requests.  It does not bound a header or a body that does
not end, a client that does not read, or pipelined requests; it adds trailers to the headers, and
drops the body of a request that offers an upgrade.
"""

from collections import Counter
from functools import partial
from itertools import chain
from typing import Any, Final

import httptools
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from taskmachine.adapters.transports.http.asgi import Refusal, respond
from taskmachine.adapters.transports.settings import Transport
from taskmachine.protocol.jsonrpc import INVALID_REQUEST

__all__ = ["BoundedProtocol", "bounded_protocol"]

MAX_FRAMING: Final = 64 * 1024
"""Bytes of a request that are not its body: target, headers, trailers, chunk extensions."""

MAX_PIPELINED: Final = 16
"""Requests of one connection that have no complete answer; each may hold 64 KiB of its body."""

_ONCE: Final = frozenset(
    b"host authorization cookie origin sec-fetch-site content-type transfer-encoding"
    b" last-event-id".split()
)
"""Headers that must not be repeated, like all that begin with `mcp-`."""


def bounded_protocol(bounds: Transport) -> Any:
    """Return the argument `http` for `uvicorn.Config`."""
    return partial(BoundedProtocol, bounds)


class BoundedProtocol(HttpToolsProtocol):
    """Close the connection of a client that takes too long or sends too much."""

    def __init__(self, bounds: Transport, **given: Any) -> None:
        super().__init__(**given)
        self.app = partial(_serve, self.app)
        self._bounds = bounds
        self._framing = 0.0
        self._seconds: float | None = bounds.header_s
        """Timeout of the header or body that is being read; None if a request is complete."""
        self._timer: Any = None
        self._stall_timer: Any = None
        self._earlier: list[Any] = []
        """Requests without a complete response, except for the last one read (`cycle`)."""

    # --- input -------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self.parser is None:  # a request was refused while an earlier one is pending
            return
        self._unset_keepalive_if_required()
        self._framing += len(data)
        if self._seconds is None:
            self._seconds = self._bounds.header_s
        try:
            self._parse(data)
            if self._framing > MAX_FRAMING:
                self.send_400_response(f"Send at most {MAX_FRAMING} bytes beside the body.")
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        if self._seconds is not None and self._timer is None:
            self._timer = self.loop.call_later(self._seconds, self._expire)

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            # Java's HttpClient offers HTTP/2 with its first request.  httptools ends a request at
            # the offer, without its body: parse it again as if the offer had not been made.
            line = self.parser.get_method(), self.url, self.parser.get_http_version().encode()
            kept = [b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade"]
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn does
            head = b"%b %b HTTP/%b\r\n%b\r\n" % (*line, b"".join(kept))
            self._parse(head + data[offer.args[0] :])

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise ValueError("this server is not a proxy")
            return  # see `_parse`
        if self._framing > MAX_FRAMING:  # perhaps with a part of the body
            size = len(self.url) + sum(map(len, chain.from_iterable(self.headers)))
            if size + 4 * len(self.headers) > MAX_FRAMING:
                raise ValueError("too large a header")
        is_pipelined = self.cycle is not None and not self.cycle.response_complete
        if is_pipelined:
            waiting = (*self._earlier, self.cycle)
            self._earlier = [cycle for cycle in waiting if not cycle.response_complete]
            if len(self._earlier) >= MAX_PIPELINED:
                raise ValueError("too many pipelined requests")
        was_paused = self.flow.read_paused
        super().on_headers_complete()
        if is_pipelined and not was_paused:  # uvicorn would not notice that the client leaves
            self.flow.resume_reading()
        self.headers = []  # trailers go here, not to the headers that the application has
        self._allow(self._bounds.body_s + 1)  # the application refuses a slow body first

    def on_chunk_header(self) -> None:
        self._framing -= 5  # the least that frames a chunk; more digits belong to a larger body

    def on_body(self, body: bytes) -> None:
        self._framing = max(self._framing - len(body) * 17 / 16, -MAX_FRAMING)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            super().on_message_complete()
            self._framing = 0
            self._allow(self.timeout_keep_alive if self.cycle.response_complete else None)

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that cannot be parsed, after the responses to earlier ones."""
        self.parser = None  # type: ignore[assignment]  # as uvicorn does
        cycle, is_only = self.cycle, all(one.response_complete for one in self._earlier)
        is_answered = cycle is None or cycle.response_complete
        if is_answered or (is_only and cycle.more_body and not cycle.response_started):
            super().send_400_response(msg)
            return
        cycle.keep_alive = False
        if not cycle.more_body:
            self._allow(None)

    # --- timeouts ----------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._timer = self.loop.call_later(self._bounds.header_s, self._expire)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._allow(None)
        if self._stall_timer is not None:
            self._stall_timer.cancel()
        for cycle in self._earlier:  # uvicorn ends only the last of several
            cycle.disconnected = not cycle.response_complete
            cycle.message_event.set()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._cut_off_later()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._cut_off_later()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._cut_off_later()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stall_timer is not None and not self.transport.is_closing():
            self._stall_timer.cancel()
            self._stall_timer = None

    def _cut_off_later(self) -> None:
        """Abort the connection unless the client reads the output in time."""
        if self._stall_timer is None:
            self._stall_timer = self.loop.call_later(self._bounds.stall_s, self.transport.abort)

    def _allow(self, seconds: float | None) -> None:
        self._seconds = seconds
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer = None
        if self._seconds is not None and self.flow.read_paused:  # the server is the slow side
            self._timer = self.loop.call_later(self._seconds, self._expire)
        else:
            self.transport.abort()


async def _serve(app: Any, scope: Scope, receive: Receive, send: Send) -> None:
    fault = _fault(scope["http_version"], scope["headers"])
    if fault is None:
        await app(scope, receive, send)
    else:
        status, why = fault
        body = Refusal(status, INVALID_REQUEST, f"Invalid request: {why}").body()
        await respond(send, status, body, [(b"connection", b"close")])


def _fault(version: str, headers: list[tuple[bytes, bytes]]) -> tuple[int, str] | None:
    """Return status and reason to refuse a request that httptools accepts, or None."""
    if version not in ("1.1", "1.0"):
        return 505, f"send HTTP/1.1, not HTTP/{version}"
    values = dict(headers)
    if b"host" not in values and version == "1.1":
        return 400, "send a header host"
    if len(values) < len(headers):
        for name, number in Counter(name for name, _ in headers).items():
            if number > 1 and (name in _ONCE or name.startswith(b"mcp-")):
                return 400, f"send one header {name.decode('latin-1')}, not {number}"
    coding = values.get(b"transfer-encoding")
    if coding is not None and coding.strip(b" \t").lower() != b"chunked":
        return 501, "send no transfer coding but chunked"
    return None
