"""The proxy forwards bytes, cuts connections and refuses new ones."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from tests.chaos.proxy import Proxy, running_proxy

BOUND_S: Final = 10.0
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def echo() -> AsyncIterator[int]:
    """The port of a server that echoes each line and closes the connection after `bye`."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for line in reader:
            writer.write(line)
            if line == b"bye\n":
                break
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def with_proxy(act: Callable[[Proxy], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(BOUND_S), echo() as port, running_proxy(port) as proxy:
            await act(proxy)
            while _open:
                _open.pop().close()

    asyncio.run(run())


async def connect(proxy: Proxy) -> Ends:
    ends = await asyncio.open_connection("127.0.0.1", proxy.port)
    _open.append(ends[1])
    return ends


_open: Final[list[asyncio.StreamWriter]] = []


async def said(ends: Ends, words: bytes) -> bytes:
    """Send a line and return the echo; empty if the connection is closed."""
    reader, writer = ends
    writer.write(words + b"\n")
    try:
        return await reader.readline()
    except ConnectionError:
        return b""


def test_bytes_are_forwarded_both_ways() -> None:
    async def act(proxy: Proxy) -> None:
        ends = await connect(proxy)
        assert await said(ends, b"hello") == b"hello\n"
        assert await said(ends, b"x" * 50_000) == b"x" * 50_000 + b"\n"
        assert proxy.connections == 1

    with_proxy(act)


def test_the_last_bytes_arrive_before_the_end() -> None:
    async def act(proxy: Proxy) -> None:
        ends = await connect(proxy)
        assert await said(ends, b"bye") == b"bye\n"
        assert await ends[0].read() == b""

    with_proxy(act)


def test_a_cut_ends_all_connections_and_new_ones_work() -> None:
    async def act(proxy: Proxy) -> None:
        several = [await connect(proxy) for _ in range(3)]
        for ends in several:
            assert await said(ends, b"hello")
        assert proxy.cut() == 3
        assert [await said(ends, b"hello") for ends in several] == [b""] * 3
        assert await said(await connect(proxy), b"hello") == b"hello\n"

    with_proxy(act)


def test_an_answer_can_be_lost_after_the_request_arrived() -> None:
    async def act(proxy: Proxy) -> None:
        ends = await connect(proxy)
        assert await said(ends, b"hello") == b"hello\n"
        proxy.cut_before_answer()
        assert await said(ends, b"hello") == b""
        assert await said(await connect(proxy), b"hello") == b"hello\n"

    with_proxy(act)


def test_new_connections_are_closed_while_it_refuses() -> None:
    async def act(proxy: Proxy) -> None:
        proxy.is_refusing = True
        assert await said(await connect(proxy), b"hello") == b""
        proxy.is_refusing = False
        assert await said(await connect(proxy), b"hello") == b"hello\n"

    with_proxy(act)


def test_without_a_server_behind_it_connections_are_closed() -> None:
    async def act(proxy: Proxy) -> None:
        dead = Proxy(1)  # no server listens there
        await dead.open()
        try:
            assert await said(await connect(dead), b"hello") == b""
        finally:
            await dead.close()

    with_proxy(act)
