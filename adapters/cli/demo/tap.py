"""A relay in front of the server that records the messages for display."""

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
    """A recorded message."""

    is_of_client: bool
    message: JSONObject


class Tap:
    """Relay bytes unchanged in both directions and record the messages in them.

    Its port stays the same when the server restarts on another one.
    """

    def __init__(self, port: Callable[[], int | None]) -> None:
        self._port = port
        self._passed: list[Passed] = []
        self._writers: set[asyncio.StreamWriter] = set()
        self._relaying: set[asyncio.Task[None]] = set()

    def take(self) -> list[Passed]:
        """Return and clear the recorded messages."""
        taken, self._passed = self._passed, []
        return taken

    async def relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Relay one connection of the client."""
        port = self._port()
        with contextlib.closing(writer):
            if port is None:  # the server is down
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
        self._relaying |= ways
        self._writers |= writers
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for writer in writers:
            writer.close()
        await asyncio.wait(ways)
        self._relaying -= ways
        self._writers -= writers

    def _note(self, *, is_of_client: bool) -> Callable[[bytes], None]:
        return lambda body: self._passed.append(Passed(is_of_client, decode_json(body)))

    async def close(self) -> None:
        """Cut every connection."""
        for writer in self._writers:
            writer.close()
        if self._relaying:
            await asyncio.wait(self._relaying)


@contextlib.asynccontextmanager
async def tapping(port: Callable[[], int | None]) -> AsyncIterator[tuple[Tap, str]]:
    """Open a tap and yield it with its URL; `port` returns the current port of the server."""
    tap = Tap(port)
    listener = await asyncio.start_server(tap.relay, "127.0.0.1", 0)
    try:
        yield tap, f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/mcp"
    finally:
        listener.close()
        await tap.close()


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, note: Callable[[bytes], None]
) -> None:
    with contextlib.suppress(OSError):  # the server was killed: treat it as an end
        while data := await reader.read(65_536):
            note(data)
            writer.write(data)
            await writer.drain()


class _Bodies:
    """Extract messages from HTTP: a body is one, and so is each event of a stream."""

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
