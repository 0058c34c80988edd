"""A TCP proxy between a process and the database that cuts and refuses connections."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

__all__ = ["Proxy", "running_proxy"]

_CHUNK: Final = 65_536


class Proxy:
    """Forwards bytes in both directions."""

    def __init__(self, upstream: int) -> None:
        self.is_refusing = False
        """New connections are closed at once."""
        self._upstream = upstream
        self._is_deaf = False
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._handling: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        assert self._server is not None, "it was never opened"
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    @property
    def connections(self) -> int:
        return len(self._pairs)

    def cut(self) -> int:
        """Cut all open connections and return their number."""
        count = len(self._pairs)
        for pair in self._pairs:
            _abort(*pair)
        return count

    def cut_before_answer(self) -> None:
        """Cut the next connection on which the database answers, so that the process cannot know
        whether its statement took effect."""
        self._is_deaf = True

    async def open(self) -> None:
        def accept(*ends: Any) -> None:
            handling = asyncio.create_task(self._handle(*ends))
            self._handling.add(handling)
            handling.add_done_callback(self._handling.discard)

        self._server = await asyncio.start_server(accept, "127.0.0.1", 0)

    async def close(self) -> None:
        assert self._server is not None, "it was never opened"
        self._server.close()
        self.cut()
        while self._handling:
            await asyncio.wait(self._handling)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_refusing:
            _abort(writer)
            return
        try:
            upstream = await asyncio.open_connection("127.0.0.1", self._upstream)
        except OSError:
            _abort(writer)
            return
        pair = (writer, upstream[1])
        self._pairs.add(pair)
        ways = [
            asyncio.create_task(self._pass(reader, upstream[1], is_answer=False)),
            asyncio.create_task(self._pass(upstream[0], writer, is_answer=True)),
        ]
        try:
            # When either side closes, close both.
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._pairs.discard(pair)
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for end in pair:
                end.close()
                with contextlib.suppress(OSError):
                    await end.wait_closed()

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                if is_answer and self._is_deaf:
                    self._is_deaf = False
                    _abort(writer)
                    return
                writer.write(data)
                await writer.drain()
            writer.close()  # after forwarding everything received before the end


def _abort(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        transport = writer.transport
        assert isinstance(transport, asyncio.WriteTransport)
        transport.abort()


@asynccontextmanager
async def running_proxy(upstream: int) -> AsyncIterator[Proxy]:
    """Run a proxy to that local port."""
    proxy = Proxy(upstream)
    await proxy.open()
    try:
        yield proxy
    finally:
        await proxy.close()
