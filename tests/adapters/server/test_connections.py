"""Our connections say what uvicorn's own would: the readable twin, side by side on real sockets."""

import asyncio
import contextlib
import gc
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final

import pytest
import uvicorn
from starlette.types import Message, Receive, Scope, Send

from taskmachine.adapters.server.connections import MAX_AHEAD, Bounds, Connection, protocol_within

PATIENCE_S: Final = 20.0
BOUNDS: Final = Bounds(header_s=30, body_s=30, stall_s=30, idle_s=30)
LARGE: Final = 3 * MAX_AHEAD

Exchange = tuple[int, dict[str, str], bytes]
"""Status, headers and body."""


async def whole(receive: Receive) -> bytes:
    body = b""
    while (message := await receive())["type"] == "http.request":
        body += message["body"]
        if not message["more_body"]:
            break
    return body


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    """What a path asks for."""

    async def begin(status: int = 200, *headers: tuple[bytes, bytes]) -> None:
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})

    async def write(body: bytes, *, more: bool = False) -> None:
        await send({"type": "http.response.body", "body": body, "more_body": more})

    match scope["path"]:
        case "/parts":
            await begin(200, (b"x-kind", b"parts"))
            for part in (b"one ", b"", b"two"):
                await write(part, more=True)
            await write(b"")
        case "/announced":
            await begin(201, (b"content-length", b"6"), (b"x-kind", b"announced"))
            await write(b"abc", more=True)
            await write(b"def")
        case "/empty":
            await begin(204)
            await write(b"")
        case "/early":
            await begin(413, (b"content-length", b"3"))
            await write(b"no!")
        case "/closes":
            await begin(200, (b"connection", b"close"))
            await write(b"bye")
        case "/raises":
            raise ValueError("on purpose")
        case "/silent":
            return
        case "/torn":
            await begin()
            await write(b"half", more=True)
        case "/too-long":
            await begin(200, (b"content-length", b"2"))
            await write(b"three")
        case "/injected":
            await begin(200, (b"x-kind", b"a\r\nx-evil: b"))
            await write(b"")
        case "/twice":
            await begin()
            await begin()
        case _:
            facts = {
                **{key: scope[key] for key in ("type", "method", "path", "http_version", "scheme")},
                "raw_path": scope["raw_path"].decode(),
                "query": scope["query_string"].decode(),
                "headers": [[n.decode(), v.decode("latin-1")] for n, v in scope["headers"]],
                "body": (await whole(receive)).decode(),
            }
            await begin(200, (b"content-type", b"application/json"))
            await write(json.dumps(facts).encode())


@contextlib.asynccontextmanager
async def listening(protocol: Any, app: Any = application, **more: Any) -> AsyncIterator[int]:
    config = uvicorn.Config(
        app, http=protocol, ws="none", lifespan="off", log_config=None, server_header=False, **more
    )
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext  # type: ignore[assignment, method-assign]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.create_task(server.serve([listener]))
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            await asyncio.wait_for(serving, PATIENCE_S)


def run(act: Callable[[], Awaitable[Any]]) -> Any:
    async def within() -> Any:
        async with asyncio.timeout(PATIENCE_S):
            return await act()

    return asyncio.run(within())


async def read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    pairs = (line.split(": ", 1) for line in lines[1:] if line)
    return int(lines[0].split()[1]), dict(pairs)


async def read(reader: asyncio.StreamReader, *, has_body: bool = True) -> Exchange:
    status, headers = await read_head(reader)
    while status == 100:
        status, headers = await read_head(reader)
    if not has_body or status in (204, 304):
        return status, headers, b""
    if headers.get("transfer-encoding") != "chunked":
        return status, headers, await reader.readexactly(int(headers["content-length"]))
    body = b""
    while size := int(await reader.readline(), 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
    await reader.readexactly(2)
    return status, headers, body


async def told(port: int, pieces: Sequence[bytes], *, has_body: bool) -> Any:
    """What comes back, less what may differ: when, and in how many parts."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        try:
            status, headers, body = await read(reader, has_body=has_body)
        except (asyncio.IncompleteReadError, ConnectionError, ValueError):
            return "it hung up"
        is_over = headers.pop("connection", None) == "close"
        if is_over:
            assert await reader.read() == b"", "who says so does so"
        for name in ("date", "content-length", "transfer-encoding"):
            headers.pop(name, None)
        return status, headers, body, is_over
    finally:
        writer.close()


def request(line: str, *headers: str, body: bytes = b"") -> bytes:
    return "\r\n".join((line, "Host: here", *headers, "", "")).encode() + body


LENGTH: Final = "Content-Length: 5"

REQUESTS: Final[dict[str, Sequence[bytes]]] = {
    "a plain one": [request("GET /facts HTTP/1.1")],
    "names in any case": [request("GET /facts HTTP/1.1", "X-Mixed-CASE:  value \t")],
    "repeated headers": [request("GET /facts HTTP/1.1", "A: 1", "a: 2")],
    "a query": [request("GET /facts?a=1&b=%20#x HTTP/1.1")],
    "a path that is encoded": [request("GET /f%C3%A4cts%2Fx HTTP/1.1")],
    "an absolute address": [request("GET http://here/facts?q HTTP/1.1")],
    "a body": [request("POST /facts HTTP/1.1", LENGTH, body=b"hello")],
    "a body in two pieces": [request("POST /facts HTTP/1.1", LENGTH, body=b"he"), b"llo"],
    "byte by byte": [
        bytes([byte]) for byte in request("POST /facts HTTP/1.1", LENGTH, body=b"hello")
    ],
    "chunks": [
        request("POST /facts HTTP/1.1", "Transfer-Encoding: chunked"),
        b"3\r\nhel\r\n",
        b"2\r\nlo\r\n0\r\n\r\n",
    ],
    "a large body": [
        request("POST /facts HTTP/1.1", f"Content-Length: {LARGE}"),
        *[b"x" * (LARGE // 12)] * 12,
    ],
    "one that waits to be asked": [
        request("POST /facts HTTP/1.1", LENGTH, "Expect: 100-continue"),
        b"hello",
    ],
    "HTTP/1.0": [request("GET /facts HTTP/1.0")],
    "the last one": [request("GET /facts HTTP/1.1", "Connection: close")],
    "parts": [request("GET /parts HTTP/1.1")],
    "a length that was announced": [request("GET /announced HTTP/1.1")],
    "no body": [request("GET /empty HTTP/1.1")],
    "HEAD": [request("HEAD /announced HTTP/1.1")],
    "HEAD of parts": [request("HEAD /parts HTTP/1.1")],
    "an early answer": [request("POST /early HTTP/1.1", LENGTH, body=b"hello")],
    "an answer that is the last": [request("GET /closes HTTP/1.1")],
    "an error": [request("GET /raises HTTP/1.1")],
    "silence": [request("GET /silent HTTP/1.1")],
    "half an answer": [request("GET /torn HTTP/1.1")],
    "two beginnings": [request("GET /twice HTTP/1.1")],
    "no HTTP": [b"hello\r\n\r\n"],
    "a path that is no text": [b"GET /\xff HTTP/1.1\r\nHost: here\r\n\r\n"],
}


@pytest.mark.parametrize("what", REQUESTS)
def test_the_same_is_said_as_by_uvicorn_itself(what: str) -> None:
    pieces = REQUESTS[what]
    has_body = not pieces[0].startswith(b"HEAD")

    async def act() -> tuple[Any, Any]:
        async with listening("httptools") as theirs, listening(protocol_within(BOUNDS)) as ours:
            return (
                await told(theirs, pieces, has_body=has_body),
                await told(ours, pieces, has_body=has_body),
            )

    theirs, ours = run(act)
    assert ours == theirs


@pytest.mark.parametrize("path", ["/too-long", "/injected"])
def test_an_answer_that_would_confuse_a_client_is_not_written(path: str) -> None:
    async def act() -> None:
        async with listening(protocol_within(BOUNDS)) as port:
            said = await told(port, [request(f"GET {path} HTTP/1.1")], has_body=True)
            assert said == "it hung up" or said[0] == 500
            assert "evil" not in str(said)

    run(act)


def test_many_requests_on_one_connection_and_none_before_the_answer() -> None:
    async def act() -> None:
        async with listening(protocol_within(BOUNDS)) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for number in range(20):
                body = b"%05d" % number
                writer.write(request("POST /facts HTTP/1.1", LENGTH, body=body))
                assert json.loads((await read(reader))[2])["body"].encode() == body
            writer.write(2 * request("GET /facts HTTP/1.1"))
            assert await closed(reader), "whoever cannot wait is cut off"
            writer.close()

    run(act)


async def closed(reader: asyncio.StreamReader) -> bool:
    with contextlib.suppress(ConnectionError):
        while await reader.read(1000):
            pass
    return True


@pytest.mark.parametrize(
    ("bounds", "sent"),
    [
        (Bounds(0.05, 30, 30, 30), b""),
        (Bounds(0.05, 30, 30, 30), b"POST /facts HTTP/1.1\r\nHost:"),
        (Bounds(30, 0.05, 30, 30), request("POST /facts HTTP/1.1", LENGTH, body=b"hel")),
        (Bounds(30, 30, 30, 0.05), request("GET /facts HTTP/1.1")),
    ],
    ids=["nothing", "half a header", "half a body", "no second request"],
)
def test_no_connection_lasts_for_ever(bounds: Bounds, sent: bytes) -> None:
    async def act() -> None:
        async with listening(protocol_within(bounds)) as port:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(sent)
            assert await closed(reader)
            writer.close()

    run(act)


def test_somebody_who_leaves_is_noticed_and_somebody_who_does_not_read_is_cut_off() -> None:
    seen: asyncio.Queue[str] = asyncio.Queue()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await whole(receive)
        if scope["path"] == "/leaves":
            seen.put_nowait("begun")
            gone: Message = await receive()
            seen.put_nowait(gone["type"])
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1_000):
            await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
        seen.put_nowait("written to nobody")

    async def act() -> None:
        bounds = Bounds(header_s=30, body_s=30, stall_s=0.1, idle_s=30)
        async with listening(protocol_within(bounds), app) as port:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request("GET /leaves HTTP/1.1"))
            assert await seen.get() == "begun"
            writer.close()
            assert await seen.get() == "http.disconnect"
            with socket.create_connection(("127.0.0.1", port)) as deaf:
                deaf.sendall(request("GET /stream HTTP/1.1"))
                assert await seen.get() == "written to nobody"

    run(act)


def test_a_connection_that_is_over_leaves_nothing_to_the_garbage_collector() -> None:
    async def act() -> None:
        async with listening(protocol_within(BOUNDS)) as port:
            pieces = [request("POST /facts HTTP/1.1", LENGTH, "Connection: close", body=b"hello")]
            assert (await told(port, pieces, has_body=True))[0] == 200
            gc.collect()
            gc.disable()
            gc.set_debug(gc.DEBUG_SAVEALL)
            try:
                for _ in range(5):
                    await told(port, pieces, has_body=True)
                await asyncio.sleep(0)
                gc.collect()
                assert not [one for one in gc.garbage if isinstance(one, Connection)]
            finally:
                gc.set_debug(0)
                gc.garbage.clear()
                gc.enable()

    run(act)


def test_beyond_the_limit_there_is_no_service() -> None:
    async def act() -> None:
        async with listening(protocol_within(BOUNDS), limit_concurrency=1) as port:
            said = await told(port, [request("GET /facts HTTP/1.1")], has_body=True)
            assert said[0] == 503
            assert said[3], "and the connection is over"

    run(act)


def test_an_answer_that_is_under_way_is_finished_before_the_end() -> None:
    go_on = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})
        await go_on.wait()
        await send({"type": "http.response.body", "body": b"b"})

    async def act() -> None:
        async with contextlib.AsyncExitStack() as stack:
            port = await stack.enter_async_context(listening(protocol_within(BOUNDS), app))
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            idle, other = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request("GET / HTTP/1.1"))
            assert await reader.readuntil(b"a\r\n")
            ending = asyncio.create_task(stack.aclose())
            assert await closed(idle), "nothing is under way there"
            go_on.set()
            assert b"1\r\nb\r\n0\r\n\r\n" in await reader.read()
            await ending
            writer.close()
            other.close()

    run(act)
