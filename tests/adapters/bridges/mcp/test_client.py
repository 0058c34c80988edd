"""The client of the official SDK with our tasks, against our server in another process."""

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client import ClientRequestContext
from mcp_types import (
    CallToolResult,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    TextContent,
)

from taskmachine.adapters.bridges.mcp.client import Cancelled, ConnectionLost, Tasks, steady_http
from taskmachine.statemachine import ConfigurationError
from tests.peers.serving import command, serving
from tests.ports import free_port

PATIENCE_S: Final = 20.0


def text_of(result: CallToolResult) -> str:
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving("demo", tmp_path_factory.mktemp("server")) as server:
        yield server.url


@pytest.fixture(params=["http", "stdio"])
def target(request: pytest.FixtureRequest) -> str | StdioServerParameters:
    if request.param == "http":
        url: str = request.getfixturevalue("url")
        return url
    program, *arguments = command("demo", "--stdio", "--log-level", "error")
    return StdioServerParameters(command=program, args=arguments)


class Person:
    """Answers everything and records the questions."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def fill_in(self, _: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        self.asked.append(params.message)
        return ElicitResult(action="accept", content={"confirmed": True, "stage": "live"})

    async def write(
        self, _: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult:
        [message] = params.messages
        assert isinstance(message.content, TextContent)
        self.asked.append(message.content.text)
        said = TextContent(type="text", text="The sea is wide.")
        return CreateMessageResult(role="assistant", content=said, model="person")


@contextlib.asynccontextmanager
async def met(target: Any, tasks: Tasks | None = None, **more: Any) -> AsyncIterator[Client]:
    extensions = [Tasks() if tasks is None else tasks]
    async with asyncio.timeout(PATIENCE_S), Client(target, extensions=extensions, **more) as client:
        yield client


# --- calls ----------------------------------------------------------------------------------------


async def test_a_call_returns_the_result_and_its_questions_are_answered(target: Any) -> None:
    person = Person()

    async with met(
        target, elicitation_callback=person.fill_in, sampling_callback=person.write
    ) as client:
        counted = await client.call_tool("count", {"to": 3, "pause_ms": 1})
        assert counted.structured_content == {"counted": 3}
        deployed = await client.call_tool("deploy", {"version": "1.4"})
        assert text_of(deployed) == "1.4 is deployed to live."
        written = await client.call_tool("sample", {"topic": "the sea"})
        assert text_of(written) == "The sea is wide."
        assert text_of(await client.call_tool("greet", {"name": "Ada"})) == "Hello, Ada!"
    assert person.asked == ["Deploy 1.4?", "Write one sentence about the sea."]


async def test_an_error_of_the_tool_is_a_result_and_any_other_is_raised(target: Any) -> None:
    async with met(target) as client:
        failed = await client.call_tool("fail")
        assert failed.is_error
        assert "always fails" in text_of(failed)
        with pytest.raises(MCPError, match="Tool 'crash' failed") as caught:
            await client.call_tool("crash")
        assert caught.value.code == -32603


async def test_server_answers_many_concurrent_calls(target: Any) -> None:
    async with met(target) as client:
        numbers = range(1, 41)
        calls = [client.call_tool("count", {"to": n, "pause_ms": 1}) for n in numbers]
        results = await asyncio.gather(*calls)
        assert [r.structured_content for r in results] == [{"counted": n} for n in numbers]


# --- following a task -----------------------------------------------------------------------------


async def test_client_reports_progress_messages_of_a_task(target: Any) -> None:
    tasks = Tasks()
    async with met(target, tasks) as client:
        async with tasks.start(client, "count", {"to": 3, "pause_ms": 300}) as task:
            assert task.id
            updates = [update async for update in task]
            assert updates[0].status == "working"
            assert updates[-1].status == "completed"
            assert "2 of 3" in [update.message for update in updates]
            assert (await task.result()).structured_content == {"counted": 3}
        async with tasks.start(client, "greet", {"name": "Ada"}) as task:
            assert task.id is None
            assert text_of(await task.result()) == "Hello, Ada!"


async def test_a_task_that_was_cancelled_says_so_also_later(target: Any) -> None:
    tasks = Tasks()
    async with met(target, tasks) as client:
        async with tasks.start(client, "count", {"to": 1000}) as task:
            await task.cancel()
            with pytest.raises(Cancelled):
                await task.result()
        assert task.id is not None
        async with tasks.follow(client, task.id) as again:
            with pytest.raises(Cancelled):
                await again.result()


async def test_a_task_outlives_its_client(url: str) -> None:
    tasks = Tasks()
    async with (
        met(url, tasks) as client,
        tasks.start(client, "count", {"to": 3, "pause_ms": 100}) as task,
    ):
        task_id = task.id
    assert task_id is not None
    async with met(url, tasks) as client, tasks.follow(client, task_id) as task:
        assert (await task.result()).structured_content == {"counted": 3}


async def test_a_server_of_the_older_generation_is_called_without_tasks(target: Any) -> None:
    tasks = Tasks()
    async with met(target, tasks, mode="legacy") as client:
        counted = await client.call_tool("count", {"to": 2, "pause_ms": 1})
        assert counted.structured_content == {"counted": 2}
        async with tasks.start(client, "count", {"to": 2, "pause_ms": 1}) as task:
            assert task.id is None
        with pytest.raises(ConfigurationError, match="require MCP 2026-07-28, not 2025-11-25"):
            async with tasks.follow(client, "t-1"):
                pass


# --- servers that are killed ----------------------------------------------------------------------


@contextlib.asynccontextmanager
async def restarting(folder: Path) -> AsyncIterator["Restarting"]:
    server = Restarting(folder)
    await server.start()
    try:
        yield server
    finally:
        await server.kill()


class Restarting:
    """A server on a SQLite file, always at the same address."""

    def __init__(self, folder: Path) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        self.url = f"http://{self.address}/mcp"
        self._store = f"sqlite:{folder / 'tasks.db'}"
        self._process: Process | None = None

    async def start(self) -> None:
        program = str(Path(sys.executable).with_name("taskmachine"))
        serve = ("serve", "--http", self.address, "--store", self._store, "--log-level", "error")
        self._process = await asyncio.create_subprocess_exec(
            program, *serve, stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE
        )
        assert self._process.stderr is not None
        async with asyncio.timeout(PATIENCE_S):
            assert b"serving" in await self._process.stderr.readline()

    async def kill(self) -> None:
        assert self._process is not None
        if self._process.returncode is None:
            self._process.kill()
            await self._process.communicate()


async def until_shown(tasks: Tasks, client: Client, task_id: str, words: str) -> None:
    async with tasks.follow(client, task_id) as task:
        async for update in task:
            if update.message is not None and words in update.message:
                return
    pytest.fail(f"it never said '{words}'")


async def test_calls_go_on_after_the_server_was_killed_and_is_there_again(tmp_path: Path) -> None:
    person = Person()

    tasks = Tasks()
    async with (
        restarting(tmp_path) as server,
        met(steady_http(server.url), tasks, elicitation_callback=person.fill_in) as client,
        tasks.start(client, "count", {"to": 10, "pause_ms": 50}) as task,
    ):
        await client.list_tools()
        call = asyncio.create_task(client.call_tool("count", {"to": 9, "pause_ms": 50}))
        assert task.id is not None
        await until_shown(tasks, client, task.id, "2 of 10")
        await server.kill()
        with pytest.raises(MCPError, match="cannot be reached"):
            await client.call_tool("greet", {"name": "Ada"})
        await server.start()
        assert (await task.result()).structured_content == {"counted": 10}
        assert (await call).structured_content == {"counted": 9}
        assert text_of(await client.call_tool("deploy", {"version": "2"})).startswith("2 is")
    assert person.asked == ["Deploy 2?"]


async def test_connection_loss_without_reconnect_raises_connection_lost(tmp_path: Path) -> None:
    tasks = Tasks()
    known: list[Any] = []

    async def lose(server: Restarting) -> None:
        async with met(server.url, tasks) as client:
            known.append(asyncio.create_task(client.call_tool("count", {"to": 1000})))
            async with tasks.start(client, "count", {"to": 1000}) as task:
                known.append(task.id)
                await server.kill()
                await task.result()

    async with restarting(tmp_path) as server:
        with pytest.raises(ExceptionGroup):
            await lose(server)
        call, task_id = known
        with pytest.raises((ConnectionLost, MCPError), match=r"(?i)closed"):
            await asyncio.wait_for(call, PATIENCE_S)
        await server.start()
        async with met(server.url, tasks) as client, tasks.follow(client, task_id) as task:
            await task.cancel()
            with pytest.raises(Cancelled):
                await task.result()


async def test_child_exit_ends_pending_calls_at_once(tmp_path: Path) -> None:
    number = tmp_path / "pid"
    serve = " ".join(command("demo", "--stdio"))
    target = StdioServerParameters(
        command="/bin/sh", args=["-c", f"echo $$ > {number}; exec {serve}"]
    )

    tasks = Tasks()
    async with met(target, tasks) as client:
        call = asyncio.create_task(client.call_tool("count", {"to": 1000}))
        async with tasks.start(client, "count", {"to": 1000}) as task:
            os.kill(int(number.read_text()), signal.SIGKILL)
            async with asyncio.timeout(5):
                for wait in (call, task.result()):
                    with pytest.raises((ConnectionLost, MCPError), match=r"(?i)closed"):
                        await wait
