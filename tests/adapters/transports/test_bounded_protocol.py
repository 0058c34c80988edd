"""Bounds of connections on real sockets, with an application controlled by the path."""

import asyncio
import contextlib
import gc
import socket
import struct
import weakref
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send

from taskmachine.adapters.transports.http.bounded_protocol import MAX_PIPELINED, bounded_protocol
from taskmachine.adapters.transports.settings import Transport

PATIENCE_S: Final = 20.0
SHORT_S: Final = 0.05
LONG: Final = Transport(header_s=30, body_s=30, stall_s=30, idle_s=30)

LENGTH: Final = "Content-Length: 5"


async def read_body(receive: Receive) -> bytes:
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message["body"]
        if not message["more_body"]:
            break
    return body


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the body, or before it has arrived."""
    body = b"early" if scope["path"] == "/early" else await read_body(receive)
    length = (b"content-length", b"%d" % len(body))
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": body})


@contextlib.asynccontextmanager
async def listening(
    bounds: Transport, app: Any = echo, *, send_buffer: int | None = None, **more: Any
) -> AsyncIterator[tuple[int, Any]]:
    """Yield the port and uvicorn's state of the connections."""
    config = uvicorn.Config(
        app,
        http=bounded_protocol(bounds),
        ws="none",
        lifespan="off",
        log_config=None,
        timeout_keep_alive=bounds.idle_s,  # type: ignore[arg-type]
        **more,
    )
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[assignment, method-assign]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        if send_buffer is not None:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        serving = asyncio.create_task(server.serve([listener]))
        try:
            async with asyncio.timeout(PATIENCE_S):
                yield listener.getsockname()[1], server.server_state
        finally:
            server.should_exit = True
            await asyncio.wait_for(serving, PATIENCE_S)


def request(line: str, *headers: str, body: bytes = b"") -> bytes:
    return "\r\n".join((line, "Host: here", *headers, "", "")).encode() + body


async def read_answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Read status and body of a response with a length."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines[1:] if line)
    return int(lines[0].split()[1]), await reader.readexactly(int(headers["content-length"]))


async def closed(reader: asyncio.StreamReader) -> bool:
    with contextlib.suppress(ConnectionError):
        while await reader.read(1000):
            pass
    return True


# --- time ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bounds", "sent"),
    [
        (Transport(header_s=SHORT_S), b""),
        (Transport(header_s=SHORT_S), b"\r\n"),
        (Transport(header_s=SHORT_S), b"POST / HTTP/1.1\r\nHost:"),
        (Transport(body_s=SHORT_S), request("POST / HTTP/1.1", LENGTH, body=b"hel")),
        (Transport(body_s=SHORT_S), request("POST /early HTTP/1.1", LENGTH)),
    ],
    ids=["nothing", "an empty line", "half a header", "half a body", "no body, but an answer"],
)
async def test_a_request_that_is_not_completed_ends_the_connection(
    bounds: Transport, sent: bytes
) -> None:
    async with listening(bounds) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        assert await closed(reader)
        writer.close()


@pytest.mark.parametrize(
    ("first", "rest"),
    [
        (request("GET / HTTP/1.1"), b""),
        (request("GET / HTTP/1.1"), b"\r\n"),
        (request("POST /early HTTP/1.1", LENGTH, body=b"hel"), b"lo"),
    ],
    ids=["nothing", "an empty line", "the rest of the body"],
)
async def test_a_connection_without_a_second_request_is_closed(first: bytes, rest: bytes) -> None:
    async with listening(Transport(header_s=0.2, idle_s=0.2)) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(first)
        assert (await read_answer(reader))[0] == 200
        writer.write(rest)
        assert await closed(reader)
        writer.close()


async def test_a_client_that_does_not_read_a_stream_is_cut_off() -> None:
    seen: asyncio.Queue[str] = asyncio.Queue()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1_000):
            await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
        seen.put_nowait("the application continued")

    async with listening(Transport(stall_s=0.1), app) as (port, _):
        with socket.create_connection(("127.0.0.1", port)) as deaf:
            deaf.sendall(request("GET / HTTP/1.1"))
            assert await seen.get() == "the application continued"


@pytest.mark.parametrize("last", ["Connection: close", "X: y"], ids=["closed", "idle"])
async def test_a_client_that_does_not_read_its_last_answer_is_cut_off(last: str) -> None:
    """It is too small to block the application, and too large for the socket buffers."""
    bounds = Transport(stall_s=0.1, idle_s=0.1)
    async with listening(bounds, send_buffer=4_096) as (port, state):
        deaf = socket.socket()
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        with deaf:
            deaf.connect(("127.0.0.1", port))
            body = b"x" * 60_000
            length = f"Content-Length: {len(body)}"
            deaf.sendall(request("POST / HTTP/1.1", length, last, body=body))
            while not state.total_requests or state.connections:
                await asyncio.sleep(0)
            received = 0
            with contextlib.suppress(ConnectionError):
                while data := deaf.recv(65_536):
                    received += len(data)
            assert received < len(body)


# --- several requests ------------------------------------------------------------------------


class Gate:
    """An application that answers when the test says so, and records disconnects."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.begun: asyncio.Queue[str] = asyncio.Queue()
        self.left: asyncio.Queue[str] = asyncio.Queue()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)
        self.begun.put_nowait(scope["path"])
        leaving = asyncio.create_task(self._notice(scope["path"], receive))
        await self.opened.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["path"].encode()})
        await leaving

    async def _notice(self, path: str, receive: Receive) -> None:
        await receive()
        self.left.put_nowait(path)


@pytest.mark.parametrize("others", [0, 3])
async def test_the_application_notices_that_a_client_left(others: int) -> None:
    gate = Gate()
    async with listening(LONG, gate) as (port, _):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request("GET /first HTTP/1.1"))
        assert await gate.begun.get() == "/first"
        writer.write(others * request("GET /x HTTP/1.1"))
        writer.close()
        assert await gate.left.get() == "/first"
        gate.opened.set()


@pytest.mark.parametrize("number", [MAX_PIPELINED, MAX_PIPELINED + 1, 10_000])
async def test_pipelined_requests_are_answered_in_order_up_to_a_bound(number: int) -> None:
    gate = Gate()
    async with listening(LONG, gate) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"".join(request(f"GET /{n} HTTP/1.1") for n in range(number)))
        writer.write(request("GET /last HTTP/1.1", "Connection: close"))
        assert await gate.begun.get() == "/0"
        gate.opened.set()
        output = await reader.read()
        answered = [line[1:] for line in output.split(b"\r\n") if line.startswith(b"/")]
        paths = [b"%d" % n for n in range(number)]
        assert answered == paths[: len(answered)]
        assert len(answered) == MAX_PIPELINED
        writer.close()


async def test_a_body_is_not_timed_while_the_server_pauses_reading() -> None:
    gate = Gate()
    bounds = Transport(body_s=SHORT_S)
    async with listening(bounds, gate) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = b"x" * 10_000_000
        length = f"Content-Length: {len(body)}"
        writer.write(request("GET /first HTTP/1.1"))
        writer.write(request("POST /second HTTP/1.1", length, body=body))
        assert await gate.begun.get() == "/first"
        loop = asyncio.get_running_loop()
        late = loop.time() + 2 + 3 * SHORT_S  # the protocol adds 1 s to `body_s`
        loop.call_at(late, gate.opened.set)
        assert b"/first" in await reader.readuntil(b"0\r\n\r\n")
        assert b"/second" in await reader.readuntil(b"0\r\n\r\n")
        writer.close()


async def test_a_request_before_garbage_is_answered() -> None:
    gate = Gate()
    async with listening(Transport(header_s=SHORT_S), gate) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request("GET /first HTTP/1.1"))
        assert await gate.begun.get() == "/first"
        writer.write(b"garbage\r\n\r\n")
        asyncio.get_running_loop().call_later(3 * SHORT_S, gate.opened.set)
        assert b"/first" in await reader.read()
        writer.close()


async def test_a_large_body_does_not_allow_a_large_trailer() -> None:
    async with listening(LONG) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request("POST /early HTTP/1.1", "Transfer-Encoding: chunked"))
        assert (await read_answer(reader))[0] == 200
        size = 40_000_000
        with contextlib.suppress(ConnectionError):
            writer.write(b"%x\r\n%s\r\n0\r\n" % (size, b"x" * size))
            writer.write(b"trailer: %s\r\n\r\n" % (b"x" * 2_000_000))
            await writer.drain()
            output = await reader.read()
            assert output.startswith(b"HTTP/1.1 400 "), output
        writer.close()


# --- the server ------------------------------------------------------------------------------


@pytest.mark.parametrize("rest", [b"", b"GET / HT"], ids=["idle", "in a header"])
@pytest.mark.parametrize("linger", [None, struct.pack("ii", 1, 0)], ids=["close", "reset"])
async def test_a_closed_connection_is_freed_without_the_garbage_collector(
    rest: bytes, linger: bytes | None
) -> None:
    async with listening(LONG) as (port, state):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request("POST / HTTP/1.1", LENGTH, body=b"hello"))
        assert (await read_answer(reader))[1] == b"hello"
        [connection] = map(weakref.ref, state.connections)
        writer.write(rest)
        if linger is not None:
            raw = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        gc.disable()
        try:
            writer.close()
            while state.connections:
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert connection() is None
        finally:
            gc.enable()


async def test_server_answers_503_at_the_connection_limit() -> None:
    async with listening(LONG, limit_concurrency=1) as (port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request("GET / HTTP/1.1"))
        assert (await read_answer(reader))[0] == 503
        assert await closed(reader)
        writer.close()


async def test_stopping_server_finishes_its_pending_answer() -> None:
    gate = Gate()
    async with contextlib.AsyncExitStack() as stack:
        port, _ = await stack.enter_async_context(listening(LONG, gate))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        idle, other = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request("GET /first HTTP/1.1"))
        assert await gate.begun.get() == "/first"
        ending = asyncio.create_task(stack.aclose())
        assert await closed(idle), "nothing is under way there"
        gate.opened.set()
        assert b"/first" in await reader.read()
        await ending
        writer.close()
        other.close()
