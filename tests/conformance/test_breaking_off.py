"""A cancelled request of the tester leaves no connection open."""

import asyncio
import gc
import time
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from taskmachine.adapters.conformance.wire.pending import Work
from taskmachine.adapters.conformance.wire.transports import HttpTransport, read_body

KEEPALIVE_S = 0.01
TURNS = 12
"""So often the loop goes around until a request has been sent and answered."""


@asynccontextmanager
async def greeting() -> AsyncIterator[str]:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


async def break_off_after(turns: int, url: str) -> None:
    web = HttpTransport(url, {}, keepalive_s=KEEPALIVE_S)

    async def ask() -> None:
        async with web.open("GET", {}, None) as response:
            await read_body(response)

    await asyncio.gather(*(ask() for _ in range(4)))
    expired = time.monotonic() + KEEPALIVE_S
    while time.monotonic() <= expired:  # then the next request closes what these left idle
        await asyncio.sleep(0)
    work = Work(ask())
    for _ in range(turns):
        await asyncio.sleep(0)
    await work.cancel()
    await web.close()


def test_idle_connections_are_closed_by_a_request_that_is_broken_off() -> None:
    async def scenario() -> None:
        async with greeting() as url:
            for turns in range(1, TURNS):
                await break_off_after(turns, url)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        asyncio.run(scenario())
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
