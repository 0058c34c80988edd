"""Two ways to a server for the client of the tests: HTTP, and the pipes of a process."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

import httpx

Message = dict[str, Any]
Hear = Callable[[Any], None]


class Gone(Exception):
    """The server does not know the session any more."""


class Left(Exception):
    """The client does not go on."""


class HttpWire:
    """A POST for each message."""

    def __init__(self, url: str, bugs: frozenset[str]) -> None:
        self.url = url
        self.bugs = bugs
        self.http = httpx.AsyncClient(timeout=30)
        self.headers: Mapping[str, str] = {}
        """Head of the last response."""

    async def request(self, message: Any, headers: Mapping[str, str], hear: Hear) -> Any:
        """Return the response to a request; handle messages that precede it."""
        id = message["id"] if isinstance(message, dict) else message[0]["id"]
        event_id, retry_ms = "", 1_000
        async with self._open("POST", message, headers) as response:
            self.headers = response.headers
            if response.status_code == 404 and "MCP-Session-Id" in headers:
                raise Gone
            if not response.headers.get("content-type", "").startswith("text/event-stream"):
                return json.loads(await response.aread() or b"null")
            if "reads no events" in self.bugs:
                raise Left(1)
            async for name, value in _fields(response, self.bugs):
                if name == "id":
                    event_id = value
                elif name == "retry":
                    retry_ms = int(value)
                elif name == "data" and value:
                    heard = json.loads(value)
                    if "method" not in heard and heard.get("id") == id:
                        return heard
                    hear(heard)
        if "never comes back" in self.bugs:
            await asyncio.sleep(6)
            raise Left(1)
        if "comes back at once" not in self.bugs:
            await asyncio.sleep(retry_ms / 1_000)
        async with self._open("GET", None, {**headers, "Last-Event-ID": event_id}) as response:
            async for name, value in _fields(response, self.bugs):
                if name == "data" and value:
                    return json.loads(value)
        return None

    async def tell(self, message: Any, headers: Mapping[str, str]) -> None:
        """A message that wants no answer."""
        async with self._open("POST", message, headers):
            pass

    async def listen(self, headers: Mapping[str, str], hear: Hear) -> None:
        """Hear what the server says by itself."""
        async with self._open("GET", None, headers) as response:
            async for name, value in _fields(response, self.bugs):
                if name == "data" and value:
                    hear(json.loads(value))

    async def delete(self, headers: Mapping[str, str]) -> None:
        """End the session."""
        async with self._open("DELETE", None, headers):
            pass

    async def close(self) -> None:
        """Close all connections."""
        await self.http.aclose()

    @contextlib.asynccontextmanager
    async def _open(
        self, method: str, message: Any, headers: Mapping[str, str]
    ) -> AsyncIterator[httpx.Response]:
        accept = "application/json, text/event-stream" if method == "POST" else "text/event-stream"
        sent = {"Content-Type": "application/json", "Accept": accept, **headers}
        if "accepts nothing" in self.bugs:
            sent["Accept"] = "*/*"
        raw = [(name.encode(), value.encode()) for name, value in sent.items()]
        body = None if message is None else json.dumps(message).encode()
        async with self.http.stream(method, self.url, headers=raw, content=body) as response:
            yield response


async def _fields(response: httpx.Response, bugs: frozenset[str]) -> AsyncIterator[tuple[str, str]]:
    """The fields of events; ours are on one line each."""
    async for line in response.aiter_lines():
        if line.startswith(":"):
            if "fears comments" in bugs:
                raise Left(1)
            continue
        name, _, value = line.partition(":")
        yield name, value.removeprefix(" ")


class PipeWire:
    """A process of the server."""

    def __init__(self, command: Sequence[str], bugs: frozenset[str]) -> None:
        self.command = command
        self.bugs = bugs
        self.headers: Mapping[str, str] = {}
        self.hear: Hear = lambda _: None
        self._waiting: dict[Any, asyncio.Future[Any]] = {}

    async def start(self) -> None:
        """Start the server."""
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(*self.command, stdin=pipe, stdout=pipe)
        self.reading = asyncio.create_task(self._read())
        if "chats on the pipe" in self.bugs:
            self._write(b"hello there\n")

    def _write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line)

    def _send(self, message: Any) -> None:
        indent = 1 if "writes over several lines" in self.bugs else None
        self._write(json.dumps(message, indent=indent).encode() + b"\n")

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            message = json.loads(line)
            waiting = self._waiting.get(message.get("id")) if "method" not in message else None
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
            elif waiting is None:
                self.hear(message)

    async def request(self, message: Message, headers: Mapping[str, str], hear: Hear) -> Any:
        """Return the response to a request; handle other messages meanwhile."""
        self.hear = hear
        waiting = self._waiting[message["id"]] = asyncio.get_running_loop().create_future()
        self._send(message)
        return await waiting

    async def tell(self, message: Any, headers: Mapping[str, str]) -> None:
        """A message that wants no answer."""
        self._send(message)

    async def close(self) -> None:
        """Close the input, and wait."""
        assert self.process.stdin is not None
        if "kills its server" in self.bugs:
            self.process.terminate()
            await self.process.wait()
        self.process.stdin.close()
        await self.process.wait()
        self.reading.cancel()
