"""A caller of 2025-11-25 over HTTP, in plain JSON, that sees what goes over each stream."""

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

__all__ = ["FORM", "RELATED", "House", "Stream", "Visitor", "accept", "house", "visited"]

JSON = dict[str, Any]
FORM: Final[JSON] = {"elicitation": {"form": {}}}
RELATED: Final = "io.modelcontextprotocol/related-task"
_PATIENCE_S: Final = 10.0


def accept(question: JSON) -> JSON:
    """The answer to a question of `deploy`."""
    return {"id": question["id"], "result": {"action": "accept", "content": {"confirmed": True}}}


class Stream:
    """What comes on one stream, message by message."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.heard: list[JSON] = []
        self._lines = response.aiter_lines()

    async def next(self) -> JSON:
        async with asyncio.timeout(_PATIENCE_S):
            async for line in self._lines:
                if line.startswith("data: {"):
                    self.heard.append(json.loads(line.removeprefix("data: ")))
                    return self.heard[-1]
        raise EOFError

    async def until(self, is_wanted: Callable[[JSON], bool]) -> JSON:
        while not is_wanted(message := await self.next()):
            pass
        return message

    async def called(self, method: str) -> JSON:
        """A request or notification of the server."""
        return await self.until(lambda message: message.get("method") == method)

    async def answer(self) -> JSON:
        return await self.until(lambda message: "method" not in message)


class Visitor:
    """One session, or none if the server has none."""

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
            "clientInfo": {"name": "visitor", "version": "1"},
        }
        answer = await self.ask("initialize", hello)
        self.headers["mcp-protocol-version"] = self.revision
        await self.tell({"method": "notifications/initialized"})
        return answer

    async def tell(self, message: JSON) -> None:
        told = await self._http.post(
            self._url, headers=self.headers, json={"jsonrpc": "2.0", **message}
        )
        assert told.status_code == 202

    @asynccontextmanager
    async def asking(
        self, method: str, params: JSON | None = None, id: str | int | None = None
    ) -> AsyncIterator[Stream]:
        """The stream of a request; it breaks when the block ends."""
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
        """The general stream."""
        async with self._http.stream("GET", self._url, headers=self.headers) as response:
            assert response.status_code == 200
            yield Stream(response)

    async def ask(self, method: str, params: JSON | None = None) -> JSON:
        """The answer to a request, whatever comes before it."""
        async with self.asking(method, params) as stream:
            if stream.response.headers["content-type"].startswith("application/json"):
                answer: JSON = json.loads(await stream.response.aread())
                return answer
            return await stream.answer()

    async def error(self, method: str, params: JSON | None = None) -> JSON:
        error: JSON = (await self.ask(method, params))["error"]
        return error

    async def create(self, tool: str, arguments: JSON | None = None, **more: Any) -> str:
        """The id of a new task."""
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


class House:
    """A server on a socket, and those who visit it."""

    def __init__(self, server: MCPServer, http: httpx.AsyncClient, url: str) -> None:
        self.server = server
        self.url = url
        self._http = http

    def visitor(self, token: str | None = None, revision: str = "2025-11-25") -> Visitor:
        """Somebody who has not introduced himself."""
        visitor = Visitor(self._http, self.url, revision)
        if token is not None:
            visitor.headers["authorization"] = f"Bearer {token}"
        return visitor

    async def visit(self, token: str | None = None, **capabilities: JSON) -> Visitor:
        """Somebody who has, and who answers forms unless it is said otherwise."""
        visitor = self.visitor(token)
        await visitor.introduce(capabilities or FORM)
        return visitor


@asynccontextmanager
async def house(
    tasks: Tasks | None = None, *, options: JSON | None = None, **transport: Any
) -> AsyncIterator[House]:
    """A house with the tools of `legacy_server`; `transport` as of `streamable_http_app`."""
    tasks = tasks or Tasks()
    server = make_server(tasks, **(options or {}))
    app = server.streamable_http_app(**transport)
    async with tasks.running(), server.session_manager.run(), serving(app) as port:
        url = f"http://127.0.0.1:{port}/mcp"
        async with httpx.AsyncClient(timeout=_PATIENCE_S) as http:
            yield House(server, http, url)


def visited(act: Callable[[House, Visitor], Awaitable[None]], **options: Any) -> None:
    """Let somebody visit a house of its own, and leave it with nothing behind."""

    async def main() -> None:
        async with house(**options) as home:
            await act(home, await home.visit())
        left = {str(task.get_coro()).split()[2] for task in asyncio.all_tasks()}
        assert left <= {"visited.<locals>.main", "_shutdown_watcher"}  # that one is of the SSE

    asyncio.run(main())
