"""A server on a loopback socket in this process, and clients of both revisions in plain JSON."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar
from unittest import mock

import httpx
import pytest

from taskmachine.adapters.engines import worker as worker
from taskmachine.adapters.runtime.observer import Observer
from taskmachine.adapters.runtime.runtime import RuntimeConfig, Surroundings, start_runtime
from taskmachine.adapters.server.application import serve_http
from taskmachine.adapters.stores import Store
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.adapters.tools.context import Context
from taskmachine.adapters.tools.questions import form
from taskmachine.adapters.tools.registry import Tools
from taskmachine.adapters.transports.settings import Settings

OLD: Final = "2025-11-25"
NEW: Final = "2026-07-28"

in_both = pytest.mark.parametrize("revision", [OLD, NEW])

ACCEPT: Final = {"accept": "application/json, text/event-stream"}
CAPABILITIES: Final[dict[str, Any]] = {
    "elicitation": {},
    "extensions": {"io.modelcontextprotocol/tasks": {}},
}
NAME_FORM: Final = form("Who?", {"type": "object", "properties": {"name": {"type": "string"}}})
PATIENCE_S: Final = 20.0


class Gate:
    """Tools whose steps the test controls."""

    def __init__(self) -> None:
        self.tools = Tools()
        self.open = asyncio.Event()
        self.stopped = asyncio.Event()
        self.steps = asyncio.Semaphore(0)

        @self.tools.task()
        async def greet(ctx: Context) -> str:
            answer = await ctx.ask("name", NAME_FORM)
            return f"Hello, {answer.content['name']}!"

        @self.tools.task(support="required", first={"name": NAME_FORM})
        async def greet_later(ctx: Context) -> str:
            answer = await ctx.ask("name", NAME_FORM)
            return f"Hello, {answer.content['name']}!"

        @self.tools.task()
        async def add(a: int, b: int) -> dict[str, int]:
            return {"sum": a + b}

        @self.tools.task()
        async def wait(ctx: Context) -> str:
            ctx.on_cancel(self.stopped.set)
            await self.open.wait()
            return "open"

        @self.tools.task()
        async def step(count: int, ctx: Context) -> str:
            for done in range(1, count + 1):
                await self.steps.acquire()
                await ctx.progress(done, count)
            return "stepped"


@asynccontextmanager
async def serving(
    tools: Tools,
    store: Store | None = None,
    *,
    world: Surroundings | None = None,
    observer: Observer | None = None,
    **settings: Any,
) -> AsyncIterator[str]:
    runtime = await start_runtime(
        store or MemoryStore(b"s" * 32),
        tools,
        RuntimeConfig(world=world or Surroundings(), observer=observer),
    )
    url: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    server = asyncio.create_task(
        serve_http(runtime, Settings(http="127.0.0.1:0", **settings), ready=url.set_result)
    )
    server.add_done_callback(lambda _: url.cancel())  # it failed to start
    try:
        yield await url
    finally:
        server.cancel()
        await asyncio.gather(server, return_exceptions=True)
        with mock.patch.object(worker, "GRACE_S", 0.05):  # for tools that never end
            await runtime.stop()


class Events:
    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.last_id: str | None = None
        self._lines = response.aiter_lines()

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            async for line in self._lines:
                if line.startswith("id: "):
                    self.last_id = line[4:]
                if line.startswith("data: {"):
                    message: dict[str, Any] = json.loads(line[6:])
                    return message
        raise EOFError

    async def until(self, method: str) -> dict[str, Any]:
        while True:
            message = await self.next()
            if message.get("method") == method:
                return message

    async def result(self) -> dict[str, Any]:
        while True:
            message = await self.next()
            if "result" in message or "error" in message:
                return message

    async def rest(self) -> list[dict[str, Any]]:
        messages = []
        while True:
            try:
                messages.append(await self.next())
            except EOFError:
                return messages


def text_of(answer: dict[str, Any]) -> str:
    return str(answer["result"]["content"][0]["text"])


class Caller:
    """A client of 2026-07-28; `introduce` makes it one of 2025-11-25."""

    def __init__(self, client: httpx.AsyncClient, url: str, token: str | None = None) -> None:
        self.client = client
        self.url = url
        self.headers = dict(ACCEPT)
        if token is not None:
            self.headers["authorization"] = f"Bearer {token}"
        self.capabilities: dict[str, Any] = CAPABILITIES
        self._ids = iter(range(1, 10_000))
        self.is_legacy = False

    async def introduce(self, version: str = "2025-11-25") -> httpx.Response:
        params = {
            "protocolVersion": version,
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "test", "version": "1"},
        }
        response = await self.post(
            {"id": next(self._ids), "method": "initialize", "params": params}
        )
        self.is_legacy = True
        self.headers["mcp-session-id"] = response.headers["mcp-session-id"]
        self.headers["mcp-protocol-version"] = "2025-11-25"
        assert (await self.post({"method": "notifications/initialized"})).status_code == 202
        return response

    async def post(self, message: dict[str, Any], **headers: str) -> httpx.Response:
        return await self.client.post(
            self.url, json={"jsonrpc": "2.0", **message}, headers={**self.headers, **headers}
        )

    def request(self, method: str, params: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
        message = {"id": next(self._ids), "method": method, "params": params}
        if self.is_legacy:
            return message, {}
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            **params.get("_meta", {}),
        }
        message["params"] = {**params, "_meta": meta}
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
        name = params.get("taskId", params.get("name"))
        return message, headers if name is None else {**headers, "mcp-name": name}

    async def call(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        message, headers = self.request(method, params or {})
        response = await self.post(message, **headers)
        if response.headers["content-type"] == "application/json":
            answer: dict[str, Any] = response.json()
            return answer
        events = [line[6:] for line in response.text.splitlines() if line.startswith("data: {")]
        last: dict[str, Any] = json.loads(events[-1])
        return last

    async def create(self, tool: str, arguments: dict[str, Any], **more: Any) -> str:
        params = {"name": tool, "arguments": arguments, **more}
        if self.is_legacy:
            answer = await self.call("tools/call", {**params, "task": {}})
            return str(answer["result"]["task"]["taskId"])
        return str((await self.call("tools/call", params))["result"]["taskId"])

    @asynccontextmanager
    async def stream(
        self, method: str, params: dict[str, Any], id: Any = None
    ) -> AsyncIterator[Events]:
        """Send a request and yield the stream of its response."""
        message, headers = self.request(method, params)
        if id is not None:
            message["id"] = id
        body = {"jsonrpc": "2.0", **message}
        async with self.client.stream(
            "POST", self.url, json=body, headers={**self.headers, **headers}
        ) as response:
            assert response.headers["content-type"] == "text/event-stream", await response.aread()
            assert response.headers["x-accel-buffering"] == "no"
            yield Events(response)

    @asynccontextmanager
    async def listen(self, last_id: str | None = None) -> AsyncIterator[Events]:
        """Open the general stream of a session, or resume a stream."""
        headers = {**self.headers, "accept": "text/event-stream"}
        if last_id is not None:
            headers["last-event-id"] = last_id
        async with self.client.stream("GET", self.url, headers=headers) as response:
            assert response.status_code == 200, await response.aread()
            yield Events(response)

    async def answer(self, question: dict[str, Any], name: str = "Ada") -> None:
        result = {"action": "accept", "content": {"name": name}}
        response = await self.post({"id": question["id"], "result": result})
        assert response.status_code == 202

    async def status(self, task_id: str) -> str:
        shown = (await self.call("tasks/get", {"taskId": task_id}))["result"]
        return str(shown["status"])

    async def wait_for(self, task_id: str, status: str) -> None:
        """Poll until the task shows that status."""
        async with asyncio.timeout(PATIENCE_S):
            while await self.status(task_id) != status:
                await asyncio.sleep(0)


@asynccontextmanager
async def callers(url: str, count: int = 1) -> AsyncIterator[list[Caller]]:
    clients = [httpx.AsyncClient(timeout=PATIENCE_S) for _ in range(count)]
    try:
        yield [Caller(client, url) for client in clients]
    finally:
        for client in clients:
            await client.aclose()


_Gate = TypeVar("_Gate", bound=Gate)


@asynccontextmanager
async def served(
    revision: str, make: Callable[[], _Gate], *args: Any, **options: Any
) -> AsyncIterator[tuple[Caller, _Gate]]:
    """Yield a client of that revision and the tools of the new server that it calls."""
    gate = make()
    async with serving(gate.tools, *args, **options) as url, callers(url) as [caller]:
        if revision == OLD:
            await caller.introduce()
        yield caller, gate
