"""The example works like any other server: over HTTP, over stdio, and after being killed."""

import asyncio
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from taskmachine.adapters.bridges.mcp.client import Tasks as ClientTasks
from taskmachine.adapters.bridges.mcp.client import steady_http
from tests.adapters.bridges.mcp.serving import accepting, bounded
from tests.adapters.transports.wire import Caller, callers
from tests.oracle import REPOSITORY
from tests.ports import free_port

EXAMPLE: Final = REPOSITORY / "docs" / "examples" / "sdk_server.py"

PATIENCE_S: Final = 120.0
"""Three processes start, each of which takes seconds on a busy machine."""

POLL_S: Final = 0.05


class Served:
    """The example over HTTP, in a folder; it can be killed and restarted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}/mcp"
        self._process: Process | None = None
        self._reading: set[asyncio.Task[bytes]] = set()

    async def begin(self) -> None:
        """Start it and wait until it is ready."""
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(EXAMPLE), "--http", str(self._port)),
            cwd=self._folder,
            stdout=PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            if b"running on http" in line:
                break
        else:
            raise EOFError("it ended before it ran")
        self._reading.add(asyncio.create_task(self._process.stdout.read()))

    async def end(self, how: signal.Signals) -> int:
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(how)
        return await self._process.wait()


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[tuple[Served, Caller]]:
    server = Served(folder)
    await server.begin()
    try:
        async with callers(server.url) as [caller]:
            yield server, caller
    finally:
        await server.end(signal.SIGKILL)


async def until(caller: Caller, task_id: str, **expected: str) -> dict[str, Any]:
    """Poll the task until its members have these values."""
    while True:
        shown: dict[str, Any] = (await caller.call("tasks/get", {"taskId": task_id}))["result"]
        if shown.items() >= expected.items():
            return shown
        await asyncio.sleep(POLL_S)


@bounded
async def test_tasks_survive_a_server_kill_and_waiting_clients_get_the_result(
    tmp_path: Path,
) -> None:
    tasks = ClientTasks()
    async with (
        served(tmp_path) as (server, caller),
        Client(steady_http(server.url), extensions=[tasks]) as client,
        tasks.start(client, "count", {"to": 12}) as counted,
    ):
        waiting = asyncio.create_task(counted.result())
        deployed = await caller.create("deploy", {"version": "1.2"})
        asked = (await until(caller, deployed, status="input_required"))["inputRequests"]
        assert counted.id is not None
        while "of 12" not in (await until(caller, counted.id)).get("statusMessage", ""):
            await asyncio.sleep(POLL_S)

        assert await server.end(signal.SIGKILL) == -signal.SIGKILL
        await server.begin()

        assert (await waiting).structured_content == {"result": "counted to 12"}
        shown = await until(caller, deployed, status="input_required")
        assert shown["inputRequests"] == asked, "no question is repeated"
        [key] = asked
        responses = {key: {"action": "accept", "content": {"sure": True}}}
        await caller.call("tasks/update", {"taskId": deployed, "inputResponses": responses})
        shown = await until(caller, deployed, status="completed")
        assert shown["result"]["content"] == [{"type": "text", "text": "1.2 is live."}]
        assert await server.end(signal.SIGINT) == 0


@bounded
async def test_over_pipes(tmp_path: Path) -> None:
    asked: list[Any] = []
    command = StdioServerParameters(command=sys.executable, args=[str(EXAMPLE)], cwd=str(tmp_path))
    with (tmp_path / "errors").open("w") as errors:
        async with Client(
            stdio_client(command, errlog=errors),
            extensions=[ClientTasks()],
            elicitation_callback=accepting({"sure": True}, asked),
        ) as client:
            greeted = await client.call_tool("greet", {"name": "Ada"})
            assert greeted.structured_content == {"result": "Hello, Ada!"}
            deployed = await client.call_tool("deploy", {"version": "1.2"})
            assert deployed.structured_content == {"result": "1.2 is live."}
    assert [params.message for params in asked] == ["Deploy 1.2?"]
