"""A client of 2025-11-25 over HTTP, in plain JSON, that records the messages of each stream."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Final

import httpx
from mcp.server.mcpserver import MCPServer

from taskmachine.adapters.bridges.mcp import Tasks
from tests.adapters.bridges.mcp.legacy_server import make_server
from tests.adapters.transports.loopback import serving

__all__ = [
    "FORM",
    "RELATED",
    "LegacyClient",
    "LegacyServer",
    "Stream",
    "accept",
    "serving_legacy",
    "with_client",
]

JSON = dict[str, Any]
FORM: Final[JSON] = {"elicitation": {"form": {}}}
RELATED: Final = "io.modelcontextprotocol/related-task"
_PATIENCE_S: Final = 10.0


def accept(question: JSON) -> JSON:
    """Return the answer to a question of `deploy`."""
    return {"id": question["id"], "result": {"action": "accept", "content": {"confirmed": True}}}


class Stream:
    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.received: list[JSON] = []
        self._lines = response.aiter_lines()

    async def next(self) -> JSON:
        async with asyncio.timeout(_PATIENCE_S):
            async for line in self._lines:
                if line.startswith("data: {"):
                    self.received.append(json.loads(line.removeprefix("data: ")))
                    return self.received[-1]
        raise EOFError

    async def until(self, is_wanted: Callable[[JSON], bool]) -> JSON:
        while not is_wanted(message := await self.next()):
            pass
        return message

    async def message(self, method: str) -> JSON:
        """Wait for a request or notification of the server."""
        return await self.until(lambda message: message.get("method") == method)

    async def answer(self) -> JSON:
        return await self.until(lambda message: "method" not in message)


class LegacyClient:
    """A client with one session, or none if the server is stateless."""

    def __init__(self, http: httpx.AsyncClient, url: str, revision: str) -> None:
        self._http = http
        self._url = url
        self.revision = revision
        self.headers = {"accept": "application/json, text/event-stream"}
        self._numbers = count(1)

    async def introduce(self, capabilities: JSON) -> JSON:
        hello = {
            "protocolVersion": self.revision,
            "capabilities": capabilities,
            "clientInfo": {"name": "client", "version": "1"},
        }
        answer = await self.ask("initialize", hello)
        self.headers["mcp-protocol-version"] = self.revision
        await self.send({"method": "notifications/initialized"})
        return answer

    async def send(self, message: JSON) -> None:
        told = await self._http.post(
            self._url, headers=self.headers, json={"jsonrpc": "2.0", **message}
        )
        assert told.status_code == 202

    @asynccontextmanager
    async def asking(
        self, method: str, params: JSON | None = None, id: str | int | None = None
    ) -> AsyncIterator[Stream]:
        """Send a request and yield its stream, which breaks at the end of the block."""
        id = next(self._numbers) if id is None else id
        message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}
        async with self._http.stream(
            "POST", self._url, headers=self.headers, json=message
        ) as response:
            if "mcp-session-id" in response.headers:
                self.headers["mcp-session-id"] = response.headers["mcp-session-id"]
            yield Stream(response)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Stream]:
        async with self._http.stream("GET", self._url, headers=self.headers) as response:
            assert response.status_code == 200
            yield Stream(response)

    async def ask(self, method: str, params: JSON | None = None) -> JSON:
        """Send a request and return the answer, skipping earlier messages."""
        async with self.asking(method, params) as stream:
            if stream.response.headers["content-type"].startswith("application/json"):
                answer: JSON = json.loads(await stream.response.aread())
                return answer
            return await stream.answer()

    async def error(self, method: str, params: JSON | None = None) -> JSON:
        error: JSON = (await self.ask(method, params))["error"]
        return error

    async def create(self, tool: str, arguments: JSON | None = None, **more: Any) -> str:
        params = {"name": tool, "arguments": arguments or {}, "task": {}, **more}
        task_id = (await self.ask("tools/call", params))["result"]["task"]["taskId"]
        assert isinstance(task_id, str)
        return task_id

    async def until_status(self, task_id: str, status: str) -> JSON:
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                task: JSON = (await self.ask("tasks/get", {"taskId": task_id}))["result"]
                if task["status"] == status:
                    return task

    async def leave(self) -> None:
        assert (await self._http.delete(self._url, headers=self.headers)).status_code == 200


class LegacyServer:
    """A server on a socket, and its clients."""

    def __init__(self, server: MCPServer, http: httpx.AsyncClient, url: str) -> None:
        self.server = server
        self.url = url
        self._http = http

    def client(self, token: str | None = None, revision: str = "2025-11-25") -> LegacyClient:
        """Return a client that has not initialized."""
        client = LegacyClient(self._http, self.url, revision)
        if token is not None:
            client.headers["authorization"] = f"Bearer {token}"
        return client

    async def connect(self, token: str | None = None, **capabilities: JSON) -> LegacyClient:
        """Return an initialized client, which answers forms by default."""
        client = self.client(token)
        await client.introduce(capabilities or FORM)
        return client


@asynccontextmanager
async def serving_legacy(
    tasks: Tasks | None = None, *, options: JSON | None = None, **transport: Any
) -> AsyncIterator[LegacyServer]:
    """Serve the tools of `legacy_server`; `transport` as of `streamable_http_app`."""
    tasks = tasks or Tasks()
    server = make_server(tasks, **(options or {}))
    app = server.streamable_http_app(**transport)
    async with tasks.running(), server.session_manager.run(), serving(app) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        async with httpx.AsyncClient(timeout=_PATIENCE_S) as http:
            yield LegacyServer(server, http, url)


def with_client(
    act: Callable[[LegacyServer, LegacyClient], Awaitable[None]], **options: Any
) -> None:
    """Connect a client to a new server, and check that no asyncio task is left afterwards."""

    async def main() -> None:
        async with serving_legacy(**options) as server:
            await act(server, await server.connect())
        left = {str(task.get_coro()).split()[2] for task in asyncio.all_tasks()}
        assert left <= {"with_client.<locals>.main", "_shutdown_watcher"}  # part of SSE

    asyncio.run(main())
