"""Count the calls of the package's functions while a server handles requests.

The server is the ASGI application, called in this process without sockets.
`python -m tests.adapters.transports.calls` prints the numbers, and with `-v` each function.
"""

import asyncio
import json
import logging
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator
from itertools import count
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

import taskmachine.statemachine
from taskmachine.adapters.tools.registry import Tools
from taskmachine.adapters.transports.http.application import Application
from taskmachine.adapters.transports.settings import Settings

__all__ = ["STORES", "Calls", "count_calls", "waiting_result", "whole_task"]

OURS: Final = str(Path(taskmachine.statemachine.__file__).parent.parent)
STORES: Final = ("memory", "sqlite")
RUNS: Final = 10

META: Final = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "counter", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {
        "extensions": {"io.modelcontextprotocol/tasks": {}}
    },
}


class Calls:
    """Calls of the package's functions, by function, while it is switched on.

    The calls of `others`, which are loops in the background, are not counted.
    """

    def __init__(self, others: Collection["asyncio.Task[Any]"] = ()) -> None:
        self.is_on = False
        self._others = others
        self.by_function: Counter[CodeType] = Counter()

    @property
    def total(self) -> int:
        return self.by_function.total()

    @property
    def files(self) -> set[str]:
        return {code.co_filename for code in self.by_function}

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not self.is_on or not code.co_filename.startswith(OURS):
            return
        # Resuming a coroutine is not a call; its instruction RESUME distinguishes it.
        if not code.co_code[frame.f_lasti + 1] & 3 and _current_task() not in self._others:
            self.by_function[code] += 1

    def lines(self) -> Iterator[str]:
        """Each function with its number of calls, in order of files."""
        functions = sorted(self.by_function, key=lambda code: (code.co_filename, code.co_name))
        for code in functions:
            place = code.co_filename.removeprefix(OURS).strip("/")
            yield f"{self.by_function[code]:3} {place}:{code.co_firstlineno} {code.co_qualname}"


def _current_task() -> "asyncio.Task[Any] | None":
    try:
        return asyncio.current_task()
    except RuntimeError:  # in a thread without an event loop
        return None


class Client:
    """Sends requests to an ASGI application in this process."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._ids = count()
        self.session: dict[str, str] = {}

    async def request(self, method: str, params: dict[str, Any], **headers: str) -> Any:
        message = {"jsonrpc": "2.0", "id": next(self._ids), "method": method, "params": params}
        body = await self.post(message, headers)
        _, _, event = body.rpartition(b"data: ")  # the last event of a stream
        return json.loads(event)["result"]

    async def post(self, message: dict[str, Any], headers: dict[str, str]) -> bytes:
        body = json.dumps(message).encode()
        pieces = [{"type": "http.request", "body": body, "more_body": False}]
        sent: list[Any] = []

        async def receive() -> Any:
            return pieces.pop() if pieces else await asyncio.Future()

        async def send(message: Any) -> None:
            sent.append(message)

        fields = {
            "host": "localhost",
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            "content-length": str(len(body)),
            **{name.replace("_", "-"): value for name, value in headers.items()},
            **self.session,
        }
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/mcp",
            "scheme": "http",
            "client": ("127.0.0.1", 1),
            "headers": [(name.encode(), value.encode()) for name, value in fields.items()],
        }
        await self._application(scope, receive, send)
        for name, value in sent[0]["headers"]:
            if name == b"mcp-session-id":
                self.session = {"mcp-session-id": value.decode()}
        return b"".join(piece.get("body", b"") for piece in sent[1:])


Scenario = Callable[[Client, asyncio.Event, Callable[[bool], None]], Awaitable[None]]
"""Runs once, and switches the counting on and off."""


async def whole_task(client: Client, gate: asyncio.Event, switch: Callable[[bool], None]) -> None:
    """2026-07-28: POST tools/call, until the outcome is stored."""
    gate.set()
    others = asyncio.all_tasks()
    params = {"name": "greet", "arguments": {"name": "Ada"}, "_meta": META}
    switch(True)
    result = await client.request(
        "tools/call",
        params,
        mcp_method="tools/call",
        mcp_name="greet",
        mcp_protocol_version="2026-07-28",
    )
    await _ended(others)
    switch(False)
    assert result["resultType"] == "task"


async def waiting_result(
    client: Client, gate: asyncio.Event, switch: Callable[[bool], None]
) -> None:
    """2025-11-25: POST a waiting tasks/result, until it is answered and the tool is done."""
    if not client.session:
        about = {"clientInfo": {"name": "counter", "version": "1"}, "capabilities": {}}
        await client.request("initialize", {"protocolVersion": "2025-11-25", **about})
        await client.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, {})
    gate.clear()
    others = asyncio.all_tasks()
    params = {"name": "greet", "arguments": {"name": "Ada"}, "task": {}}
    created = await client.request("tools/call", params)
    for _ in range(100):
        await asyncio.sleep(0)
    switch(True)
    asked = asyncio.create_task(
        client.request("tasks/result", {"taskId": created["task"]["taskId"]})
    )
    for _ in range(100):  # it waits
        await asyncio.sleep(0)
    gate.set()
    result = await asked
    await _ended(others)
    switch(False)
    assert result["content"][0]["text"] == "Hello, Ada!"


async def _ended(others: set["asyncio.Task[Any]"]) -> None:
    """Wait until nothing runs that did not run before."""
    while asyncio.all_tasks() - others - {asyncio.current_task()}:
        await asyncio.sleep(0)


async def count_calls(scenario: Scenario, store: str) -> Calls:
    """Count a scenario in the best of several runs: a slow disk adds calls of followers."""
    counts: list[Calls] = [Calls()]
    log = logging.getLogger("taskmachine")
    level = log.level
    log.setLevel(logging.WARNING)  # a line for each event would be counted
    threading.setprofile(lambda *event: counts[-1].note(*event))
    try:
        with tempfile.TemporaryDirectory() as folder:
            url = "memory:" if store == "memory" else f"sqlite:{folder}/tasks.db"
            gate, tools = asyncio.Event(), Tools()

            @tools.task()
            async def greet(name: str) -> str:
                await gate.wait()
                return f"Hello, {name}!"

            def switch(is_on: bool) -> None:
                counts[-1].is_on = is_on
                sys.setprofile(counts[-1].note if is_on else None)

            application = Application(Settings(store=url, http="127.0.0.1:0"), tools)
            async with application.lifespan():
                client = Client(application)
                for _ in range(RUNS):
                    counts.append(Calls(asyncio.all_tasks() - {asyncio.current_task()}))
                    await scenario(client, gate, switch)
    finally:
        threading.setprofile(None)
        log.setLevel(level)
    return min(counts[2:], key=lambda calls: calls.total)


def main() -> None:
    for scenario in (whole_task, waiting_result):
        for store in STORES:
            calls = asyncio.run(count_calls(scenario, store))
            print(
                f"{scenario.__name__} on {store}: {calls.total} calls in {len(calls.files)} files"
            )
            if len(sys.argv) > 1:
                print(*calls.lines(), sep="\n")


if __name__ == "__main__":
    main()
