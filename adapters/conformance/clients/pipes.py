"""The tester's end of the relays that a client starts as its servers."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from taskmachine.adapters.conformance.clients.incoming import Actor, Stream, read_message
from taskmachine.adapters.conformance.history import Entry, Kind
from taskmachine.adapters.conformance.recorder import Recorder

__all__ = ["serve_relays"]

_MOST_BYTES: Final = 8_000_000


@contextlib.asynccontextmanager
async def serve_relays(actor: Actor, recorder: Recorder) -> AsyncIterator[int]:
    """Accept relays for the actor, and yield the port."""
    lines = _Lines(actor, recorder)
    server = await asyncio.start_server(lines.serve, "127.0.0.1", 0, limit=_MOST_BYTES)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        await actor.close()
        server.close()
        await lines.close()
        await server.wait_closed()


class _Lines:
    """All relays of one run."""

    def __init__(self, actor: Actor, recorder: Recorder) -> None:
        self._actor = actor
        self._recorder = recorder
        self._working: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one relay until it disconnects."""
        line = self._recorder.new_line()
        self._actor.opened(line)
        self._writers.add(writer)
        pipe = _Pipe(line, self._recorder, writer)
        with contextlib.suppress(ConnectionError, asyncio.LimitOverrunError, ValueError):
            while fact := await reader.readline():
                self._take(json.loads(fact), pipe)
        pipe.lose()
        self._writers.discard(writer)
        writer.close()

    def _take(self, fact: dict[str, Any], pipe: "_Pipe") -> None:
        if "signal" in fact:
            self._recorder.add(Kind.ENDED, "A", pipe.line, text=f"signal {fact['signal']}")
        elif "end" in fact:
            self._recorder.add(Kind.ENDED, "A", pipe.line, text="end of input")
        else:
            raw = base64.b64decode(fact["line"])
            message, text = read_message(raw)
            entry = self._recorder.add(Kind.HEARD, "A", pipe.line, message=message, text=text)
            work = asyncio.get_running_loop().create_task(
                self._actor.handle(_PipeMessage(entry, pipe))
            )
            self._working.add(work)
            work.add_done_callback(self._working.discard)

    async def close(self) -> None:
        """Disconnect all relays, which makes them exit."""
        for work in list(self._working):
            work.cancel()
        await asyncio.gather(*self._working, return_exceptions=True)
        for writer in list(self._writers):
            writer.close()


class _Pipe:
    """The output to a client; all responses and streams share it."""

    def __init__(self, line: int, recorder: Recorder, writer: asyncio.StreamWriter) -> None:
        self.line = line
        self._recorder = recorder
        self._writer = writer
        self._is_lost = asyncio.Event()

    @property
    def is_open(self) -> bool:
        return not self._is_lost.is_set()

    async def send(self, message: Any, *, event_id: str | None = None) -> None:
        if self.is_open:
            self._recorder.add(Kind.SENT, "A", self.line, message=message)
            self._writer.write(json.dumps(message).encode() + b"\n")
            with contextlib.suppress(ConnectionError):
                await self._writer.drain()

    async def comment(self) -> None:
        pass

    async def prime(self, event_id: str, retry_ms: int | None = None) -> None:
        pass

    async def close(self) -> None:
        pass

    async def wait_closed(self) -> None:
        await self._is_lost.wait()

    def lose(self) -> None:
        """Note that the relay has disconnected."""
        self._is_lost.set()


class _PipeMessage:
    """A line from a client."""

    def __init__(self, entry: Entry, pipe: _Pipe) -> None:
        self.entry = entry
        self.line = entry.line
        self.post: int | None = None
        self.http_method = ""
        self.headers: Mapping[str, str] = {}
        self._pipe = pipe

    async def accept(self, status: int = 202) -> None:
        pass

    async def answer(
        self, message: Any, *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        await self._pipe.send(message)

    async def stream(self, *, headers: Mapping[str, str] | None = None) -> Stream:
        return self._pipe
