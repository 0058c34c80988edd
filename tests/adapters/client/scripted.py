"""A scripted server on a real socket, exact to the byte."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from taskmachine.adapters.client.connect import connect
from taskmachine.adapters.client.remote_task import RemoteTask
from taskmachine.adapters.client.session import Session

Json = dict[str, Any]

TOOL: Json = {"name": "work", "inputSchema": {"type": "object"}}
TIMES = {"createdAt": "2025-11-25T10:30:00Z", "lastUpdatedAt": "2025-11-25T10:40:00Z"}
FORM: Json = {
    "mode": "form",
    "message": "Please enter your name.",
    "requestedSchema": {"type": "object", "properties": {"name": {"type": "string"}}},
}
DONE: Json = {"content": [{"type": "text", "text": "done"}]}


class Exchange:
    """One HTTP request and its answer.  The connection ends with the script."""

    def __init__(
        self,
        server: "Scripted",
        method: str,
        headers: dict[str, str],
        body: bytes,
        writer: asyncio.StreamWriter,
    ) -> None:
        self.server = server
        self.method = method
        self.headers = headers
        self.message: Json = json.loads(body) if body else {}
        self.closed = asyncio.Event()
        self._writer = writer

    @property
    def what(self) -> str:
        """The JSON-RPC method, or `answer`, or the HTTP method of a request without a body."""
        return str(self.message.get("method", "answer")) if self.message else self.method

    @property
    def params(self) -> Json:
        params = self.message["params"]
        assert isinstance(params, dict)
        return params

    async def send(self, text: str) -> None:
        self._writer.write(text.encode())
        await self._writer.drain()

    async def reply(
        self, status: int, body: str = "", kind: str = "application/json", **headers: str
    ) -> None:
        named = {"Content-Type": kind, "Content-Length": str(len(body.encode())), **headers}
        await self._head(status, named)
        await self.send(body)

    async def result(self, result: Json, **headers: str) -> None:
        await self.reply(200, json.dumps(self.answer(result)), **headers)

    async def error(self, code: int, message: str, status: int = 200, data: Any = None) -> None:
        error = {"code": code, "message": message} | ({} if data is None else {"data": data})
        body = {"jsonrpc": "2.0", "id": self.message["id"], "error": error}
        await self.reply(status, json.dumps(body))

    def answer(self, result: Json) -> Json:
        return {"jsonrpc": "2.0", "id": self.message["id"], "result": result}

    async def stream(self, *, is_cut_off: bool = False) -> None:
        """Begin an event stream; if `is_cut_off`, it will break before its announced length."""
        promised = {"Content-Length": "1000000"} if is_cut_off else {}
        await self._head(200, {"Content-Type": "text/event-stream", **promised})

    async def event(self, message: Json | None, id: str | None = None) -> None:
        named = "" if id is None else f"id: {id}\n"
        await self.send(f"{named}data: {'' if message is None else json.dumps(message)}\n\n")

    async def _head(self, status: int, headers: dict[str, str]) -> None:
        lines = [f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items()]
        await self.send(f"HTTP/1.1 {status} Status\r\nConnection: close\r\n{''.join(lines)}\r\n")


Script = Callable[[Exchange], Awaitable[None]]


class Scripted:
    def __init__(self, script: Script) -> None:
        self.seen: list[Exchange] = []
        self.url = ""
        self._script = script
        self._news = asyncio.Condition()

    def of(self, what: str) -> list[Exchange]:
        return [exchange for exchange in self.seen if exchange.what == what]

    async def until(self, what: str, number: int = 1) -> Exchange:
        """Wait for the nth request of that kind."""
        async with asyncio.timeout(10), self._news:
            await self._news.wait_for(lambda: len(self.of(what)) >= number)
        return self.of(what)[number - 1]

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            pairs = [line.partition(": ") for line in head[1:] if line]
            headers = {name.lower(): value for name, _, value in pairs}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            exchange = Exchange(self, head[0].split()[0], headers, body, writer)
            watching = asyncio.ensure_future(self._watch(reader, exchange))
            async with self._news:
                self.seen.append(exchange)
                self._news.notify_all()
            await self._script(exchange)
            watching.cancel()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has gone
        finally:
            writer.close()

    async def _watch(self, reader: asyncio.StreamReader, exchange: Exchange) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.read()
        exchange.closed.set()


@contextlib.asynccontextmanager
async def serving(script: Script) -> AsyncIterator[Scripted]:
    scripted = Scripted(script)
    running: set[asyncio.Task[Any]] = set()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        try:
            await scripted.take(reader, writer)
        except asyncio.CancelledError:
            pass  # asyncio would report it as an error of the server
        finally:
            running.discard(task)

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    scripted.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    try:
        yield scripted
    finally:
        server.close()
        for task in list(running):
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


@contextlib.asynccontextmanager
async def connected(script: Script, **options: Any) -> AsyncIterator[tuple[Scripted, Session]]:
    """Serve the script and connect a client."""
    async with serving(script) as server, connect(server.url, **options) as session:
        yield server, session


@contextlib.asynccontextmanager
async def calling(script: Script, **options: Any) -> AsyncIterator[tuple[Scripted, RemoteTask]]:
    """Serve the script, connect a client and call the tool `work`."""
    async with connected(script, **options) as (server, session):
        yield server, await session.call("work")


def shown_2025(status: str = "working", **more: Any) -> Json:
    return {"taskId": "t-1", "status": status, "ttl": 60000, "pollInterval": 50, **TIMES, **more}


def shown_2026(status: str = "working", **more: Any) -> Json:
    task = {"taskId": "t-1", "status": status, "ttlMs": 60000, "pollIntervalMs": 50, **TIMES}
    return {"resultType": "complete", **task, **more}


DISCOVERED: Json = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
    "ttlMs": 0,
    "cacheScope": "public",
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1"}},
}
INITIALIZED: Json = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}, "tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}},
    "serverInfo": {"name": "scripted", "version": "1"},
}


def modern(script: Script, *tools: Json) -> Script:
    """Answer what every server of 2026-07-28 answers, and the rest by the script."""

    async def act(exchange: Exchange) -> None:
        match exchange.what:
            case "server/discover":
                await exchange.result(DISCOVERED)
            case "tools/list":
                listed = {"tools": [*tools] or [TOOL], "ttlMs": 0, "cacheScope": "public"}
                await exchange.result({"resultType": "complete", **listed})
            case "subscriptions/listen":
                await exchange.error(-32601, "Method not found", 404)
            case _:
                await script(exchange)

    return act


def legacy(script: Script, *tools: Json) -> Script:
    """Answer what every server of 2025-11-25 answers, and the rest by the script."""

    async def act(exchange: Exchange) -> None:
        match exchange.what:
            case "server/discover":
                await exchange.error(-32600, "Bad Request: Missing session ID", 400)
            case "initialize":
                await exchange.result(INITIALIZED, MCP_Session_Id="s-1")
            case "notifications/initialized" | "answer" | "notifications/cancelled":
                await exchange.reply(202)
            case "tools/list":
                as_task = {**TOOL, "execution": {"taskSupport": "optional"}}
                await exchange.result({"tools": [*tools] or [as_task]})
            case "GET" if "last-event-id" not in exchange.headers:
                await exchange.reply(405)
            case "DELETE":
                await exchange.reply(200)
            case _:
                await script(exchange)

    return act
