"""A relay in front of the server that listens: what is shown of the wire comes from the wire."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import attrs
import httptools

from taskmachine.adapters.client.sse import Parser
from taskmachine.protocol.jsonvalue import JSONObject, decode_json

__all__ = ["Passed", "Tap", "tapping"]


@attrs.frozen
class Passed:
    """A message on its way."""

    is_of_client: bool
    message: JSONObject


class Tap:
    """Carries bytes to the server and back, as they are, and notes the messages in them.

    Its own port stays the same when the server comes back on another one.
    """

    def __init__(self, port: Callable[[], int | None]) -> None:
        self._port = port
        self._passed: list[Passed] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._carrying: set[asyncio.Task[None]] = set()

    def take(self) -> list[Passed]:
        """What has passed since the last time."""
        taken, self._passed = self._passed, []
        return taken

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the client."""
        port = self._port()
        with contextlib.closing(writer):
            if port is None:  # nobody is there: neither are we
                return
            try:
                from_server, to_server = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                return
            with contextlib.closing(to_server):
                await self._both_ways((reader, to_server), (from_server, writer))

    async def _both_ways(
        self,
        there: tuple[asyncio.StreamReader, asyncio.StreamWriter],
        back: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    ) -> None:
        asks = httptools.HttpRequestParser(_Bodies(self._note(is_of_client=True)))
        answers = httptools.HttpResponseParser(_Bodies(self._note(is_of_client=False)))
        ways = {
            asyncio.create_task(_pump(*there, asks.feed_data)),
            asyncio.create_task(_pump(*back, answers.feed_data)),
        }
        writers = {there[1], back[1]}
        self._carrying |= ways
        self._writers |= writers
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for writer in writers:
            writer.close()
        await asyncio.wait(ways)
        self._carrying -= ways
        self._writers -= writers

    def _note(self, *, is_of_client: bool) -> Callable[[bytes], None]:
        return lambda body: self._passed.append(Passed(is_of_client, decode_json(body)))

    async def close(self) -> None:
        """Cut every connection."""
        for writer in self._writers:
            writer.close()
        if self._carrying:
            await asyncio.wait(self._carrying)


@contextlib.asynccontextmanager
async def tapping(port: Callable[[], int | None]) -> AsyncIterator[tuple[Tap, str]]:
    """A tap, and the URL to connect to; `port` says where the server is now."""
    tap = Tap(port)
    listener = await asyncio.start_server(tap.carry, "127.0.0.1", 0)
    try:
        yield tap, f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/mcp"
    finally:
        listener.close()
        await tap.close()


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, note: Callable[[bytes], None]
) -> None:
    with contextlib.suppress(OSError):  # killed: the same as an end
        while data := await reader.read(65_536):
            note(data)
            writer.write(data)
            await writer.drain()


class _Bodies:
    """Finds the messages in HTTP: a body is one, and so is each event of a stream."""

    def __init__(self, note: Callable[[bytes], None]) -> None:
        self._note = note
        self._body = bytearray()
        self._events: Parser | None = None

    def on_message_begin(self) -> None:
        self._body, self._events = bytearray(), None

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"content-type" and value.startswith(b"text/event-stream"):
            self._events = Parser()

    def on_body(self, data: bytes) -> None:
        if self._events is None:
            self._body += data
            return
        for event in self._events.feed(data):
            if event.data:
                self._note(event.data.encode())

    def on_message_complete(self) -> None:
        if self._body:
            self._note(bytes(self._body))
