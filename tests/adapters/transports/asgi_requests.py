"""Requests to an ASGI application without a network, so that time can be virtual."""

import asyncio
import functools
import json
from collections.abc import Callable, Coroutine, MutableMapping
from itertools import count
from random import Random
from typing import Any, ParamSpec
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.requests import Request

from taskmachine.adapters.runtime.claims import Claim, claim
from taskmachine.adapters.runtime.limits import Limits
from taskmachine.adapters.runtime.runtime import Runtime, RuntimeConfig, Surroundings
from taskmachine.adapters.runtime.testing.virtual_loop import VirtualLoop
from taskmachine.adapters.stores.memory import MemoryStore
from taskmachine.adapters.tools.registry import Tools
from taskmachine.adapters.transports.rest.endpoints import Identify, task_routes
from taskmachine.protocol.sealing import Sealer
from taskmachine.statemachine import Task
from tests.adapters.memory_service import DONE, Clock, call

__all__ = ["AsgiRequest", "Endpoints", "virtually"]

_P = ParamSpec("_P")


def virtually(test: Callable[_P, Coroutine[Any, Any, None]]) -> Callable[_P, None]:
    """Run a test in up to a day of virtual time; no task and no timer may be left."""

    @functools.wraps(test)
    def run(*args: _P.args, **fixtures: _P.kwargs) -> None:
        loop = VirtualLoop(Random(0))
        try:
            loop.run(asyncio.wait_for(test(*args, **fixtures), 86_400))
            assert all(task.done() for task in loop.outside.tasks)
            assert all(timer.cancelled() for _, _, timer, _ in loop._timers)
            assert loop.escaped == []
        finally:
            loop.close()

    return run


class AsgiRequest:
    def __init__(self, app: Starlette, method: str, target: str, headers: dict[str, str]) -> None:
        self.body = b""
        self.chunks: list[tuple[float, bytes]] = []
        """Pieces of the response with their times."""
        self.readable = asyncio.Event()
        """Clear it to stop reading, so that the application has to wait."""
        self.readable.set()
        self._start: MutableMapping[str, Any] = {}
        self._sent = asyncio.Event()
        self._gone = asyncio.Event()
        self._is_asked = False
        path, _, query = target.partition("?")
        self._scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(path),
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(k.lower().encode(), v.encode("latin-1")) for k, v in headers.items()],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 2),
        }
        self._loop = asyncio.get_running_loop()
        self._running = asyncio.create_task(app(self._scope, self._receive, self._send))

    @property
    def status(self) -> int:
        return int(self._start["status"])

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self._start["headers"]}

    @property
    def json(self) -> Any:
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body)

    @property
    def is_answered(self) -> bool:
        return bool(self._start)

    def __await__(self) -> Any:
        yield from self._running.__await__()
        return self

    async def until_sent(self, text: bytes) -> None:
        """Wait until the response contains this text."""
        while text not in self.body:
            self._sent.clear()
            await self._sent.wait()

    def disconnect(self) -> None:
        self._gone.set()
        self.readable.set()

    async def _receive(self) -> MutableMapping[str, Any]:
        if not self._is_asked:
            self._is_asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        await self.readable.wait()
        if message["type"] == "http.response.start":
            assert not self._start
            self._start = message
        else:
            self.body += message["body"]
            self.chunks.append((self._loop.time(), message["body"]))
        self._sent.set()


async def _named(request: Request) -> str:
    return request.headers.get("x-owner", "alice")


class Endpoints:
    """The helper endpoints on a memory store; the header `X-Owner` names the owner, else alice."""

    def __init__(
        self,
        limits: Limits | None = None,
        store: MemoryStore | None = None,
        identify: Identify | None = None,
        **options: Any,
    ) -> None:
        self.clock = Clock()
        self.store = store or MemoryStore(b"s" * 32)
        numbers = count(1)
        world = Surroundings(clock=self.clock, new_id=lambda: f"task-{next(numbers)}")
        self.runtime = Runtime(
            self.store,
            Sealer(b"s" * 32),
            Tools(),
            RuntimeConfig(limits=limits or Limits(), world=world),
        )
        self.service = self.runtime.service
        self.app = Starlette(routes=task_routes(self.runtime, identify or _named, **options))

    def request(self, target: str, method: str = "GET", **headers: str) -> AsgiRequest:
        """Begin a request; header names are spelled with underscores."""
        spelled = {name.replace("_", "-"): value for name, value in headers.items()}
        return AsgiRequest(self.app, method, target, spelled)

    async def create(self, owner: str = "alice") -> Task:
        return await self.service.create(owner, call())

    async def claim(self, task: Task) -> Claim:
        held = await claim(self.service, task.id, "w1")
        assert held is not None
        return held

    async def ended(self, owner: str = "alice") -> Task:
        task = await self.create(owner)
        await (await self.claim(task)).settle(DONE)
        return await self.service.get(owner, task.id)
