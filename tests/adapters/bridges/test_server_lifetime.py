"""The lifetime of tasks and of the runtime behind a server: beyond clients and event loops."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fastmcp import Client as FastMCPClient
from fastmcp import Context, FastMCP
from mcp.server.mcpserver import MCPServer

from taskmachine.adapters.bridges.fastmcp import Tasks as FastMCPTasks
from taskmachine.adapters.bridges.mcp import Tasks
from taskmachine.adapters.stores import open_store
from taskmachine.statemachine import ConfigurationError
from tests.adapters.bridges import fastmcp_shop, sdk_shop
from tests.adapters.bridges.mcp.serving import bounded, seen
from tests.adapters.transports.wire import CAPABILITIES


@pytest.fixture(params=[sdk_shop, fastmcp_shop], ids=["sdk", "fastmcp"])
def bridge(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


async def states(path: Path) -> list[str]:
    """The states of the tasks in the file, read by another store."""
    store = await open_store(f"sqlite:{path}")
    try:
        return [str(task.state) for task in await store.browse(None, 10)]
    finally:
        await store.close()


def test_the_end_of_the_server_gives_back_its_tasks_and_the_next_one_runs_them(
    bridge: ModuleType, tmp_path: Path
) -> None:
    path = tmp_path / "tasks.db"
    task_ids: list[str] = []

    @bounded
    async def before() -> None:
        place = bridge.Shop(f"sqlite:{path}")
        async with bridge.over_http(place.server) as caller:
            task_ids.append(await caller.create("wait", {}))
            await place.begun.wait()

    @bounded
    async def between() -> None:
        assert await states(path) == ["submitted"]

    @bounded
    async def after() -> None:
        place = bridge.Shop(f"sqlite:{path}")
        place.open.set()
        async with bridge.over_http(place.server) as caller:
            if bridge is sdk_shop:  # whose runtime starts with the first request, whatever it is
                await caller.call("server/discover")
            await place.begun.wait()
            await seen(caller, task_ids[0], "completed")

    before()
    between()
    after()


@bounded
async def test_fastmcp_gives_back_tasks_and_runs_them_within_one_event_loop(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"

    place = fastmcp_shop.Shop(f"sqlite:{path}")
    async with fastmcp_shop.over_http(place.server) as caller:
        task_id = await caller.create("wait", {})
        await place.begun.wait()
    assert await states(path) == ["submitted"]
    place = fastmcp_shop.Shop(f"sqlite:{path}")
    place.open.set()
    async with fastmcp_shop.over_http(place.server) as caller:
        await place.begun.wait()  # without a request
        await seen(caller, task_id, "completed")


@bounded
async def test_two_servers_on_one_file(bridge: ModuleType, tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'tasks.db'}"
    one, other = bridge.Shop(url), bridge.Shop(url)
    other.open.set()
    async with bridge.over_http(one.server) as caller, bridge.over_http(other.server) as second:
        task_id = await caller.create("wait", {})
        await one.begun.wait()
        assert await second.status(task_id) == "working", "both see it"
        await seen(caller, await second.create("wait", {}), "completed")
        one.open.set()
        await seen(second, task_id, "completed")


# --- the SDK ---------------------------------------------------------------------------------


@bounded
async def test_a_client_that_leaves_stops_no_tasks_of_other_clients() -> None:
    place = sdk_shop.Shop()
    async with place.client() as stays:
        waiting = asyncio.create_task(stays.call_tool("wait", {}))
        async with place.client() as leaves:
            await leaves.list_tools()
            await place.begun.wait()
        place.open.set()
        assert (await waiting).structured_content == {"result": "open"}


@bounded
async def test_a_task_outlives_the_client_that_made_it() -> None:
    place = sdk_shop.Shop()
    async with place.client() as leaves:
        waiting = asyncio.create_task(leaves.call_tool("wait", {}))
        await place.begun.wait()
    await asyncio.gather(waiting, return_exceptions=True)
    place.open.set()
    serving = await place.tasks.serving()
    [task] = await serving.runtime.service.store.browse(None, 10)
    assert (await serving.runtime.service.collect(task.owner, task.id)).is_terminal


@pytest.mark.parametrize(("retry", "left"), [(True, "submitted"), (False, "failed")])
@bounded
async def test_the_block_stops_the_tools_and_gives_back_their_tasks(
    tmp_path: Path, retry: bool, left: str
) -> None:
    path = tmp_path / "tasks.db"

    place = sdk_shop.Shop(tasks=Tasks(f"sqlite:{path}", repeatable=retry))
    async with sdk_shop.over_http(place.server) as caller, place.tasks.running():
        async with place.tasks.running():  # the outer block keeps the runtime
            task_id = await caller.create("wait", {})
            await place.begun.wait()
        assert await caller.status(task_id) == "working"
        assert await states(path) == ["working"]
    assert await states(path) == [left]


@bounded
async def test_after_the_block_the_next_request_starts_a_runtime() -> None:
    place = sdk_shop.Shop()
    place.open.set()
    async with place.client() as client:
        for _ in range(2):
            async with place.tasks.running():
                result = await client.call_tool("wait", {})
                assert result.structured_content == {"result": "open"}


def test_one_object_serves_in_one_loop_after_the_other() -> None:
    place = sdk_shop.Shop()

    @bounded
    async def act() -> None:
        place.open.set()
        async with place.client() as client:
            result = await client.call_tool("wait", {})
            assert result.structured_content == {"result": "open"}

    act()
    place.begun, place.open = asyncio.Event(), asyncio.Event()  # the first ones belong to the loop
    act()


@bounded
async def test_tools_have_the_lifespan_of_the_server() -> None:
    @contextlib.asynccontextmanager
    async def lifespan(server: MCPServer) -> AsyncIterator[str]:
        yield "pool"

    place = sdk_shop.Shop(lifespan=lifespan)
    place.open.set()
    async with place.client() as client:
        await client.call_tool("wait", {})
    assert place.lifespans == ["pool"]


@bounded
async def test_a_store_that_cannot_be_opened_is_an_error_for_the_client_and_in_the_log(
    tmp_path: Path, caplog: Any
) -> None:
    folder = tmp_path / "later"
    place = sdk_shop.Shop(f"sqlite:{folder / 'tasks.db'}")
    place.open.set()
    async with sdk_shop.over_http(place.server) as caller:
        answer = await caller.call("tools/call", {"name": "wait", "arguments": {}})
        assert answer["error"]["code"] == -32603
        assert str(folder) not in str(answer), "no details for clients"
        assert str(folder) in caplog.text
        caller.capabilities = {}
        plain = await caller.call("tools/call", {"name": "wait", "arguments": {}})
        assert plain["result"]["structuredContent"] == {"result": "open"}, "needs no store"
        caller.capabilities = CAPABILITIES
        folder.mkdir()
        task_id = await caller.create("wait", {})
        await seen(caller, task_id, "completed")


# --- FastMCP ---------------------------------------------------------------------------------


@bounded
async def test_the_first_client_leaves_without_stopping_tasks() -> None:
    place = fastmcp_shop.Shop()
    first = FastMCPClient(place.server)  # FastMCP's lifespan begins and ends with this one
    async with first:
        entered = asyncio.Event()
        leaving = asyncio.Event()

        async def stay() -> None:
            async with fastmcp_shop.over_http(place.server) as caller:
                task_id = await caller.create("wait", {})
                await place.begun.wait()
                entered.set()
                await leaving.wait()
                assert await caller.status(task_id) == "working"
                assert not place.stopped.is_set()
                place.open.set()
                await seen(caller, task_id, "completed")

        staying = asyncio.create_task(stay())
        await entered.wait()
    leaving.set()
    await staying


@bounded
async def test_task_resumes_with_the_tool_version_it_started_with(tmp_path: Path) -> None:
    def versions() -> fastmcp_shop.Shop:
        place = fastmcp_shop.Shop(f"sqlite:{tmp_path / 'tasks.db'}")

        @place.server.tool(name="which", version="1", task=True)
        async def first() -> str:
            place.begun.set()
            await place.open.wait()
            return "one"

        @place.server.tool(name="which", version="2", task=True)
        async def second() -> str:
            return "two"

        return place

    place = versions()
    async with fastmcp_shop.over_http(place.server) as caller:
        meta = {"fastmcp": {"version": "1"}}
        task_id = await caller.create("which", {}, _meta=meta)
        await place.begun.wait()
    place = versions()
    place.open.set()
    async with fastmcp_shop.over_http(place.server) as caller:
        result = (await seen(caller, task_id, "completed"))["result"]
        assert result["structuredContent"] == {"result": "one"}


@bounded
async def test_a_tool_that_was_disabled_meanwhile_is_unknown(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'tasks.db'}"
    place = fastmcp_shop.Shop(url)
    async with fastmcp_shop.over_http(place.server) as caller:
        task_id = await caller.create("wait", {})
        await place.begun.wait()
    place = fastmcp_shop.Shop(url)
    place.server.disable(names={"wait"})
    async with fastmcp_shop.over_http(place.server) as caller:
        result = (await seen(caller, task_id, "completed"))["result"]
        assert result["isError"] is True
        assert result["content"][0]["text"] == "Unknown tool: 'wait'"
        assert not place.begun.is_set()


@bounded
async def test_one_server_may_be_started_again() -> None:
    place = fastmcp_shop.Shop()
    for _ in range(2):
        async with fastmcp_shop.over_http(place.server) as caller:
            task_id = await caller.create("add", {"a": 1, "b": 2})
            await seen(caller, task_id, "completed")


@bounded
async def test_a_store_that_cannot_be_opened_keeps_the_server_from_starting(tmp_path: Path) -> None:
    place = fastmcp_shop.Shop(f"sqlite:{tmp_path / 'none' / 'tasks.db'}")
    with pytest.raises(ConfigurationError, match=r"the folder .* does not exist"):
        async with fastmcp_shop.over_http(place.server):
            raise AssertionError("it started")


@bounded
async def test_a_tool_that_another_server_has_is_left_to_it(tmp_path: Path) -> None:
    url = f"sqlite:{tmp_path / 'tasks.db'}"
    place = fastmcp_shop.Shop(url)
    async with fastmcp_shop.over_http(place.server) as caller:
        task_id = await caller.create("wait", {})
        await place.begun.wait()
    stranger = FastMCP("stranger")
    stranger.add_extension(FastMCPTasks(url))

    @stranger.tool(task=True)
    async def other(ctx: Context) -> str:
        return ""

    async with fastmcp_shop.over_http(stranger) as caller:
        await seen(caller, await caller.create("other", {}), "completed")
        assert await caller.status(task_id) == "working", "and it waits for its own"
