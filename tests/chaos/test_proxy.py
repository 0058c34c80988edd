"""A line between two ends passes on what is said, and breaks when it is told to."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from tests.chaos.proxy import Proxy, proxy

BOUND_S: Final = 10.0
Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def echo() -> AsyncIterator[int]:
    """The port of somebody who repeats each line, and hangs up after the word `bye`."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async for line in reader:
            writer.write(line)
            if line == b"bye\n":
                break
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def on_a_line(act: Callable[[Proxy], Awaitable[None]]) -> None:
    async def run() -> None:
        async with asyncio.timeout(BOUND_S), echo() as port, proxy(port) as line:
            await act(line)
            while _open:
                _open.pop().close()

    asyncio.run(run())


async def connect(line: Proxy) -> Ends:
    ends = await asyncio.open_connection("127.0.0.1", line.port)
    _open.append(ends[1])
    return ends


_open: Final[list[asyncio.StreamWriter]] = []


async def said(ends: Ends, words: bytes) -> bytes:
    """What comes back; nothing if the line is dead."""
    reader, writer = ends
    writer.write(words + b"\n")
    try:
        return await reader.readline()
    except ConnectionError:
        return b""


def test_what_is_said_is_passed_on_both_ways() -> None:
    async def act(line: Proxy) -> None:
        ends = await connect(line)
        assert await said(ends, b"hello") == b"hello\n"
        assert await said(ends, b"x" * 50_000) == b"x" * 50_000 + b"\n"
        assert line.connections == 1

    on_a_line(act)


def test_the_last_words_arrive_before_the_end() -> None:
    async def act(line: Proxy) -> None:
        ends = await connect(line)
        assert await said(ends, b"bye") == b"bye\n"
        assert await ends[0].read() == b""

    on_a_line(act)


def test_a_cut_ends_all_connections_and_the_next_one_is_as_new() -> None:
    async def act(line: Proxy) -> None:
        several = [await connect(line) for _ in range(3)]
        for ends in several:
            assert await said(ends, b"hello")
        assert line.cut() == 3
        assert [await said(ends, b"hello") for ends in several] == [b""] * 3
        assert await said(await connect(line), b"hello") == b"hello\n"

    on_a_line(act)


def test_an_answer_can_be_lost_although_the_question_was_heard() -> None:
    async def act(line: Proxy) -> None:
        ends = await connect(line)
        assert await said(ends, b"hello") == b"hello\n"
        line.cut_before_answer()
        assert await said(ends, b"hello") == b""
        assert await said(await connect(line), b"hello") == b"hello\n"

    on_a_line(act)


def test_nobody_is_let_in_while_it_refuses() -> None:
    async def act(line: Proxy) -> None:
        line.is_refusing = True
        assert await said(await connect(line), b"hello") == b""
        line.is_refusing = False
        assert await said(await connect(line), b"hello") == b"hello\n"

    on_a_line(act)


def test_without_anybody_behind_it_the_line_is_dead() -> None:
    async def act(line: Proxy) -> None:
        dead = Proxy(1)  # nobody listens there
        await dead.open()
        try:
            assert await said(await connect(dead), b"hello") == b""
        finally:
            await dead.close()

    on_a_line(act)
