"""How long the runtime behind a server of the SDK lives, and whom its end concerns."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.server.mcpserver import Context, MCPServer

from taskmachine.adapters.bridges.mcp import Tasks
from taskmachine.adapters.bridges.mcp.client import Tasks as ClientTasks
from taskmachine.adapters.stores import open_store
from tests.adapters.bridges.mcp.serving import SERVER, over_http, run, seen
from tests.adapters.transports.wire import CAPABILITIES


class Gated:
    """A server with one tool, which the test lets end."""

    def __init__(self, url: str = "memory:", *, retry: bool = True, **options: Any) -> None:
        self.tasks = Tasks(url, retry=retry)
        self.begun = asyncio.Event()
        self.open = asyncio.Event()
        self.lifespans: list[Any] = []
        self.server = MCPServer("gated", extensions=[self.tasks], **SERVER, **options)

        @self.server.tool()
        async def wait(ctx: Context[Any]) -> str:
            self.lifespans.append(ctx.request_context.lifespan_context)
            self.begun.set()
            await self.open.wait()
            return "open"

    def client(self) -> Client:
        return Client(self.server, extensions=[ClientTasks()])


async def held_by_others(path: Path) -> list[str]:
    """The states in the file, as somebody else reads them."""
    store = await open_store(f"sqlite:{path}")
    try:
        return [str(task.state) for task in await store.browse(None, 10)]
    finally:
        await store.close()


def test_a_client_that_leaves_stops_nobodys_tasks() -> None:
    async def act() -> None:
        gated = Gated()
        async with gated.client() as stays:
            waiting = asyncio.create_task(stays.call_tool("wait", {}))
            async with gated.client() as leaves:
                await leaves.list_tools()
                await gated.begun.wait()
            gated.open.set()
            assert (await waiting).structured_content == {"result": "open"}

    run(act)


def test_a_task_outlives_the_client_that_made_it() -> None:
    async def act() -> None:
        gated = Gated()
        async with gated.client() as leaves:
            waiting = asyncio.create_task(leaves.call_tool("wait", {}))
            await gated.begun.wait()
        await asyncio.gather(waiting, return_exceptions=True)
        gated.open.set()
        serving = await gated.tasks.serving()
        [task] = await serving.runtime.service.store.browse(None, 10)
        assert (await serving.runtime.service.collect(task.owner, task.id)).is_terminal

    run(act)


@pytest.mark.parametrize(("retry", "left"), [(True, "submitted"), (False, "failed")])
def test_the_block_stops_what_runs_and_gives_it_back(
    tmp_path: Path, retry: bool, left: str
) -> None:
    path = tmp_path / "tasks.db"

    async def act() -> None:
        gated = Gated(f"sqlite:{path}", retry=retry)
        async with over_http(gated.server) as caller, gated.tasks.running():
            async with gated.tasks.running():  # somebody else's: the first one stays
                task_id = await caller.create("wait", {})
                await gated.begun.wait()
            assert await caller.status(task_id) == "working"
            assert await held_by_others(path) == ["working"]
        assert await held_by_others(path) == [left]

    run(act)


def test_after_the_block_the_next_request_begins_again() -> None:
    async def act() -> None:
        gated = Gated()
        gated.open.set()
        async with gated.client() as client:
            for _ in range(2):
                async with gated.tasks.running():
                    result = await client.call_tool("wait", {})
                    assert result.structured_content == {"result": "open"}

    run(act)


def test_the_end_of_the_loop_gives_back_what_runs_and_the_next_one_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    task_ids: list[str] = []

    async def before() -> None:
        gated = Gated(f"sqlite:{path}")
        async with over_http(gated.server) as caller:
            task_ids.append(await caller.create("wait", {}))
            await gated.begun.wait()

    async def between() -> None:
        assert await held_by_others(path) == ["submitted"]

    async def after() -> None:
        gated = Gated(f"sqlite:{path}")
        gated.open.set()
        async with over_http(gated.server) as caller:
            await caller.call("server/discover")  # any request will do
            await gated.begun.wait()
            await seen(caller, task_ids[0], "completed")

    run(before)
    run(between)
    run(after)


def test_one_object_serves_in_one_loop_after_the_other() -> None:
    gated = Gated()

    async def act() -> None:
        gated.open.set()
        async with gated.client() as client:
            result = await client.call_tool("wait", {})
            assert result.structured_content == {"result": "open"}

    run(act)
    gated.begun, gated.open = asyncio.Event(), asyncio.Event()  # those belong to their loop
    run(act)


def test_two_servers_on_one_file(tmp_path: Path) -> None:
    async def act() -> None:
        url = f"sqlite:{tmp_path / 'tasks.db'}"
        one, other = Gated(url), Gated(url)
        other.open.set()
        async with over_http(one.server) as caller, over_http(other.server) as second:
            task_id = await caller.create("wait", {})
            await one.begun.wait()
            assert await second.status(task_id) == "working", "both see it"
            mine = await second.create("wait", {})
            await seen(caller, mine, "completed")
            one.open.set()
            await seen(second, task_id, "completed")

    run(act)


def test_tools_have_the_lifespan_of_the_server() -> None:
    @contextlib.asynccontextmanager
    async def lifespan(server: MCPServer) -> AsyncIterator[str]:
        yield "pool"

    async def act() -> None:
        gated = Gated(lifespan=lifespan)
        gated.open.set()
        async with gated.client() as client:
            await client.call_tool("wait", {})
        assert gated.lifespans == ["pool"]

    run(act)


def test_a_store_that_cannot_be_opened_is_told_to_the_caller_and_the_log(
    tmp_path: Path, caplog: Any
) -> None:
    async def act() -> None:
        folder = tmp_path / "later"
        gated = Gated(f"sqlite:{folder / 'tasks.db'}")
        gated.open.set()
        async with over_http(gated.server) as caller:
            answer = await caller.call("tools/call", {"name": "wait", "arguments": {}})
            assert answer["error"]["code"] == -32603
            assert str(folder) not in str(answer), "callers need not know"
            assert str(folder) in caplog.text
            caller.capabilities = {}
            plain = await caller.call("tools/call", {"name": "wait", "arguments": {}})
            assert plain["result"]["structuredContent"] == {"result": "open"}, "needs no store"
            caller.capabilities = CAPABILITIES
            folder.mkdir()
            task_id = await caller.create("wait", {})
            await seen(caller, task_id, "completed")

    run(act)
