"""How long tasks of a FastMCP server live: beyond clients, lifespans and processes."""

import asyncio
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from fastmcp import Client, Context, FastMCP

from taskmachine.adapters.bridges.fastmcp import Tasks
from taskmachine.adapters.client.connect import connect
from taskmachine.adapters.client.remote_task import Question
from taskmachine.adapters.stores import open_store
from taskmachine.statemachine import ConfigurationError
from tests.adapters.bridges.fastmcp_shop import Shop, over_http
from tests.adapters.bridges.mcp.serving import run, seen
from tests.adapters.transports.wire import Caller, callers
from tests.oracle import REPOSITORY
from tests.ports import free_port

EXAMPLE: Final = REPOSITORY / "docs" / "examples" / "fastmcp_server.py"


async def states(path: Path) -> list[str]:
    """In the file, as somebody else reads them."""
    store = await open_store(f"sqlite:{path}")
    try:
        return [str(task.state) for task in await store.browse(None, 10)]
    finally:
        await store.close()


def test_the_client_that_came_first_leaves_and_nobodys_tasks_are_stopped() -> None:
    async def act() -> None:
        place = Shop()
        first = Client(place.mcp)  # FastMCP's lifespan begins and ends with this one
        async with first:
            entered = asyncio.Event()
            leaving = asyncio.Event()

            async def stay() -> None:
                async with over_http(place.mcp) as caller:
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

    run(act)


def test_the_end_of_the_server_gives_back_what_runs_and_the_next_one_goes_on(
    tmp_path: Path,
) -> None:
    path = tmp_path / "tasks.db"

    async def act() -> None:
        place = Shop(Tasks(f"sqlite:{path}"))
        async with over_http(place.mcp) as caller:
            task_id = await caller.create("wait", {})
            await place.begun.wait()
        assert await states(path) == ["submitted"]
        place = Shop(Tasks(f"sqlite:{path}"))
        place.open.set()
        async with over_http(place.mcp) as caller:
            await place.begun.wait()  # before anybody asks
            await seen(caller, task_id, "completed")

    run(act)


def test_a_task_goes_on_with_the_version_that_it_began_with(tmp_path: Path) -> None:
    def versions() -> Shop:
        place = Shop(Tasks(f"sqlite:{tmp_path / 'tasks.db'}"))

        @place.mcp.tool(name="which", version="1", task=True)
        async def first() -> str:
            place.begun.set()
            await place.open.wait()
            return "one"

        @place.mcp.tool(name="which", version="2", task=True)
        async def second() -> str:
            return "two"

        return place

    async def act() -> None:
        place = versions()
        async with over_http(place.mcp) as caller:
            meta = {"fastmcp": {"version": "1"}}
            task_id = await caller.create("which", {}, _meta=meta)
            await place.begun.wait()
        place = versions()
        place.open.set()
        async with over_http(place.mcp) as caller:
            result = (await seen(caller, task_id, "completed"))["result"]
            assert result["structuredContent"] == {"result": "one"}

    run(act)


def test_a_tool_that_was_disabled_meanwhile_is_unknown(tmp_path: Path) -> None:
    async def act() -> None:
        url = f"sqlite:{tmp_path / 'tasks.db'}"
        place = Shop(Tasks(url))
        async with over_http(place.mcp) as caller:
            task_id = await caller.create("wait", {})
            await place.begun.wait()
        place = Shop(Tasks(url))
        place.mcp.disable(names={"wait"})
        async with over_http(place.mcp) as caller:
            result = (await seen(caller, task_id, "completed"))["result"]
            assert result["isError"] is True
            assert result["content"][0]["text"] == "Unknown tool: 'wait'"
            assert not place.begun.is_set()

    run(act)


def test_one_server_may_be_started_again() -> None:
    async def act() -> None:
        place = Shop()
        for _ in range(2):
            async with over_http(place.mcp) as caller:
                task_id = await caller.create("add", {"a": 1, "b": 2})
                await seen(caller, task_id, "completed")

    run(act)


def test_two_servers_on_one_file(tmp_path: Path) -> None:
    async def act() -> None:
        url = f"sqlite:{tmp_path / 'tasks.db'}"
        one, other = Shop(Tasks(url)), Shop(Tasks(url))
        other.open.set()
        async with over_http(one.mcp) as caller, over_http(other.mcp) as second:
            task_id = await caller.create("wait", {})
            await one.begun.wait()
            assert await second.status(task_id) == "working", "both see it"
            await seen(caller, await second.create("wait", {}), "completed")
            one.open.set()
            await seen(second, task_id, "completed")

    run(act)


def test_a_store_that_cannot_be_opened_keeps_the_server_from_starting(tmp_path: Path) -> None:
    async def act() -> None:
        place = Shop(Tasks(f"sqlite:{tmp_path / 'none' / 'tasks.db'}"))
        with pytest.raises(ConfigurationError, match="the folder"):
            async with over_http(place.mcp):
                raise AssertionError("it started")

    run(act)


def test_a_tool_that_another_server_has_is_left_to_it(tmp_path: Path) -> None:
    async def act() -> None:
        url = f"sqlite:{tmp_path / 'tasks.db'}"
        place = Shop(Tasks(url))
        async with over_http(place.mcp) as caller:
            task_id = await caller.create("wait", {})
            await place.begun.wait()
        stranger = FastMCP("stranger")
        stranger.add_extension(Tasks(url))

        @stranger.tool(task=True)
        async def other(ctx: Context) -> str:
            return ""

        async with over_http(stranger) as caller:
            await seen(caller, await caller.create("other", {}), "completed")
            assert await caller.status(task_id) == "working", "and it waits for its own"

    run(act)


# --- processes -------------------------------------------------------------------------------


BUSY_S: Final = 120.0
"""FastMCP takes seconds to be imported, and machines may be busy."""


def run_processes(act: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(BUSY_S):
            await act()

    asyncio.run(main())


@asynccontextmanager
async def example(folder: Path, port: int) -> AsyncIterator[Process]:
    """The example over HTTP, from when it answers."""
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, str(EXAMPLE), "--http", str(port)),
        cwd=folder,
        stdin=DEVNULL,
        stdout=DEVNULL,
        stderr=DEVNULL,
    )
    try:
        async with callers(f"http://127.0.0.1:{port}/mcp") as [caller]:
            await up(caller, program)
        yield program
    finally:
        if program.returncode is None:
            program.kill()
        await program.wait()


async def up(caller: Caller, program: Process) -> None:
    async with asyncio.timeout(BUSY_S):
        while True:
            assert program.returncode is None, "it ended"
            try:
                await caller.call("server/discover")
                return
            except httpx.TransportError:
                await asyncio.sleep(0.05)  # there is nothing else to wait for


def test_a_server_that_is_killed_and_started_again_owes_nothing(tmp_path: Path) -> None:
    """Our client polls through it all; who was asked is not asked again."""
    port = free_port()
    asked: list[str] = []
    reached, resumed = asyncio.Event(), asyncio.Event()

    async def answer(question: Question) -> dict[str, Any]:
        asked.append(question.message)
        reached.set()
        await resumed.wait()
        return question.accept(sure=True)

    async def act() -> None:
        url = f"http://127.0.0.1:{port}/mcp"
        async with (
            example(tmp_path, port) as program,
            connect(url, answer=answer, generation="2026-07-28") as client,
        ):
            counting = await client.call("count", {"to": 15})
            deploying = await client.call("deploy", {"version": "1.2"})
            await reached.wait()
            program.send_signal(signal.SIGKILL)
            await program.wait()
            async with example(tmp_path, port) as successor:
                resumed.set()
                said = await deploying.result()
                assert said["structuredContent"] == {"result": "1.2 is live."}
                said = await counting.result()
                assert said["structuredContent"] == {"result": "counted to 15"}
                successor.send_signal(signal.SIGINT)
                assert await successor.wait() == 0, "it leaves when it is told to"
        assert asked == ["Deploy 1.2?"]

    run_processes(act)


def test_the_example_speaks_on_its_pipes(tmp_path: Path) -> None:
    async def answer(question: Question) -> dict[str, Any]:
        return question.decline()

    async def act() -> None:
        command = ["env", "-C", str(tmp_path), sys.executable, str(EXAMPLE)]
        async with connect(command, answer=answer, generation="2025-11-25") as session:
            plain = await session.call("greet", {"name": "Ada"})
            assert (await plain.result())["structuredContent"] == {"result": "Hello, Ada!"}
            assert plain.id is None
            task = await session.call("deploy", {"version": "2"})
            said = await task.result()
            assert task.id is not None
            assert said["structuredContent"] == {"result": "Nothing was deployed."}

    run_processes(act)


def test_the_page_tells_how(tmp_path: Path) -> None:
    page = (REPOSITORY / "docs" / "sdk-fastmcp.md").read_text()
    example_text = page.split("```python\n")[1].split("```")[0]
    shown = page.split("```text\n")[1].split("```")[0]

    async def act() -> None:
        program = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "ignore", "-c", example_text),
            cwd=tmp_path,
            stdout=PIPE,
            stderr=PIPE,
        )
        out, err = await program.communicate()
        assert out.decode() == shown, err.decode()

    run_processes(act)
