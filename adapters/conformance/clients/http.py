"""A scripted server on a loopback port that passes every HTTP request to the actor."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping
from typing import Any, Final

import uvicorn

from taskmachine.adapters.conformance.clients.incoming import COMMENT, Actor, Stream, read_message
from taskmachine.adapters.conformance.history import MISSING, Entry, Http, Kind
from taskmachine.adapters.conformance.recorder import Recorder
from taskmachine.adapters.conformance.wire.sse import write_event

__all__ = ["serve_http"]

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_MOST_BYTES: Final = 4_000_000
_JSON: Final = {"content-type": "application/json"}
_EVENTS: Final = {"content-type": "text/event-stream", "cache-control": "no-cache"}


@contextlib.asynccontextmanager
async def serve_http(actor: Actor, recorder: Recorder) -> AsyncIterator[str]:
    """Serve the actor, and yield its URL."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=128)
    config = uvicorn.Config(
        _app(actor, recorder),
        lifespan="off",
        log_level="critical",
        access_log=False,
        timeout_graceful_shutdown=1,
    )
    server = _Quiet(config)
    running = asyncio.get_running_loop().create_task(server.serve([listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    finally:
        await actor.close()
        server.should_exit = True
        await running
        listening.close()


class _Quiet(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the surrounding program."""
        yield


def _app(actor: Actor, recorder: Recorder) -> Callable[..., Awaitable[None]]:
    async def app(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        body = await _body(receive)
        headers = {name.decode("latin-1"): _text(value) for name, value in scope["headers"]}
        message, text = read_message(body) if body else (MISSING, "")
        line = actor.connection_of(scope["method"], headers, message)
        post = recorder.new_post()
        entry = recorder.add(
            Kind.HEARD,
            "A",
            line,
            post=post,
            message=message,
            text=text,
            http=Http(scope["method"], 0, headers),
        )
        incoming = _HttpMessage(entry, recorder, receive, send)
        try:
            await actor.handle(incoming)
        finally:
            await incoming.finish()

    return app


async def _body(receive: Receive) -> bytes:
    body = bytearray()
    while len(body) < _MOST_BYTES:
        event = await receive()
        body += event.get("body", b"")
        if not event.get("more_body"):
            break
    return bytes(body)


def _text(value: bytes) -> str:
    """Decode a header as HTTP does: bytes beyond ASCII become Latin-1 characters."""
    return value.decode("latin-1")


class _HttpMessage:
    """An HTTP request."""

    def __init__(self, entry: Entry, recorder: Recorder, receive: Receive, send: Send) -> None:
        assert entry.http is not None
        self.entry = entry
        self.line = entry.line
        self.post = entry.post
        self.http_method = entry.http.method
        self.headers = entry.http.headers
        self._recorder = recorder
        self._receive = receive
        self._send = send
        self._has_head = False
        self._events: _Events | None = None

    async def accept(self, status: int = 202) -> None:
        await self._head(status, {})
        await self._rest(b"")

    async def answer(
        self, message: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        await self._head(status, {**_JSON, **(headers or {})})
        self._recorder.add(Kind.SENT, "A", self.line, post=self.post, message=message)
        await self._rest(json.dumps(message).encode())

    async def stream(self, *, headers: Mapping[str, str] | None = None) -> Stream:
        await self._head(200, {**_EVENTS, **(headers or {})})
        self._events = _Events(self.entry, self._recorder, self._receive, self._send)
        return self._events

    async def finish(self) -> None:
        """End the HTTP response if the actor did not."""
        if self._events is not None:
            await self._events.close()
        elif not self._has_head:
            await self.accept(500)

    async def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self._has_head = True
        self._recorder.add(
            Kind.HEAD, "A", self.line, post=self.post, http=Http("", status, dict(headers))
        )
        pairs = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        await self._send({"type": "http.response.start", "status": status, "headers": pairs})

    async def _rest(self, body: bytes) -> None:
        await self._send({"type": "http.response.body", "body": body})


class _Events:
    """A response that is a stream of events."""

    def __init__(self, entry: Entry, recorder: Recorder, receive: Receive, send: Send) -> None:
        self.line = entry.line
        self._post = entry.post
        self._recorder = recorder
        self._receive = receive
        self._send = send
        self._is_over = asyncio.Event()
        self._watch = asyncio.get_running_loop().create_task(self._watch_client())

    @property
    def is_open(self) -> bool:
        return not self._is_over.is_set()

    async def send(self, message: Any, *, event_id: str | None = None) -> None:
        if self.is_open:
            http = Http(event_id=event_id)
            self._recorder.add(
                Kind.SENT, "A", self.line, post=self._post, message=message, http=http
            )
            await self._write(write_event(json.dumps(message), id=event_id))

    async def comment(self) -> None:
        if self.is_open:
            self._recorder.add(Kind.SENT, "A", self.line, post=self._post, text=COMMENT)
            await self._write(f"{COMMENT}\n\n".encode())

    async def prime(self, event_id: str, retry_ms: int | None = None) -> None:
        http = Http(event_id=event_id, retry_ms=retry_ms)
        self._recorder.add(Kind.SENT, "A", self.line, post=self._post, text="", http=http)
        await self._write(write_event("", id=event_id, retry_ms=retry_ms))

    async def close(self) -> None:
        if self.is_open:
            self._is_over.set()
            self._recorder.add(Kind.LEFT, "A", self.line, post=self._post)
            await self._send({"type": "http.response.body", "body": b""})
        self._watch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._watch

    async def wait_closed(self) -> None:
        await self._is_over.wait()

    async def _write(self, block: bytes) -> None:
        if self.is_open:
            await self._send({"type": "http.response.body", "body": block, "more_body": True})

    async def _watch_client(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        if self.is_open:
            self._is_over.set()
            self._recorder.add(Kind.ENDED, "A", self.line, post=self._post)
